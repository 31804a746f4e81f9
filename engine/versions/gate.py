"""The gate: from what registration found to a verdict on every check. Pure."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from engine.errors import AdapterRefused
from engine.report import CHECKS, Check, GateReport, Scores, Thresholds

if TYPE_CHECKING:
    from engine.report import CheckName

CHECK_OF: dict[str, CheckName] = {
    "base_mismatch": "base",
    "base_undeclared": "base",
    "record_mismatch": "base",
    "non_finite": "numbers",
    "dtype_overflow": "numbers",
    "all_zero": "numbers",
    "no_effect": "effect",
    "score_too_low": "score",
    "score_missing": "score",
    "score_dropped": "replaced_score",
}
"""Which check a refusal's code belongs to; any other is the schema's."""
EFFECT_EXPECTED = "logits differ from the base's"
FINITE = "finite, B not all zero"


@dataclass(frozen=True, slots=True, kw_only=True)
class Findings:
    """What registration knows of a folder that parsed."""

    matched: int
    base_digest: str
    base_proof: str
    no_effect_expected: bool
    replaces_effect: bool
    """Whether its alias leads to a version that changes answers."""
    is_proven: bool
    scores: Scores | None


def judge(found: Findings, *, thresholds: Thresholds, replaced: Scores | None, now_unix: float) -> GateReport:
    """The report of a folder that parsed. ``replaced`` is the score of the version whose place it takes."""
    later = Check(name="effect", verdict="pending", expected=EFFECT_EXPECTED, found="looked at when it first comes to the device")
    return GateReport(
        checks=(
            Check(name="schema", verdict="passed", expected="every tensor lands on a module", found=f"{found.matched} modules"),
            Check(
                name="base",
                verdict="passed" if found.base_proof == "recorded" else "warned",
                expected=found.base_digest,
                found="its record names it" if found.base_proof == "recorded" else "declared, not proven",
            ),
            judge_numbers(no_effect=found.no_effect_expected, replaces_effect=found.replaces_effect),
            effect_passed() if found.is_proven else later,
            *judge_scores(found.scores, thresholds=thresholds, replaced=replaced),
        ),
        judged_unix=now_unix,
    )


def judge_numbers(*, no_effect: bool, replaces_effect: bool) -> Check:
    """Finite ones. A fresh training's B of zeros may serve under a name of its own, never in the place of what changes answers."""
    if not no_effect:
        return Check(name="numbers", verdict="passed", expected=FINITE, found=FINITE)
    found = "its file changes nothing: alpha is 0, or B all zero"
    if replaces_effect:
        return Check(name="numbers", verdict="failed", expected=FINITE, found=found, code="all_zero")
    return Check(name="numbers", verdict="warned", expected=FINITE, found=found)


def effect_passed() -> Check:
    """What is said of a version that the probe let through."""
    return Check(name="effect", verdict="passed", expected=EFFECT_EXPECTED, found="they do, or need not")


def judge_scores(scores: Scores | None, *, thresholds: Thresholds, replaced: Scores | None) -> tuple[Check, Check]:
    """What an adapter's record says of it, against the threshold and against the version it replaces."""
    return _score(scores, thresholds), _against(replaced, scores, thresholds)


def refused(refusal: AdapterRefused, *, now_unix: float) -> GateReport:
    """The report of a folder that was refused on the way: what came before passed, what comes after was not reached."""
    failed = CHECK_OF.get(refusal.code, "schema")
    found = refusal.message if refusal.found is None else f"{refusal.found}: {refusal.message}"
    checks = []
    for name in CHECKS:
        before = CHECKS.index(name) < CHECKS.index(failed)
        checks.append(Check(name=name, verdict="passed" if before else "not_reached"))
    place = CHECKS.index(failed)
    checks[place] = Check(
        name=failed, verdict="failed", expected="" if refusal.expected is None else str(refusal.expected), found=found, code=refusal.code
    )
    return GateReport(checks=tuple(checks), judged_unix=now_unix)


def refusal_of(report: GateReport) -> AdapterRefused | None:
    """What to tell who registered it; None when it may serve."""
    failed = report.failed
    if failed is None:
        return None
    message = f"The gate's check {failed.name!r} failed: expected {failed.expected}, found {failed.found}."
    param = "lora_B" if failed.name == "numbers" else "training.json:scores"
    return AdapterRefused(message, code=failed.code, param=param, expected=failed.expected, found=failed.found)


def _score(scores: Scores | None, thresholds: Thresholds) -> Check:
    least = thresholds.min_score
    if scores is None:
        if least is None:
            return Check(name="score", verdict="not_asked", found="its record has no score")
        return Check(
            name="score", verdict="failed", expected=f"at least {least:.1%}", found="its record has no score", code="score_missing"
        )
    found = f"{scores.adapter:.1%}" + (f" ({scores.metric})" if scores.metric else "")
    if least is None:
        return Check(name="score", verdict="not_asked", found=found)
    if scores.adapter < least:
        return Check(name="score", verdict="failed", expected=f"at least {least:.1%}", found=found, code="score_too_low")
    return Check(name="score", verdict="passed", expected=f"at least {least:.1%}", found=found)


def _against(replaced: Scores | None, scores: Scores | None, thresholds: Thresholds) -> Check:
    if replaced is None:
        return Check(name="replaced_score", verdict="not_asked", found="nothing with a score is replaced")
    least = replaced.adapter - thresholds.max_drop
    expected = f"at least {least:.1%} ({replaced.adapter:.1%} less {thresholds.max_drop:.1%})"
    if scores is None:
        return Check(name="replaced_score", verdict="failed", expected=expected, found="its record has no score", code="score_missing")
    if scores.metric != replaced.metric:
        found = f"measured by {scores.metric or 'another metric'}, the one before by {replaced.metric or 'another'}: not comparable"
        return Check(name="replaced_score", verdict="warned", expected=expected, found=found)
    rows = "" if scores.rows_digest == replaced.rows_digest else ", on other held-out chats"
    found = f"{scores.adapter:.1%}{rows}"
    if scores.adapter < least:
        return Check(name="replaced_score", verdict="failed", expected=expected, found=found, code="score_dropped")
    return Check(name="replaced_score", verdict="warned" if rows else "passed", expected=expected, found=found)
