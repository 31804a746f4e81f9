"""What the gate makes of a registration: the report, and the record of what was refused. Any thread but the engine's."""

from __future__ import annotations

import contextlib
import time
from dataclasses import asdict, replace
from typing import TYPE_CHECKING, Any

from engine.errors import AdapterRefused, RegistryUnavailable
from engine.registry import reports
from engine.report import GateReport, Scores
from engine.versions.gate import Findings, judge, judge_scores, refusal_of, refused

if TYPE_CHECKING:
    from sqlmodel import Session

    from engine.alias import AliasName
    from engine.caller import Caller
    from engine.ids import AdapterId
    from engine.model_host import ModelHost
    from engine.version import VersionRecord
    from engine.versions.thresholds import GateThresholds


class Admission:
    """Judges versions by the thresholds of their tenant and base, and by the version whose place they take."""

    def __init__(self, host: ModelHost, thresholds: GateThresholds) -> None:
        self._host = host
        self._thresholds = thresholds

    def judge(self, record: VersionRecord, scores: Scores | None, alias: AliasName) -> GateReport:
        """The report of a version that is to serve as ``alias``. Raises AdapterRefused by the first check that failed."""
        findings = Findings(
            matched=record.num_matched,
            base_digest=record.base_digest,
            base_proof=record.base_proof,
            no_effect_expected=record.no_effect_expected,
            is_proven=bool(record.fingerprint),
            scores=scores,
        )
        thresholds, replaced = self._thresholds.of(alias.tenant), self._replaced(record.id, alias)
        report = judge(findings, thresholds=thresholds, replaced=replaced, now_unix=time.time())
        refusal = refusal_of(report)
        if refusal is not None:
            raise refusal
        return report

    def check_scores(self, alias: AliasName, adapter: AdapterId, scores: Scores | None) -> None:
        """The part that needs no record yet. Raises AdapterRefused."""
        checks = judge_scores(scores, thresholds=self._thresholds.of(alias.tenant), replaced=self._replaced(adapter, alias))
        refusal = refusal_of(GateReport(checks=checks, judged_unix=time.time()))
        if refusal is not None:
            raise refusal

    def reject(self, alias: AliasName, record: VersionRecord | None, *, source: str, refusal: AdapterRefused, caller: Caller) -> None:
        """Keep a refused version with its report; where the database is away, the refusal alone is told."""
        report = {**report_json(refused(refusal, now_unix=time.time())), "code": refusal.code, "message": refusal.message}
        base = self._host.parts.spec.digest

        def work(session: Session) -> tuple[int, int] | None:
            content = None if record is None else record.id
            return reports.reject(session, alias, content=content, source=source, base_digest=base, report=report, by=caller.name)

        def then(stored: tuple[int, int] | None) -> None:
            if stored is not None and record is not None:
                key, number = stored
                self._host.catalog.put(replace(record, key=key, line=alias.name, number=number, state="rejected"))

        with contextlib.suppress(RegistryUnavailable):
            self._host.catalog.store.write(work, then=then)

    def _replaced(self, adapter: AdapterId, alias: AliasName) -> Scores | None:
        current = self._host.catalog.aliases.get(alias)
        if current is None or current.adapter == adapter:
            return None
        stored = self._host.catalog.store.read(lambda session: reports.facts(session, current.version))["scores"]
        return Scores(**stored) if stored else None


def report_json(report: GateReport) -> dict[str, Any]:
    """As it is stored and shown."""
    return {"checks": [asdict(check) for check in report.checks], "judged_unix": report.judged_unix}
