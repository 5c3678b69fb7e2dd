"""The process that knows the right answers.

It regenerates each draw from its seed, computes expected values once in float64, and compares
sealed outputs. It never runs candidate code, never reads an input back from shared memory, and
none of its memory is mapped into an arm.
"""

from __future__ import annotations

import ctypes
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import torch

from forge.judge.layout import Layout, guards
from forge.judge.native.library import POISON, Comparison, Native
from forge.judge.worker import Array, Tasks, array_at, draws_of, mapped, serve
from forge.tasks.numeric import allowed
from forge.tasks.reference import Reference, load_reference

if TYPE_CHECKING:
    from forge.tasks.load import LoadedTask


@dataclass(slots=True)
class Expected:
    """What one output of one call must be."""

    values: Array  # float64, contiguous
    allowed: Array  # float32, contiguous: largest absolute error of each element


class Oracle:
    """Expected values by pool name."""

    def __init__(self, native: Native) -> None:
        self._native = native
        self._tasks = Tasks()
        self._references: dict[str, Reference] = {}
        self._pools: dict[str, list[list[Expected]]] = {}
        self._asked: dict[str, dict[str, Any]] = {}

    def prepare(self, message: dict[str, Any], _fds: list[int]) -> dict[str, Any]:
        """Compute the expected values of a pool, one call per seed."""
        torch.set_num_threads(message["threads"])
        loaded = self._tasks.get(message["folder"])
        draws = draws_of(loaded, message)
        pool = [self._expect(loaded, message, draw, with_float32=False) for draw in draws]
        self._pools[message["pool"]] = pool
        self._asked[message["pool"]] = message
        return {}

    def compare(self, message: dict[str, Any], fds: list[int]) -> dict[str, Any]:
        """Compare the sealed outputs of one arm with a pool; see ``_Report``."""
        layout = Layout.model_validate(message["layout"], strict=False)
        pool = message["pool"]
        report = _Report()
        with mapped(fds[0], layout, writable=False) as memory:
            for call, expected in enumerate(self._pools[pool][: len(layout.calls)]):
                arrays = [array_at(memory, region) for region in layout.calls[call]]
                found = [self._one(a, e) for a, e in zip(arrays, expected, strict=True)]
                if any(f.wrong for f in found):
                    # The float32 reference's own error may allow more; it is rarely asked.
                    expected = self._relaxed(pool, call)
                    found = [self._one(a, e) for a, e in zip(arrays, expected, strict=True)]
                for array, result, wanted in zip(arrays, found, expected, strict=True):
                    report.add(call, array, result, wanted)
            words = memory.view(np.uint32)
            report.canary = sum(
                int(np.count_nonzero(words[start // 4 : end // 4] != POISON))
                for start, end in guards(layout)
            )
        return report.as_json()

    def drop(self, message: dict[str, Any], _fds: list[int]) -> dict[str, Any]:
        """Forget a pool."""
        self._pools.pop(message["pool"], None)
        self._asked.pop(message["pool"], None)
        return {}

    def _relaxed(self, pool: str, call: int) -> list[Expected]:
        message = self._asked[pool]
        loaded = self._tasks.get(message["folder"])
        one = {**message, "seeds": [message["seeds"][call]]}
        expected = self._expect(loaded, message, draws_of(loaded, one)[0], with_float32=True)
        self._pools[pool][call] = expected
        return expected

    def _expect(
        self,
        loaded: LoadedTask,
        message: dict[str, Any],
        draw: tuple[torch.Tensor, ...],
        *,
        with_float32: bool,
    ) -> list[Expected]:
        reference = self._references.get(loaded.digest)
        if reference is None:
            reference = self._references[loaded.digest] = load_reference(loaded.reference_source)
        axes = loaded.task.resolve(message["axes"])
        with torch.inference_mode():
            wide = tuple(t.double() if t.is_floating_point() else t for t in draw)
            outputs = reference.run(*wide)
            terms = reference.terms(wide, outputs)
            narrow = reference.run(*draw) if with_float32 else None
            budget = allowed(loaded.task, axes, outputs, terms, narrow)
        return [
            Expected(
                np.ascontiguousarray(o.numpy(), dtype=np.float64),
                np.ascontiguousarray(b.numpy(), dtype=np.float32),
            )
            for o, b in zip(outputs, budget, strict=True)
        ]

    def _one(self, array: Array, expected: Expected) -> Comparison:
        got = np.ascontiguousarray(array)
        result = Comparison()
        self._native.library.forge_compare(
            got.ctypes.data,
            expected.values.ctypes.data,
            expected.allowed.ctypes.data,
            got.size,
            POISON,
            ctypes.byref(result),
        )
        return result


class _Report:
    """The worst of all calls and outputs, and the first wrong element in words."""

    def __init__(self) -> None:
        self.max_error = self.allowed_error = 0.0
        self.worst_ratio = -1.0
        self.wrong = self.wrong_nan = self.unwritten = self.canary = 0
        self.first = ""

    def add(self, call: int, array: Array, found: Comparison, expected: Expected) -> None:
        if found.worst_ratio > self.worst_ratio:
            self.worst_ratio, self.allowed_error = found.worst_ratio, found.allowed_error
            self.max_error = found.max_error
        self.wrong += found.wrong
        self.wrong_nan += found.wrong_nan
        self.unwritten += found.unwritten
        if found.first_wrong >= 0 and not self.first:
            where = np.unravel_index(found.first_wrong, array.shape)
            at = ", ".join(str(int(i)) for i in where)
            wanted = expected.values.reshape(-1)[found.first_wrong]
            limit = expected.allowed.reshape(-1)[found.first_wrong]
            count = found.wrong + found.wrong_nan + found.unwritten
            self.first = (
                f"call {call}, element [{at}] is {array[where]:.9g}, expected {wanted:.9g} "
                f"within {limit:.3g}; {count} of {array.size} elements are wrong"
            )

    def as_json(self) -> dict[str, Any]:
        return dict(vars(self))


if __name__ == "__main__":
    oracle = Oracle(Native.load(Path(sys.argv[2])))
    sys.exit(
        serve(
            int(sys.argv[1]),
            {"prepare": oracle.prepare, "compare": oracle.compare, "drop": oracle.drop},
        )
    )
