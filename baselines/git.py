"""Git as a program: the plumbing that reads refs and writes the store, on a bare repository.

Nothing of the user's git reaches it: no system or global configuration, no hooks, no ``GIT_*``
variable, no transport. Writing needs a ``Writer``, which only ``writing`` hands out and which
holds the store's file lock.
"""

from __future__ import annotations

import fcntl
import os
import shutil
import subprocess
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

from forge.errors import HarnessFault, UsageError

if TYPE_CHECKING:
    from collections.abc import Generator, Iterable, Sequence
    from datetime import datetime

NO_OBJECT = "0" * 40
ENVIRONMENT = {
    "GIT_AUTHOR_NAME": "everforge",
    "GIT_AUTHOR_EMAIL": "everforge@localhost",
    "GIT_COMMITTER_NAME": "everforge",
    "GIT_COMMITTER_EMAIL": "everforge@localhost",
    "GIT_CONFIG_NOSYSTEM": "1",
    "GIT_CONFIG_GLOBAL": os.devnull,
    "GIT_TERMINAL_PROMPT": "0",
    # Somebody's refs/replace must not change what a commit says.
    "GIT_NO_REPLACE_OBJECTS": "1",
    "LC_ALL": "C",
}
# What the command line says wins over the repository's own configuration, which a person can edit.
SETTINGS = (
    "core.hooksPath=/dev/null",
    "core.fsmonitor=false",
    "core.fsync=all",
    "core.quotePath=false",
    "protocol.allow=never",
    "gc.auto=0",
    "maintenance.auto=false",
)

_FULL = "The disk that holds {path} is full: free some space; nothing that was sealed is lost."
_LOCKED_OUT = "{path} cannot be written: check its permissions and its disk."
_SIGNS = {
    "No space left on device": _FULL,
    "Disk quota exceeded": _FULL,
    "File too large": _FULL,
    "Permission denied": _LOCKED_OUT,
    "insufficient permission": _LOCKED_OUT,
    "Read-only file system": _LOCKED_OUT,
    "not a git repository": (
        "{path} is not a git repository: move it away, or set another FORGE_HOME."
    ),
}


class GitError(HarnessFault):
    """A git command failed; the message holds the command and what git said."""


class Git:
    """Reads of a bare repository.

    Attributes:
        path: Folder of the repository.
    """

    def __init__(self, path: Path, *, keep_open: Sequence[int] = ()) -> None:
        program = shutil.which("git")
        if program is None:
            raise UsageError("There is no git on the PATH; install git 2.36 or newer.")
        self.path = path
        self._program = program
        self._keep_open = tuple(keep_open)

    def run(self, *args: str, stdin: bytes = b"", when: datetime | None = None) -> str:
        """Run git and return its standard output, stripped.

        Args:
            args: Command and arguments; none of them may come from a candidate.
            stdin: What it reads.
            when: Author and commit date of a commit it makes.

        Raises:
            GitError: It failed.
            UsageError: It failed for a reason that an operator can mend.
        """
        done = self._start(*args, stdin=stdin, when=when)
        if done.returncode:
            said = done.stderr.decode(errors="replace").strip()
            raise self._error(args, said or f"it ended with status {done.returncode}")
        return done.stdout.decode(errors="surrogateescape").strip()

    def _start(
        self, *args: str, stdin: bytes = b"", when: datetime | None = None
    ) -> subprocess.CompletedProcess[bytes]:
        settings = [word for setting in SETTINGS for word in ("-c", setting)]
        environment = ENVIRONMENT | {"PATH": f"{Path(self._program).parent}:/usr/bin:/bin"}
        if when is not None:
            date = f"@{int(when.timestamp())} +0000"
            environment |= {"GIT_AUTHOR_DATE": date, "GIT_COMMITTER_DATE": date}
        return subprocess.run(
            [self._program, f"--git-dir={self.path}", *settings, *args],
            input=stdin,
            env=environment,
            capture_output=True,
            check=False,
            pass_fds=self._keep_open,
        )

    def _error(self, args: Sequence[str], said: str) -> HarnessFault | UsageError:
        for sign, meaning in _SIGNS.items():
            if sign in said:
                return UsageError(meaning.format(path=self.path))
        return GitError(f"git {' '.join(args)} in {self.path}: {said}")

    def refs(self, prefix: str) -> dict[str, str]:
        """Return the object that each ref at or below ``prefix`` names, by full ref name."""
        rows = self.run("for-each-ref", "--format=%(refname) %(objectname)", prefix).splitlines()
        return dict(row.split(" ", 1) for row in rows)

    def tip(self, ref: str) -> str | None:
        """Return what ``ref`` names, or ``None`` if there is no such ref."""
        return self.refs(ref).get(ref)

    def entries(self, tree: str) -> dict[str, str]:
        """Return the entries of ``tree`` as ``mktree`` takes them, by name; one level deep."""
        rows = self.run("ls-tree", "-z", tree).split("\0")
        return {row.partition("\t")[2]: row for row in rows if row}

    def fsck(self, *, full: bool) -> list[str]:
        """Return what ``git fsck`` finds wrong, a line each.

        Args:
            full: Whether to read the contents of every object, not only how they connect.
        """
        depth = "--full" if full else "--connectivity-only"
        done = self._start("fsck", depth, "--no-dangling", "--no-progress")
        said = (done.stderr + done.stdout).decode(errors="replace").splitlines()
        if done.returncode and not said:
            said = [f"it failed with status {done.returncode}"]
        # An empty store has no ref yet, which is a notice and not a fault.
        return [f"git fsck: {line}" for line in said if not line.startswith("notice: ")]


class Writer(Git):
    """Writes of a bare repository, while its file lock is held; see ``writing``."""

    def __init__(self, path: Path, *, keep_open: Sequence[int]) -> None:
        super().__init__(path, keep_open=keep_open)
        self._written: set[str] = set()

    def create(self, branch: str) -> None:
        """Make the repository, empty, with ``branch`` as its only one; whole or not at all."""
        unfinished = self.path.with_name(self.path.name + ".new")
        if unfinished.exists():
            shutil.rmtree(unfinished)
        Git(unfinished, keep_open=self._keep_open).run(
            "init", "--quiet", "--bare", "--template=", "--object-format=sha1", f"-b{branch}"
        )
        unfinished.rename(self.path)
        _fsync_folders([self.path.parent])

    def write_blob(self, text: str) -> str:
        """Store ``text`` as it is and return the blob's name."""
        return self._wrote(self.run("hash-object", "-w", "--stdin", stdin=text.encode()))

    def write_tree(self, entries: Iterable[str]) -> str:
        """Store a tree of ``entries``, each as ``ls-tree`` shows it, and return its name."""
        rows = "\0".join([*entries, ""]).encode(errors="surrogateescape")
        return self._wrote(self.run("mktree", "-z", stdin=rows))

    def write_commit(self, tree: str, parent: str | None, message: str, when: datetime) -> str:
        """Store a commit, which no ref names yet, and return its name."""
        parents = () if parent is None else ("-p", parent)
        return self._wrote(
            self.run("commit-tree", *parents, tree, stdin=message.encode(), when=when)
        )

    def swap(self, ref: str, new: str, old: str | None, tags: Sequence[str] = ()) -> bool:
        """Point ``ref`` at ``new`` if it still points at ``old``; say whether it did.

        Args:
            ref: Full name of the ref.
            new: What it is to name.
            old: What it must name now; ``None`` if it must not exist.
            tags: Full names of refs to be created on ``new`` in the same transaction.

        Raises:
            GitError: It failed for another reason than that ``ref`` had moved.
        """
        self._fsync_objects()
        commands = ["start", f"update {ref} {new} {old or NO_OBJECT}"]
        commands += [f"create {tag} {new}" for tag in tags]
        commands += ["prepare", "commit", ""]
        try:
            self.run("update-ref", "--stdin", stdin="\n".join(commands).encode())
        except GitError:
            if self.tip(ref) == old:
                raise
            return False
        # Git syncs the file of a ref, not the folder that its rename changed.
        _fsync_folders({(self.path / name).parent for name in (ref, *tags)})
        return True

    def sweep(self) -> list[str]:
        """Delete what a killed git leaves behind; return the paths, relative to the repository.

        Safe only because the file lock is held: no git of ours is running, and a git of ours that
        outlived its killed parent holds the lock itself.
        """
        stale = sorted([*self.path.rglob("*.lock"), *self.path.glob("objects/**/tmp_*")])
        for file in stale:
            file.unlink(missing_ok=True)
        return [str(file.relative_to(self.path)) for file in stale]

    def _wrote(self, name: str) -> str:
        self._written.add(name)
        return name

    def _fsync_objects(self) -> None:
        objects = self.path / "objects"
        _fsync_folders([*{objects / name[:2] for name in self._written}, objects])
        self._written.clear()


@contextmanager
def writing(path: Path) -> Generator[Writer]:
    """Hold the lock of the store at ``path``, waiting for it, and yield what can write there.

    The lock is a file beside the repository. Every git that the writer starts inherits it, so
    that it outlives a killed parent for as long as that parent's last git still runs.
    """
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        handle = path.with_name(path.name + ".writer").open("w")
    except OSError as error:
        raise UsageError(
            f"The store {path} cannot be written ({error.strerror}): choose another FORGE_HOME, "
            "or mend its folder."
        ) from error
    with handle:
        fcntl.flock(handle, fcntl.LOCK_EX)
        yield Writer(path, keep_open=[handle.fileno()])


def _fsync_folders(folders: Iterable[Path]) -> None:
    for folder in sorted(folders):
        if not folder.is_dir():
            continue
        descriptor = os.open(folder, os.O_RDONLY | os.O_DIRECTORY)
        try:
            os.fsync(descriptor)
        finally:
            os.close(descriptor)
