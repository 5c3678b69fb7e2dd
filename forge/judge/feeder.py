"""The process that makes draws and writes them into the memory that arms read.

It never runs candidate code. It keeps what it drew in memory of its own, so that it can say
whether an input was changed.
"""

from __future__ import annotations

import sys
from typing import Any

import numpy as np
import torch

from forge.judge.layout import Layout, guards
from forge.judge.native.library import POISON
from forge.judge.worker import Array, Tasks, array_at, draws_of, mapped, serve


class Feeder:
    """Draws by pool name."""

    def __init__(self) -> None:
        self._tasks = Tasks()
        self._pools: dict[str, list[list[Array]]] = {}

    def prepare(self, message: dict[str, Any], _fds: list[int]) -> dict[str, Any]:
        """Draw a pool: one draw per seed."""
        draws = draws_of(self._tasks.get(message["folder"]), message)
        self._pools[message["pool"]] = [[t.numpy() for t in draw] for draw in draws]
        return {}

    def publish(self, message: dict[str, Any], fds: list[int]) -> dict[str, Any]:
        """Write a pool into shared memory, with its guards."""
        layout = Layout.model_validate(message["layout"], strict=False)
        with mapped(fds[0], layout, writable=True) as memory:
            words = memory.view(np.uint32)
            for start, end in guards(layout):
                words[start // 4 : end // 4] = POISON
            for call, draw in zip(layout.calls, self._pools[message["pool"]], strict=True):
                for region, values in zip(call, draw, strict=True):
                    array_at(memory, region)[...] = values
        return {}

    def intact(self, message: dict[str, Any], fds: list[int]) -> dict[str, Any]:
        """Say whether the inputs of one call still hold, bit for bit, what was drawn."""
        layout = Layout.model_validate(message["layout"], strict=False)
        call = int(message["call"])
        draw = self._pools[message["pool"]][call]
        with mapped(fds[0], layout, writable=False) as memory:
            same = all(
                array_at(memory, region).tobytes() == values.tobytes()
                for region, values in zip(layout.calls[call], draw, strict=True)
            )
        return {"intact": same}

    def drop(self, message: dict[str, Any], _fds: list[int]) -> dict[str, Any]:
        """Forget a pool."""
        self._pools.pop(message["pool"], None)
        return {}


if __name__ == "__main__":
    torch.set_num_threads(1)
    feeder = Feeder()
    sys.exit(
        serve(
            int(sys.argv[1]),
            {
                "prepare": feeder.prepare,
                "publish": feeder.publish,
                "intact": feeder.intact,
                "drop": feeder.drop,
            },
        )
    )
