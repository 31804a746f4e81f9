"""The probe's verdict at a first load: the stored report is completed, and what failed is rejected. Engine thread; never blocks."""

from __future__ import annotations

from dataclasses import asdict, replace
from typing import TYPE_CHECKING

from engine.caller import SYSTEM
from engine.registry import audit, reports
from engine.report import Check
from engine.versions.facts import version_subject
from engine.versions.gate import EFFECT_EXPECTED, effect_passed

if TYPE_CHECKING:
    from sqlmodel import Session

    from engine.errors import AdapterRefused
    from engine.ids import AdapterId
    from engine.model_host import ModelHost


def pass_late(host: ModelHost, adapter: AdapterId, fingerprint: tuple[float, ...]) -> None:
    """It serves from now on; the database hears of it soon."""
    host.catalog.prove(adapter, fingerprint)
    keys = tuple(host.catalog.holders.get(adapter, ()))
    host.catalog.store.later(lambda session: reports.complete(session, keys, asdict(effect_passed()), probe="ok"))


def reject_late(host: ModelHost, adapter: AdapterId, fault: AdapterRefused) -> None:
    """Its versions that were ready are rejected at once here, and soon in the database: they never answer, also after a restart."""
    catalog = host.catalog
    held = [catalog.records[key] for key in sorted(catalog.holders.get(adapter, ()))]
    failed = [record for record in held if record.state == "ready"]
    for record in failed:
        catalog.put(replace(record, state="rejected"))
    check = Check(name="effect", verdict="failed", expected=EFFECT_EXPECTED, found=fault.message, code=fault.code)

    def work(session: Session) -> None:
        reports.complete(
            session, [record.key for record in failed], asdict(check), state="rejected", code=fault.code, message=fault.message
        )
        for record in failed:
            before, after = {"state": record.state}, {"state": "rejected", "code": fault.code}
            audit.append(session, SYSTEM, "version.reject", version_subject(record), before=before, after=after, why=fault.message)

    catalog.store.later(work)
