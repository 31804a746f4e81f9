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
        self._base = host.parts.spec.digest
        self._of: dict[tuple[str, str], Thresholds] = {
            key: Thresholds(**stored) for key, stored in host.catalog.store.read(gates.every).items() if stored
        }

    def of(self, tenant: TenantId) -> Thresholds:
        """What counts for a tenant's adapters on the served base."""
        return self._of.get(("tenant", tenant)) or self._of.get(("base", self._base)) or Thresholds()

    def set(
        self, wanted: Thresholds, *, tenant: TenantId | None = None, why: str = "", caller: Caller = SYSTEM, undo_of: int | None = None
    ) -> Thresholds:
        """For a tenant, or with None for the served base, which needs an admin of all tenants. Raises Forbidden or InvalidRequest."""
        if tenant is None:
            caller.need("admin", everywhere=True)
        else:
            caller.need_for(tenant, "admin")
        for name, value in asdict(wanted).items():
            if value is not None and not 0 <= value <= 1:
                message = f"{name} is a share from 0 to 1."
                raise InvalidRequest(message, param=name, expected="0 to 1", found=value)
        key = ("base", self._base) if tenant is None else ("tenant", str(tenant))
        before = self._of.get(key)

        def work(session: Session) -> None:
            gates.put(session, key, asdict(wanted), by=caller.name)
            about = Subject(kind=f"{key[0]}_gate", name=key[1], tenant=tenant)
            audit.append(session, caller, "gate.set", about, before=_facts(before), after=asdict(wanted), why=why, undo_of=undo_of)

        self._host.catalog.store.write(work, then=lambda _: self._of.__setitem__(key, wanted))
        return wanted


def _facts(thresholds: Thresholds | None) -> dict[str, Any]:
    return asdict(thresholds or Thresholds())
