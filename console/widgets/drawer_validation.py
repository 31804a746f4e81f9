"""The gate's report of a version: each check with its verdict, what was expected and what was found."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from console import format as fmt
from console.views import STATE_GLYPHS
from console.widgets.drawer_loading import loading, unanswered
from console.widgets.elements import box, icon, segments, text
from engine import LoradeckError

if TYPE_CHECKING:
    from collections.abc import Sequence

    from console.adapter_view import AdapterView
    from console.stored import CheckLine, StoredVersion
    from console.subject import Subject

SHOWN: Final = 8
CHECK_WORDS: Final = {
    "schema": "Shape",
    "base": "Base",
    "numbers": "Numbers",
    "effect": "Effect",
    "score": "Score",
    "replaced_score": "Score against the version before",
}
VERDICTS: Final = {
    "passed": ("check", "ok", "passed"),
    "warned": ("warn", "warn", "warned"),
    "failed": ("crit", "crit", "failed"),
    "pending": ("unknown", "unknown", "at the first load"),
    "not_reached": ("paused", "unknown", "not reached"),
    "not_asked": ("paused", "unknown", "not asked"),
}


class ValidationTab:
    """Belongs to an open drawer. Other versions of the line are one press away, rejected ones too."""

    def __init__(self, subject: Subject, view: AdapterView) -> None:
        self._subject, self._view = subject, view
        self._body = box("tab-body")
        loading(self._body, self._load)

    async def _load(self) -> None:
        try:
            versions = await self._view.versions.line(self._subject.ref, self._subject.tenant)
        except LoradeckError as error:
            unanswered(self._body, error, self._load)
            return
        wanted = self._subject.number or (self._subject.row.number if self._subject.row else 0)
        chosen = next((version for version in versions if version.number == wanted), versions[0] if versions else None)
        self._body.clear()
        with self._body:
            if chosen is None:
                text("No version of it is stored.", "faint", "p")
                return
            if len(versions) > 1:
                self._picker(versions, chosen)
            self._report = box("tab-body")
        self._show(chosen)

    def _picker(self, versions: Sequence[StoredVersion], chosen: StoredVersion) -> None:
        near = list(versions[:SHOWN])
        if chosen not in near:
            near[-1] = chosen
        by_number = {str(version.number): version for version in near}
        with box("version-pick"):
            text("Version", "label")
            numbers = {number: number for number in sorted(by_number, key=int)}
            segments(numbers, str(chosen.number), lambda number: self._show(by_number[number]), "Version")

    def _show(self, version: StoredVersion) -> None:
        self._report.clear()
        with self._report:
            with box("report-head"):
                icon(*STATE_GLYPHS[version.state])
                text(version.state, "name")
                text(fmt.clock_day(version.state_unix), "faint")
            if version.refusal:
                text(version.refusal, "refusal-message", "p")
            if version.checks:
                check_list(version.checks)
            else:
                text("It was registered before reports were kept; its checks are not known.", "faint", "p")
            for warning in version.warnings:
                with box("check-line"):
                    icon("warn", "warn")
                    text(warning)
            if version.source:
                text(version.source, "code source")


def check_list(checks: Sequence[CheckLine], *, brief: bool = False) -> None:
    """In the order in which they were made; ``brief`` says nothing more of those that passed."""
    with box("gate").props("role=list"):
        for check in checks:
            glyph, level, verdict = VERDICTS[check.verdict]
            with box("gate-line").props("role=listitem"):
                icon(glyph, level)
                text(CHECK_WORDS.get(check.name, check.name), "name")
                text(verdict, "muted")
                if check.code:
                    text(check.code, "code")
                if (check.expected or check.found) and not (brief and check.verdict == "passed"):
                    with box("gate-facts"):
                        _fact("expected", check.expected)
                        _fact("found", check.found)


def _fact(label: str, value: str) -> None:
    if value:
        text(label, "faint")
        text(value)
