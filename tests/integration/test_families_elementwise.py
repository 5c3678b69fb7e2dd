"""The families that scale, shift or gate rows: as text, and as kernels against float64."""

from __future__ import annotations

import itertools
import json
import math
import re
import subprocess
import sys
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
import torch

from forge.students.sweep.render import find_families, render, render_title
from forge.tasks.draws import make_draw
from forge.tasks.holdouts import draw_holdouts
from forge.tasks.load import LoadedTask, load_task
from forge.tasks.model import Workload
from forge.tasks.numeric import allowed, compare
from forge.tasks.reference import load_reference

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping, Sequence

    from torch import Tensor

    from forge.students.sweep.knobs import Family, KnobValue

ROOT = Path(__file__).parents[2]
CATALOG = ROOT / "baselines" / "catalog"
GOLDEN = ROOT / "tests" / "golden" / "kernels"
CHILD = Path(__file__).with_name("family_child.py")
OPS = ("rmsnorm", "layernorm", "add_rmsnorm", "bias_gelu", "swiglu", "geglu", "rope")
FLAGS = (
    "-std=c++17", "-O3", "-march=native", "-fopenmp", "-fno-math-errno", "-fno-trapping-math",
    "-shared", "-fPIC",
)  # fmt: skip

# One row, one column, less than a vector, whole lines, one more, one less, prime, and one above
# the size from which a parallel kernel uses its threads.
SHAPES = (
    (1, 1), (5, 1), (3, 7), (4, 16), (67, 31), (9, 33), (2, 257), (6, 512), (3, 1009), (130, 509),
)  # fmt: skip
ROPE_SHAPES = (
    (1, 1, 1), (3, 2, 5), (2, 3, 8), (5, 2, 16), (3, 4, 32), (3, 7, 33), (2, 2, 80), (33, 16, 64),
)  # fmt: skip


def one_factor(family: Family) -> list[dict[str, KnobValue]]:
    """The defaults, and every other value of every knob on its own."""
    changes = ({knob.name: value} for knob in family.knobs for value in knob.values[1:])
    return _distinct(family, ({}, *changes))


def two_factors(family: Family) -> list[dict[str, KnobValue]]:
    """Every pair of values of every pair of knobs."""
    pairs = itertools.combinations(family.knobs, 2)
    return _distinct(
        family,
        (
            {one.name: first, other.name: second}
            for one, other in pairs
            for first in one.values
            for second in other.values
        ),
    )


def _distinct(
    family: Family, changes: Iterable[Mapping[str, KnobValue]]
) -> list[dict[str, KnobValue]]:
    canonical = (family.canonical({**family.defaults, **change}) for change in changes)
    return [dict(items) for items in dict.fromkeys(tuple(knobs.items()) for knobs in canonical)]


def runs_here(knobs: Mapping[str, KnobValue]) -> bool:
    """Whether this machine has the vectors that ``knobs`` asks for."""
    isa = {16: "__AVX512F__", 8: "__AVX2__"}.get(int(knobs["lanes"]))
    return isa is None or isa in _macros()


@cache
def _macros() -> str:
    command = ["g++", "-march=native", "-dM", "-E", "-x", "c++", "/dev/null"]
    return subprocess.run(command, capture_output=True, text=True, check=True, timeout=60).stdout


def build(texts: Sequence[str], folder: Path) -> Path:
    """Build one library with ``launch_0``, ``launch_1``.. of ``texts``: headers are read once."""
    headers = sorted({line for text in texts for line in re.findall(r"^#include .*$", text, re.M)})
    parts = [*headers]
    for number, text in enumerate(texts):
        body = re.sub(r"\blaunch\(", f"launch_{number}(", text)
        parts.append(f"namespace kernel_{number} {{\n{body}}}\n")
    source, library = folder / "kernels.cpp", folder / "kernels.so"
    source.write_text("\n".join(parts))
    made = subprocess.run(
        ["g++", *FLAGS, "-o", str(library), str(source)],
        capture_output=True, text=True, check=False, timeout=600,
    )  # fmt: skip
    assert made.returncode == 0, made.stderr[:4000]
    return library


@dataclass(frozen=True)
class Call:
    """A draw, laid out as a kernel gets it, and what may come out."""

    label: str
    workload: Workload
    axes: dict[str, int]
    inputs: tuple[Tensor, ...]
    shapes: tuple[tuple[int, ...], ...]
    expected: tuple[Tensor, ...]
    bounds: tuple[Tensor, ...]


def make_call(loaded: LoadedTask, workload: Workload, draw: Sequence[Tensor]) -> Call:
    """Compute what ``draw`` should give, and how far off it may be."""
    task, reference = loaded.task, load_reference(loaded.reference_source)
    axes = task.resolve(workload.axes)
    wide = [tensor.double() for tensor in draw]
    expected = reference.run(*wide)
    terms = reference.terms(wide, expected)
    strides = [spec.row_stride for spec in task.inputs.values()]
    return Call(
        label=f"{workload.axes}, {workload.distribution}, offset {workload.offset}",
        workload=workload,
        axes=axes,
        inputs=tuple(
            tensor if stride is None else _spread(tensor, axes[stride])
            for tensor, stride in zip(draw, strides, strict=True)
        ),
        shapes=tuple(task.shape(spec, axes) for spec in task.outputs.values()),
        expected=expected,
        bounds=allowed(task, axes, expected, terms, reference.run(*draw)),
    )


def _spread(tensor: Tensor, stride: int) -> Tensor:
    """Rows ``stride`` floats apart, NaN between them and nothing behind the last."""
    rows, cols = tensor.shape
    spread = torch.full((rows, stride), math.nan)
    spread[:, :cols] = tensor
    return spread.flatten()[: (rows - 1) * stride + cols]


def ugly_workloads(loaded: LoadedTask) -> Iterator[Workload]:
    """Every shape once, every legal distribution and offset in turn."""
    task = loaded.task
    shapes = ROPE_SHAPES if loaded.task.op == "rope" else SHAPES
    legal, offsets = task.holdouts.distributions, task.holdouts.offsets
    for number, shape in enumerate(shapes):
        axes = dict(zip(task.var_axes, shape, strict=False))
        if task.stride_axes:
            axes["x_stride"] = axes["cols"] + (0, 1, 7, 300)[number % 4]
        yield Workload(
            axes=axes,
            distribution=legal[number % len(legal)],
            offset=offsets[number // 2 % len(offsets)],
        )


def run_all(library: Path, count: int, calls: Sequence[Call], threads: int) -> Iterator[bytes]:
    """Yield the outputs of every call, of ``count`` functions each, from one child process."""
    folder = library.parent
    plan = {
        "functions": [f"launch_{number}" for number in range(count)],
        "calls": [
            {
                "inputs": [4 * tensor.numel() for tensor in call.inputs],
                "outputs": [4 * math.prod(shape) for shape in call.shapes],
                "offset": 4 * call.workload.offset,
                "axes": list(call.workload.axes.values()),
            }
            for call in calls
        ],
    }
    (folder / "plan.json").write_text(json.dumps(plan))
    parts = (tensor.numpy().tobytes() for call in calls for tensor in call.inputs)
    (folder / "inputs").write_bytes(b"".join(parts))
    names = (str(folder / name) for name in ("plan.json", "inputs", "outputs"))
    child = subprocess.run(
        [sys.executable, str(CHILD), str(library), *names],
        capture_output=True, text=True, check=False, timeout=300,
        env={"OMP_NUM_THREADS": str(threads)},
    )  # fmt: skip
    assert child.returncode == 0, f"exit {child.returncode}: {child.stderr}"
    with (folder / "outputs").open("rb") as outputs:
        for call in plan["calls"]:
            for _ in range(count):
                yield outputs.read(sum(call["outputs"]))


def check(
    op: str, variants: Sequence[Mapping[str, KnobValue]], calls: Sequence[Call], folder: Path
) -> None:
    """Build ``variants``, run ``calls`` and compare every output with its bounds."""
    family = find_families()[op]
    runnable = [knobs for knobs in variants if runs_here(knobs)]
    library = build([render(family, knobs) for knobs in runnable], folder)
    results = run_all(library, len(runnable), calls, threads=2)
    for call, knobs in itertools.product(calls, runnable):
        values = torch.frombuffer(bytearray(next(results)), dtype=torch.float32)
        sizes = [math.prod(shape) for shape in call.shapes]
        parts = zip(values.split(sizes), call.shapes, strict=True)
        actual = [part.reshape(shape) for part, shape in parts]
        found = compare(actual, call.expected, call.bounds)
        assert found.is_within, f"{op} {knobs}\n{call.label}\n{found}"


@pytest.mark.parametrize("op", OPS)
def test_defaults_render_the_approved_text(op: str) -> None:
    family = find_families()[op]
    assert render(family, family.defaults) == (GOLDEN / f"{op}.cpp").read_text()


@pytest.mark.parametrize("op", OPS)
def test_every_value_of_every_knob_changes_the_text_and_the_title(op: str) -> None:
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
        assert max(map(len, text.splitlines())) <= 110
    singles = one_factor(family)
    titles = [render_title(family, knobs) for knobs in singles]
    assert len(set(titles)) == len(singles)
    assert max(map(len, titles)) <= 140


@pytest.mark.parametrize("op", OPS)
def test_the_page_names_every_knob(op: str) -> None:
    page = (ROOT / "docs" / "families.md").read_text()
    row = next(line for line in page.splitlines() if line.startswith(f"| {op} |"))
    assert re.findall(r"`(\w+)`", row) == [knob.name for knob in find_families()[op].knobs]


@pytest.mark.parametrize("op", OPS)
def test_variants_are_right_on_ugly_shapes_and_values(op: str, tmp_path: Path) -> None:
    loaded = load_task(CATALOG / op)
    calls = [
        make_call(
            loaded, workload, make_draw(loaded.task, workload.axes, workload.distribution, seed)
        )
        for seed, workload in enumerate(ugly_workloads(loaded))
    ]
    variants = one_factor(find_families()[op])
    check(op, variants, [*calls, special_call(loaded)], tmp_path)


def special_call(loaded: LoadedTask) -> Call:
    """A call among whose inputs are NaN, infinities, signed zeros and extremes."""
    task = loaded.task
    shape = (2, 3, 20) if task.op == "rope" else (6, 40)
    axes = dict(zip(task.var_axes, shape, strict=False))
    if task.stride_axes:
        axes["x_stride"] = axes["cols"] + 3
    workload = Workload(axes=axes, distribution=task.holdouts.distributions[0])
    draw = make_draw(task, axes, workload.distribution, 1)
    specials = (math.inf, -math.inf, math.nan, 0.0, -0.0, 88.0, -88.0, -104.0, 1e-40, -1e-40)
    first = draw[0].view(-1)
    # Not in the first 40: one row of a norm keeps ordinary values.
    for number, value in enumerate(specials):
        first[40 + 20 * number] = value
    return make_call(loaded, workload, draw)


@pytest.mark.slow
@pytest.mark.timeout(900)
@pytest.mark.parametrize("op", OPS)
def test_pairs_of_knobs_are_right_on_holdouts(op: str, tmp_path: Path) -> None:
    loaded = load_task(CATALOG / op)
    small = loaded.task.holdouts.model_copy(update={"max_elements": 20_000})
    task = loaded.task.model_copy(update={"holdouts": small})
    calls = [
        make_call(
            loaded, workload, make_draw(loaded.task, workload.axes, workload.distribution, seed)
        )
        for seed, workload in enumerate(draw_holdouts(task, b"families", 16))
    ]
    variants = two_factors(find_families()[op])
    for begin in range(0, len(variants), 40):
        folder = tmp_path / str(begin)
        folder.mkdir()
        check(op, variants[begin : begin + 40], calls, folder)
