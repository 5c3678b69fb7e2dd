"""Cross entropy of each row of logits with its label, not reduced over rows."""

import torch.nn.functional as F


def run(logits, labels):
    return F.cross_entropy(logits, labels, reduction="none")


def terms(inputs, outputs):
    # loss = max + log(sum) - logits[label]: the three terms, and 1 for the relative error of the
    # sum, which the logarithm makes absolute.
    (logits, labels), (loss,) = inputs, outputs
    largest = logits.amax(dim=-1)
    chosen = logits.gather(-1, labels.long().unsqueeze(-1)).squeeze(-1)
    logarithm = (loss + chosen - largest).abs_()
    return largest.abs().add_(chosen.abs()).add_(logarithm).add_(1.0)
