"""Every check a candidate can fail, by id: the one table that reports and tests read."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

Where = Literal["builder", "arm", "oracle", "coordinator", "decision"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Check:
    """One way for a candidate to be rejected.

    Attributes:
        id: Kebab-case, stable: it is in ledgers and in the JSON of ``forge judge``.
        sentence: What a candidate must do to pass, for a person.
        where: The part of the judge that finds out.
    """

    id: str
    sentence: str
    where: Where


_TABLE = (
    Check(
        id="source-too-large",
        sentence="The source is no larger than the judge accepts.",
        where="builder",
    ),
    Check(
        id="forbidden-call",
        sentence="The source calls nothing that the task does not allow.",
        where="builder",
    ),
    Check(id="builds", sentence="The compiler accepts the source.", where="builder"),
    Check(
        id="has-launch",
        sentence="The built kernel defines an entry named launch.",
        where="builder",
    ),
    Check(id="loads", sentence="An arm can load the built kernel.", where="arm"),
    Check(
        id="python-error",
        sentence="A Python kernel raises nothing while it is loaded or called.",
        where="arm",
    ),
    Check(id="crashed", sentence="No signal ends the kernel's process.", where="arm"),
    Check(id="hung", sentence="Every call returns within the time allowed.", where="coordinator"),
    Check(
        id="out-of-memory",
        sentence="The kernel stays within the memory its process may use.",
        where="arm",
    ),
    Check(
        id="exited-early",
        sentence="The kernel's process does not exit before it is told to.",
        where="coordinator",
    ),
    Check(
        id="wrong-values",
        sentence="Every element is within the allowed error of the float64 result.",
        where="oracle",
    ),
    Check(
        id="wrong-nan",
        sentence="NaN and infinity are exactly where the float64 result has them.",
        where="oracle",
    ),
    Check(
        id="outputs-unwritten",
        sentence="Every output element is written; none keeps the pattern it was filled with.",
        where="oracle",
    ),
    Check(
        id="inputs-intact",
        sentence="The inputs hash the same after a call as before it.",
        where="oracle",
    ),
    Check(
        id="canary",
        sentence="The guard bytes around every buffer are untouched.",
        where="oracle",
    ),
    Check(
        id="late-write",
        sentence="No output changes after the kernel has said that it is done.",
        where="oracle",
    ),
    Check(
        id="above-roof",
        sentence="The kernel is not faster than this machine can move the bytes.",
        where="coordinator",
    ),
    Check(
        id="not-faster",
        sentence="The weighted speedup over the baseline exceeds the bar.",
        where="decision",
    ),
    Check(
        id="slower-on-protected",
        sentence="No protected workload falls below the floor.",
        where="decision",
    ),
    Check(
        id="slower-on-holdout",
        sentence="No workload that the student has never seen falls below the floor.",
        where="decision",
    ),
    Check(
        id="not-reproduced",
        sentence="A fixed number of fresh, cold rounds does not contradict the acceptance.",
        where="decision",
    ),
)

CHECKS: dict[str, Check] = {check.id: check for check in _TABLE}
