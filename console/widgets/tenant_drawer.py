"""One tenant: limits, keys, usage, members."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING

from console import format as fmt
from console.tenants_view import PARTS
from console.widgets.confirm_dialog import confirm_dialog
from console.widgets.elements import box, button, enable, icon, tabs, text
from console.widgets.key_list import KeyList
from console.widgets.limits_card import LimitsCard
from console.widgets.member_list import MemberList
from console.widgets.usage_card import UsageCard

if TYPE_CHECKING:
    from collections.abc import Callable

    from console.tenants_view import TenantLine, TenantsView


def tenant_drawer(view: TenantsView, site: str) -> None:
    """Open while the address names a tenant; rebuilt when another or another part is opened."""
    drawer = box("drawer tenant-drawer", "aside").props('aria-label="Tenant"')
    shown: tuple[object, ...] = ()
    follow: Callable[[TenantLine], None] = _still

    def update() -> None:
        nonlocal shown, follow
        line = view.opened()
        drawer.set_visibility(line is not None)
        key = () if line is None else (line.record, view.part, line.allowance)
        if key == shown:
            if line is not None:
                follow(line)
            return
        shown = key
        drawer.clear()
        if line is not None:
            with drawer:
                _head(line, view)
                follow = _part(line, view, site)

    view.on_change(update)


def _part(line: TenantLine, view: TenantsView, site: str) -> Callable[[TenantLine], None]:
    """Build the part that is shown; what keeps it up to date."""
    if view.part == "keys":
        KeyList(line, view.desk, site)
    elif view.part == "usage":
        UsageCard(line, view.desk)
    elif view.part == "members":
        MemberList(line, view.desk)
    else:
        card = LimitsCard(line, view)
        _state_buttons(line, view)
        return card.follow
    return _still


def _still(_: TenantLine) -> None:
    """Nothing in it moves by itself."""


def _head(line: TenantLine, view: TenantsView) -> None:
    record = line.record
    with box("drawer-head"):
        with box("drawer-title", "h2"):
            text(record.id, "name")
        box("gap")
        button("", lambda: view.change(open=""), kind="quiet", glyph="close", small=True, hint="Close (Esc)").props("data-esc")
    with box("drawer-sub"):
        if record.name != record.id:
            text(record.name)
        with box("status"):
            suspended = record.suspended_unix is not None
            icon("paused" if suspended else "ok", "paused" if suspended else "ok")
            text("suspended" if suspended else "active")
        text(fmt.plural(line.adapters, "adapter"))
    tabs(PARTS, view.part, lambda part: view.change(part=part), "Tenant")


def _state_buttons(line: TenantLine, view: TenantsView) -> None:
    """Suspend or resume, and delete: for admins of all tenants."""
    record, desk = line.record, view.desk
    why_not = desk.why_not("admin", everywhere=True)
    with box("section"), box("drawer-foot"):
        if record.suspended_unix is not None:

            async def resume() -> None:
                if await desk.do("Not resumed", desk.engine.tenants.resume, record.id, said=f"Resumed {record.id}"):
                    view.tell()

            first = button("Resume", resume, small=True)
        else:
            first = button("Suspend…", partial(_suspend, line, view), small=True)
        last = button("Delete…", partial(_delete, line, view), kind="danger", small=True)
        for element in (first, last):
            enable(element, not why_not, why_not)


def _suspend(line: TenantLine, view: TenantsView) -> None:
    record, desk = line.record, view.desk

    async def suspend(why: str) -> bool:
        done = await desk.do("Not suspended", desk.engine.tenants.suspend, record.id, why=why, said=f"Suspended {record.id}")
        view.tell()
        return done is not None

    running = line.row.running if line.row else 0
    effects = [
        "Its keys call nothing and its people cannot look in until it is resumed.",
        f"{fmt.plural(running, 'running request')} end by themselves.",
    ]
    confirm_dialog(f"Suspend {record.id}", effects, "Suspend", suspend, name="", note="Can be resumed")


def _delete(line: TenantLine, view: TenantsView) -> None:
    record, desk = line.record, view.desk

    async def delete(why: str) -> bool:
        done = await desk.do("Not deleted", desk.engine.tenants.delete, record.id, why=why, said=f"Deleted {record.id}")
        if done is not None:
            view.change(open="")
        return done is not None

    effects = [
        "The tenant, its limits and its revoked keys are forgotten; its id is not given again.",
        "Retired versions, their archives, usage and the audit log stay.",
        "It is refused while the tenant has versions that are not retired, aliases, schedules, people or keys that hold.",
    ]
    confirm_dialog(f"Delete {record.id}", effects, "Delete tenant", delete, name=record.id, note="Cannot be undone")
