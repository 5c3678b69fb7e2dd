"""What a new task starts with: SiLU is not in the catalogue, but a night can make it."""

import ctypes
import subprocess
from pathlib import Path

import pytest
import torch

from forge.host import CPU_BUILD_FLAGS, probe_environment, require_compiler
from forge.students.sweep.knobs import lanes_of
from forge.students.sweep.render import find_families, render
from forge.tasks.draws import make_draw
from forge.tasks.load import load_task
from forge.tasks.numeric import allowed, compare
from forge.tasks.reference import load_reference
from forge.tasks.scaffold import new_task

FAMILY = find_families()["silu"]
# One element, a vector and its neighbours, a piece and its neighbours, and many short rows.
SHAPES = ((1, 1), (1, 15), (3, 17), (1, 16384), (1, 16389), (997, 33))
OFFSETS = (0, 1, 5)


@pytest.mark.parametrize("lanes", lanes_of(probe_environment().target))
@pytest.mark.parametrize("plain", [True, False])
def test_it_is_right_on_the_task_that_is_written(lanes: int, plain: bool, tmp_path: Path):
    loaded = load_task(new_task(tmp_path, "silu"))
    task, reference = loaded.task, load_reference(loaded.reference_source)
    knobs = {**FAMILY.defaults, "lanes": lanes}
    if plain:
        knobs |= {"streaming": False, "ahead": 0, "unroll": 1, "threads": "pieces"}
    launch = build(render(FAMILY, knobs), tmp_path)
    for number, (rows, cols) in enumerate(SHAPES):
        for distribution in task.holdouts.distributions:
            axes = {"rows": rows, "cols": cols}
            (x,) = make_draw(task, axes, distribution, number)
            out = run(launch, x, OFFSETS[number % len(OFFSETS)])
            expected = reference.run(x.double())
            bounds = allowed(task, axes, expected, reference.terms((x.double(),), expected))
            found = compare((out,), expected, bounds)
            assert found.is_within, f"{knobs} {axes} {distribution}: {found}"


def test_infinities_and_nan_come_out_where_torch_has_them(tmp_path: Path):
    launch = build(render(FAMILY, FAMILY.on(probe_environment().target, 1).defaults), tmp_path)
    x = torch.tensor([[float("inf"), float("-inf"), float("nan"), 0.0, -0.0, -1e38, 1e38]])
    torch.testing.assert_close(
        run(launch, x, 0), torch.nn.functional.silu(x), rtol=1e-6, atol=1e-37, equal_nan=True
    )


def build(source: str, folder: Path) -> "ctypes._NamedFuncPointer":
    (folder / "kernel.cpp").write_text(source, encoding="utf-8")
    library = folder / "kernel.so"
    command = [
        require_compiler(),
        *CPU_BUILD_FLAGS,
        str(folder / "kernel.cpp"),
        "-o",
        str(library),
    ]
    subprocess.run(command, check=True, timeout=60)
    return ctypes.CDLL(str(library)).launch


def run(launch: "ctypes._NamedFuncPointer", x: torch.Tensor, offset: int) -> torch.Tensor:
    """Call a kernel with both buffers moved by ``offset`` floats, and look around the output."""
    room = x.numel() + offset + 16
    given, taken = torch.full((room,), 7.0), torch.full((room,), 7.0)
    inside = slice(offset, offset + x.numel())
    given[inside] = x.flatten()
    taken[inside] = float("nan")
    sizes = [ctypes.c_int64(size) for size in x.shape]
    launch(
        *(ctypes.c_void_p(buffer[inside].data_ptr()) for buffer in (given, taken)),
        *sizes,
    )
    assert torch.all(taken[:offset] == 7.0)
    assert torch.all(taken[offset + x.numel() :] == 7.0)
    return taken[inside].reshape(x.shape)
