"""Which framework calls a Python kernel makes, seen from inside its arm.

A kernel is written to be judged by what it computes itself; a task's ``allow.framework`` names
the calls it may lend from the framework.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from torch.utils._python_dispatch import TorchDispatchMode

if TYPE_CHECKING:
    from collections.abc import Callable, Collection

# Operators that look at memory without computing anything.
HARMLESS = frozenset(
    {
        "alias", "as_strided", "contiguous", "copy_", "detach", "empty", "empty_like",
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
    """Run ``call`` once and return the framework operators it used without permission.

    Args:
        call: One call of a kernel.
        allowed: Names such as ``"torch.softmax"``; an operator matches by its last part, without
            the underscores of in-place and internal variants.
    """
    names = {name.rpartition(".")[2].strip("_") for name in allowed}
    with CallRecorder() as recorder:
        call()
    return sorted(
        f"torch.{name.strip('_')}"
        for name in recorder.called
        if name not in HARMLESS and name.strip("_") not in names
    )
