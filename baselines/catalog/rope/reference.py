"""Rotary position embedding, the two halves of a head rotated against each other."""

import torch


def run(q, cos, sin):
    first, second = q.chunk(2, dim=-1)
    cos, sin = cos.unsqueeze(1), sin.unsqueeze(1)
    return torch.cat((first * cos - second * sin, second * cos + first * sin), dim=-1)


def terms(inputs, outputs):
    # The two products of each output, which may cancel.
    first, second = inputs[0].abs().chunk(2, dim=-1)
    cos, sin = (part.abs().unsqueeze(1) for part in inputs[1:])
    return torch.cat((first * cos + second * sin, second * cos + first * sin), dim=-1)
