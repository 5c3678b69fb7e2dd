"""What feeder and oracle share: named pools of draws, and the loop that answers requests."""

from __future__ import annotations

import contextlib
import mmap
import os
import socket
import traceback
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from forge.judge import sandbox
from forge.judge.channel import Channel, ChannelClosed
from forge.tasks.draws import make_draw
from forge.tasks.load import LoadedTask, load_task

if TYPE_CHECKING:
    from collections.abc import Callable, Generator, Mapping

    import torch

    from forge.judge.layout import Layout, Region

    Handler = Callable[[dict[str, Any], list[int]], dict[str, Any]]

Array = np.ndarray[Any, Any]
_DTYPES = {"float32": np.float32, "int32": np.int32, "int64": np.int64, "bool": np.bool_}


class Tasks:
    """Tasks by folder, read once."""

    def __init__(self) -> None:
        self._loaded: dict[str, LoadedTask] = {}

    def get(self, folder: str) -> LoadedTask:
        """Return the task of ``folder``."""
        if folder not in self._loaded:
            self._loaded[folder] = load_task(Path(folder))
        return self._loaded[folder]


def draws_of(loaded: LoadedTask, message: Mapping[str, Any]) -> list[tuple[torch.Tensor, ...]]:
    """Make the draws a ``prepare`` message asks for, one per seed, each from its seed alone."""
    axes = loaded.task.resolve(message["axes"])
    return [
        make_draw(loaded.task, axes, message["distribution"], seed) for seed in message["seeds"]
    ]


@contextlib.contextmanager
def mapped(fd: int, layout: Layout, *, writable: bool) -> Generator[Array]:
    """Map a file of buffers as bytes while the block runs, and close the descriptor."""
    access = mmap.ACCESS_WRITE if writable else mmap.ACCESS_READ
    memory = mmap.mmap(fd, layout.size, access=access)
    view = np.frombuffer(memory, dtype=np.uint8)
    try:
        yield view
    finally:
        os.close(fd)


def array_at(memory: Array, region: Region) -> Array:
    """Return one buffer of mapped bytes as an array of its shape, strides and dtype."""
    dtype = np.dtype(_DTYPES[region.dtype])
    return np.ndarray(
        region.shape,
        dtype,
        buffer=memory.data,
        offset=region.start,
        strides=tuple(step * dtype.itemsize for step in region.strides),
    )


def serve(fd: int, handlers: Mapping[str, Handler]) -> int:
    """Answer requests until told to end or the coordinator is gone."""
    sandbox.die_with_parent()
    channel = Channel(socket.socket(fileno=fd))
    with contextlib.suppress(ChannelClosed):
        channel.send({"ready": True})
        while True:
            message, fds = channel.receive()
            if message["op"] == "end":
                break
            channel.send(_answer(handlers, message, fds))
    return 0


def _answer(
    handlers: Mapping[str, Handler], message: dict[str, Any], fds: list[int]
) -> dict[str, Any]:
    try:
        return handlers[message["op"]](message, fds)
    except Exception:  # noqa: BLE001  (our own fault: told to the coordinator, which raises it)
        return {"fault": traceback.format_exc(limit=-5)}
