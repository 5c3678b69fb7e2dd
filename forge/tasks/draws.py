"""Secret inputs from a seed: the same values in every process, whatever its threads.

Only operations that round one correctly determined way are used (normals from a seeded
generator, products, quotients, powers of two by table): a vectorised ``exp`` or ``cos`` gives
other last bits in the tail of a thread's chunk, so it would depend on the thread count.
"""

from __future__ import annotations

import hashlib
from typing import TYPE_CHECKING

import torch

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from torch import Generator, Tensor

    from forge.tasks.model import Task, TensorSpec

_SMALLEST_NORMAL_EXPONENT = -126
_LARGEST_SEED = 2**63


def make_draw(
    task: Task, axes: Mapping[str, int], distribution: str, seed: int
) -> tuple[Tensor, ...]:
    """Return the inputs of one call, contiguous, in declared order.

    Args:
        task: Whose inputs.
        axes: The workload's var axes, or resolved axes.
        distribution: Name of the value distribution, one of ``DISTRIBUTIONS``.
        seed: Any integer; equal arguments give equal bits.
    """
    resolved = task.resolve({name: axes[name] for name in task.var_axes})
    draw: list[Tensor] = []
    for name, spec in task.inputs.items():
        # A cosine and a sine come from one stream, so that they belong to the same angles.
        stream = "angle" if spec.values in ("cosine", "sine") else name
        generator = torch.Generator().manual_seed(_stream_seed(seed, stream))
        draw.append(_tensor(spec, task.shape(spec, resolved), resolved, distribution, generator))
    return tuple(draw)


def _stream_seed(seed: int, stream: str) -> int:
    digest = hashlib.sha256(f"{seed}/{stream}".encode()).digest()
    return int.from_bytes(digest[:8], "big") % _LARGEST_SEED


def _tensor(
    spec: TensorSpec,
    shape: tuple[int, ...],
    axes: Mapping[str, int],
    distribution: str,
    generator: Generator,
) -> Tensor:
    if spec.values == "index":
        values = torch.randint(axes[str(spec.below)], shape, generator=generator)
        return values if spec.dtype == "int64" else values.int()
    if spec.values == "mask":
        return _mask(shape, generator)
    if spec.values == "near_one":
        return torch.randn(shape, generator=generator).mul_(0.125).add_(1.0)
    if spec.values in ("cosine", "sine"):
        return _rotation(shape, spec.values, generator)
    if spec.values == "normal":
        return _normal(shape, generator)
    return _DISTRIBUTIONS[distribution](shape, generator)


def _mask(shape: tuple[int, ...], generator: Generator) -> Tensor:
    """Return booleans, true with a share of its own in each row; some rows are wholly false."""
    share = torch.rand((*shape[:-1], 1), generator=generator).mul_(1.2).sub_(0.1)
    return torch.rand(shape, generator=generator) < share


def _rotation(shape: tuple[int, ...], part: str, generator: Generator) -> Tensor:
    """Return the cosine or sine of random angles, by their half tangent t: no library call."""
    tangent = torch.randn(shape, generator=generator)
    square = tangent * tangent
    top = 1.0 - square if part == "cosine" else 2.0 * tangent
    return top / (1.0 + square)


def _normal(shape: tuple[int, ...], generator: Generator) -> Tensor:
    return torch.randn(shape, generator=generator)


def _scaled(exponent: int) -> Callable[[tuple[int, ...], Generator], Tensor]:
    def draw(shape: tuple[int, ...], generator: Generator) -> Tensor:
        return torch.randn(shape, generator=generator).mul_(2.0**exponent)

    return draw


def _shifted(shape: tuple[int, ...], generator: Generator) -> Tensor:
    """Unit spread around a far centre: exp overflows without max, E[x^2] - E[x]^2 cancels."""
    centre = float(torch.rand(1, generator=generator)) * 2048.0 + 4096.0
    return torch.randn(shape, generator=generator).add_(centre)


def _denormals(shape: tuple[int, ...], generator: Generator) -> Tensor:
    return torch.randn(shape, generator=generator).mul_(2.0 ** (_SMALLEST_NORMAL_EXPONENT - 4))


def _tiny(shape: tuple[int, ...], generator: Generator) -> Tensor:
    """Rows of scales from 2^-8 to 2^-48: an epsilon in a norm or a length decides some of them."""
    scales = torch.tensor([2.0**power for power in range(-48, -7)])
    picked = scales[torch.randint(len(scales), (*shape[:-1], 1), generator=generator)]
    return torch.randn(shape, generator=generator).mul_(picked)


def _ties(shape: tuple[int, ...], generator: Generator) -> Tensor:
    """A few distinct values of few bits: equal maxima, and sums that are exact in any order."""
    return torch.randint(-8, 9, shape, generator=generator).float().mul_(0.25)


def _constant(shape: tuple[int, ...], generator: Generator) -> Tensor:
    """One value of few bits in each row."""
    row = torch.randint(-64, 65, (*shape[:-1], 1), generator=generator).float().mul_(0.125)
    return row.expand(shape).contiguous()


def _sorted(shape: tuple[int, ...], generator: Generator) -> Tensor:
    """Rising rows: every element is a new maximum."""
    return torch.randn(shape, generator=generator).sort(dim=-1).values.contiguous()


def _one_hot(shape: tuple[int, ...], generator: Generator) -> Tensor:
    """Zeros but for one 64 in each row."""
    place = torch.randint(shape[-1], (*shape[:-1], 1), generator=generator)
    return torch.zeros(shape).scatter_(-1, place, 64.0)


def _wide_range(shape: tuple[int, ...], generator: Generator) -> Tensor:
    """Magnitudes over 24 octaves within each row."""
    octaves = torch.tensor([2.0**power for power in range(-12, 13)])
    picked = octaves[torch.randint(len(octaves), shape, generator=generator)]
    return torch.randn(shape, generator=generator).mul_(picked)


def _with_infinities(shape: tuple[int, ...], generator: Generator) -> Tensor:
    """Some -inf, as masked scores are, but the first element of a row never is."""
    values = torch.randn(shape, generator=generator)
    gone = torch.rand(shape, generator=generator) < 0.3
    gone[..., 0] = False
    return values.masked_fill_(gone, -torch.inf)


_DISTRIBUTIONS: dict[str, Callable[[tuple[int, ...], Generator], Tensor]] = {
    "normal": _normal,
    "shifted": _shifted,
    "large": _scaled(10),
    "huge": _scaled(36),
    "tiny": _tiny,
    "denormals": _denormals,
    "ties": _ties,
    "constant": _constant,
    "sorted": _sorted,
    "one_hot": _one_hot,
    "wide_range": _wide_range,
    "with_infinities": _with_infinities,
}
