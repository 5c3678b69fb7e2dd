"""Execute a task's ``reference.py``. Only processes that own torch do, never the coordinator."""

from __future__ import annotations

from dataclasses import dataclass
from types import ModuleType
from typing import TYPE_CHECKING

from torch import Tensor

from forge.errors import UsageError

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence


@dataclass(frozen=True, slots=True, kw_only=True)
class Reference:
    """The trusted implementation of a task.

    Attributes:
        function: ``run`` as the task wrote it: one tensor or a tuple; what eager arms call.
        scale: ``terms`` as the task wrote it.
    """

    function: Callable[..., Tensor | Sequence[Tensor]]
    scale: Callable[[Sequence[Tensor], Sequence[Tensor]], Tensor | Sequence[Tensor]]

    def run(self, *inputs: Tensor) -> tuple[Tensor, ...]:
        """Return the outputs in declared order, in the floating dtype of ``inputs``."""
        return _tuple(self.function(*inputs))

    def terms(self, inputs: Sequence[Tensor], outputs: Sequence[Tensor]) -> tuple[Tensor, ...]:
        """Return, for each output, the scale of an honest rounding error of every element.

        Args:
            inputs: The inputs, floating ones as float64.
            outputs: What ``run`` returned for them.
        """
        return _tuple(self.scale(inputs, outputs))


def load_reference(source: str) -> Reference:
    """Execute ``source``, the text of a ``reference.py``, and return its two functions.

    Raises:
        UsageError: It does not run, or lacks ``run`` or ``terms``.
    """
    module = ModuleType("reference")
    try:
        exec(compile(source, "reference.py", "exec"), module.__dict__)  # noqa: S102 - its purpose
    except (Exception, SystemExit) as error:  # whatever a task's author wrote is told to them
        what = f"{type(error).__name__}: {error}"
        raise UsageError(f"reference.py fails when it is read: {what}") from error
    for name in ("run", "terms"):
        if not callable(getattr(module, name, None)):
            raise UsageError(f"reference.py defines no function {name}(...).")
    return Reference(function=module.run, scale=module.terms)


def _tuple(result: Tensor | Sequence[Tensor]) -> tuple[Tensor, ...]:
    return (result,) if isinstance(result, Tensor) else tuple(result)
