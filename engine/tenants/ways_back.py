"""How changes of limits are taken back, and why other changes of accounts are not."""

from __future__ import annotations

from dataclasses import asdict
from typing import TYPE_CHECKING

from engine.allowance import Allowance
from engine.versions.undo import moved_on

if TYPE_CHECKING:
    from engine.audit_record import AuditRecord
    from engine.caller import Caller
    from engine.tenants.tenants import Tenants
    from engine.versions.undo import Audit

NO_WAY_BACK = {
    "tenant.create": "delete the tenant instead",
    "tenant.delete": "its limits and keys are forgotten, and its id is not given again; add another tenant",
    "tenant.suspend": "resume the tenant instead",
    "tenant.resume": "suspend the tenant instead",
    "key.create": "revoke the key instead",
    "key.rotate": "the old secret has ended or will; rotate again",
    "key.revoke": "a secret that may be known to others stays revoked; make a new key",
    "user.add": "disable or delete the user instead",
    "user.role": "whoever was signed in has signed in again since; set the role again",
    "user.password": "the password before is not known",
    "user.disable": "enable the user instead",
    "user.enable": "disable the user instead",
    "user.delete": "the password is gone; add the user again",
}


def teach_ways_back(tenants: Tenants, audit: Audit) -> None:
    """Hand them to the audit log."""

    def limits(line: AuditRecord, why: str, caller: Caller) -> None:
        service = tenants.keys if line.object_kind == "key" else tenants
        current = asdict(service.limits(line.object, caller=caller))
        if current != line.after:
            raise moved_on(line.object, line.after, current)
        service.set_limits(line.object, Allowance(**(line.before or {})), why=why, caller=caller, undo_of=line.key)

    audit.teach("limits.set", limits)
    for action, why_not in NO_WAY_BACK.items():
        audit.forbid(action, why_not)
