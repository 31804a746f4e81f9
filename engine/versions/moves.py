"""Names move from version to version: as warm as before first, then at once, with a history. Any thread but the engine's."""

from __future__ import annotations

import concurrent.futures
import threading
import time
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from engine.errors import Conflict
from engine.events import AliasMoved
from engine.gateway.scope import told_to
from engine.registry import aliases, audit
from engine.registry.alias_words import alias_facts, alias_subject
from engine.versions.warmth import Warmth, not_as_warm

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from sqlmodel import Session

    from engine.alias import AliasName, AliasRecord, MoveKind
    from engine.caller import Caller
    from engine.control import Line
    from engine.ids import AdapterId, Tier
    from engine.model_host import ModelHost
    from engine.version import VersionRecord

WARM_TIMEOUT_S = 60.0
"""How long a move waits for its version to come near, and for pages to come free."""
NUM_LOCKS = 64


@dataclass(frozen=True, slots=True, kw_only=True)
class Bill:
    """What a move costs before it happens."""

    tier: Tier
    """How near the version is brought first."""
    is_there: bool
    arithmetic: tuple[Line, ...] = ()
    eta_s: float | None = None
    in_flight: int = 0
    """Requests that end on the version before."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Change:
    """What an alias is to be. ``canary`` None is none."""

    name: AliasName
    version: VersionRecord
    kind: MoveKind
    action: str
    canary: VersionRecord | None = None
    share: float = 0.0
    at_least: Tier = "disk"
    why: str = ""
    undo_of: int | None = None


class AliasMoves:
    """One change of a name at a time; names do not wait for one another."""

    def __init__(self, host: ModelHost, *, timeout_s: float = WARM_TIMEOUT_S) -> None:
        self._host = host
        self._warmth = Warmth(host)
        self._timeout_s = timeout_s
        self._locks = [threading.Lock() for _ in range(NUM_LOCKS)]

    def changing(self, name: AliasName) -> threading.Lock:
        """Held while a name changes."""
        return self._locks[hash(name) % NUM_LOCKS]

    @contextmanager
    def changing_all(self, names: Iterable[AliasName]) -> Iterator[None]:
        """Likewise for several, in one order, so that two such calls never wait for each other."""
        with ExitStack() as held:
            for index in sorted({hash(name) % NUM_LOCKS for name in names}):
                held.enter_context(self._locks[index])
            yield

    @contextmanager
    def as_warm(self, adapter: AdapterId, *, like: AdapterId | None, at_least: Tier = "disk") -> Iterator[Tier]:
        """Inside, ``adapter`` is as near as ``like`` was, and both stay where they are. Raises Conflict (``not_as_warm``, with the sum)."""
        host, warmth = self._host, self._warmth
        host.call(lambda: warmth.hold(adapter, like=like, at_least=at_least))
        try:
            tier = self._arrival(adapter, host.call(lambda: warmth.bring(adapter, like=like, at_least=at_least)))
            while not host.call(lambda: warmth.is_near(adapter, warmth.wanted(like, at_least))):
                tier = self._arrival(adapter, host.call(lambda: warmth.bring(adapter, like=like, at_least=at_least)))
            yield tier
        finally:
            host.call(lambda: warmth.end(adapter, like=like))

    def bill(self, change: Change, *, caller: Caller) -> Bill:
        """What ``apply`` would have to do. Raises Conflict when it could never be done."""
        current = self._host.catalog.aliases.get(change.name)
        target, like = self._target(change, current)
        with told_to(caller.tenant):
            bill = self._host.call(lambda: self._bill(target, like, change.at_least))
        return bill if caller.tenant is None else replace(bill, arithmetic=())

    def apply(self, change: Change, *, caller: Caller) -> AliasRecord:
        """Warm, commit, point. Raises Conflict or RegistryUnavailable; then nothing has changed."""
        with self.changing(change.name):
            current = self._host.catalog.aliases.get(change.name)
            target, like = self._target(change, current)
            with told_to(caller.tenant), self.as_warm(target, like=like, at_least=change.at_least):
                return self._commit(change, current, caller=caller)

    def _commit(self, change: Change, current: AliasRecord | None, *, caller: Caller) -> AliasRecord:
        host = self._host

        def work(session: Session) -> AliasRecord:
            before = aliases.get(session, change.name)
            words = {"canary": change.canary, "share": change.share, "why": change.why}
            alias = aliases.point(session, change.name, change.version, by=caller.name, kind=change.kind, **words)  # type: ignore[arg-type]
            facts = {"before": alias_facts(before), "after": alias_facts(alias), "why": change.why, "undo_of": change.undo_of}
            audit.append(session, caller, change.action, alias_subject(change.name), **facts)  # type: ignore[arg-type]
            return alias

        alias = host.catalog.store.write(work, then=host.catalog.put_alias)
        host.call(lambda: host.lifecycle.point(current, alias))
        event = AliasMoved(
            at_unix=time.time(),
            by=caller.name,
            alias=change.name.name,
            tenant=change.name.tenant,
            before=None if current is None else current.adapter,
            after=alias.adapter,
            canary=alias.canary,
            share=alias.canary_share,
        )
        host.publisher.record_event(event)
        return alias

    def _target(self, change: Change, current: AliasRecord | None) -> tuple[AdapterId, AdapterId | None]:
        """Which version has to be near, and like which: the canary where it is new, else the version."""
        like = None if current is None else current.adapter
        if change.canary is not None and current is not None and current.adapter == change.version.id:
            return change.canary.id, like
        return change.version.id, like

    def _arrival(self, adapter: AdapterId, coming: concurrent.futures.Future[Tier]) -> Tier:
        try:
            return coming.result(timeout=self._timeout_s)
        except concurrent.futures.TimeoutError:
            lines = self._host.call(lambda: self._warmth.give_up(adapter))
            raise not_as_warm("device", f"No room came free within {self._timeout_s:g} s.", lines) from None

    def _bill(self, adapter: AdapterId, like: AdapterId | None, at_least: Tier) -> Bill:
        """Engine thread."""
        host = self._host
        if adapter not in host.residency.entries:
            message = "The version is not ready to serve here."
            raise Conflict(message, code="version_not_ready", param="version")
        entry = host.residency.entry(adapter)
        tier, lines = self._warmth.bill(adapter, like=like, at_least=at_least)
        before = None if like is None or like == adapter else host.residency.entries.get(like)
        return Bill(
            tier=tier,
            is_there=self._warmth.is_near(adapter, tier),
            arithmetic=lines,
            eta_s=host.lifecycle.load_eta_s(entry, tier),
            in_flight=0 if before is None else before.users,
        )
