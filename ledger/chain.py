"""The hash chain of events: pure, so that anybody can check a ledger with twenty lines."""

from __future__ import annotations

import json
import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, cast

from forge.types import content_digest

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence
    from datetime import datetime

Json = Any
"""What JSON can say; checked by the one who reads it."""
GENESIS = "0" * 64
"""What the first event names as the one before it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Event:
    """One row of the ledger's history.

    Attributes:
        seq: 1, 2, 3, without a gap.
        ts: UTC, without a zone; a clock may step back, ``seq`` does not.
        kind: What happened, for example ``"candidate.moved"``.
        subject: To what: an id, or a slot.
        body: Canonical JSON.
        prev: Hash of the event before.
        hash: Hash of all the above.
    """

    seq: int
    ts: datetime
    kind: str
    subject: str
    body: str
    prev: str
    hash: str


def canonical(body: Mapping[str, Any]) -> str:
    """Return ``body`` as JSON that is equal for equal content: sorted keys, no spaces."""
    return json.dumps(
        _finite(body), sort_keys=True, separators=(",", ":"), ensure_ascii=False, allow_nan=False
    )


def event_hash(seq: int, ts: datetime, kind: str, subject: str, body: str, prev: str) -> str:
    """Return the hash of an event: SHA-256 over its length-prefixed fields."""
    parts = (str(seq), ts.isoformat(timespec="microseconds"), kind, subject, body, prev)
    return content_digest(*(part.encode("utf-8", "surrogatepass") for part in parts))


def chain_problems(events: Iterable[Event]) -> Iterator[str]:
    """Yield one sentence for each place where ``events``, in order, are not a whole chain."""
    seq, head = 0, GENESIS
    for event in events:
        name = f"event {event.seq} ({event.kind} {event.subject})"
        if event.seq != seq + 1:
            lost = f"{seq + 1}" if event.seq == seq + 2 else f"{seq + 1} to {event.seq - 1}"
            yield f"event {lost} is missing: {name} follows event {seq}"
        elif event.prev != head:
            named = f"it names {event.prev[:12]}, not {head[:12]}"
            yield f"{name} does not follow event {seq}: {named}"
        found = event_hash(event.seq, event.ts, event.kind, event.subject, event.body, event.prev)
        if found != event.hash:
            yield f"{name} was changed: its content hashes to {found[:12]}, not {event.hash[:12]}"
        seq, head = event.seq, event.hash


def _finite(value: Json) -> Json:
    """Write infinities and NaN as text, which JSON has no number for."""
    if isinstance(value, float) and not math.isfinite(value):
        return str(value)
    if isinstance(value, Mapping):
        return {str(key): _finite(item) for key, item in cast("Mapping[Any, Json]", value).items()}
    if isinstance(value, list | tuple):
        return [_finite(item) for item in cast("Sequence[Json]", value)]
    return value
