"""Sum of everything."""


def run(x):
    return x.sum().reshape(1)


def terms(inputs, outputs):
    return inputs[0].abs().sum().reshape(1)
