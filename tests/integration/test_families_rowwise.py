"""The families that reduce or scan rows: as text, and as kernels against float64."""

from __future__ import annotations

import itertools
import json
import math
import subprocess
import sys
from typing import TYPE_CHECKING

import pytest
import torch

from forge.students.sweep.render import find_families, render, render_title
from forge.tasks.draws import make_draw
from forge.tasks.holdouts import draw_holdouts
from forge.tasks.load import load_task
from forge.tasks.model import Workload
from forge.tasks.numeric import allowed, compare
from forge.tasks.reference import load_reference
from tests.integration.test_families_elementwise import (
    CATALOG,
    CHILD,
    GOLDEN,
    build,
    one_factor,
    runs_here,
    two_factors,
)

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence
    from pathlib import Path

    from torch import Tensor

    from forge.students.sweep.knobs import KnobValue
    from forge.tasks.load import LoadedTask

OPS = (
    "softmax", "log_softmax", "masked_softmax", "cross_entropy", "row_sum", "l2_normalize",
    "cumsum",
)  # fmt: skip

# One row, one column, less than a vector (more rows than lanes, and fewer), whole vectors and
# blocks, one more, one less, prime, and one above the size from which a parallel kernel uses its
# threads.
SHAPES = (
    (1, 1), (19, 1), (37, 7), (35, 15), (4, 16), (67, 31), (9, 33), (2, 257), (6, 512), (3, 1009),
    (130, 509),
)  # fmt: skip
SPECIALS = (math.inf, -math.inf, math.nan, 0.0, -0.0, 88.0, -88.0, -104.0, 1e-40, -3e38)


class Call:
    """One draw, what a kernel should make of it, and how far off it may be."""

    def __init__(self, loaded: LoadedTask, workload: Workload, inputs: Sequence[Tensor]) -> None:
        task, reference = loaded.task, load_reference(loaded.reference_source)
        wide = [part.double() if part.is_floating_point() else part for part in inputs]
        self.workload = workload
        self.inputs = inputs
        self.expected = reference.run(*wide)
        self.bounds = self._bounds(task, reference, wide)

    def _bounds(self, task, reference, wide) -> tuple[Tensor, ...]:
        # The 4-times-the-reference clause is left out: these kernels need no such excuse, except
        # where squares overflow or underflow in float32 as they do in the reference.
        own = reference.run(*self.inputs) if task.op == "l2_normalize" else None
        axes = task.resolve(self.workload.axes)
        # Where a NaN went in and a number comes out, 2 ulp are left.
        terms = [part.nan_to_num() for part in reference.terms(wide, self.expected)]
        return allowed(task, axes, self.expected, terms, own)

    @property
    def plan(self) -> dict[str, object]:
        """What the child is told: whole elements of offset, for the widest element."""
        widest = max(part.element_size() for part in self.inputs)
        return {
            "inputs": [part.numel() * part.element_size() for part in self.inputs],
            "outputs": [4 * part.numel() for part in self.expected],
            "offset": widest * self.workload.offset,
            "axes": list(self.workload.axes.values()),
        }

    def check(self, knobs: Mapping[str, KnobValue], answer: bytes) -> None:
        """Compare one kernel's outputs with the expected ones."""
        values = torch.frombuffer(bytearray(answer), dtype=torch.float32)
        parts = values.split([part.numel() for part in self.expected])
        shaped = [part.reshape(one.shape) for part, one in zip(parts, self.expected, strict=True)]
        found = compare(shaped, self.expected, self.bounds)
        assert found.is_within, f"{knobs}\n{self.workload}\n{found}"


def run_all(library: Path, count: int, calls: Sequence[Call]) -> Iterator[bytes]:
    """Yield the outputs of every call, of ``count`` functions each, from one child process."""
    folder = library.parent
    plan = {
        "functions": [f"launch_{number}" for number in range(count)],
        "calls": [call.plan for call in calls],
    }
    (folder / "plan.json").write_text(json.dumps(plan))
    parts = (part.numpy().tobytes() for call in calls for part in call.inputs)
    (folder / "inputs").write_bytes(b"".join(parts))
    names = (str(folder / name) for name in ("plan.json", "inputs", "outputs"))
    child = subprocess.run(
        [sys.executable, str(CHILD), str(library), *names],
        capture_output=True, text=True, check=False, timeout=300, env={"OMP_NUM_THREADS": "2"},
    )  # fmt: skip
    assert child.returncode == 0, f"exit {child.returncode}: {child.stderr}"
    with (folder / "outputs").open("rb") as outputs:
        for call in calls:
            for _ in range(count):
                yield outputs.read(sum(4 * part.numel() for part in call.expected))


def check(
    op: str, variants: Sequence[Mapping[str, KnobValue]], calls: Sequence[Call], folder: Path
) -> None:
    """Build ``variants``, make ``calls`` with each and check every output."""
    family = find_families()[op]
    runnable = [knobs for knobs in variants if runs_here(knobs)]
    library = build([render(family, knobs) for knobs in runnable], folder)
    answers = run_all(library, len(runnable), calls)
    for call, knobs in itertools.product(calls, runnable):
        call.check(knobs, next(answers))


def ugly_calls(loaded: LoadedTask) -> Iterator[Call]:
    """Yield every shape, with every legal distribution and offset in turn, and one of specials."""
    task = loaded.task
    legal, offsets = task.holdouts.distributions, task.holdouts.offsets
    for number, shape in enumerate(SHAPES):
        workload = Workload(
            axes=dict(zip(task.var_axes, shape, strict=True)),
            distribution=legal[number % len(legal)],
            offset=offsets[number // 2 % len(offsets)],
        )
        yield make_call(loaded, workload, number)
    yield special_call(loaded)


def make_call(loaded: LoadedTask, workload: Workload, seed: int) -> Call:
    draw = make_draw(loaded.task, workload.axes, workload.distribution, seed)
    return Call(loaded, workload, draw)


def special_call(loaded: LoadedTask) -> Call:
    """One special value in each row but the first, all together in the last."""
    shape = (len(SPECIALS) + 3, 83)
    axes = dict(zip(loaded.task.var_axes, shape, strict=True))
    draw = make_draw(loaded.task, axes, "normal", 1)
    for row, value in enumerate(SPECIALS, start=1):
        draw[0][row, (7 * row) % 83] = value
    draw[0][-2] = -math.inf
    draw[0][-1, : len(SPECIALS)] = torch.tensor(SPECIALS)
    return Call(loaded, Workload(axes=axes), draw)


@pytest.mark.parametrize("op", OPS)
def test_defaults_render_the_approved_text(op: str) -> None:
    family = find_families()[op]
    assert render(family, family.defaults) == (GOLDEN / f"{op}.cpp").read_text()


@pytest.mark.parametrize("op", OPS)
def test_variants_differ_in_text_and_title_and_are_laid_out(op: str) -> None:
    family = find_families()[op]
    variants = two_factors(family)
    used = {(name, value) for knobs in variants for name, value in knobs.items()}
    assert used == {(knob.name, value) for knob in family.knobs for value in knob.values}
    texts = [render(family, knobs) for knobs in variants]
    assert len(set(texts)) == len(variants)
    for text in texts:
        assert text.count('extern "C" void launch(') == 1
        assert "\n\n\n" not in text
        assert " \n" not in text
        assert max(map(len, text.splitlines())) <= 100
    singles = one_factor(family)
    titles = [render_title(family, knobs) for knobs in singles]
    assert len(set(titles)) == len(singles)
    assert max(map(len, titles)) <= 140


@pytest.mark.parametrize("op", OPS)
def test_variants_are_right_on_ugly_shapes_and_values(op: str, tmp_path: Path) -> None:
    loaded = load_task(CATALOG / op)
    check(op, one_factor(find_families()[op]), list(ugly_calls(loaded)), tmp_path)


@pytest.mark.slow
@pytest.mark.timeout(900)
@pytest.mark.parametrize("op", OPS)
def test_pairs_of_knobs_are_right_on_holdouts(op: str, tmp_path: Path) -> None:
    loaded = load_task(CATALOG / op)
    small = loaded.task.holdouts.model_copy(update={"max_elements": 20_000})
    task = loaded.task.model_copy(update={"holdouts": small})
    workloads = draw_holdouts(task, b"families", 16)
    calls = [make_call(loaded, workload, seed) for seed, workload in enumerate(workloads)]
    variants = two_factors(find_families()[op])
    for begin in range(0, len(variants), 40):
        folder = tmp_path / str(begin)
        folder.mkdir()
        check(op, variants[begin : begin + 40], calls, folder)
