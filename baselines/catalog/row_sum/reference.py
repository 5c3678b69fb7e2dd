"""Sum over the last dimension."""


def run(x):
    return x.sum(dim=-1)


def terms(inputs, outputs):
    # sum|terms| of a sum.
    (x,) = inputs
    return x.abs().sum(dim=-1)
