"""What runs in an arm: one kernel, its inputs (read-only), its own outputs, nothing else.

The arm is told what to call and where the buffers lie; it is stopped before the draws of the
burst are written, so it cannot see them before the clock runs.
"""

from __future__ import annotations

import ctypes
import mmap
import os
import resource
import types
import warnings
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import torch
from pydantic import BaseModel, ConfigDict

from forge.judge.control import GO, STATE, ControlPage, Go, Word
from forge.judge.layout import Layout, Region
from forge.judge.provenance import forbidden_calls

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from forge.judge.native.library import Native

_PAGE = 4096
_ROW = 16  # int64 arguments per call in the table of forge_calls
_DTYPES = {
    "float32": torch.float32,
    "int32": torch.int32,
    "int64": torch.int64,
    "bool": torch.bool,
}
_M_TRIM_THRESHOLD, _M_MMAP_MAX = -1, -4
# Eager softmax 512x4096 takes 34 ms a burst while its allocator still finds new pages, then 18.
# So the heap gets this much of a burst's results, more where there are intermediates.
_HEAP_SHARES, _FEW_FAULTS = (1.25, 2.0, 3.0, 4.0, 6.0), 32
_MADV_POPULATE_READ, _MADV_POPULATE_WRITE = 22, 23


class ArmSpec(BaseModel):
    """What the coordinator asks an arm to do."""

    model_config = ConfigDict(frozen=True, extra="forbid")
    language: str
    """``cpp``, ``py``, ``reference``, ``compiled`` (a rival) or ``native`` (the roof)."""
    entry: str
    """Text of the entry file; for ``native`` the name of the function."""
    warm_inputs: Layout
    warm_outputs: Layout
    inputs: Layout
    outputs: Layout
    axes: tuple[int, ...]
    """Values of the var axes in declared order."""
    allowed_calls: tuple[str, ...]
    """Framework calls a Python kernel may make."""
    warm_calls: int
    threads: int
    cores: tuple[int, ...]
    memory_bytes: int


class ArmFailure(Exception):
    """The candidate failed before or in its burst."""

    def __init__(self, word: Word, text: str) -> None:
        super().__init__(text)
        self.word = word
        self.text = text


class Buffers:
    """One mapped file of buffers."""

    def __init__(self, fd: int, layout: Layout, *, writable: bool) -> None:
        access = mmap.PROT_READ | (mmap.PROT_WRITE if writable else 0)
        self.memory = mmap.mmap(fd, layout.size, flags=mmap.MAP_SHARED, prot=access)
        self.memory.madvise(_MADV_POPULATE_WRITE if writable else _MADV_POPULATE_READ)
        self.layout = layout
        # numpy reads a read-only buffer without complaint and gives its address.
        self.address = int(np.frombuffer(self.memory, dtype=np.uint8).ctypes.data)

    def pointers(self, call: int) -> list[int]:
        """Return the addresses of the buffers of one call."""
        return [self.address + region.start for region in self.layout.calls[call]]

    def tensors(self, call: int) -> list[torch.Tensor]:
        """Return the buffers of one call as tensors."""
        return [self._tensor(region) for region in self.layout.calls[call]]

    def _tensor(self, region: Region) -> torch.Tensor:
        dtype = _DTYPES[region.dtype]
        count = region.span_bytes // dtype.itemsize
        if not count:
            return torch.empty(region.shape, dtype=dtype)
        flat = torch.frombuffer(self.memory, dtype=dtype, count=count, offset=region.start)
        return flat.as_strided(region.shape, region.strides)


def run_arm(spec: ArmSpec, fds: Sequence[int], native: Native) -> None:
    """Load, warm up, say ready, wait, run the burst, say done. Never returns in a good end.

    Args:
        spec: What to do.
        fds: Control page, throwaway inputs, throwaway outputs, inputs, outputs.
        native: The judge's own machine code.

    Raises:
        ArmFailure: The candidate failed; the caller says so on the control page.
    """
    control = ControlPage(fds[0])
    page = int(np.frombuffer(control.memory, dtype=np.uint8).ctypes.data)
    keep_pages()
    torch.set_num_threads(spec.threads)
    warnings.simplefilter("ignore")
    warm = (
        Buffers(fds[1], spec.warm_inputs, writable=False),
        Buffers(fds[2], spec.warm_outputs, writable=True),
    )
    timed = (
        Buffers(fds[3], spec.inputs, writable=False),
        Buffers(fds[4], spec.outputs, writable=True),
    )
    for fd in fds:
        os.close(fd)
    make = {"cpp": _machine_code, "native": _machine_code, "py": _python}
    calls = make.get(spec.language, _reference)(spec, native, warm, timed)
    calls.warm_up()
    library = native.library
    for start, end in calls.made():
        # What a reference allocates must be as cold as the outputs a kernel is given; the
        # interpreter's own data must not be, or the reference alone would pay for it.
        library.forge_flush(start, end - start)
    library.forge_say_and_wait(page + GO, Go.BURST, page + STATE, Word.READY)
    calls.burst()
    library.forge_say_and_wait(page + GO, Go.COPY, page + STATE, Word.DONE)
    calls.after()
    library.forge_say(page + STATE, Word.COPIED)


def keep_pages() -> None:
    """Let the C library keep freed memory: a reference that allocates gets warm pages.

    Fresh pages alone made a false 5.5x on a softmax whose true ratio is 1.07 (DESIGN.md 4).
    """
    libc = ctypes.CDLL(None)
    libc.mallopt(_M_MMAP_MAX, 0)
    libc.mallopt(_M_TRIM_THRESHOLD, 2**31 - 1)


def grow_heap(size: int) -> int:
    """Let the heap own ``size`` bytes more, and return where they begin.

    Raises:
        MemoryError: There are none to be had.
    """
    libc = ctypes.CDLL(None)
    libc.malloc.restype = ctypes.c_void_p
    libc.malloc.argtypes = [ctypes.c_size_t]
    libc.free.argtypes = [ctypes.c_void_p]
    block = libc.malloc(size)
    if not block:
        raise MemoryError
    libc.free(block)
    return int(block)


def touch_heap(start: int) -> tuple[int, int]:
    """Take every page from ``start`` to the end of the heap now, and return that range.

    Source:
        madvise(2), MADV_POPULATE_WRITE. A fault for each page takes twice as long.
    """
    libc = ctypes.CDLL(None)
    libc.sbrk.restype = ctypes.c_size_t
    libc.madvise.argtypes = [ctypes.c_void_p, ctypes.c_size_t, ctypes.c_int]
    start, end = -(-start // _PAGE) * _PAGE, int(libc.sbrk(ctypes.c_ssize_t(0))) // _PAGE * _PAGE
    if end > start:
        libc.madvise(start, end - start, _MADV_POPULATE_WRITE)
    return start, max(start, end)


def _faults() -> int:
    return resource.getrusage(resource.RUSAGE_SELF).ru_minflt


def _nothing() -> None:
    return


def _nowhere() -> list[tuple[int, int]]:
    return []


@dataclass(frozen=True, slots=True)
class _Calls:
    """How a kernel of one language is called."""

    warm_up: Callable[[], None]
    burst: Callable[[], None]
    after: Callable[[], None] = _nothing
    made: Callable[[], list[tuple[int, int]]] = _nowhere
    """Address ranges in which the kernel's own allocations for results lie."""


Pair = tuple[Buffers, Buffers]


def _machine_code(spec: ArmSpec, native: Native, warm: Pair, timed: Pair) -> _Calls:
    if spec.language == "native":
        address = native.address_of(spec.entry)
    else:
        address = _load_library(spec.entry)
    width = len(timed[0].layout.calls[0]) + len(timed[1].layout.calls[0]) + len(spec.axes)
    if width > _ROW:
        raise ArmFailure(Word.LOADS, f"{width} arguments; the judge passes at most {_ROW}.")
    n_warm = len(warm[0].layout.calls)
    warm_rows = [_row(spec, warm, i % n_warm) for i in range(spec.warm_calls)]
    rows = [_row(spec, timed, i) for i in range(len(timed[0].layout.calls))]
    tables = [np.array(t, dtype=np.int64) for t in (warm_rows, rows)]

    def call(table: np.ndarray[Any, np.dtype[np.int64]]) -> Callable[[], None]:
        pointer = int(table.ctypes.data)
        return lambda: native.library.forge_calls(address, pointer, width, len(table))

    return _Calls(call(tables[0]), call(tables[1]))


def _row(spec: ArmSpec, pair: Pair, call: int) -> list[int]:
    row = [*pair[0].pointers(call), *pair[1].pointers(call), *spec.axes]
    return row + [0] * (_ROW - len(row))


def _load_library(path: str) -> int:
    try:
        library = ctypes.CDLL(path)
    except OSError as error:
        raise ArmFailure(Word.LOADS, str(error).replace(path, "kernel.so")) from error
    try:
        launch = library.launch
    except AttributeError as error:
        raise ArmFailure(Word.LACKS_LAUNCH, 'no `extern "C" void launch(...)`') from error
    return ctypes.cast(launch, ctypes.c_void_p).value or 0


def _module(source: str, name: str) -> types.ModuleType:
    module = types.ModuleType(name)
    path = Path.cwd() / f"{name}.py"  # the scratch: private to this arm, gone with it
    try:
        path.write_text(source, encoding="utf-8")
    except OSError:
        path = Path(f"<{name}>")
    module.__file__ = str(path)
    exec(compile(source, str(path), "exec"), module.__dict__)  # noqa: S102  (inside the walls)
    return module


def _python(spec: ArmSpec, _native: Native, warm: Pair, timed: Pair) -> _Calls:
    launch = getattr(_module(spec.entry, "kernel"), "launch", None)
    if not callable(launch):
        raise ArmFailure(Word.LACKS_LAUNCH, "no function `launch`")
    n_warm = len(warm[0].layout.calls)
    arguments = [[*_both(warm, i), *spec.axes] for i in range(n_warm)]
    rows = [[*_both(timed, i), *spec.axes] for i in range(len(timed[0].layout.calls))]

    def warm_up() -> None:
        forbidden = forbidden_calls(lambda: launch(*arguments[0]), spec.allowed_calls)
        if forbidden:
            text = f"calls {', '.join(forbidden)}; the task allows {list(spec.allowed_calls)}"
            raise ArmFailure(Word.FORBIDDEN_CALL, text)
        for i in range(spec.warm_calls):
            launch(*arguments[i % n_warm])

    def burst() -> None:
        for row in rows:
            launch(*row)

    return _Calls(warm_up, burst)


def _both(pair: Pair, call: int) -> list[torch.Tensor]:
    return [*pair[0].tensors(call), *pair[1].tensors(call)]


def _reference(spec: ArmSpec, _native: Native, warm: Pair, timed: Pair) -> _Calls:
    calls = _Reference(spec, warm, timed)
    return _Calls(calls.warm_up, calls.burst, calls.after, calls.made)


def _rows(pair: Pair) -> list[tuple[list[torch.Tensor], list[torch.Tensor]]]:
    """Return inputs and outputs of every call."""
    calls = range(len(pair[0].layout.calls))
    return [(pair[0].tensors(i), pair[1].tensors(i)) for i in calls]


class _Reference:
    """Calls the task's own reference; what it returns stays alive until the clock has stopped."""

    def __init__(self, spec: ArmSpec, warm: Pair, timed: Pair) -> None:
        run: Callable[..., Any] = _module(spec.entry, "reference").run
        if spec.language == "compiled":
            run = torch.compile(run, dynamic=False)  # pyright: ignore[reportUnknownMemberType]
        self._run = run
        self._cycle_calls = spec.warm_calls
        self._warm = _rows(warm)
        self._timed = _rows(timed)
        self._results: list[Any] = []
        self._made: set[tuple[int, int]] = set()
        self._mode = torch.inference_mode()
        self._result_bytes = sum(r.span_bytes for call in spec.outputs.calls for r in call)
        self._faults_before = 0

    def warm_up(self) -> None:
        """Make a burst's worth of results, alive together, until that takes no new page."""
        # For the whole life of this process: entered in the burst it cost 70 us, 3 % of one.
        self._mode.__enter__()
        first = 0
        for share in _HEAP_SHARES:
            size = int(share * self._result_bytes)
            first = first or grow_heap(size)
            touch_heap(first)
            before = _faults()
            self._cycle()
            is_enough = _faults() - before <= _FEW_FAULTS
            # What a cycle freed need not fit what the burst asks for (an aligned block never
            # fits where its twin was): the burst gets as much again.
            grow_heap(size)
            if is_enough:
                break
        self._made.add(touch_heap(first))
        self._faults_before = _faults()

    def made(self) -> list[tuple[int, int]]:
        """Return where the results of the burst will lie: the new end of the heap, and holes."""
        return sorted(self._made)

    def _cycle(self) -> None:
        run, warm = self._run, self._warm
        results = [run(*warm[i % len(warm)][0]) for i in range(self._cycle_calls)]
        self._made = {_range(value) for result in results for value in _tuple(result)}
        for result, (_, outputs) in zip(results, self._warm, strict=False):
            _copy_out(result, outputs)

    def burst(self) -> None:
        """The timed calls; inference mode is on since the warm-up."""
        run, results = self._run, self._results
        for inputs, _ in self._timed:
            results.append(run(*inputs))

    def after(self) -> None:
        """Copy the results to where the oracle looks, when the clock has stopped.

        Raises:
            ArmFailure: The burst was slow because the allocator took new pages in it.
        """
        taken = _faults() - self._faults_before
        if taken > max(_FEW_FAULTS, self._result_bytes // _PAGE // 50):
            raise ArmFailure(Word.COLD_MEMORY, f"{taken} new pages were taken while the clock ran")
        for result, (_, outputs) in zip(self._results, self._timed, strict=True):
            _copy_out(result, outputs)


def _tuple(result: object) -> Sequence[torch.Tensor]:
    return result if isinstance(result, (tuple, list)) else (result,)  # pyright: ignore[reportUnknownVariableType, reportReturnType]


def _range(value: torch.Tensor) -> tuple[int, int]:
    return value.data_ptr(), value.data_ptr() + value.untyped_storage().nbytes()


def _copy_out(result: object, outputs: Sequence[torch.Tensor]) -> None:
    for value, output in zip(_tuple(result), outputs, strict=True):
        output.copy_(value)
