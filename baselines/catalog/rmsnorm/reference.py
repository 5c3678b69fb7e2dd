"""Root-mean-square norm with a weight, as transformer models write it."""

import torch

EPSILON = 1e-6


def run(x, weight):
    variance = x.pow(2).mean(-1, keepdim=True)
    return weight * (x * torch.rsqrt(variance + EPSILON))


def terms(inputs, outputs):
    # Squares have one sign, so the sum does not cancel: every error is relative to the output.
    (out,) = outputs
    return out.abs()
