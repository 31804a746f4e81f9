"""Sequences that wait, in lanes of one tenant, adapter and key each, with the reason and how long."""

from __future__ import annotations

from bisect import bisect_left, insort
from typing import TYPE_CHECKING

from engine.scheduler.fairness import Account
from engine.scheduler.order import GroupOrder

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from engine.ids import AdapterId, TenantId, WaitReason
    from engine.scheduler.fairness import FairShare
    from engine.sequence import Sequence

LaneKey = tuple["TenantId", "AdapterId | None", "str | None"]
Rank = tuple[int, int]


def rank(sequence: Sequence) -> Rank:
    """Its place within a group: by priority, then by arrival."""
    return (sequence.priority, sequence.key)


class Lane:
    """Waiting sequences that differ in nothing that can block them, by rank. What blocks the first blocks all."""

    def __init__(self, key: LaneKey, *, group: Group) -> None:
        self.key = key
        self.tenant, self.adapter, _ = key
        """Whose they are, and what they all wait to run with."""
        self.group = group
        self.sequences: list[Sequence] = []
        self.reason: WaitReason | None = None
        """Why all of them wait that have been told."""
        self.untold: dict[int, Sequence] = {}

    @property
    def head(self) -> Sequence:
        """Who is next."""
        return self.sequences[0]

    def join(self, sequence: Sequence) -> None:
        """Put a sequence at its place by rank."""
        insort(self.sequences, sequence, key=rank)
        self.untold[sequence.key] = sequence

    def leave(self, sequence: Sequence) -> None:
        """Take a sequence out."""
        at = bisect_left(self.sequences, rank(sequence), key=rank)
        assert self.sequences[at] is sequence, f"sequence {sequence.key} is not in its lane"
        del self.sequences[at]
        self.untold.pop(sequence.key, None)

    def blame(self, reason: WaitReason, now_s: float) -> list[Sequence]:
        """Say why all of them wait from now on; those that had no reason or another one."""
        changed = self.sequences[:] if reason != self.reason else list(self.untold.values())
        for sequence in changed:
            charge(sequence, now_s)
            sequence.wait_reason = reason
        self.reason = reason
        if self.untold:
            self.untold.clear()
        return changed


class Group:
    """Lanes that are served by rank: one tenant's, or all where arrival decides. ``ranked`` is kept in order of the lanes' heads."""

    def __init__(self, tenant: TenantId | None, *, account: Account, rest_reason: WaitReason | None = None) -> None:
        self.tenant = tenant
        self.account = account
        """Its ``counter`` is the group's standing: the lower, the sooner it is served."""
        self.ranked: list[tuple[Rank, Lane]] = []
        self.rest_reason = rest_reason
        """Why its lanes wait that no plan has come to."""

    def place(self, lane: Lane) -> None:
        """Keep a lane that has a head."""
        insort(self.ranked, (rank(lane.head), lane), key=rank_of_lane)

    def displace(self, lane: Lane) -> None:
        """Take a lane out, before its head changes."""
        at = bisect_left(self.ranked, rank(lane.head), key=rank_of_lane)
        assert self.ranked[at][1] is lane, f"lane {lane.key} is out of place"
        del self.ranked[at]


def rank_of_lane(entry: tuple[Rank, Lane]) -> Rank:
    """Of its head; no two sequences have the same."""
    return entry[0]


class WaitingQueue:
    """All waiting sequences by lane. Owned by the engine thread."""

    def __init__(self, shares: FairShare) -> None:
        self.lanes: dict[LaneKey, Lane] = {}
        self.groups: dict[TenantId | None, Group] = {}
        self.order = GroupOrder()
        self._shares = shares
        self.by_adapter: dict[AdapterId | None, dict[LaneKey, Lane]] = {}
        """Lanes by what they wait to run with."""
        self._by_tenant: dict[TenantId, int] = {}
        self._size = 0
        self._restless: set[Lane] = set()
        """Lanes that had a turn in the last plan, or got a sequence since."""
        self._common: WaitReason | None = None
        self._exceptions: Mapping[Group, WaitReason] = {}
        """Why those waited that the last plan did not come to: of most groups, and of the others."""

    def __len__(self) -> int:
        return self._size

    def __iter__(self) -> Iterator[Sequence]:
        for lane in self.lanes.values():
            yield from lane.sequences

    def has_adapter(self, adapter: AdapterId | None) -> bool:
        """Whether a sequence waits for it."""
        return adapter in self.by_adapter

    def push(self, sequence: Sequence, now_s: float, *, returns: bool = True) -> None:
        """Start waiting; ``returns`` is False for what was in the engine before and only waits again."""
        sequence.state = "waiting"
        sequence.wait_reason = None
        sequence.waiting_since_s = now_s
        if self._shares.fairness == "vtc":
            sequence.priority = sequence.request.priority  # where arrival decides, all tenants are one group, and no tenant's call counts
        tenant = sequence.tenant
        if tenant not in self._by_tenant:
            self._shares.starts_waiting(tenant, now_s, returns=returns)
        self._by_tenant[tenant] = self._by_tenant.get(tenant, 0) + 1
        key = (tenant, sequence.adapter, sequence.request.key)
        lane = self.lanes.get(key)
        if lane is None:
            lane = self.lanes[key] = Lane(key, group=self._group(tenant))
            self.by_adapter.setdefault(sequence.adapter, {})[key] = lane
        else:
            lane.group.displace(lane)
        lane.join(sequence)
        lane.group.place(lane)
        self.order.note(lane.group)
        self._restless.add(lane)
        self._size += 1

    def remove(self, sequence: Sequence, now_s: float) -> None:
        """Stop waiting; ``waits`` is complete afterwards."""
        key = (sequence.tenant, sequence.adapter, sequence.request.key)
        lane = self.lanes[key]
        lane.group.displace(lane)
        lane.leave(sequence)
        charge(sequence, now_s)
        sequence.wait_reason = None
        self._size -= 1
        if lane.sequences:
            lane.group.place(lane)
        else:
            self._drop(lane)
        self._by_tenant[sequence.tenant] -= 1
        if not self._by_tenant[sequence.tenant]:
            del self._by_tenant[sequence.tenant]
            self._shares.stops_waiting(sequence.tenant, now_s)

    def let_rest(self, seen: set[Lane], reasons: tuple[WaitReason, dict[Group, WaitReason]], now_s: float) -> None:
        """Say why those wait that a plan did not come to; only where that changes anything. ``seen`` had their turn."""
        common, exceptions = reasons
        changed = {*self._exceptions, *exceptions} if common == self._common else self.groups.values()
        for group in changed:
            reason = exceptions.get(group, common)
            if reason != group.rest_reason:
                group.rest_reason = reason
                self._restless.update([lane for _, lane in group.ranked])
        self._common, self._exceptions = common, exceptions
        for lane in self._restless:
            reason = lane.group.rest_reason or "batch_full"
            if (lane.reason != reason or lane.untold) and lane.sequences and lane not in seen:
                lane.blame(reason, now_s)
        self._restless = seen

    def flush(self, now_s: float) -> None:
        """Bring every waiting sequence's ``waits`` up to date."""
        for sequence in self:
            charge(sequence, now_s)

    def check(self) -> None:
        """Prove that lanes, counts, order and states agree."""
        assert self._size == sum(len(lane.sequences) for lane in self.lanes.values()), "size is off"
        for key, lane in self.lanes.items():
            assert lane.sequences, f"lane {key} is empty"
            assert [rank(s) for s in lane.sequences] == sorted(rank(s) for s in lane.sequences), "a lane is out of order"
            assert self.by_adapter[lane.adapter][key] is lane, f"lane {key} is not found by its adapter"
            for sequence in lane.sequences:
                assert sequence.state == "waiting", f"a waiting sequence is {sequence.state}"
                assert not sequence.pages, "a waiting sequence holds pages"
                assert not sequence.leased, "a waiting sequence holds a lease"
        ranked = [entry for group in self.groups.values() for entry in group.ranked]
        assert sorted(ranked, key=rank_of_lane) == sorted(((rank(lane.head), lane) for lane in self.lanes.values()), key=rank_of_lane)
        assert all(group.ranked == sorted(group.ranked, key=rank_of_lane) for group in self.groups.values()), "a group is out of order"
        reasons = {group.tenant: self._exceptions.get(group, self._common) for group in self.groups.values()}
        assert {group.tenant: group.rest_reason for group in self.groups.values()} == reasons, "a group was not told why it waits"
        assert sum(map(len, self.by_adapter.values())) == len(self.lanes), "a lane is found by an adapter and gone"
        self.order.check(self.groups.values())
        counts = {tenant: sum(s.tenant == tenant for s in self) for tenant in self._by_tenant}
        assert counts == self._by_tenant, "tenant counts are off"

    def _group(self, tenant: TenantId) -> Group:
        name = tenant if self._shares.fairness == "vtc" else None
        if name not in self.groups:
            account = Account(tenant=tenant) if name is None else self._shares.account(tenant)
            self.groups[name] = Group(name, account=account, rest_reason=self._common)
        return self.groups[name]

    def _drop(self, lane: Lane) -> None:
        del self.lanes[lane.key]
        del self.by_adapter[lane.adapter][lane.key]
        if not self.by_adapter[lane.adapter]:
            del self.by_adapter[lane.adapter]
        if not lane.group.ranked:
            del self.groups[lane.group.tenant]
            self.order.forget(lane.group)


def charge(sequence: Sequence, now_s: float) -> None:
    """Add the time waited since the last charge to its reason; time before the first reason is known goes to that one."""
    reason, waits = sequence.wait_reason, sequence.waits
    if reason is not None:
        waits[reason] = waits.get(reason, 0.0) + (now_s - sequence.waiting_since_s)
        sequence.waiting_since_s = now_s
