"""What operators do with names: move, roll back, try a canary, promote it. Blocks while a version comes near: call it in a thread."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from engine.alias import AliasName
from engine.caller import SYSTEM
from engine.errors import Conflict, InvalidRequest
from engine.names import check_alias
from engine.registry import aliases
from engine.versions.facts import title
from engine.versions.moves import Change

if TYPE_CHECKING:
    from engine.alias import AliasMove, AliasRecord
    from engine.caller import Caller
    from engine.ids import TenantId, Tier
    from engine.model_host import ModelHost
    from engine.version import VersionRecord
    from engine.versions.find import Finder
    from engine.versions.moves import AliasMoves, Bill


@dataclass(frozen=True, slots=True, kw_only=True)
class MoveOutcome:
    """What a change of a name did, or with ``preview`` would do."""

    alias: str
    tenant: TenantId
    before: VersionRecord
    after: VersionRecord
    canary: VersionRecord | None
    share: float
    bill: Bill
    preview: bool
    message: str


class Names:
    """Aliases, as operators change them."""

    def __init__(self, host: ModelHost, finder: Finder, moves: AliasMoves) -> None:
        self._host = host
        self._find = finder
        self._moves = moves

    def move(
        self,
        alias: str,
        to: str,
        *,
        tenant: TenantId | None = None,
        warm: Tier = "disk",
        why: str = "",
        preview: bool = False,
        caller: Caller = SYSTEM,
        undo_of: int | None = None,
    ) -> MoveOutcome:
        """Point an alias at another version: a number of its line, a version id or ``line@number``. Ends a canary.

        Raises Forbidden, AdapterNotFound or Conflict; a refusal changes nothing.
        """
        current, scope = self._current(alias, tenant, caller)
        version = servable(self._find.target(to, current, scope), self._host)
        change = Change(name=current.alias, version=version, kind="move", action="alias.move", at_least=warm, why=why, undo_of=undo_of)
        return self._run(change, current, f"{alias} names {title(version)}", preview=preview, caller=caller)

    def create(
        self,
        alias: str,
        version: VersionRecord,
        *,
        tenant: TenantId,
        why: str = "",
        caller: Caller = SYSTEM,
        undo_of: int | None = None,
    ) -> AliasRecord:
        """A new name for a version. Raises Conflict where the name is taken."""
        caller.need_for(tenant, "operator")
        check_alias(alias, reserved=(self._host.base_name,))
        name = AliasName(tenant, alias)
        if name in self._host.catalog.aliases:
            message = f"The alias {alias!r} already names a version; move it."
            raise Conflict(message, code="alias_taken", param="alias", found=alias)
        made = servable(version, self._host)
        change = Change(name=name, version=made, kind="create", action="alias.create", why=why, undo_of=undo_of)
        return self._moves.apply(change, caller=caller)

    def rollback(
        self, alias: str, *, tenant: TenantId | None = None, why: str = "", preview: bool = False, caller: Caller = SYSTEM
    ) -> MoveOutcome:
        """Point an alias back at the version that it named before this one."""
        current, _ = self._current(alias, tenant, caller)
        version = servable(self._before(current), self._host)
        change = Change(name=current.alias, version=version, kind="rollback", action="alias.rollback", why=why)
        return self._run(change, current, f"{alias} is back at {title(version)}", preview=preview, caller=caller)

    def canary(
        self,
        alias: str,
        to: str,
        share: float,
        *,
        tenant: TenantId | None = None,
        why: str = "",
        preview: bool = False,
        caller: Caller = SYSTEM,
        undo_of: int | None = None,
    ) -> MoveOutcome:
        """Send a share of an alias's requests to a second version, or with a share of 0 to none any more."""
        current, scope = self._current(alias, tenant, caller)
        if not 0 <= share <= 1:
            message = "The share is from 0 to 1."
            raise InvalidRequest(message, param="share", expected="0 to 1", found=share)
        version = self._host.catalog.records[current.version]
        second = None if share == 0 else servable(self._find.target(to, current, scope), self._host)
        if second is not None and second.id == version.id:
            message = f"{alias} names this version already; a canary is another one."
            raise Conflict(message, code="same_version", param="version", found=title(second))
        change = Change(
            name=current.alias,
            version=version,
            kind="canary",
            action="alias.canary",
            canary=second,
            share=share,
            why=why,
            undo_of=undo_of,
        )
        what = f"{title(second)} gets {share:.2%} of {alias}" if second else f"{alias} has no canary"
        return self._run(change, current, what, preview=preview, caller=caller)

    def promote(
        self, alias: str, *, tenant: TenantId | None = None, why: str = "", preview: bool = False, caller: Caller = SYSTEM
    ) -> MoveOutcome:
        """The canary gets all requests."""
        current, _ = self._current(alias, tenant, caller)
        if current.canary_version is None:
            message = f"{alias} has no canary."
            raise Conflict(message, code="no_canary", param="alias", found=alias[:80])
        version = servable(self._host.catalog.records[current.canary_version], self._host)
        change = Change(name=current.alias, version=version, kind="move", action="alias.promote", why=why)
        return self._run(change, current, f"{alias} names {title(version)}", preview=preview, caller=caller)

    def history(
        self, alias: str, *, tenant: TenantId | None = None, limit: int = 100, before: int | None = None, caller: Caller = SYSTEM
    ) -> list[AliasMove]:
        """What an alias named, newest first; also of one that was dropped."""
        caller.need("viewer")
        scope = caller.tenant or tenant
        name = self._find.alias(alias, scope).alias if scope is None else AliasName(scope, alias)
        return self._host.catalog.store.read(lambda session: aliases.moves(session, name, limit=limit, before=before))

    def _current(self, alias: str, tenant: TenantId | None, caller: Caller) -> tuple[AliasRecord, TenantId | None]:
        caller.need("operator")
        scope = caller.tenant or tenant
        return self._find.alias(alias, scope), scope

    def _before(self, current: AliasRecord) -> VersionRecord:
        """What the newest line of the history that led to this version says was named before."""
        moves = self._host.catalog.store.read(lambda session: aliases.moves(session, current.alias))
        found = (move.before for move in moves if move.after == current.version and move.before not in {None, current.version})
        key = next(found, None)
        if key is None or key not in self._host.catalog.records:
            message = f"{current.name} has named no other version before this one."
            raise Conflict(message, code="nothing_before", param="alias", found=current.name)
        return self._host.catalog.records[key]

    def _run(self, change: Change, current: AliasRecord, what: str, *, preview: bool, caller: Caller) -> MoveOutcome:
        bill = self._moves.bill(change, caller=caller)
        alias = current if preview else self._moves.apply(change, caller=caller)
        return MoveOutcome(
            alias=current.name,
            tenant=current.tenant,
            before=self._host.catalog.records[current.version],
            after=change.version,
            canary=change.canary,
            share=change.share if preview else alias.canary_share,
            bill=bill,
            preview=preview,
            message=f"Would be: {what}." if preview else f"{what}.",
        )


def servable(record: VersionRecord, host: ModelHost) -> VersionRecord:
    """The record itself. Raises Conflict where it may not serve: not ready, or registered for another base."""
    if record.state != "ready":
        message = f"{title(record)} is {record.state} and cannot be routed to."
        raise Conflict(message, code=f"version_{record.state}", param="version", expected="ready", found=record.state)
    served = host.parts.spec.digest
    if record.base_digest != served:
        message = f"{title(record)} was registered for another base than the one served. Register it again for this one."
        raise Conflict(message, code="base_mismatch", param="version", expected=served, found=record.base_digest)
    return record
