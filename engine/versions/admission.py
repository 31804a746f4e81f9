"""What the gate makes of a registration: the report, and the record of what was refused. Any thread but the engine's."""

from __future__ import annotations

import contextlib
import time
from dataclasses import asdict, dataclass, replace
from typing import TYPE_CHECKING, Any

from engine.errors import AdapterRefused, RegistryUnavailable
from engine.registry import audit, reports
from engine.registry.alias_words import alias_subject
from engine.report import GateReport, Scores
from engine.versions.gate import Findings, judge, judge_numbers, judge_scores, refusal_of
from engine.versions.gate import refused as refused_report

if TYPE_CHECKING:
    from sqlmodel import Session

    from engine.adapters.peft import ParsedAdapter
    from engine.alias import AliasName
    from engine.caller import Caller
    from engine.ids import AdapterId
    from engine.model_host import ModelHost
    from engine.version import VersionRecord
    from engine.versions.thresholds import GateThresholds


@dataclass(frozen=True, slots=True, kw_only=True)
class Refused:
    """What the gate did not let in. ``record`` is there when it got that far."""

    alias: AliasName
    record: VersionRecord | None
    source: str
    refusal: AdapterRefused


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
            replaces_effect=self._replaces_effect(record.id, alias),
            is_proven=bool(record.fingerprint),
            scores=scores,
        )
        thresholds, replaced = self._thresholds.of(alias.tenant), self._replaced(record.id, alias)
        report = judge(findings, thresholds=thresholds, replaced=replaced, now_unix=time.time())
        refusal = refusal_of(report)
        if refusal is not None:
            raise refusal
        return report

    def check_declared(self, alias: AliasName, parsed: ParsedAdapter) -> None:
        """The part that needs no record yet: what its file says of itself. Raises AdapterRefused."""
        numbers = judge_numbers(no_effect=parsed.no_effect, replaces_effect=self._replaces_effect(parsed.id, alias))
        scores = judge_scores(parsed.scores, thresholds=self._thresholds.of(alias.tenant), replaced=self._replaced(parsed.id, alias))
        refusal = refusal_of(GateReport(checks=(numbers, *scores), judged_unix=time.time()))
        if refusal is not None:
            raise refusal

    def reject(self, refused: Refused, *, caller: Caller) -> None:
        """Keep a refused version with its report, and a line in the audit log; where the database is away, the refusal alone is told."""

        def work(session: Session) -> VersionRecord | None:
            rejected, number = self._store(session, refused, caller)
            refusal = refused.refusal
            after = {"state": "rejected", "code": refusal.code, "param": refusal.param, "source": refused.source, "number": number}
            audit.append(session, caller, "adapter.reject", alias_subject(refused.alias), after=after, why=refusal.message)
            return rejected

        with contextlib.suppress(RegistryUnavailable):
            self._host.catalog.store.write(work, then=self.heard)

    def note(self, session: Session, refused: Refused, *, caller: Caller) -> VersionRecord | None:
        """Keep a refused version with its report, in a transaction; what ``heard`` is to be told after its commit."""
        return self._store(session, refused, caller)[0]

    def heard(self, rejected: VersionRecord | None) -> None:
        """Memory follows a rejection that was committed."""
        if rejected is not None:
            self._host.catalog.put(rejected)

    def _store(self, session: Session, refused: Refused, caller: Caller) -> tuple[VersionRecord | None, int | None]:
        """The version that is kept, if it got as far as weights, and its number; None where these weights serve."""
        refusal, record, alias = refused.refusal, refused.record, refused.alias
        report = {**report_json(refused_report(refusal, now_unix=time.time())), "code": refusal.code, "message": refusal.message}
        stored = reports.reject(
            session,
            alias,
            content=None if record is None else record.id,
            source=refused.source,
            base_digest=self._host.parts.spec.digest,
            report=report,
            by=caller.name,
        )
        if stored is None:
            return None, None
        key, number = stored
        return None if record is None else replace(record, key=key, line=alias.name, number=number, state="rejected"), number

    def _replaces_effect(self, adapter: AdapterId, alias: AliasName) -> bool:
        current = self._host.catalog.aliases.get(alias)
        if current is None or current.adapter == adapter:
            return False
        record = self._host.catalog.versions.get(current.adapter)
        return record is not None and not record.no_effect_expected

    def _replaced(self, adapter: AdapterId, alias: AliasName) -> Scores | None:
        current = self._host.catalog.aliases.get(alias)
        if current is None or current.adapter == adapter:
            return None
        stored = self._host.catalog.store.read(lambda session: reports.facts(session, current.version))["scores"]
        return Scores(**stored) if stored else None


def report_json(report: GateReport) -> dict[str, Any]:
    """As it is stored and shown."""
    return {"checks": [asdict(check) for check in report.checks], "judged_unix": report.judged_unix}
