"""What scores must be at least, for a base and for a tenant. Any thread."""

from __future__ import annotations

from dataclasses import asdict
from typing import TYPE_CHECKING, Any

from engine.audit_record import Subject
from engine.caller import SYSTEM
from engine.errors import InvalidRequest
from engine.registry import audit, gates
from engine.report import Thresholds

if TYPE_CHECKING:
    from sqlmodel import Session

    from engine.caller import Caller
    from engine.ids import TenantId
    from engine.model_host import ModelHost


class GateThresholds:
    """A tenant's count for its adapters; where it has none, the served base's do; else the defaults."""

    def __init__(self, host: ModelHost) -> None:
        self._host = host
        self.base = host.parts.spec.digest
        """Of the base that is served."""
        self._of: dict[tuple[str, str], Thresholds] = {
            key: Thresholds(**stored) for key, stored in host.catalog.store.read(gates.every).items() if stored
        }

    def of(self, tenant: TenantId) -> Thresholds:
        """What counts for a tenant's adapters on the served base."""
        return self.own(tenant) or self.own(None) or Thresholds()

    def own(self, tenant: TenantId | None) -> Thresholds | None:
        """What was set for a tenant, or with None for the served base; None where nothing was."""
        return self._of.get(self._key(tenant))

    def set(
        self,
        wanted: Thresholds | None,
        *,
        tenant: TenantId | None = None,
        why: str = "",
        caller: Caller = SYSTEM,
        undo_of: int | None = None,
    ) -> None:
        """For a tenant, or with None for the served base, which needs an admin of all tenants; ``wanted`` None forgets what was set.

        Raises Forbidden or InvalidRequest.
        """
        if tenant is None:
            caller.need("admin", everywhere=True)
        else:
            caller.need_for(tenant, "admin")
        for name, value in (_facts(wanted) or {}).items():
            if value is not None and not 0 <= value <= 1:
                message = f"{name} is a share from 0 to 1."
                raise InvalidRequest(message, param=name, expected="0 to 1", found=value)
        key, before = self._key(tenant), self.own(tenant)

        def work(session: Session) -> None:
            gates.put(session, key, _facts(wanted) or {}, by=caller.name)
            about = Subject(kind=f"{key[0]}_gate", name=key[1], tenant=tenant)
            audit.append(session, caller, "gate.set", about, before=_facts(before), after=_facts(wanted), why=why, undo_of=undo_of)

        def then(_: None) -> None:
            if wanted is None:
                self._of.pop(key, None)
            else:
                self._of[key] = wanted

        self._host.catalog.store.write(work, then=then)

    def _key(self, tenant: TenantId | None) -> tuple[str, str]:
        return ("base", self.base) if tenant is None else ("tenant", str(tenant))


def _facts(thresholds: Thresholds | None) -> dict[str, Any] | None:
    return None if thresholds is None else asdict(thresholds)
