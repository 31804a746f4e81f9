"""What may be called and what it is: the registry's versions and aliases in memory, changed one by one as they are committed."""

from __future__ import annotations

import threading
from collections import defaultdict
from dataclasses import asdict, dataclass, field, replace
from typing import TYPE_CHECKING, Any

from engine.alias import AliasName, AliasRecord
from engine.caller import SYSTEM
from engine.ids import DEFAULT_TENANT, SHARED_TENANT, AdapterId, TenantId
from engine.registry import aliases, audit, versions
from engine.registry.alias_words import alias_facts, alias_subject
from engine.version import VersionRecord

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence

    from sqlmodel import Session

    from engine.caller import Caller
    from engine.ids import Tier
    from engine.registry.store import Store
    from engine.report import Scores
    from engine.version import VersionState


@dataclass(frozen=True, slots=True, kw_only=True)
class NewVersion:
    """A version that passed its checks, to be served as ``alias``."""

    record: VersionRecord
    alias: AliasName
    line: str = ""
    """Empty takes the alias's name."""
    report: Mapping[str, Any] = field(default_factory=dict)
    scores: Scores | None = None
    warm: Tier = "disk"
    """Where it has to be before the alias leads to it; as near as the version before in any case."""
    why: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Registered:
    """A version and its alias as they are stored; ``before`` is what the alias named."""

    record: VersionRecord
    alias: AliasRecord
    before: AliasRecord | None


class Catalog:
    """Any thread reads, without a lock: each entry is frozen and replaced whole. Changes come after their commit, in its order."""

    def __init__(self, store: Store, *, base_digest: str) -> None:
        self.store = store
        self.base_digest = base_digest
        self.records: dict[int, VersionRecord] = {}
        """Every stored version that has weights, by key."""
        self.lines: dict[AliasName, dict[int, VersionRecord]] = {}
        """Versions by number, of every adapter."""
        self.holders: defaultdict[AdapterId, set[int]] = defaultdict(set)
        """Keys of the versions that have these weights: their owner may have them in several lines."""
        self.versions: dict[AdapterId, VersionRecord] = {}
        """What may serve: of each id one version that is ready, on the base that is served."""
        self.aliases: dict[AliasName, AliasRecord] = {}
        self.owners: dict[str, tuple[TenantId, ...]] = {}
        """Who has an alias of a name."""
        self._changing = threading.Lock()
        """Two threads change memory: the registry's, and the engine's for what it leaves for later. Nobody holds it for long."""
        store.read(self._load)

    def resolve(self, name: str, tenant: TenantId | None) -> AliasRecord | None:
        """The tenant's own alias, else the one that all share. For None as ``owned``."""
        return self.owned(name, tenant) or self.aliases.get(AliasName(SHARED_TENANT, name))

    def owned(self, name: str, tenant: TenantId | None) -> AliasRecord | None:
        """The tenant's own alias. For None, who sees all, that of local mode, the shared one, or the only one of the name."""
        if tenant is not None:
            return self.aliases.get(AliasName(tenant, name))
        owners = self.owners.get(name, ())
        chosen = next((owner for owner in (DEFAULT_TENANT, SHARED_TENANT) if owner in owners), owners[0] if len(owners) == 1 else None)
        return None if chosen is None else self.aliases.get(AliasName(chosen, name))

    def holds(self, content: AdapterId, tenants: Collection[TenantId] | None) -> bool:
        """Whether these weights may serve and belong to one of these tenants; None is all."""
        record = self.versions.get(content)
        return record is not None and (tenants is None or record.tenant in tenants)

    def keeps(self, content: AdapterId) -> bool:
        """Whether the image of these weights has to stay on disk: a version of the served base is ready, or retired and not archived."""
        held = self._held(content)
        return any(record.state in {"ready", "retired"} and record.base_digest == self.base_digest for record in held)

    def register(
        self, *new: NewVersion, caller: Caller = SYSTEM, also: Callable[[Session], None] = lambda _: None
    ) -> tuple[Registered, ...]:
        """Store versions, point their aliases and note both in the audit log: one transaction for all of them and ``also``, or none."""

        def work(session: Session) -> tuple[Registered, ...]:
            also(session)
            return tuple(done for part in _rounds(new) for done in self._store(session, part, caller))

        def then(done: tuple[Registered, ...]) -> None:
            for one in done:
                self.put(one.record)
                self.put_alias(one.alias)

        return self.store.write(work, then=then)

    def drop_alias(
        self,
        alias: AliasName,
        *,
        retiring: Sequence[VersionRecord] = (),
        caller: Caller = SYSTEM,
        why: str = "",
        undo_of: int | None = None,
    ) -> None:
        """Withdraw an alias, and the versions that go with it."""
        keys = [record.key for record in retiring]

        def work(session: Session) -> None:
            before = aliases.get(session, alias)
            if before is not None:
                aliases.drop(session, alias, by=caller.name, why=why)
                if keys:
                    versions.set_state(session, keys, "retired", note=why)
                facts = alias_facts(before), {"retired": keys}
                audit.append(session, caller, "alias.drop", alias_subject(alias), before=facts[0], after=facts[1], why=why, undo_of=undo_of)

        def then(_: None) -> None:
            self.forget_alias(alias)
            self._set_state(keys, "retired")

        self.store.write(work, then=then)

    def prove(self, content: AdapterId, fingerprint: tuple[float, ...]) -> None:
        """The probe has passed. Engine thread: memory knows at once, the database soon."""
        for record in self._held(content):
            self.put(replace(record, fingerprint=fingerprint))
        self.store.later(lambda session: versions.set_fingerprint(session, content, fingerprint))

    def put(self, record: VersionRecord) -> None:
        """Memory follows a committed version."""
        with self._changing:
            self._put(record)

    def _put(self, record: VersionRecord) -> None:
        self.records[record.key] = record
        line = AliasName(record.tenant, record.line)
        self.lines[line] = {**self.lines.get(line, {}), record.number: record}
        self.holders[record.id].add(record.key)
        ready = (held for held in self._held(record.id) if held.state == "ready" and held.base_digest == self.base_digest)
        serving = next(ready, None)
        if serving is None:
            self.versions.pop(record.id, None)
        else:
            self.versions[record.id] = serving

    def put_alias(self, alias: AliasRecord) -> None:
        """Memory follows a committed alias. The registry's thread."""
        if alias.alias not in self.aliases:
            self.owners[alias.name] = (*self.owners.get(alias.name, ()), alias.tenant)
        self.aliases[alias.alias] = alias

    def forget_alias(self, alias: AliasName) -> None:
        """Memory follows an alias that was dropped. The registry's thread."""
        if self.aliases.pop(alias, None) is not None:
            self.owners[alias.name] = tuple(tenant for tenant in self.owners[alias.name] if tenant != alias.tenant)

    def close(self) -> None:
        """Store what was left for later, and let go of the database."""
        self.store.close()

    def _load(self, session: Session) -> None:
        for record in versions.every(session):
            self.put(record)
        for alias in aliases.every(session):
            self.put_alias(alias)

    def _held(self, content: AdapterId) -> Sequence[VersionRecord]:
        return [self.records[key] for key in sorted(self.holders.get(content, ()))]

    def _set_state(self, keys: Sequence[int], state: VersionState) -> None:
        for key in keys:
            self.put(replace(self.records[key], state=state))

    def _store(self, session: Session, new: Sequence[NewVersion], caller: Caller) -> list[Registered]:
        """Those of one round."""
        given = [
            versions.Given(
                record=one.record,
                line=one.line or one.alias.name,
                report=one.report,
                scores=None if one.scores is None else asdict(one.scores),
            )
            for one in new
        ]
        records = versions.put_all(session, given, state="ready", by=caller.name)
        pointings = [aliases.Pointing(alias=one.alias, version=record, why=one.why) for one, record in zip(new, records, strict=True)]
        moved = aliases.point_all(session, pointings, by=caller.name)
        done = [Registered(record=record, before=before, alias=now) for record, (before, now) in zip(records, moved, strict=True)]
        audit.append_all(session, caller, [_line(one, why.why) for one, why in zip(done, new, strict=True) if one.before != one.alias])
        return done


def _rounds(new: Iterable[NewVersion]) -> Iterator[list[NewVersion]]:
    """In their order, and cut where one stores what another of the same round stores too."""
    part: list[NewVersion] = []
    seen: set[object] = set()
    for one in new:
        marks = {one.alias, (one.record.tenant, one.line or one.alias.name, one.record.id)}
        if seen & marks:
            yield part
            part, seen = [], set()
        part.append(one)
        seen |= marks
    if part:
        yield part


def _line(one: Registered, why: str) -> audit.Line:
    """What the audit log says of a registration."""
    return audit.Line(
        action="adapter.register",
        subject=alias_subject(one.alias.alias),
        before=alias_facts(one.before),
        after={**(alias_facts(one.alias) or {}), "number": one.record.number, "source": one.record.source},
        why=why,
    )
