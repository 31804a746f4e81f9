"""One line of the audit log: before, after, why, and the way back."""

from __future__ import annotations

import time
from functools import partial
from typing import TYPE_CHECKING

from console import format as fmt
from console.record_diff import differences
from console.widgets.confirm_dialog import confirm_dialog
from console.widgets.elements import box, button, enable, icon, text

if TYPE_CHECKING:
    from console.audit_view import AuditView
    from engine import AuditRecord


def audit_drawer(view: AuditView) -> None:
    """Open while the address names a line of this page."""
    drawer = box("drawer audit-drawer", "aside").props('aria-label="Audit line"')
    shown: tuple[object, ...] = ()

    def update() -> None:
        nonlocal shown
        line = view.opened
        drawer.set_visibility(line is not None)
        key = () if line is None else (line, view.undone.get(line.key))
        if key == shown:
            return
        shown = key
        drawer.clear()
        if line is not None:
            with drawer:
                _head(line, view)
                _diff(line)
                _facts(line, view)
                _way_back(line, view)

    view.on_change(update)


def _head(line: AuditRecord, view: AuditView) -> None:
    with box("drawer-head"):
        with box("drawer-title", "h2"):
            text(line.object, "name")
        box("gap")
        button("", lambda: view.show(None), kind="quiet", glyph="close", small=True, hint="Close (Esc)").props("data-esc")
    with box("drawer-sub"):
        text(line.action, "code")
        text(f"line {line.key:,}")
        text(fmt.moment(line.at_unix, time.time())).props["title"] = fmt.utc(line.at_unix)


def _diff(line: AuditRecord) -> None:
    found = differences(line.before, line.after)
    same = [each for each in found if not each.is_change]
    changed = [each for each in found if each.is_change]
    with box("section"):
        text("What changed", "card-title")
        if not changed:
            text("Nothing that is kept.", "faint", "p")
        else:
            _table([(each.name, each.before, each.after) for each in changed])
        if same:
            with box("more", "details"):
                text(f"{fmt.plural(len(same), 'field')} the same", "", "summary")
                _table([(each.name, each.before, each.after) for each in same])


def _table(rows: list[tuple[str, str | None, str | None]]) -> None:
    with box("diff", "table"):
        with box("", "tr"):
            for head in ("Field", "Before", "After"):
                text(head, "", "th")
        for name, before, after in rows:
            with box("", "tr"):
                text(name, "code", "td")
                text(fmt.DASH if before is None else before, "was" if before is not None else "faint", "td")
                text(fmt.DASH if after is None else after, "is" if after is not None else "faint", "td")


def _facts(line: AuditRecord, view: AuditView) -> None:
    with box("section refusal-facts"):
        _fact("who", f"{line.by}, {line.by_kind}", lambda: view.change(by=line.by))
        _fact("object", f"{line.object_kind} {line.object}", lambda: view.change(object=line.object))
        if line.tenant:
            _fact("tenant", line.tenant, lambda: view.change(tenant=line.tenant))
        _fact("why", line.why or fmt.DASH)
        if line.request:
            _fact("request", line.request)
        if line.hash:
            _fact("hash", line.hash)


def _fact(label: str, value: str, more: object = None) -> None:
    text(label, "faint")
    if callable(more):
        with box("link", "button").props('type=button title="All of these"').on("click", more, args=[]):
            text(value)
    else:
        text(value, "" if label == "why" else "code")


def _way_back(line: AuditRecord, view: AuditView) -> None:
    audit, taken_back = view.desk.engine.audit, view.undone.get(line.key)
    with box("section"):
        if line.undo_of is not None:
            _said("undo", f"Took back line {line.undo_of:,}.")
        if taken_back is not None:
            _said("undo", f"Taken back by line {taken_back:,}.")
            return
        why_not = audit.why_not(line)
        if why_not:
            _said("lock", f"Cannot be taken back: {why_not}.")
            return
        with box("drawer-foot"):
            undo = button("Undo…", partial(_undo, line, view), glyph="undo", small=True)
            role = view.desk.why_not(audit.role_for(line))
            enable(undo, not role, role)


def _said(glyph: str, words: str) -> None:
    with box("check-line"):
        icon(glyph, "muted")
        text(words)


def _undo(line: AuditRecord, view: AuditView) -> None:
    async def undo(why: str) -> bool:
        done = await view.desk.do(
            "Not taken back", view.desk.engine.audit.undo, line.key, why=why, said=f"Took back {line.action} of {line.object}"
        )
        view.ask(view.query)
        return done is not None

    changed = [each for each in differences(line.after, line.before) if each.is_change]
    effects = [
        f"{each.name}: {each.before if each.before is not None else fmt.DASH} → {each.after if each.after is not None else fmt.DASH}"
        for each in changed
    ]
    confirm_dialog(
        f"Take back {line.action} of {line.object}", effects[:8] or ["As it was before."], "Undo", undo, note="A line of its own"
    )
