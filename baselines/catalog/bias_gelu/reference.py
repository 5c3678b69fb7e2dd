"""Bias followed by GELU in its tanh approximation."""

import torch.nn.functional as F


def run(x, bias):
    return F.gelu(x + bias, approximate="tanh")


def terms(inputs, outputs):
    # out = 0.5 h + 0.5 h tanh(u): two terms that cancel for negative h, each at most 0.5 |h|; tanh
    # itself moves by at most 0.5 eps when u does by |u| eps.
    x, bias = inputs
    return (x + bias).abs_()
