"""Raw samples on disk: one compressed file per digest, whole or not there."""

from __future__ import annotations

import hashlib
import json
import os
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING

import zstandard

from forge.errors import HarnessFault
from forge.judge.evidence import Evidence
from ledger.database import translated

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

_LEVEL = 6
_PARTIAL = ".partial-"


class BlobStore:
    """Evidence by the SHA-256 of its text, under ``folder/ab/ab12...json.zst``."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder

    def path(self, digest: str) -> Path:
        """Return where the evidence of ``digest`` is, or would be."""
        return self.folder / digest[:2] / f"{digest}.json.zst"

    def write(self, evidence: Evidence) -> tuple[str, int]:
        """Keep ``evidence`` for good and return its digest and its size on disk in bytes.

        It is on disk when this returns: file, its name, and the folder that names it.
        """
        text = evidence_text(evidence)
        digest = hashlib.sha256(text).hexdigest()
        path = self.path(digest)
        if path.is_file():
            return digest, path.stat().st_size
        data = zstandard.ZstdCompressor(level=_LEVEL).compress(text)
        with translated(path):
            _make_folder(path.parent)
            handle, partial = tempfile.mkstemp(prefix=_PARTIAL, dir=path.parent)
            try:
                with os.fdopen(handle, "wb") as file:
                    file.write(data)
                    file.flush()
                    os.fsync(file.fileno())
                Path(partial).replace(path)
            except BaseException:  # cleaned up, then raised again
                Path(partial).unlink(missing_ok=True)
                raise
            _sync_folder(path.parent)
        return digest, len(data)

    def read(self, digest: str) -> Evidence:
        """Return the evidence of ``digest``.

        Raises:
            HarnessFault: The blob is missing, or is not what was written.
        """
        problem, text = self._load(digest)
        if problem:
            raise HarnessFault(f"Evidence {digest}: {problem}.")
        return Evidence.model_validate_json(text)

    def problems(self, digests: Iterable[str]) -> Iterator[str]:
        """Yield one sentence for each of ``digests`` whose blob is missing or changed."""
        for digest in digests:
            problem, _ = self._load(digest)
            if problem:
                yield f"evidence {digest}: {problem}"

    def remove_partial(self) -> None:
        """Remove what a killed writer left; only the ledger's owner may."""
        for partial in self.folder.glob(f"*/{_PARTIAL}*"):
            partial.unlink(missing_ok=True)

    def _load(self, digest: str) -> tuple[str, bytes]:
        path = self.path(digest)
        try:
            text = zstandard.ZstdDecompressor().decompress(path.read_bytes())
        except FileNotFoundError:
            return f"its blob {path} is missing", b""
        except (OSError, zstandard.ZstdError) as error:
            return f"its blob {path} cannot be read ({error})", b""
        found = hashlib.sha256(text).hexdigest()
        if found != digest:
            return f"its blob {path} was changed: it hashes to {found}", b""
        return "", text


def evidence_text(evidence: Evidence) -> bytes:
    """Return the text whose SHA-256 names ``evidence``.

    Not pydantic's own JSON, which writes an infinite error as ``null`` and cannot read it again.
    """
    return json.dumps(evidence.model_dump(), separators=(",", ":"), ensure_ascii=False).encode()


def _make_folder(folder: Path) -> None:
    if not folder.is_dir():
        folder.mkdir(parents=True, exist_ok=True)
        _sync_folder(folder.parent)
        _sync_folder(folder.parent.parent)


def _sync_folder(folder: Path) -> None:
    descriptor = os.open(folder, os.O_RDONLY | os.O_DIRECTORY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
