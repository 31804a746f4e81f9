"""Above the adapters: saved views with their counts, the filter, facet chips, and whose adapters they are."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Any, Final

from nicegui import ui

from console import format as fmt
from console.query import STORED_VIEWS
from console.views import FACETS, VIEWS
from console.widgets.elements import box, button, enable, field, icon, say, text
from console.widgets.register_dialog import register_dialog

if TYPE_CHECKING:
    from collections.abc import Callable

    from console.actions import Actions
    from console.adapter_view import AdapterView
    from console.import_actions import ImportActions

FILTER_HINT: Final = "Part of a name or version, or: tenant:acme tier:host pinned:true leased:true rank:>16 idle:>7d"
FACET_GLYPHS: Final = {
    "device": "device",
    "host": "host",
    "disk": "disk",
    "remote": "remote",
    "loading": "loading",
    "pinned": "pinned",
    "drift": "warn",
    "quarantined": "crit",
}
TENANTS_SHOWN: Final = 12
LABELS: Final = {name: label for name, (label, _) in (VIEWS | STORED_VIEWS).items()}


def view_bar(view: AdapterView, actions: Actions, imports: ImportActions) -> None:
    """Saved views, and the way to add more adapters."""
    with box("view-bar"):
        with box("views").props('role=group aria-label="Saved views"'):
            counts = {name: _view_button(view, name) for name in LABELS}
        register = button("Register…", lambda: register_dialog(actions, imports), glyph="plus").classes("register")
        why_not = view.versions.why_not("operator", "Register")
        enable(register, not why_not, why_not)

    def update() -> None:
        for name, (element, count) in counts.items():
            say(count, fmt.count(view.count(name)))
            _press(element, on=name == view.query.view)

    view.on_change(update)


def _view_button(view: AdapterView, name: str) -> tuple[Any, Any]:
    with box("view", "button").props("type=button").on("click", lambda: view.change(view=name, facets=frozenset()), args=[]) as element:
        text(LABELS[name])
        return element, text("", "count")


def filter_bar(view: AdapterView) -> None:
    """A filter that waits for the typing to pause, whose adapters, and chips counted within the view."""
    with box("filter-bar"):
        with box("find"):
            icon("search")
            find = field("Filter adapters", value=view.query.q, placeholder="Filter", on_change=lambda e: view.change(q=e.value or ""))
            find.props("debounce=250 clearable").props["title"] = FILTER_HINT
            text("/", "slash", "kbd")
        with box("chips").props('role=group aria-label="Facets"'):
            if view.versions.caller.tenant is None:
                _tenant_chip(view)
            chips = {name: _chip(view, name) for name in FACETS}

    def update() -> None:
        for name, (element, count) in chips.items():
            number_found = 0 if view.query.is_stored else view.shelf.count(view.query.view, name)
            chosen = name in view.query.facets
            say(count, f"{number_found:,}")
            element.set_visibility(bool(number_found) or chosen)
            _press(element, on=chosen)

    view.on_change(update)


def _chip(view: AdapterView, name: str) -> tuple[Any, Any]:
    with box("chip", "button").props("type=button").on("click", lambda: view.ask(view.query.with_facet(name)), args=[]) as element:
        icon(FACET_GLYPHS[name], {"pinned": "violet", "drift": "warn", "quarantined": "crit"}.get(name, ""))
        text(FACETS[name][0])
        return element, text("", "count")


def _press(element: Any, *, on: bool) -> None:  # noqa: ANN401 - an element
    element.classes(add="on" if on else "", remove="" if on else "on")
    element.props["aria-pressed"] = "true" if on else "false"


def _tenant_chip(view: AdapterView) -> None:
    """Opens a short list of tenants with their counts; with one chosen it says which, and a second press lets go."""
    with box("chip tenant-chip", "button").props("type=button aria-haspopup=listbox") as chip:
        icon("tenant")
        name = text("", "ellipsis")
        count = text("", "count")
        mark = icon("down")
        menu = ui.menu().classes("pick-menu").props("no-parent-event transition-duration=0")

    def press() -> None:
        if view.query.tenant:
            view.change(tenant="")
        else:
            _fill(menu, view)
            menu.open()

    def update() -> None:
        chosen = view.query.tenant
        say(name, chosen or "tenant")
        say(count, "" if chosen else f"{sum(bool(shelf.rows) for shelf in view.feed.shelves.tenants.values()):,}")
        mark.set_visibility(not chosen)
        _press(chip, on=bool(chosen))
        chip.props["title"] = "All tenants again" if chosen else "One tenant’s adapters"

    chip.on("click", press, args=[])
    view.on_change(update)


def _fill(menu: ui.menu, view: AdapterView) -> None:
    """Made when it is opened: the tenants with the most rows in the view, or those whose name has the typed part."""
    menu.clear()
    shelves = view.feed.shelves.tenants

    def show(part: str) -> None:
        named = [tenant for tenant in shelves if part.lower() in tenant]
        counted = sorted(((shelves[tenant].count(*_live(view)), tenant) for tenant in named), key=lambda pair: (-pair[0], pair[1]))
        options.clear()
        with options:
            for number_found, tenant in counted[:TENANTS_SHOWN]:
                _option(tenant, number_found, partial(choose, tenant))
            if len(counted) > TENANTS_SHOWN:
                text(f"{len(counted) - TENANTS_SHOWN:,} more; type to narrow", "faint")
            if not counted:
                text("No tenant has this in its name.", "faint")

    def choose(tenant: str) -> None:
        menu.close()
        view.change(tenant=tenant)

    with menu:
        find = field("Find a tenant", placeholder="Part of a tenant’s name", on_change=lambda e: show(e.value or ""))
        find.props("debounce=150 autofocus")
        options = box("picks").props("role=listbox")
    show("")


def _live(view: AdapterView) -> tuple[str, ...]:
    return () if view.query.is_stored else (view.query.view,)


def _option(tenant: str, number_found: int, on_click: Callable[[], None]) -> None:
    with box("pick", "button").props("type=button role=option").on("click", on_click, args=[]):
        text(tenant, "ellipsis")
        text(f"{number_found:,}", "faint")
