"""Rows scaled to Euclidean length one; a row shorter than 1e-12 is divided by 1e-12."""

import torch.nn.functional as F


def run(x):
    return F.normalize(x, p=2.0, dim=-1, eps=1e-12)


def terms(inputs, outputs):
    # Squares have one sign, so the sum does not cancel: every error is relative to the output.
    (out,) = outputs
    return out.abs()
