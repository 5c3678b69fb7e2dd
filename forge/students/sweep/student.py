"""The student that needs no key: kernels from families, their knobs searched."""

from __future__ import annotations

import itertools
from typing import TYPE_CHECKING

from forge.errors import UsageError
from forge.students.base import Proposal
from forge.students.sweep import search
from forge.students.sweep.render import find_families, render, render_title
from forge.types import KernelSource

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from forge.students.base import Brief
    from forge.students.sweep.knobs import Family


class SweepStudent:
    """Proposes configurations of the op's family, none of them twice.

    First the defaults and what differs from them in one knob, in the curriculum's order; then
    what Optuna's TPE asks for, given all trials; then whatever is left.
    """

    name = "sweep"

    def __init__(self, families: Mapping[str, Family] | None = None) -> None:
        """Take families by op; those that ship with the student if none are given."""
        self._families = find_families() if families is None else families

    def propose(self, brief: Brief, limit: int) -> Sequence[Proposal]:
        """Return up to ``limit`` kernels whose text is in no trial and is not the baseline's.

        Args:
            brief: Everything known; the same brief gives the same proposals.
            limit: At most this many; at least 1.

        Returns:
            Fewer, or none, when the family is exhausted or the op has none.
        """
        shipped = self._families.get(brief.task.task.op)
        if shipped is None:
            return ()
        family = shipped.on(brief.target, brief.threads)
        trials = [trial for trial in brief.trials if trial.family == family.op]
        known = {text for trial in trials if (text := _text(shipped, trial.knobs)) is not None}
        known.update(brief.baseline.files.values())
        # A sampler seeded alike would draw alike: each further trial moves the seed on.
        seed = brief.seed + len(trials)
        proposals: list[Proposal] = []
        for knobs in itertools.chain(
            search.walk(family, brief.curriculum.themes), search.sample(family, trials, seed)
        ):
            if len(proposals) == limit:
                break
            text = render(shipped, knobs)
            if text in known:
                continue
            known.add(text)
            source = KernelSource(files={"kernel.cpp": text})
            title = render_title(shipped, knobs)
            proposals.append(Proposal(source=source, title=title, family=family.op, knobs=knobs))
        return proposals


def _text(family: Family, knobs: Mapping[str, int | str | bool]) -> str | None:
    """Return a trial's kernel; ``None`` where the family has changed and no longer has it."""
    try:
        return render(family, knobs)
    except UsageError:
        return None
