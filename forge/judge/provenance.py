"""Which framework calls a Python kernel makes, seen and refused from inside its arm.

A kernel is written to be judged by what it computes itself; a task's ``allow.framework`` names
the calls it may lend from the framework. Two things see to that. ``refuse_calls`` replaces, for
the whole life of the arm and in all its threads, torch's own code for everything that is not
allowed. ``CallRecorder`` watches some calls of the warm-up, and sees operators by their own names
even where they are made of others.
"""

from __future__ import annotations

import functools
import os
import secrets
from typing import TYPE_CHECKING, Any, cast

import torch
from torch.utils._python_dispatch import TorchDispatchMode

from forge.judge.control import Word

if TYPE_CHECKING:
    from collections.abc import Callable, Collection

    from forge.judge.control import ControlPage

_MOST_WATCHED = 4
# A tensor of another kind than the plain one begins with one of these: refused, there is none.
_OTHER_KINDS = ("SparseCPU", "SparseCsrCPU", "QuantizedCPU", "MkldnnCPU", "NestedTensorCPU")
_BEGINNINGS = ("empty", "_empty", "new_", "_sparse_", "resize", "_resize")
# Computes without asking the dispatcher for its parts, as nothing else does.
_UNDISPATCHED = ("aten::max_pool1d",)

# Operators that look at memory without computing anything.
HARMLESS = frozenset(
    {
        "alias", "as_strided", "clone", "contiguous", "copy_", "detach", "empty", "empty_like",
        "empty_strided", "expand", "lift_fresh", "new_empty", "new_empty_strided", "permute",
        "reshape", "select", "set_", "slice", "squeeze", "t", "transpose", "unsqueeze", "view",
        "_reshape_alias", "_unsafe_view", "is_same_size", "unbind", "split", "narrow",
    }
)  # fmt: skip


class CallRecorder(TorchDispatchMode):
    """Notes the operators that run while it is active."""

    def __init__(self) -> None:
        super().__init__()  # pyright: ignore[reportUnknownMemberType]
        self.called: set[str] = set()

    @classmethod
    def _should_skip_dynamo(cls) -> bool:
        """Answer "no" and torch does not wrap this class: the wrapper takes two seconds an arm."""
        return False

    def __torch_dispatch__(
        self,
        func: Any,  # noqa: ANN401  (torch hands over an operator overload)
        types: Any,  # noqa: ANN401
        args: tuple[Any, ...] = (),
        kwargs: dict[str, Any] | None = None,
    ) -> Any:  # noqa: ANN401
        """Note the operator and run it."""
        self.called.add(str(func).removeprefix("aten.").partition(".")[0])
        return func(*args, **(kwargs or {}))


def forbidden_calls(call: Callable[[], object], allowed: Collection[str]) -> list[str]:
    """Run ``call`` a few times, nobody knows how many, and return what it used without permission.

    Args:
        call: One call of a kernel.
        allowed: Names such as ``"torch.softmax"``; an operator matches by its last part, without
            the underscores of in-place and internal variants.
    """
    with CallRecorder() as recorder:
        for _ in range(1 + secrets.randbelow(_MOST_WATCHED)):
            call()
    return sorted(
        f"torch.{name.strip('_')}" for name in recorder.called if not _is_allowed(name, allowed)
    )


def refuse_calls(allowed: Collection[str], control: ControlPage) -> None:
    """Replace torch's code for what is not allowed: whoever calls it ends this process.

    For good, in every thread, and before a line of the kernel is run; it takes about 50 ms.

    Args:
        allowed: As ``forbidden_calls`` takes it.
        control: Where the name of the call is told.
    """
    registrations: dict[str, Any] = {}
    for namespace, operator, kind in computing_operators():
        name = operator.partition(".")[0]
        if _is_allowed(name, allowed) and kind == "CPU":
            continue
        library = registrations.get(namespace)
        if library is None:
            library = _internals()._dispatch_library("IMPL", namespace, "")
            registrations[namespace] = library
        library.impl(operator, kind, functools.partial(_refuse, control, name, tuple(allowed)))
    _KEPT.append(registrations)


_KEPT: list[object] = []  # a registration ends with its object


@functools.cache
def computing_operators() -> list[tuple[str, str, str]]:
    """Return namespace, name and kind of each operator that computes with its own machine code.

    Those made of others are refused by their parts. The zygote asks first, so that arms need not.
    """
    found = [(name, "CPU") for name in (*_registered("CPU"), *_UNDISPATCHED)]
    for kind in _OTHER_KINDS:
        names = (n for n in _registered(kind) if n.partition("::")[2].startswith(_BEGINNINGS))
        found += [(name, kind) for name in names]
    split = [(name.partition("::"), kind) for name, kind in found]
    return [(namespace, operator, kind) for (namespace, _, operator), kind in split]


def _registered(kind: str) -> list[str]:
    return _internals()._dispatch_get_registrations_for_dispatch_key(kind)


def _internals() -> Any:  # noqa: ANN401  (torch has no types for it)
    return cast("Any", torch)._C


def _is_allowed(name: str, allowed: Collection[str]) -> bool:
    names = {one.rpartition(".")[2].strip("_") for one in allowed}
    return name in HARMLESS or name.strip("_") in names


def _refuse(
    control: ControlPage,
    name: str,
    allowed: tuple[str, ...],
    *_args: object,
    **_kwargs: object,
) -> None:
    text = f"calls torch.{name.strip('_')}; the task allows {list(allowed)}"
    try:
        control.say(Word.FORBIDDEN_CALL, text)
    finally:
        os._exit(1)
