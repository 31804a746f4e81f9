"""What was done to an adapter: who, when, what, why, and taking it back."""

from __future__ import annotations

import time
from functools import partial
from typing import TYPE_CHECKING, Final

from nicegui import background_tasks

from console import format as fmt
from console.audit_words import audit_words
from console.widgets.drawer_loading import loading, unanswered
from console.widgets.elements import box, button, enable, icon, text
from engine import LoradeckError

if TYPE_CHECKING:
    from collections.abc import Sequence

    from console.adapter_view import AdapterView
    from console.stored import StoredVersion
    from console.subject import Subject
    from engine import AuditRecord

VERSIONS_ASKED: Final = 12
"""Of the line's newest versions, whose own lines are shown beside those of its names."""


class AuditTab:
    """Belongs to an open drawer."""

    def __init__(self, subject: Subject, view: AdapterView) -> None:
        self._subject, self._view, self._actions = subject, view, view.versions
        self._body = box("tab-body")
        loading(self._body, self.load)

    async def load(self) -> None:
        """Ask for the lines of its names and of its newest versions."""
        try:
            versions = await self._actions.line(self._subject.ref, self._subject.tenant)
            names = self._subject.aliases or tuple({version.line for version in versions})
            subjects = [("alias", name) for name in names] + [("version", one.place.ref) for one in versions[:VERSIONS_ASKED]]
            lines = await self._actions.audit(self._subject.tenant, tuple(subjects))
        except LoradeckError as error:
            unanswered(self._body, error, self.load)
            return
        self._body.clear()
        with self._body:
            self._list(lines, versions)

    def _list(self, lines: Sequence[AuditRecord], versions: Sequence[StoredVersion]) -> None:
        if not lines:
            text("Nothing is noted about it.", "faint", "p")
        numbers = {version.key: version.number for version in versions}
        undone = {line.undo_of for line in lines}
        with box("audit-list").props('role=list aria-label="Audit"'):
            for line in lines:
                self._line(line, numbers, is_undone=line.key in undone)

    def _line(self, line: AuditRecord, numbers: dict[int, int], *, is_undone: bool) -> None:
        glyph, what, change = audit_words(line, numbers)
        with box("audit-line").props("role=listitem"):
            icon(glyph, "muted")
            with box("audit-words"):
                with box("version-line"):
                    text(what, "name")
                    text(change, "muted")
                with box("version-line second"):
                    text(fmt.moment(line.at_unix, time.time()), "faint").props["title"] = fmt.utc(line.at_unix)
                    text(line.by, "faint")
                    if is_undone:
                        text("taken back", "tag outlined")
                if line.why:
                    text(f"“{line.why}”", "muted why-words", "p")
            if self._actions.reversible(line) and not is_undone:
                undo = button("Undo", partial(self._undo, line), glyph="undo", small=True)
                why_not = self._actions.why_not("operator", "Undo")
                enable(undo, not why_not, why_not)

    async def _undo(self, line: AuditRecord) -> None:
        await self._actions.undo(line)
        background_tasks.create(self.load(), context=self._body)
        self._view.load_stored()
