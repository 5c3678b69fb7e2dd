"""Softmax over the last dimension."""

import torch

# A float32 exp may return zero below the smallest normal number: 2**-126, over eps = 2**-23.
UNDERFLOW = 2.0**-103


def run(x):
    return torch.softmax(x, dim=-1)


def terms(inputs, outputs):
    # Rounding x - max, by at most |x - max| eps, moves exp by as much relatively; exp itself,
    # the sum and the division add eps each. -inf gives an exact zero, whence the clamp.
    (x,), (out,) = inputs, outputs
    gap = (x.amax(dim=-1, keepdim=True) - x).clamp_(max=1e30)
    return gap.add_(1.0).mul_(out).add_(UNDERFLOW)
