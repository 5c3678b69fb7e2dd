"""Which configuration next: first the curriculum's order, then Optuna's sampler.

Both are streams of configurations that may repeat; whoever reads them drops what is known.
"""

from __future__ import annotations

import random
from typing import TYPE_CHECKING, cast

import optuna
from optuna.distributions import CategoricalDistribution
from optuna.trial import TrialState, create_trial

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from forge.students.base import Trial
    from forge.students.sweep.knobs import Family, KnobSpec, KnobValue

# Trials with a value before the sampler stops drawing at random; the curriculum's own walk
# comes before them.
_STARTUP_TRIALS = 4
# 15-29 % of what the sampler asks for is known already (measured, six knobs): as many fruitless
# questions in a row mean that it has settled, and what is left is taken at random.
_FRUITLESS_ASKS = 24


def order_knobs(family: Family, themes: Sequence[str]) -> tuple[KnobSpec, ...]:
    """Return the family's knobs, those of the first theme first; unnamed themes keep their order.

    Args:
        family: The family.
        themes: The curriculum's, most promising first.
    """
    rank = {theme: place for place, theme in enumerate(themes)}
    return tuple(sorted(family.knobs, key=lambda knob: rank.get(knob.theme, len(rank))))


def walk(family: Family, themes: Sequence[str]) -> Iterator[dict[str, KnobValue]]:
    """Yield the defaults, then each knob's other values alone, knobs in the curriculum's order.

    Args:
        family: The family.
        themes: The curriculum's, most promising first.
    """
    yield family.canonical(family.defaults)
    for knob in order_knobs(family, themes):
        for value in knob.values[1:]:
            yield family.canonical({**family.defaults, knob.name: value})


def sample(family: Family, trials: Sequence[Trial], seed: int) -> Iterator[dict[str, KnobValue]]:
    """Yield what Optuna's TPE asks for, then every configuration in random order; then end.

    Args:
        family: The family.
        trials: Of this family, oldest first; those of other knobs or values are ignored.
        seed: Makes the stream repeatable.
    """
    yield from _ask(family, trials, seed)
    everything = list(family.configurations())
    random.Random(seed).shuffle(everything)  # noqa: S311 - a search, not a secret
    yield from everything


def _ask(family: Family, trials: Sequence[Trial], seed: int) -> Iterator[dict[str, KnobValue]]:
    study = _refilled_study(family, trials, seed)
    distributions = _distributions(family)
    known = {_identity(family, trial.knobs) for trial in trials if _is_legal(family, trial.knobs)}
    fruitless = 0
    while fruitless < _FRUITLESS_ASKS:
        asked = study.ask(distributions)
        configuration = family.canonical(cast("dict[str, KnobValue]", asked.params))
        identity = _identity(family, configuration)
        fruitless = fruitless + 1 if identity in known else 0
        known.add(identity)
        # Answered at once, without a value: the next question must not wait for this one.
        study.tell(asked, state=TrialState.FAIL)
        yield configuration


def _refilled_study(family: Family, trials: Sequence[Trial], seed: int) -> optuna.Study:
    optuna.logging.set_verbosity(optuna.logging.WARNING)
    sampler = optuna.samplers.TPESampler(seed=seed, n_startup_trials=_STARTUP_TRIALS)
    study = optuna.create_study(direction="maximize", sampler=sampler)
    distributions = _distributions(family)
    for trial in trials:
        if not _is_legal(family, trial.knobs):
            continue
        failed = trial.log_speedup is None
        study.add_trial(
            create_trial(
                params=dict(trial.knobs),
                distributions=distributions,
                value=trial.log_speedup,
                state=TrialState.FAIL if failed else TrialState.COMPLETE,
            )
        )
    return study


def _distributions(family: Family) -> dict[str, optuna.distributions.BaseDistribution]:
    return {knob.name: CategoricalDistribution(knob.values) for knob in family.knobs}


def _is_legal(family: Family, knobs: Mapping[str, KnobValue]) -> bool:
    """Whether the family, as it is today, could propose ``knobs``."""
    return sorted(knobs) == sorted(knob.name for knob in family.knobs) and all(
        knobs[knob.name] in knob.values for knob in family.knobs
    )


def _identity(family: Family, knobs: Mapping[str, KnobValue]) -> tuple[KnobValue, ...]:
    return tuple(family.canonical(knobs).values())
