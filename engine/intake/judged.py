"""A row on its way: what would become of it, what waits to be taken in, and how it ended."""

from __future__ import annotations

import time
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from engine.operation import ItemRecord

if TYPE_CHECKING:
    from collections.abc import Mapping

    from engine.adapters.pack import PackedAdapter
    from engine.adapters.peft import ParsedAdapter
    from engine.desired import Pin
    from engine.ids import AdapterId
    from engine.intake.row import Fault, ImportRow
    from engine.operation import Outcome
    from engine.version import VersionRecord
    from engine.versions.admission import Refused


@dataclass(frozen=True, slots=True, kw_only=True)
class Judged:
    """What would become of a row. ``parsed`` is there when there is something to take in."""

    row: ImportRow
    outcome: Outcome
    adapter: AdapterId | None = None
    parsed: ParsedAdapter | None = None
    found: Mapping[str, Any] = field(default_factory=dict)
    """What is told of the adapter."""
    fault: Fault | None = None
    refused: Refused | None = None
    """There when the gate has not let it in, which is kept with its report."""
    pin: Pin | None = None
    """What it takes along from the version before it, of another base."""

    @property
    def facts(self) -> dict[str, Any]:
        """What is shown of it."""
        return {
            "adapter": self.adapter,
            **self.found,
            **({} if self.pin is None else {"pin": {"tier": self.pin.tier, "until_unix": self.pin.until_unix}}),
        }


@dataclass(frozen=True, slots=True, kw_only=True)
class Prepared:
    """A version whose image is packed and waits to be taken in."""

    number: int
    judged: Judged
    record: VersionRecord
    packed: PackedAdapter
    report: Mapping[str, Any]


@dataclass(frozen=True, slots=True, kw_only=True)
class Ended:
    """A row that needs no more than to be noted."""

    item: ItemRecord
    refused: Refused | None = None


def ended(number: int, judged: Judged) -> Ended:
    """A row that comes to its end here."""
    return Ended(item=item_of(number, judged), refused=judged.refused)


def item_of(number: int, judged: Judged) -> ItemRecord:
    """A row that has come to its end."""
    fault = judged.fault
    if fault is None:
        return ItemRecord(number=number, state="done", data={}, outcome=judged.outcome, result=judged.facts, ended_unix=time.time())
    return ItemRecord(
        number=number,
        state="rejected",
        data={},
        outcome="rejected",
        result={"param": fault.param},
        code=fault.code,
        message=fault.message,
        ended_unix=time.time(),
    )


def found_in(parsed: ParsedAdapter) -> dict[str, Any]:
    """What is told of an adapter that can be read."""
    facts = {"rank": parsed.rank, "matched": parsed.num_matched, "base_proof": parsed.base_proof}
    return {**facts, "warnings": list(parsed.warnings)}
