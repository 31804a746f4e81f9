"""The audit log, and taking back what it tells of. An undo is a change like any other, with a line of its own."""

from __future__ import annotations

import threading
from typing import TYPE_CHECKING, Any

from engine.alias import AliasName
from engine.caller import SYSTEM
from engine.errors import AdapterNotFound, Conflict
from engine.ids import TenantId
from engine.registry import audit, tenant_log

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from sqlmodel import Session

    from engine.audit_record import AuditRecord
    from engine.caller import Caller, Role
    from engine.registry.store import Store

FOR_ADMINS = ("tenant.", "user.", "key.", "limits.", "gate.", "base.")
"""Actions that only an admin takes back."""


class Audit:
    """Who changed what. Services teach it how their actions are taken back."""

    def __init__(self, store: Store) -> None:
        self._store = store
        self._ways: dict[str, Callable[[AuditRecord, str, Caller], object]] = {}
        self._why_not: dict[str, str] = {}
        self._undoing = threading.Lock()

    def teach(self, action: str, undo: Callable[[AuditRecord, str, Caller], object]) -> None:
        """``undo(line, why, caller)`` takes an action back, as a change with ``undo_of=line.key``; it raises Conflict where it cannot."""
        self._ways[action] = undo

    def forbid(self, action: str, why_not: str) -> None:
        """An action that cannot be taken back, and the sentence that says why."""
        self._why_not[action] = why_not

    def lines(  # noqa: PLR0913 - each is a filter of the log
        self,
        *,
        tenant: TenantId | None = None,
        kind: str | None = None,
        subject: str | None = None,
        action: str | None = None,
        by: str | None = None,
        since_unix: float | None = None,
        before: int | None = None,
        limit: int = 100,
        caller: Caller = SYSTEM,
    ) -> list[AuditRecord]:
        """Lines older than ``before``, newest first, of the tenants that the caller sees. None asks for all.

        Whoever sees one tenant reads its lines by their numbers among its own.
        """
        caller.need("viewer")

        def read(session: Session) -> list[AuditRecord]:
            found = audit.page(
                session,
                before_key=before if caller.tenant is None or before is None else _key(session, before, caller.tenant),
                limit=limit,
                tenant=caller.tenant or tenant,
                object_kind=kind,
                object=subject,
                action=action,
                by=by,
                since_unix=since_unix,
            )
            return found if caller.tenant is None else tenant_log.narrow_lines(session, caller.tenant, found)

        return self._store.read(read)

    def reversible(self, line: AuditRecord) -> bool:
        """Whether there is a way back; that nothing came after is only known when it is tried."""
        return line.action in self._ways

    def why_not(self, line: AuditRecord) -> str:
        """Why there is no way back from a change; empty where there is one."""
        return "" if self.reversible(line) else self._why_not.get(line.action, "it has no opposite")

    def role_for(self, line: AuditRecord) -> Role:
        """What it takes to undo a change."""
        return "admin" if line.action.startswith(FOR_ADMINS) else "operator"

    def undone(self, lines: Sequence[AuditRecord], *, caller: Caller = SYSTEM) -> dict[int, int]:
        """Of these lines, as the caller was shown them, those that were taken back, and the lines that did it."""
        caller.need("viewer")
        shown = [line.key for line in lines]

        def read(session: Session) -> dict[int, int]:
            if caller.tenant is None:
                return audit.undone_among(session, shown)
            found = audit.undone_among(session, list(tenant_log.keys(session, caller.tenant, shown).values()))
            known = tenant_log.numbers(session, caller.tenant, {*found, *found.values()})
            return {known[undone]: known[by] for undone, by in found.items() if by in known}

        return self._store.read(read)

    def verify(self, *, caller: Caller = SYSTEM) -> int | None:
        """The first line that is not as it was written, or before which one is missing; None when all hold. Reads the whole log."""
        caller.need("viewer", everywhere=True)
        return self._store.read(audit.verify)

    def undo(self, key: int, *, why: str = "", caller: Caller = SYSTEM) -> AuditRecord:
        """Take a change back, once; the first line that tells of it. Raises Forbidden, AdapterNotFound or Conflict with the reason.

        ``key`` is the line's as the caller was shown it.
        """
        line = self._line(key, caller)
        caller.need(self.role_for(line))
        with self._undoing:
            self._undo(line, why, caller)
        done = self._store.read(lambda session: audit.undone_by(session, line.key))
        return self._shown(line if done is None else self._get(done), caller)

    def _undo(self, line: AuditRecord, why: str, caller: Caller) -> None:
        done = self._store.read(lambda session: audit.undone_by(session, line.key))
        if done is not None:
            shown, by = (self._shown(one, caller).key for one in (line, self._get(done)))
            message = f"Line {shown} was taken back already, by line {by}."
            raise Conflict(message, code="already_undone", param="id", found=by)
        undo = self._ways.get(line.action)
        if undo is None:
            message = f"{line.action} cannot be taken back: {self.why_not(line)}."
            raise Conflict(message, code="not_reversible", param="id", found=line.action)
        undo(line, why or f"undo of {line.action}", caller)

    def _line(self, shown: int, caller: Caller) -> AuditRecord:
        """The line that the caller was shown by this key, as it is stored."""
        tenant = caller.tenant
        key = shown if tenant is None else self._store.read(lambda session: tenant_log.keys(session, tenant, [shown]).get(shown))
        line = None if key is None else self._store.read(lambda session: audit.get(session, key))
        if line is None:
            message = f"There is no line {shown} in the audit log."
            raise AdapterNotFound(message, code="audit_not_found", param="id", found=shown)
        return line

    def _get(self, key: int) -> AuditRecord:
        line = self._store.read(lambda session: audit.get(session, key))
        assert line is not None, f"line {key} is gone"
        return line

    def _shown(self, line: AuditRecord, caller: Caller) -> AuditRecord:
        tenant = caller.tenant
        return line if tenant is None else self._store.read(lambda session: tenant_log.narrow_lines(session, tenant, [line]))[0]


def _key(session: Session, number: int, tenant: TenantId) -> int | None:
    """Where a tenant's line of this number is; None beyond its newest, and 0 before its first."""
    return tenant_log.keys(session, tenant, [number]).get(number, None if number > 0 else 0)


def alias_of(line: AuditRecord) -> AliasName:
    """The alias that a line is about."""
    return AliasName(TenantId(line.tenant or ""), line.object)


def moved_on(what: str, expected: Any, found: Any) -> Conflict:  # noqa: ANN401 - shown as given
    """The refusal to take back what something else has changed since."""
    message = f"{what} has changed since; nothing was taken back."
    return Conflict(message, code="moved_on", param="id", expected=expected, found=found)
