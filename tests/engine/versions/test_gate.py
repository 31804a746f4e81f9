"""The gate says of every check what was expected, what was found, and whether that will do."""

from __future__ import annotations

import pytest

from engine.errors import AdapterRefused
from engine.report import CHECKS, GateReport, Scores, Thresholds
from engine.versions.gate import Findings, judge, refusal_of, refused

OLD = Scores(adapter=0.8, metric="exact", rows_digest="r")


def report(
    scores: Scores | None = None, thresholds: Thresholds | None = None, replaced: Scores | None = None, *, is_proven: bool = True
) -> GateReport:
    """Of a healthy folder."""
    found = Findings(
        matched=4,
        base_digest="d" * 64,
        base_proof="recorded",
        no_effect_expected=False,
        replaces_effect=True,
        is_proven=is_proven,
        scores=scores,
    )
    return judge(found, thresholds=thresholds or Thresholds(), replaced=replaced, now_unix=5.0)


def verdicts(found: GateReport) -> dict[str, str]:
    """By check."""
    return {check.name: check.verdict for check in found.checks}


def test_a_healthy_folder_passes_what_is_asked() -> None:
    """Every check is there, in order, and those without a threshold or something to compare with say so."""
    found = report()
    assert tuple(check.name for check in found.checks) == CHECKS
    assert list(verdicts(found).values()) == ["passed"] * 4 + ["not_asked"] * 2
    assert refusal_of(found) is None
    assert verdicts(report(is_proven=False))["effect"] == "pending"


@pytest.mark.parametrize(
    ("scores", "code"), [(None, "score_missing"), (Scores(adapter=0.59), "score_too_low"), (Scores(adapter=0.6), None)]
)
def test_a_threshold_holds_at_its_edge(scores: Scores | None, code: str | None) -> None:
    """Below it, or without a score, a version is refused; at it, it passes."""
    refusal = refusal_of(report(scores, Thresholds(min_score=0.6)))
    assert (refusal.code if refusal else None) == code


@pytest.mark.parametrize(
    ("scores", "verdict"),
    [
        (Scores(adapter=0.70, metric="exact", rows_digest="r"), "failed"),
        (Scores(adapter=0.75, metric="exact", rows_digest="r"), "passed"),
        (Scores(adapter=0.75, metric="exact", rows_digest="other"), "warned"),
        (Scores(adapter=0.10, metric="json", rows_digest="r"), "warned"),
        (None, "failed"),
    ],
)
def test_a_version_may_not_be_much_worse_than_the_one_it_replaces(scores: Scores | None, verdict: str) -> None:
    """Up to the tolerance; what was measured otherwise is not compared and says so; no score where there was one is worse."""
    found = report(scores, Thresholds(max_drop=0.05), OLD)
    assert verdicts(found)["replaced_score"] == verdict
    assert (refusal_of(found) is not None) == (verdict == "failed")


@pytest.mark.parametrize(
    ("code", "failed"), [("shape_mismatch", "schema"), ("base_mismatch", "base"), ("non_finite", "numbers"), ("no_effect", "effect")]
)
def test_a_refusal_on_the_way_is_a_report_too(code: str, failed: str) -> None:
    """What came before passed, the check at fault has expected and found, and what comes after was not reached."""
    found = refused(AdapterRefused("No.", code=code, expected=(8, 64), found="[8, 32]"), now_unix=1.0)
    assert found.failed is not None
    assert (found.failed.name, found.failed.code, found.failed.expected) == (failed, code, "(8, 64)")
    assert found.failed.found == "[8, 32]: No."
    place = [check.name for check in found.checks].index(failed)  # type: ignore[arg-type]
    assert {check.verdict for check in found.checks[:place]} <= {"passed"}
    assert {check.verdict for check in found.checks[place + 1 :]} <= {"not_reached"}
