"""SiLU of a gate times another input (SwiGLU)."""

import torch.nn.functional as F

# A float32 sigmoid may return zero below the smallest normal number: 2**-126, over eps = 2**-23.
UNDERFLOW = 2.0**-103


def run(gate, up):
    return F.silu(gate) * up


def terms(inputs, outputs):
    # The sigmoid moves by gate (1 - sigmoid(gate)) eps relatively when gate does by eps: at most
    # |gate| for a negative one and 0.28 for a positive one. Multiplications add eps each.
    (gate, up), (out,) = inputs, outputs
    size = gate.neg().clamp_(min=0.0).add_(1.3).mul_(out.abs())
    return size.add_((gate * up).abs_().add_(up.abs()).mul_(UNDERFLOW))
