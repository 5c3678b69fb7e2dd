"""Layer norm over the last dimension with weight and bias."""

import torch
import torch.nn.functional as F

EPSILON = 1e-5


def run(x, weight, bias):
    return F.layer_norm(x, x.shape[-1:], weight, bias, EPSILON)


def terms(inputs, outputs):
    # out = (x - mean) rstd weight + bias: x and the terms of mean cancel, so each counts by its
    # own size. A centred variance errs relatively; E[x^2] - E[x]^2 has no such bound.
    x, weight, bias = inputs
    variance = torch.var(x, dim=-1, keepdim=True, correction=0)
    size = x.abs()
    size.add_(size.mean(dim=-1, keepdim=True)).mul_(torch.rsqrt(variance + EPSILON))
    return size.mul_(weight.abs()).add_(bias.abs())
