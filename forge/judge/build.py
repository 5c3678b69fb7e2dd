"""Build candidates in sandboxed children of the zygote, cached by everything that matters."""

from __future__ import annotations

import os
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING

from forge.errors import HarnessFault
from forge.judge.arms import Arm, ArmEnded, pid_of
from forge.judge.base import Built
from forge.judge.builder import BUILD_S, KERNEL_FLAGS, MAX_LIBRARY_BYTES, MAX_SOURCE_BYTES
from forge.judge.control import PAGE_BYTES, ControlPage, Word
from forge.judge.memory import MemoryFile
from forge.types import content_digest
from forge.verdict import Rejected

if TYPE_CHECKING:
    from collections.abc import Sequence

    from forge.judge.bench import Bench
    from forge.types import KernelSource


class Builder:
    """Builds kernels; only ``.cpp`` needs to be."""

    def __init__(self, bench: Bench, cache: Path, compiler: str, environment: str) -> None:
        self._bench = bench
        self._folder = cache / "kernels"
        self._compiler = compiler
        self._environment = environment

    def build_many(self, sources: Sequence[KernelSource]) -> list[Built | Rejected]:
        """Build kernels, as many at a time as there are cores, in the order given."""
        results: list[Built | Rejected] = []
        width = len(self._bench.cores.all)
        for start in range(0, len(sources), width):
            batch = sources[start : start + width]
            running = [self._begin(source) for source in batch]
            results += [
                job if isinstance(job, (Built, Rejected)) else self._finish(source, job)
                for source, job in zip(batch, running, strict=True)
            ]
        return results

    def _begin(self, source: KernelSource) -> Built | Rejected | _Job:
        size = sum(len(text.encode()) for text in source.files.values())
        if size > MAX_SOURCE_BYTES:
            reason = f"{size} bytes of source; at most {MAX_SOURCE_BYTES} are built"
            return Rejected(check="source-too-large", reason=reason)
        if odd := [name for name in source.files if not _is_plain(name)]:
            return Rejected(check="builds", reason=f"no file of a kernel is called {odd[0]!r}")
        if source.language in ("reference", "py"):
            return Built(source=source)
        if source.language != "cpp":
            return Rejected(check="builds", reason=f"a CPU runs no {source.entry}")
        path = self._path(source)
        if path.exists():
            return Built(source=source, library=path)
        return _Job.begin(self._bench, dict(source.files), self._compiler)

    def _finish(self, source: KernelSource, job: _Job) -> Built | Rejected:
        library = job.result()
        if isinstance(library, Rejected):
            return library
        path = self._path(source)
        path.parent.mkdir(parents=True, exist_ok=True)
        handle, name = tempfile.mkstemp(dir=path.parent)
        with os.fdopen(handle, "wb") as out:
            out.write(library)
        Path(name).replace(path)
        return Built(source=source, library=path)

    def _path(self, source: KernelSource) -> Path:
        key = content_digest(
            source.digest.encode(), " ".join(KERNEL_FLAGS).encode(), self._environment.encode()
        )
        return self._folder / f"{key[:32]}.so"


def _is_plain(name: str) -> bool:
    """Whether a file's name is a relative path that stays in its folder."""
    parts = name.split("/")
    return all(part not in ("", ".", "..") and part.isprintable() for part in parts)


class _Job:
    """One running compiler."""

    def __init__(self, arm: Arm, out: int) -> None:
        self._arm = arm
        self._out = out

    @classmethod
    def begin(cls, bench: Bench, files: dict[str, str], compiler: str) -> _Job:
        page = os.memfd_create("forge-control", os.MFD_CLOEXEC)
        os.ftruncate(page, PAGE_BYTES)
        out = os.memfd_create("forge-library", os.MFD_CLOEXEC)
        spec = {"files": files, "compiler": compiler, "seconds": BUILD_S}
        zygote = bench.trio.zygote
        zygote.settle()
        zygote.send("build", [page, out], spec=spec)
        answer, received = zygote.answer()
        control = ControlPage(page)
        os.close(page)
        nothing = MemoryFile.nothing()
        arm = Arm(
            native=bench.native,
            zygote=zygote,
            control=control,
            pidfd=received[0],
            is_trusted=False,
            warm_outputs=nothing,
            outputs=nothing,
            pid=pid_of(received[0]),
            inner_pid=answer["pid"],
        )
        return cls(arm, out)

    def result(self) -> bytes | Rejected:
        """Wait for the compiler and return the library, or why there is none."""
        try:
            self._arm.await_word(Word.DONE, BUILD_S + 5, "while compiling")
        except ArmEnded as ended:
            lines = ended.reason.removesuffix(" (while compiling)").strip().splitlines()
            return Rejected(check="builds", reason=lines[-1] if lines else "no message")
        finally:
            self._arm.kill()
            # The builder may say what it likes of its size; the file's own limit is its.
            library = os.pread(self._out, MAX_LIBRARY_BYTES + 1, 0)
            os.close(self._out)
        if len(library) > MAX_LIBRARY_BYTES:
            reason = f"the library has more than {MAX_LIBRARY_BYTES >> 20} MiB"
            return Rejected(check="builds", reason=reason)
        if not library:
            raise HarnessFault("The compiler said it was done and left no library.")
        return library
