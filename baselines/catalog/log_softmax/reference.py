"""Logarithm of softmax over the last dimension."""

import torch


def run(x):
    return torch.log_softmax(x, dim=-1)


def terms(inputs, outputs):
    # out = x - max - log(sum): the three terms, and 1 for the relative error of the sum, which
    # the logarithm makes absolute. max + log(sum) may be rounded first. -inf stays -inf.
    (x,), (out,) = inputs, outputs
    largest = x.amax(dim=-1, keepdim=True)
    # The largest element's own output is -log(sum).
    logarithm = out.amax(dim=-1, keepdim=True).neg()
    return x.abs().clamp_(max=1e30).add_(largest.abs() + logarithm + 1.0)
