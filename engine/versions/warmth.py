"""Brings a version as near as the one whose name it takes, and keeps both there until the name has moved. Engine thread."""

from __future__ import annotations

from concurrent.futures import Future
from typing import TYPE_CHECKING

from engine.errors import AdapterRefused, Conflict, LoradeckError

if TYPE_CHECKING:
    from engine.adapters.entry import AdapterEntry
    from engine.control import Line
    from engine.ids import AdapterId, Tier
    from engine.model_host import ModelHost

NEARNESS: dict[Tier, int] = {"device": 3, "host": 2, "disk": 1, "remote": 0}


class Warmth:
    """Every ``hold`` that did not raise has its ``end``."""

    def __init__(self, host: ModelHost) -> None:
        self._host = host

    def tier(self, adapter: AdapterId) -> Tier:
        """Where a request that comes now finds its weights."""
        return self._host.residency.entry(adapter).tier(in_host=adapter in self._host.residency.host)

    def wanted(self, like: AdapterId | None, at_least: Tier) -> Tier:
        """How near a version has to be that takes over from ``like``."""
        before = at_least if like is None or like not in self._host.residency.entries else self.tier(like)
        return max(before, at_least, key=NEARNESS.__getitem__)

    def is_near(self, adapter: AdapterId, tier: Tier) -> bool:
        """Whether it is at ``tier`` or nearer, and proven where it would have to answer."""
        return NEARNESS[self.tier(adapter)] >= NEARNESS[tier]

    def hold(self, adapter: AdapterId, *, like: AdapterId | None, at_least: Tier = "disk") -> None:
        """Both stay where they are until ``end``. Raises Conflict, and holds nothing, when the first could never be as near."""
        self._check(self._host.residency.entry(adapter), like, self.wanted(like, at_least))
        for held in self._both(adapter, like):
            held.holds += 1
            self._host.residency.idle.review(held)

    def bring(self, adapter: AdapterId, *, like: AdapterId | None, at_least: Tier = "disk") -> Future[Tier]:
        """Bring it to the tier that is wanted now: that tier, Conflict where it cannot come, or AdapterRefused from its probe."""
        future: Future[Tier] = Future()
        tier = self.wanted(like, at_least)

        def done(error: LoradeckError | None) -> None:
            if error is None:
                future.set_result(tier)
            else:
                future.set_exception(error if isinstance(error, AdapterRefused) else not_as_warm(tier, error.message))

        if tier in {"device", "host"}:
            self._host.lifecycle.bring(self._host.residency.entry(adapter), tier, done)
        else:
            done(None)
        return future

    def end(self, adapter: AdapterId, *, like: AdapterId | None) -> None:
        """The name has moved, or will not: nothing is held any more."""
        for held in self._both(adapter, like):
            held.holds -= 1
            self._host.residency.idle.review(held)
            self._host.lifecycle.forget_retired(held)
        self._host.residency.trim_host()

    def give_up(self, adapter: AdapterId) -> tuple[Line, ...]:
        """Stop a load that found no room in time, unless requests wait for it too; the sum that says why."""
        entry = self._host.residency.entry(adapter)
        room = self._host.parts.reclaimer.adapter_room()
        if entry.load is not None and entry.load.stage == "allocating" and not entry.users:
            self._host.residency.loads.fail(entry, LoradeckError("No pages came free for it in time.", code="adapter_pages"))
        needed = entry.record.num_pages
        return (("Could come free now", room), ("Needed", needed), ("Short", max(0, needed - room)))

    def bill(self, adapter: AdapterId, *, like: AdapterId | None, at_least: Tier = "disk") -> tuple[Tier, tuple[Line, ...]]:
        """The tier wanted, and the sum of bringing it there. Raises Conflict when it could never be."""
        entry, tier = self._host.residency.entry(adapter), self.wanted(like, at_least)
        return tier, self._check(entry, like, tier)

    def _check(self, entry: AdapterEntry, like: AdapterId | None, tier: Tier) -> tuple[Line, ...]:
        """Conflict when it may not serve, or could not stand on the device beside pins and the version before."""
        if entry.quarantined:
            message = "It is quarantined, since it does not answer as it did; register it again."
            raise Conflict(message, code="quarantined", param="version", expected="probe ok", found=f"probe {entry.probe}")
        if tier != "device" or entry.on_device:
            return ()
        host = self._host
        beside = [*host.residency.roster.pinned.values(), *([] if like is None else self._both(like, None))]
        others = {one.record.id: one for one in beside if one is not entry and (one.record.id == like or one.is_pinned_to_device)}.values()
        lines: list[Line] = [("Arena", host.usable_pages), ("KV floor", -host.kv_floor_pages)]
        lines += [("Pinned", -sum(other.record.num_pages for other in others if other.record.id != like))]
        lines += [("The version before", -sum(other.record.num_pages for other in others if other.record.id == like))]
        left = sum(pages for _, pages in lines)
        lines += [("Left", left), ("Needed", entry.record.num_pages)]
        if left < entry.record.num_pages:
            message = f"Not moved: {entry.record.num_pages} pages are needed beside the version before, and fewer are left beside all pins."
            raise Conflict(
                message,
                code="not_as_warm",
                param="version",
                expected=entry.record.num_pages,
                found=left,
                arithmetic=tuple(lines),
            )
        return tuple(lines)

    def _both(self, adapter: AdapterId, like: AdapterId | None) -> list[AdapterEntry]:
        entries = self._host.residency.entries
        return [entries[one] for one in {adapter, like} if one is not None and one in entries]


def not_as_warm(tier: Tier, why: str, arithmetic: tuple[Line, ...] = ()) -> Conflict:
    """The refusal of a move whose new version did not come near in time."""
    message = f"Not moved: the version could not be brought to {tier} first. {why}"
    return Conflict(message, code="not_as_warm", param="version", expected=f"on {tier}", arithmetic=arithmetic)
