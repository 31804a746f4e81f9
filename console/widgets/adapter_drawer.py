"""One adapter: what it is, and four ways to look at it: overview, versions, validation, audit."""

from __future__ import annotations

from typing import TYPE_CHECKING

from console import format as fmt
from console.query import TABS
from console.subject import Subject
from console.views import STATE_GLYPHS, state_of
from console.widgets.drawer_audit import AuditTab
from console.widgets.drawer_overview import drawer_overview, overview_key
from console.widgets.drawer_validation import ValidationTab
from console.widgets.drawer_versions import VersionsTab
from console.widgets.elements import box, button, icon, say, text

if TYPE_CHECKING:
    from nicegui.element import Element

    from console.actions import Actions
    from console.adapter_view import AdapterView
    from engine import AdapterRow

ALL_MODULES = 7


def adapter_drawer(view: AdapterView, actions: Actions) -> None:
    """Open while the address names an adapter; rebuilt when another is opened, another tab, or this one moves."""
    drawer = box("drawer", "aside").props('aria-label="Adapter"')
    shown: tuple[object, ...] = ()

    def update() -> None:
        nonlocal shown
        subject = _subject(view)
        drawer.set_visibility(subject is not None)
        key = _key(view, subject)
        if key == shown:
            return
        shown = key
        drawer.clear()
        if subject is not None:
            with drawer:
                _contents(subject, view, actions)

    view.on_change(update)


def _subject(view: AdapterView) -> Subject | None:
    row, kept = view.opened, view.opened_stored
    if row is not None:
        return Subject(tenant=row.tenant, ref=row.id, name=row.alias, aliases=row.aliases, row=row)
    return None if kept is None else Subject(tenant=kept.tenant, ref=kept.line, name=kept.line, number=kept.number)


def _key(view: AdapterView, subject: Subject | None) -> tuple[object, ...]:
    """What makes the drawer another one."""
    if subject is None:
        return ()
    row, tab = subject.row, _tab(view, subject)
    same = (tab, subject.tenant, subject.ref, subject.number, subject.aliases)
    if row is None:
        return same
    return (*same, *overview_key(row)) if tab == "overview" else (*same, row.lifecycle, row.probe, row.pinned)


def _tab(view: AdapterView, subject: Subject) -> str:
    return "validation" if subject.row is None and view.query.tab == "overview" else view.query.tab


def _contents(subject: Subject, view: AdapterView, actions: Actions) -> None:
    row, tab = subject.row, _tab(view, subject)
    _head(subject, view)
    _tabs(subject, view, tab)
    if tab == "overview" and row is not None:
        drawer_overview(row, view, actions)
    elif tab == "versions":
        VersionsTab(subject, view)
    elif tab == "validation":
        ValidationTab(subject, view)
    else:
        AuditTab(subject, view)


def _head(subject: Subject, view: AdapterView) -> None:
    tenant, slash, name = subject.name.rpartition("/")
    row = subject.row
    with box("drawer-head"):
        with box("drawer-title", "h2"):
            text(tenant + slash, "muted")
            text("no name" if row is not None and row.alias == row.id else name, "name")
        copy = button("", kind="quiet", glyph="copy", small=True, hint="Copy the model name").props("data-do=copy")
        copy.props["data-text"] = subject.name
        box("gap")
        button("", lambda: view.change(open=""), kind="quiet", glyph="close", small=True, hint="Close (Esc)").props("data-esc")
    if row is None:
        with box("drawer-sub"):
            text(f"tenant {subject.tenant}")
            text(f"version {subject.number}")
            text("does not serve")
    else:
        _facts_lines(row)
    if row is not None and row.lifecycle == "retired":
        _drain(row, view)


def _facts_lines(row: AdapterRow) -> None:
    state = state_of(row)
    with box("drawer-sub"):
        if row.number:
            text(f"version {row.number}")
        text(fmt.digest(row.id), "code").props["title"] = row.id
        with box("status"):
            icon(*STATE_GLYPHS[state])
            text(state)
    with box("drawer-sub"):
        text(f"r{row.rank}, {module_words(row)}")
        text(fmt.size(row.bytes))
        if row.synthetic:
            text("SYNTHETIC", "tag dashed")


def module_words(row: AdapterRow) -> str:
    """Which matrices it changes, in few words."""
    return (
        "all linear"
        if len(row.modules) == ALL_MODULES
        else ", ".join(module.removesuffix("_proj") for module in row.modules) or "no modules"
    )


def _drain(row: AdapterRow, view: AdapterView) -> None:
    """While requests still use what is retired: how many, and how long at most."""
    with box("drain").props("role=status") as line:
        icon("draining", "muted")
        words = text("")

    def update() -> None:
        now = view.feed.adapter(row.id)
        left = 0 if now is None else now.leases + now.waiting
        eta_s = None if now is None else now.drain_eta_s
        limit = f", at most {fmt.duration(eta_s)}" if eta_s is not None else ""
        say(words, f"Draining: {fmt.plural(left, 'request')} end first{limit}." if left else "Drained: no request uses it.")
        if line.is_deleted:
            view.forget(update)

    view.on_change(update)


def _tabs(subject: Subject, view: AdapterView, chosen: str) -> Element:
    with box("tabs").props('role=tablist aria-label="Adapter"') as tabs:
        for name, label in TABS.items():
            if name == "overview" and subject.row is None:
                continue
            with box("tab on" if name == chosen else "tab", "button").props("type=button role=tab") as element:
                text(label)
            element.props["aria-selected"] = "true" if name == chosen else "false"
            element.on("click", lambda name=name: view.change(tab=name), args=[])
    return tabs
