"""A new task to start from: a small one that works, with every key explained."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from forge.errors import UsageError

if TYPE_CHECKING:
    from pathlib import Path

_NAME = re.compile(r"[a-z][a-z0-9_]{0,40}")

_TASK = """\
# A task: what a kernel must compute, where it is tuned, and how far it may err.
# Try it with `forge tasks check @NAME@`, then `forge night --task @NAME@`.

name = "@NAME@"   # the folder's name
op = "@NAME@"     # the operation; kernel templates are found by it
description = "SiLU: x / (1 + exp(-x)), element by element."

# A kernel is `launch(inputs.., outputs.., var axes..)`, in the order of this file. Here:
#   extern "C" void launch(const float* x, float* out, int64_t rows, int64_t cols)
[axes]
rows = { type = "var", description = "tokens" }
cols = { type = "var", description = "model width" }
# Also: { type = "const", value = 128 } and { type = "expr", expression = "2 * cols" }.

[inputs.x]
shape = ["rows", "cols"]
dtype = "float32"           # float32, int64, int32 or bool
# values = "distribution"   # or normal, near_one (a weight), mask, index (with below = "cols")
# row_stride = "x_stride"   # a var axis: rows further apart than they are long

[outputs.out]
shape = ["rows", "cols"]
dtype = "float32"

# Where kernels are timed: the shapes you really run, and one that no vector width divides.
[[workloads]]
axes = { rows = 256, cols = 4096 }
weight = 2                  # share in the mean log-speedup
protected = true            # never slower here, however fast elsewhere

[[workloads]]
axes = { rows = 64, cols = 1024 }

[[workloads]]
axes = { rows = 61, cols = 257 }

# What hidden workloads are drawn from. List only distributions that a correct float32 kernel
# survives: normal, shifted, large, huge, tiny, denormals, ties, constant, sorted, one_hot,
# wide_range, with_infinities.
[holdouts]
ranges = { rows = [1, 500], cols = [1, 5000] }
max_elements = 1_000_000
offsets = [0, 1, 3]         # elements off 64-byte alignment
distributions = ["normal", "large", "tiny", "ties", "wide_range"]

# Allowed error of an element: c * 2^-23 * sqrt(k) * terms(...), terms being in reference.py.
[numeric]
c = 8                       # a few roundings, and exp by a polynomial
k = "1"                     # length of the reduction behind one output, over the axes

# The least that one call must do: places the roof.
[work]
bytes = "8 * rows * cols"
operations = "4 * rows * cols"
"""

_REFERENCE = '''\
"""SiLU, as one would write it in PyTorch. It must also be right in float64."""

import torch.nn.functional as F

# A float32 exp may return zero below the smallest normal number: 2**-126, over eps = 2**-23.
UNDERFLOW = 2.0**-103


def run(x):
    """Return one tensor, or a tuple in the order of the outputs."""
    return F.silu(x)


def terms(inputs, outputs):
    """Return, for each output element, the scale of an honest rounding error.

    For a sum it is the sum of the absolute values of its terms; here sigmoid moves by at most
    |x| eps relatively when a negative x does by eps, and by 0.28 eps for a positive one.
    """
    (x,), (out,) = inputs, outputs
    return x.neg().clamp(min=0.0).add(1.3).mul(out.abs()).add((1.0 + x.abs()) * UNDERFLOW)
'''


def new_task(folder: Path, name: str) -> Path:
    """Write a working example task ``folder/name`` and return its folder.

    Raises:
        UsageError: The name is not one, or the folder exists.
    """
    if not _NAME.fullmatch(name):
        raise UsageError(
            f"{name!r} is not a task name: lower-case letters, digits and _, a letter first, "
            "at most 41 characters."
        )
    target = folder / name
    if target.exists():
        raise UsageError(f"{target} already exists; choose another name or remove it.")
    target.mkdir(parents=True)
    (target / "task.toml").write_text(_TASK.replace("@NAME@", name))
    (target / "reference.py").write_text(_REFERENCE)
    return target
