"""What an operator does with versions and names: each through ``engine.versions``, off the loop, as the page's caller."""

from __future__ import annotations

from contextlib import suppress
from functools import partial
from typing import TYPE_CHECKING, Any, Literal, TypeVar

from console.desk import Desk
from console.stored import StoredPage, StoredVersion
from engine import AdapterNotFound, LoradeckError

if TYPE_CHECKING:
    from console.feed import Feed
    from console.widgets.toast import Toasts
    from engine import AliasRecord, AuditRecord, Departure, Engine, MoveOutcome, TenantId, VersionState

T = TypeVar("T")
MoveVerb = Literal["move", "canary", "promote", "rollback"]
DepartVerb = Literal["retire", "archive", "restore"]
LINES: int = 100
"""Of a line's versions, and of an audit list."""


class VersionActions(Desk):
    """The only caller of the engine's versions and audit log in the console; one a page."""

    def __init__(self, engine: Engine, toasts: Toasts, feed: Feed) -> None:
        super().__init__(engine, toasts)
        self._feed = feed

    # Looking

    async def tally(self, tenant: TenantId | None) -> dict[str, int]:
        """How many versions are in each stored state."""
        return await self.ask(self.engine.versions.tally, tenant=tenant)

    async def stored(self, states: tuple[VersionState, ...], *, tenant: TenantId | None, text: str, page: int, size: int) -> StoredPage:
        """A page of the versions in these states, newest first."""
        rows, found = await self.ask(self.engine.versions.stored, states, tenant=tenant, text=text, offset=(page - 1) * size, limit=size)
        pages = max(1, -(-found // size))
        return StoredPage(rows=tuple(map(StoredVersion.of, rows)), found=found, page=min(page, pages), pages=pages)

    async def line(self, ref: str, tenant: TenantId) -> list[StoredVersion]:
        """All versions of the adapter that ``ref`` is of, newest first."""
        return [StoredVersion.of(facts) for facts in await self.ask(self.engine.versions.history, ref, tenant=tenant, limit=LINES)]

    def aliases(self, tenant: TenantId, names: tuple[str, ...]) -> list[AliasRecord]:
        """Where these names of a tenant lead; what is gone is left out."""
        found = []
        for name in names:
            with suppress(AdapterNotFound):
                found.append(self.engine.versions.find.alias(name, tenant))
        return found

    async def audit(self, tenant: TenantId, subjects: tuple[tuple[str, str], ...]) -> list[AuditRecord]:
        """What happened to these (kind, name), newest first."""
        lines: list[AuditRecord] = []
        for kind, name in subjects:
            lines += await self.ask(self.engine.audit.lines, tenant=tenant, kind=kind, subject=name, limit=LINES)
        return sorted(lines, key=lambda line: line.key, reverse=True)[:LINES]

    def reversible(self, line: AuditRecord) -> bool:
        """Whether there is a way back."""
        return self.engine.audit.reversible(line)

    # Doing

    async def move(
        self, verb: MoveVerb, alias: AliasRecord, to: str = "", *, share: float = 0.0, why: str = "", preview: bool = False
    ) -> MoveOutcome:
        """Change a name, or say what that would cost. Raises LoradeckError; then nothing has changed."""
        names: Any = self.engine.versions.names
        calls = {
            "move": partial(names.move, alias.name, to),
            "canary": partial(names.canary, alias.name, to, share),
            "promote": partial(names.promote, alias.name),
            "rollback": partial(names.rollback, alias.name),
        }
        outcome: MoveOutcome = await self.ask(calls[verb], tenant=alias.tenant, why=why, preview=preview)
        if not preview:
            await self._done(outcome.message, "alias", alias.name, alias.tenant)
        return outcome

    async def depart(self, verb: DepartVerb, ref: str, tenant: TenantId, *, why: str = "", preview: bool = False) -> Departure:
        """Retire, archive or restore a version, or say what that would do. Raises LoradeckError."""
        retirement: Any = self.engine.versions.retirement
        outcome: Departure = await self.ask(getattr(retirement, verb), ref, tenant=tenant, why=why, preview=preview)
        if not preview:
            name = f"{outcome.version.line}@{outcome.version.number}"
            await self._done(outcome.message, "version", name, tenant, undo=verb != "archive")
        return outcome

    async def delete_archive(self, ref: str, tenant: TenantId, *, why: str = "", preview: bool = False) -> Departure:
        """Delete what was archived of a version for good, or say what that would do. Raises LoradeckError."""
        removal: Any = self.engine.versions.removal
        outcome: Departure = await self.ask(removal.delete_archive, ref, tenant=tenant, why=why, preview=preview)
        if not preview:
            await self._done(outcome.message, "version", ref, tenant, undo=False)
        return outcome

    async def undo(self, line: AuditRecord) -> bool:
        """Take a line of the audit log back, and say how that went."""
        try:
            await self.ask(self.engine.audit.undo, line.key)
        except LoradeckError as error:
            self.toasts.show(f"Not undone: {error.message}", glyph="crit", level="crit")
            return False
        self._feed.sample()
        self.toasts.show("Undone", glyph="undo")
        return True

    async def _done(self, message: str, kind: str, name: str, tenant: TenantId, *, undo: bool = True) -> None:
        self._feed.sample()
        lines = await self.audit(tenant, ((kind, name),)) if undo else []
        newest = lines[0] if lines and self.reversible(lines[0]) else None

        async def take_back() -> None:
            assert newest is not None
            await self.undo(newest)

        self.toasts.show(message, glyph="arrow", undo=take_back if newest is not None else None)
