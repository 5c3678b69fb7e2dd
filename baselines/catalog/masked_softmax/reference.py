"""Softmax over the unmasked scores of each row: the core of sparse mask attention."""

import torch

# A float32 exp may return zero below the smallest normal number: 2**-126, over eps = 2**-23.
UNDERFLOW = 2.0**-103


def run(scores, mask):
    kept = scores.masked_fill(~mask, -torch.inf)
    # A row with nothing left is 0 / 0, and means no attention.
    return torch.softmax(kept, dim=-1).nan_to_num(nan=0.0)


def terms(inputs, outputs):
    # As for softmax, with the maximum of the unmasked scores. Masked ones are exactly zero; a row
    # with nothing left has a maximum of -inf and zeros.
    (scores, mask), (out,) = inputs, outputs
    largest = scores.masked_fill(~mask, -torch.inf).amax(dim=-1, keepdim=True).clamp_(min=-1e30)
    gap = (largest - scores).abs_().clamp_(max=1e30)
    return gap.add_(1.0).mul_(out).add_(UNDERFLOW)
