"""Warming by the clock, at a sign-in and at the first request of a day: what is stored, and the thread that does it."""

from __future__ import annotations

import queue
import threading
import time
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from engine.audit_record import Subject
from engine.caller import SYSTEM
from engine.desired import Schedule
from engine.errors import AdapterNotFound, InvalidRequest, LoradeckError
from engine.events import ScheduleRan
from engine.registry import audit, schedules
from engine.versions.times import WEEKDAYS, WallTime, day_of

if TYPE_CHECKING:
    from collections.abc import Callable

    from sqlmodel import Session

    from engine.caller import Caller
    from engine.desired import Trigger
    from engine.ids import TenantId, Tier
    from engine.model_host import ModelHost

LOOK_EVERY_S = 1.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Wish:
    """What somebody asks a schedule to be. ``at`` is ``HH:MM``, with the trigger ``time`` only."""

    alias: str
    trigger: Trigger = "time"
    at: str | None = None
    days: tuple[str, ...] = WEEKDAYS
    zone: str = "UTC"
    tier: Tier = "device"
    enabled: bool = True


class Schedules:
    """Any thread. ``warm`` brings an alias of a tenant to a tier and blocks; ``now_unix`` is the wall clock."""

    def __init__(self, host: ModelHost, *, warm: Callable[[TenantId, str, Tier], None], now_unix: Callable[[], float] = time.time) -> None:
        self._host = host
        self._warm = warm
        self._now_unix = now_unix
        self._schedules: dict[int, Schedule] = {one.key: one for one in host.catalog.store.read(schedules.every)}
        self._waiting: queue.SimpleQueue[Schedule | None] = queue.SimpleQueue()
        self._thread = threading.Thread(target=self._run, name="schedules", daemon=True)

    def start(self) -> None:
        """Begin to look at the clock."""
        self._thread.start()

    def stop(self) -> None:
        """End after the warming under way."""
        self._waiting.put(None)
        if self._thread.is_alive():
            self._thread.join(timeout=10)

    def every(self, *, tenant: TenantId | None = None, caller: Caller = SYSTEM) -> tuple[Schedule, ...]:
        """Those that the caller sees."""
        caller.need("viewer")
        scope = caller.tenant or tenant
        return tuple(one for one in tuple(self._schedules.values()) if scope in {None, one.tenant})

    def due_unix(self, schedule: Schedule) -> float | None:
        """When it runs next; None where it does not go by the clock."""
        if not schedule.enabled or schedule.minute is None:
            return None
        at = WallTime(minute=schedule.minute, days=schedule.days, zone=schedule.zone)
        return at.next_after(schedule.created_unix if schedule.ran_unix is None else schedule.ran_unix)

    def add(self, wish: Wish, *, tenant: TenantId | None = None, why: str = "", caller: Caller = SYSTEM) -> Schedule:
        """Store a schedule. Raises Forbidden or InvalidRequest."""
        owner = caller.home if tenant is None else tenant
        caller.need_for(owner, "operator")
        return self.put(self._made(wish, owner, caller), before=None, why=why, caller=caller)

    def change(self, key: int, wish: Wish, *, why: str = "", caller: Caller = SYSTEM) -> Schedule:
        """Replace one."""
        caller.need("operator")
        before = self._owned(key, caller)
        made = self._made(wish, before.tenant, caller)
        kept = replace(made, key=key, created_unix=self._now_unix(), created_by=before.created_by)
        return self.put(kept, before=before, why=why, caller=caller)

    def drop(self, key: int, *, why: str = "", caller: Caller = SYSTEM, undo_of: int | None = None) -> None:
        """Forget one."""
        caller.need("operator")
        before = self._owned(key, caller)

        def work(session: Session) -> None:
            schedules.drop(session, key)
            audit.append(
                session, caller, "schedule.drop", _subject(before), before=schedule_facts(before), after=None, why=why, undo_of=undo_of
            )

        def then(_: None) -> None:
            self._schedules.pop(key, None)

        self._host.catalog.store.write(work, then=then)

    def put(self, schedule: Schedule, *, before: Schedule | None, why: str, caller: Caller, undo_of: int | None = None) -> Schedule:
        """Store one as it is, with its line in the audit log."""

        def work(session: Session) -> Schedule:
            stored = schedules.put(session, schedule)
            audit.append(
                session,
                caller,
                "schedule.put",
                _subject(stored),
                before=None if before is None else schedule_facts(before),
                after=schedule_facts(stored),
                why=why,
                undo_of=undo_of,
            )
            return stored

        return self._host.catalog.store.write(work, then=lambda stored: self._schedules.__setitem__(stored.key, stored))

    def get(self, key: int) -> Schedule | None:
        """One, whoever's."""
        return self._schedules.get(key)

    def signed_in(self, tenant: TenantId) -> None:
        """Somebody of a tenant has signed in to the console."""
        self._wake("sign_in", tenant)

    def requested(self, tenant: TenantId) -> None:
        """A tenant has sent a request; cheap, since it is called for each."""
        if self._schedules:
            self._wake("first_request", tenant)

    def run_due(self) -> None:
        """Queue what the clock says is due."""
        now_unix = self._now_unix()
        for one in tuple(self._schedules.values()):
            due_unix = self.due_unix(one)
            if one.trigger == "time" and due_unix is not None and due_unix <= now_unix:
                self._note(one, now_unix)
                self._waiting.put(one)

    def _wake(self, trigger: Trigger, tenant: TenantId) -> None:
        now_unix = self._now_unix()
        for one in tuple(self._schedules.values()):
            if (one.trigger, one.tenant, one.enabled) != (trigger, tenant, True):
                continue
            if one.ran_unix is None or day_of(one.ran_unix, one.zone) != day_of(now_unix, one.zone):
                self._note(one, now_unix)
                self._waiting.put(one)

    def _note(self, one: Schedule, now_unix: float) -> None:
        self._schedules[one.key] = replace(one, ran_unix=now_unix)
        self._host.catalog.store.later(lambda session: schedules.ran(session, one.key, now_unix))

    def _run(self) -> None:
        while True:
            try:
                one = self._waiting.get(timeout=LOOK_EVERY_S)
            except queue.Empty:
                self.run_due()
                continue
            if one is None:
                return
            self._do(one)

    def _do(self, one: Schedule) -> None:
        """Warm, and say how it went."""
        message = ""
        try:
            self._warm(one.tenant, one.alias, one.tier)
        except LoradeckError as refusal:
            message = refusal.message
        event = ScheduleRan(
            at_unix=self._now_unix(), by="schedule", alias=one.alias, tenant=one.tenant, trigger=one.trigger, tier=one.tier, message=message
        )
        self._host.publisher.record_event(event)

    def _owned(self, key: int, caller: Caller) -> Schedule:
        found = self._schedules.get(key)
        if found is None or not caller.sees(found.tenant):
            message = f"There is no schedule {key}."
            raise AdapterNotFound(message, code="schedule_not_found", param="key", found=key)
        return found

    def _made(self, wish: Wish, tenant: TenantId, caller: Caller) -> Schedule:
        if (wish.trigger == "time") != (wish.at is not None):
            message = "A time of day goes with the trigger 'time', and only with it."
            raise InvalidRequest(message, param="at", expected="HH:MM" if wish.trigger == "time" else None, found=wish.at)
        at = WallTime.read(wish.at or "00:00", days=wish.days, zone=wish.zone)
        return Schedule(
            key=0,
            tenant=tenant,
            alias=wish.alias,
            trigger=wish.trigger,
            tier=wish.tier,
            minute=at.minute if wish.trigger == "time" else None,
            days=at.days,
            zone=at.zone,
            enabled=wish.enabled,
            ran_unix=None,
            created_unix=self._now_unix(),
            created_by=caller.name,
        )


def schedule_facts(one: Schedule) -> dict[str, object]:
    """What the audit log says of a schedule."""
    names = ("key", "tenant", "alias", "trigger", "tier", "minute", "zone", "enabled", "created_unix", "created_by")
    return {**{name: getattr(one, name) for name in names}, "days": list(one.days)}


def _subject(one: Schedule) -> Subject:
    return Subject(kind="schedule", name=f"{one.alias} ({one.key})", tenant=one.tenant)
