"""Softmax over the last dimension."""

import torch

# A float32 exp may return zero below the smallest normal number: 2**-126, over eps = 2**-23.
UNDERFLOW = 2.0**-103


def run(x):
    return torch.softmax(x, dim=-1)


def terms(inputs, outputs):
    # d(out)/out = -d(x - max): rounding x - max, at most |x - max| eps, moves exp by that much
    # relatively; exp, the sum and the division add eps each.
    (x,), (out,) = inputs, outputs
    # exp(-inf) is exactly zero, so infinities carry no error.
    gap = (x - x.amax(dim=-1, keepdim=True)).abs_().clamp_(max=1e30)
    return gap.add_(1.0).mul_(out).add_(UNDERFLOW)
