"""The layers of the sandbox by name: what each keeps from a kernel, and what its lack means.

A leaf: the settings, the judge and ``forge doctor`` read it.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal

if TYPE_CHECKING:
    from collections.abc import Collection

LayerName = Literal["files", "processes", "network", "ipc", "user", "seccomp"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Layer:
    """One layer.

    Attributes:
        name: As settings, evidence and ``forge doctor`` name it.
        holds: What is so where it is there; a sentence.
        lacks: What is so where it is not; a sentence without its full stop.
        remedy: What a person can do about it; the end of a sentence.
    """

    name: LayerName
    holds: str
    lacks: str
    remedy: str


_NAMESPACES = (
    "allow this user namespaces (user.max_user_namespaces above 0, and on Ubuntu "
    "kernel.apparmor_restrict_unprivileged_userns = 0)"
)

_TABLE = (
    Layer(
        name="files",
        holds="A kernel sees programs and libraries, read-only, and nothing else of the host.",
        lacks="A kernel reads what the judge's user reads",
        remedy=f"{_NAMESPACES}, or use a kernel with Landlock",
    ),
    Layer(
        name="processes",
        holds="A kernel sees no other process, and what it starts ends with it.",
        lacks="A kernel is among the host's processes, and only the system-call filter keeps it "
        "from them",
        remedy=_NAMESPACES,
    ),
    Layer(
        name="network",
        holds="A kernel has a network without an interface.",
        lacks="A kernel is in the host's network, and only the system-call filter keeps it off",
        remedy=_NAMESPACES,
    ),
    Layer(
        name="ipc",
        holds="A kernel has shared memory and queues of its own.",
        lacks="A kernel is among the host's shared memory and queues, and only the system-call "
        "filter keeps it from them",
        remedy=_NAMESPACES,
    ),
    Layer(
        name="user",
        holds="A kernel has no privileges, and none of its user's files.",
        lacks="A kernel runs as the judge's own user",
        remedy=_NAMESPACES,
    ),
    Layer(
        name="seccomp",
        holds="A kernel's system calls are filtered.",
        lacks="A kernel's system calls are not filtered",
        remedy="use a kernel with CONFIG_SECCOMP_FILTER, on x86-64 or AArch64",
    ),
)

LAYERS: dict[str, Layer] = {layer.name: layer for layer in _TABLE}


def refusal(missing: Collection[str], may_lack: Collection[str]) -> str | None:
    """Return why an unattended night does not start on this host; ``None`` if it may.

    Args:
        missing: Layers that the host lacks.
        may_lack: Layers that a person has said it may lack.
    """
    refused = [name for name in missing if name not in may_lack]
    if not refused:
        return None
    layers = f"the sandbox layer{'s' if len(refused) > 1 else ''} {', '.join(refused)}"
    return (
        f"This host lacks {layers}, and nobody is there to watch; forge doctor says what to do, "
        "and the setting may_lack names what an unattended night may do without."
    )


def warning(missing: Collection[str]) -> str:
    """Return what a person who is there is told."""
    layers = f"the sandbox layer{'s' if len(missing) > 1 else ''} {', '.join(missing)}"
    return f"This host lacks {layers}: judge only kernels that you trust (forge doctor says why)."
