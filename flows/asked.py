"""What a night is asked for, and whether it can be had: told before anything is started."""

from __future__ import annotations

from typing import TYPE_CHECKING

from forge.errors import UsageError
from forge.tasks.sizes import refuse_too_large

if TYPE_CHECKING:
    from collections.abc import Iterable

    from forge.config import Config
    from forge.tasks.load import LoadedTask

# One slot is prepared and one kernel judged in this time; nothing is in less.
LEAST_MINUTES = 0.25
GOOD_MINUTES_A_TASK = 0.5


def refuse_impossible(config: Config, tasks: Iterable[LoadedTask]) -> None:
    """Raise unless a night of this length on these tasks can come to anything.

    Raises:
        UsageError: It is too short, or a task does not fit into memory.
    """
    minutes = config.settings.minutes
    if minutes < LEAST_MINUTES:
        raise UsageError(
            f"minutes = {minutes:g} ({config.origins['minutes']}) is too short for a night: "
            f"preparing one slot and judging one kernel takes {LEAST_MINUTES:g} minutes at least; "
            f"give {GOOD_MINUTES_A_TASK:g} or more for each task."
        )
    refuse_too_large(tasks)
