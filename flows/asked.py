"""What a night is asked for, and whether it can be had: told before anything is started."""

from __future__ import annotations

from typing import TYPE_CHECKING

from forge.errors import UsageError
from forge.tasks.sizes import refuse_too_large

if TYPE_CHECKING:
    from collections.abc import Iterable

    from forge.config import Config
    from forge.tasks.load import LoadedTask

# One slot is prepared and one kernel screened in this time. A workspace's first night measures
# the roof too, and a kernel that is confirmed and measured afresh takes half a minute more.
LEAST_MINUTES = 0.5
GOOD_MINUTES = 1.0


def refuse_impossible(config: Config, tasks: Iterable[LoadedTask]) -> None:
    """Raise unless a night of this length on these tasks can come to anything.

    Raises:
        UsageError: It is too short, or a task does not fit into memory.
    """
    minutes = config.settings.minutes
    if minutes < LEAST_MINUTES:
        raise UsageError(
            f"minutes = {minutes:g} ({config.origins['minutes']}) is too short for a night: "
            f"preparing one slot and screening one kernel takes {LEAST_MINUTES:g} minutes at "
            f"least, and {GOOD_MINUTES:g} or more if anything is to be sealed."
        )
    refuse_too_large(tasks)
