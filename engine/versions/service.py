"""Versions and names, as the doors see them: ``engine.versions``."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Any

from engine.adapters.archive import Archive
from engine.alias import AliasName
from engine.caller import SYSTEM
from engine.registry import reports
from engine.versions.admission import Admission
from engine.versions.find import Finder, missing
from engine.versions.moves import AliasMoves
from engine.versions.names import Names
from engine.versions.removal import Removal
from engine.versions.retirement import Retirement
from engine.versions.thresholds import GateThresholds
from engine.versions.undo import Audit
from engine.versions.withdrawal import line_of, withdraw

if TYPE_CHECKING:
    from collections.abc import Collection

    from engine.alias import AliasRecord
    from engine.caller import Caller
    from engine.ids import TenantId
    from engine.model_host import ModelHost
    from engine.version import VersionState
    from engine.versions.bases import Bases
    from engine.versions.placements import Placements

ARCHIVE = "archive"


class Versions:
    """Reads here; changes in ``names`` (move, rollback, canary, promote), ``retirement``, ``thresholds`` and ``placements``."""

    def __init__(self, host: ModelHost, placements: Placements) -> None:
        self.host = host
        self.find = Finder(host.catalog)
        self.moves = AliasMoves(host)
        self.names = Names(host, self.find, self.moves)
        self.archive = Archive(host.parts.settings.data / ARCHIVE)
        self.retirement = Retirement(host, self.find, self.archive)
        self.removal = Removal(host, self.find, self.archive)
        self.thresholds = GateThresholds(host)
        self.admission = Admission(host, self.thresholds)
        self.placements = placements
        self.bases: Bases
        """Set by whoever can register."""
        self.audit = Audit(host.catalog.store)

    def aliases(
        self, *, tenant: TenantId | None = None, text: str = "", offset: int = 0, limit: int = 100, caller: Caller = SYSTEM
    ) -> tuple[list[AliasRecord], int]:
        """A page of the names that the caller sees, by tenant and name, and how many there are in all."""
        caller.need("viewer")
        scope = caller.tenant or tenant
        found = [
            alias for name, alias in tuple(self.host.catalog.aliases.items()) if scope in {None, name.tenant} and text in name.name.lower()
        ]
        found.sort(key=lambda alias: alias.alias)
        return found[offset : offset + limit], len(found)

    def history(
        self, ref: str, *, tenant: TenantId | None = None, limit: int = 100, offset: int = 0, caller: Caller = SYSTEM
    ) -> list[dict[str, Any]]:
        """All versions of an adapter's line, newest first, rejected ones too, each with its report and scores."""
        caller.need("viewer")
        line = self._line(ref, caller.tenant or tenant)
        return self.host.catalog.store.read(lambda session: reports.of_line(session, line, limit=limit, offset=offset))

    def tally(self, *, tenant: TenantId | None = None, caller: Caller = SYSTEM) -> dict[str, int]:
        """How many versions are in each stored state."""
        caller.need("viewer")
        scope = caller.tenant or tenant
        return self.host.catalog.store.read(lambda session: reports.tally(session, scope))

    def stored(
        self,
        states: Collection[VersionState],
        *,
        tenant: TenantId | None = None,
        text: str = "",
        offset: int = 0,
        limit: int = 100,
        caller: Caller = SYSTEM,
    ) -> tuple[list[dict[str, Any]], int]:
        """A page of the versions in these states, newest first, and how many there are: also what nothing serves."""
        caller.need("viewer")
        scope = caller.tenant or tenant
        read = partial(reports.in_states, states=states, tenant=scope, text=text, limit=limit, offset=offset)
        return self.host.catalog.store.read(read)

    def report(self, ref: str, *, number: int | None = None, tenant: TenantId | None = None, caller: Caller = SYSTEM) -> dict[str, Any]:
        """What is stored of one version, in any state: by alias, version id or ``line@number``, or by a number of the line of ``ref``."""
        caller.need("viewer")
        scope = caller.tenant or tenant
        name, _, digits = ref.rpartition("@")
        if number is None and name and digits.isascii() and digits.isdigit() and len(digits) < 10:  # noqa: PLR2004 - as many as a number may have
            ref, number = name, int(digits)
        if number is None:
            key = self.find.version(ref, scope).key
            return self.host.catalog.store.read(lambda session: reports.facts(session, key))
        line = self._line(ref, scope)
        found = self.host.catalog.store.read(lambda session: reports.numbered(session, line, number))
        if found is None:
            raise missing(f"{ref}@{number}")
        return found

    def drop(
        self, alias: str, *, tenant: TenantId | None = None, why: str = "", caller: Caller = SYSTEM, undo_of: int | None = None
    ) -> AliasRecord:
        """A name goes; versions that no name keeps retire with it. What it named."""
        caller.need("operator")
        found = self.find.alias(alias, caller.tenant or tenant)
        with self.moves.changing(found.alias):
            withdraw(self.host, found, caller=caller, why=why, undo_of=undo_of)
        return found

    def _line(self, ref: str, scope: TenantId | None) -> AliasName:
        """The line that an alias or version is of, or that has this name. Raises AdapterNotFound."""
        held = self.find.of_line(ref, scope)
        if held:
            return line_of(next(iter(held.values())))
        found = self.host.catalog.store.read(lambda session: reports.find_line(session, ref, scope))
        return found or line_of(self.find.version(ref, scope))
