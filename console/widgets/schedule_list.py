"""Aliases that are warmed by the clock, at a sign-in, or at a tenant's first request of the day."""

from __future__ import annotations

import time
from dataclasses import asdict
from typing import TYPE_CHECKING, Any, Final

from nicegui import background_tasks, ui

from console import format as fmt
from console.schedule_words import DAYS, TRIGGERS, when_words
from console.widgets.elements import box, button, choice, enable, text
from console.widgets.form import Form
from console.widgets.grid import Column, Grid, act, glyph, words
from console.widgets.user_dialog import dialog_foot
from engine import TenantId, Wish

if TYPE_CHECKING:
    from nicegui.elements.input import Input

    from console.desk import Desk
    from engine import Schedule, Tier, Trigger

TIERS: Final = {"device": "to device", "host": "to host"}
COLUMNS: Final = (
    Column(key="alias", label="Alias", width="minmax(130px,1fr)"),
    Column(key="tenant", label="Tenant", width="minmax(70px,120px)"),
    Column(key="when", label="When", width="minmax(150px,1fr)"),
    Column(key="tier", label="To", width="80px"),
    Column(key="next", label="Next run", width="116px"),
    Column(key="last", label="Last run", width="116px"),
    Column(key="deeds", label="", width="72px", cls="num"),
)


class ScheduleList:
    """Asked when it is opened and after each change made here."""

    def __init__(self, desk: Desk) -> None:
        self.desk = desk
        self._why_not = desk.why_not("operator")
        with box("card table-card schedule-list", "section").props('aria-label="Warm schedules"'):
            with box("card-head"):
                text("Warm schedules", "card-title", "h2")
                text("adapters brought near before they are asked for", "sub")
                box("gap")
                add = button("Add schedule…", lambda: schedule_dialog(self), kind="primary", glyph="plus", small=True)
                enable(add, not self._why_not, self._why_not)
            self._grid = Grid(
                COLUMNS, label="Warm schedules", empty="No schedule. Adapters are warmed when they are asked for, or by hand."
            )
        self._grid.when("act", self._drop)
        self.refresh()

    def refresh(self) -> None:
        """Ask again."""
        background_tasks.create(self._show(), context=self._grid)

    async def _show(self) -> None:
        schedules = self.desk.engine.schedules
        found = await self.desk.ask(schedules.every)
        now = time.time()
        self._grid.show([_row(one, schedules.due_unix(one), now, may_change=not self._why_not) for one in found])

    async def _drop(self, key: str) -> None:
        schedules = self.desk.engine.schedules
        one = schedules.get(int(key))
        if one is None or await self.desk.do("Not removed", schedules.drop, int(key)) is None:
            return self.refresh()

        async def undo() -> None:
            await self.desk.do("Not put back", schedules.add, wish_of(one), tenant=one.tenant, said="Put back")
            self.refresh()

        self.desk.toasts.show(f"Removed the schedule of {one.alias}", undo=undo)
        return self.refresh()


def _row(one: Schedule, due_unix: float | None, now_unix: float, *, may_change: bool) -> dict[str, Any]:
    cells = [
        [words(one.alias, "name")],
        [words(one.tenant, "muted")],
        [words(when_words(asdict(one)))],
        [glyph(one.tier), words(one.tier)],
        [words(fmt.DASH, "faint")] if due_unix is None else [words(fmt.pin_end(due_unix, now_unix))],
        [words("not yet", "faint")] if one.ran_unix is None else [words(fmt.moment(one.ran_unix, now_unix), "muted")],
        [act("Remove", str(one.key))] if may_change else [],
    ]
    return {"id": str(one.key), "cells": cells, "still": True}


def wish_of(one: Schedule) -> Wish:
    """What somebody would ask for to get this schedule."""
    at = None if one.minute is None else f"{one.minute // 60:02}:{one.minute % 60:02}"
    return Wish(
        alias=one.alias,
        trigger=one.trigger,
        at=at,
        days=tuple(DAYS[day] for day in one.days),
        zone=one.zone,
        tier=one.tier,
        enabled=one.enabled,
    )


def schedule_dialog(schedules: ScheduleList) -> None:
    """A new schedule."""
    desk, form = schedules.desk, Form()
    days = dict.fromkeys(DAYS, True)
    with ui.dialog().props("transition-duration=0") as dialog, box("dialog").props('role=dialog aria-label="Add a schedule"'):
        text("Add a warm schedule", "dialog-title", "h2")
        with box("form"):
            alias = form.line("alias", "Alias", "support")
            text("Tenant", "label")
            with box("form-field"):
                owners = {str(each.id): str(each.id) for each in desk.engine.tenants.visible(caller=desk.caller)}
                tenant = choice("Tenant", owners, str(desk.caller.home))
                form.under("tenant")
            text("When", "label")
            trigger = choice("When", TRIGGERS, "time", lambda chosen: clock.set_visibility(chosen == "time"))
        with box("form") as clock:
            at, zone = _clock_fields(form, days)
        with box("form"):
            text("Where", "label")
            tier = choice("Where", TIERS, "device")
        form.foot()

        async def add() -> None:
            by_clock = trigger.props["value"] == "time"
            wish = Wish(
                alias=str(alias.value or "").strip(),
                trigger=_trigger(str(trigger.props["value"])),
                at=str(at.value or "").strip() if by_clock else None,
                days=tuple(day for day in DAYS if days[day]),
                zone=str(zone.value or "").strip(),
                tier=_tier(str(tier.props["value"])),
            )
            if await form.send(desk, desk.engine.schedules.add, wish, tenant=TenantId(str(tenant.props["value"]))):
                dialog.close()
                desk.toasts.show(f"Added a schedule for {wish.alias}")
                schedules.refresh()

        dialog_foot(dialog, "", "Add schedule", add)


def _clock_fields(form: Form, days: dict[str, bool]) -> tuple[Input, Input]:
    at = form.line("time", "Time", "08:30", "HH:MM", value="08:30")
    zone = form.line("zone", "Zone", "Europe/Berlin", "An IANA name; summer time is followed", value="UTC")
    text("Days", "label")
    with box("form-field"):
        _day_buttons(days)
        form.under("days")
    return at, zone


def _day_buttons(days: dict[str, bool]) -> None:
    with box("segments").props('role=group aria-label="Days"'):
        for day in DAYS:
            with box("on", "button").props("type=button aria-pressed=true") as element:
                text(day.title())

            def turn(day: str = day, element: Any = element) -> None:  # noqa: ANN401 - an element
                days[day] = not days[day]
                element.classes(add="on" if days[day] else "", remove="" if days[day] else "on")
                element.props["aria-pressed"] = "true" if days[day] else "false"

            element.on("click", turn, args=[])


def _trigger(chosen: str) -> Trigger:
    return "sign_in" if chosen == "sign_in" else "first_request" if chosen == "first_request" else "time"


def _tier(chosen: str) -> Tier:
    return "host" if chosen == "host" else "device"
