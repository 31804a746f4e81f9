"""How much a tenant may have, field by field, beside what it uses."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from console import format as fmt
from console.limits import LIMITS, WEIGHT, Limit, NotALimit, allowance, read, typed
from console.widgets.elements import box, button, drawing, enable, field, say, text
from console.widgets.form import Form

if TYPE_CHECKING:
    from collections.abc import Callable

    from nicegui.elements.html import Html
    from nicegui.elements.input import Input

    from console.tenants_view import TenantLine, TenantsView
    from console.widgets.elements import Text
    from engine import Allowance

USED: Final[dict[str, Callable[[TenantLine], int]]] = {
    "requests_per_minute": lambda line: line.use.requests_minute,
    "tokens_per_minute": lambda line: line.use.tokens_minute,
    "monthly_tokens": lambda line: line.use.tokens_month,
    "max_waiting": lambda line: line.row.waiting if line.row else 0,
    "max_running": lambda line: line.row.running if line.row else 0,
}
"""What is measured of a limit; of the others only requests know."""


class LimitFields:
    """One field a limit, in a form of its own. Empty is no limit."""

    def __init__(self, of: Allowance, *, with_weight: bool, on_change: Callable[[], None], label: str = "") -> None:
        self.form = Form()
        self._on_change = on_change
        self.limits = (*LIMITS, WEIGHT) if with_weight else LIMITS
        self._inputs: dict[str, Input] = {}
        self.used: dict[str, tuple[Html, Text]] = {}
        with box("limit-form"):
            for limit in self.limits:
                self._field(limit, getattr(of, limit.name), label)

    def _field(self, limit: Limit, value: float | None, label: str) -> None:
        with box("limit-name"):
            text(limit.label, "", "span")
            text(limit.unit, "faint small")
        with box("limit-value"):
            element = field(
                f"{label}{limit.label} {limit.unit}", value=typed(value), placeholder=fmt.DASH, on_change=lambda _: self._changed(limit)
            )
            element.props["title"] = limit.hint
            self._inputs[limit.name] = element
        with box("limit-used"):
            self.used[limit.name] = (drawing("", "meter-slot"), text("", "small faint"))
        with box("limit-fault"):
            self.form.under(limit.name)

    def _changed(self, limit: Limit) -> None:
        self.form.fault(limit.name, "")
        self._on_change()

    def read(self) -> Allowance | None:
        """What was typed; None, with the faults at their fields, when it is no allowance."""
        values, right = {}, True
        for limit in self.limits:
            try:
                values[limit.name] = read(limit, str(self._inputs[limit.name].value or ""))
            except NotALimit as fault:
                self.form.fault(limit.name, str(fault))
                right = False
        return allowance(values) if right else None

    def put(self, of: Allowance) -> None:
        """Show an allowance again."""
        for limit in self.limits:
            self._inputs[limit.name].value = typed(getattr(of, limit.name))


class LimitsCard:
    """The editor in the drawer. A change can be taken back from its toast."""

    def __init__(self, line: TenantLine, view: TenantsView) -> None:
        self._view, self._desk, self._tenant, self._before = view, view.desk, line.record.id, line.allowance
        self._why_not = view.desk.why_not("admin", everywhere=True)
        with box("section limits"):
            with box("section-head"):
                text("Limits", "card-title")
                text("from the next request on", "faint")
                box("gap")
                text("used now", "faint")
            self._fields = LimitFields(line.allowance, with_weight=True, on_change=self._arm)
            self._fields.form.foot()
            with box("drawer-foot"):
                text("Empty is no limit.", "hint")
                self._reset = button("Reset", lambda: self._fields.put(self._before), kind="quiet", small=True)
                self._save = button("Set limits", self._send, kind="primary", small=True)
        self._arm()
        self.follow(line)

    def follow(self, line: TenantLine) -> None:
        """What is used moves."""
        for name, used in USED.items():
            meter, amount = self._fields.used[name]
            limit = getattr(line.allowance, name)
            share = min(1.0, used(line) / limit) if limit else 0.0
            meter.content = (
                f'<div class="track"><div class="fill" style="width:{share * 100:.0f}%"></div></div>' if limit is not None else ""
            )
            say(amount, fmt.tokens(used(line)))

    def _arm(self) -> None:
        if not hasattr(self, "_save"):
            return
        enable(self._save, not self._why_not, self._why_not)

    async def _send(self) -> None:
        wanted, before, tenants = self._fields.read(), self._before, self._desk.engine.tenants
        if wanted is None:
            return
        if await self._fields.form.send(self._desk, tenants.set_limits, self._tenant, wanted):

            async def undo() -> None:
                await self._desk.do("Not undone", tenants.set_limits, self._tenant, before, why="undo", said="Undone")
                self._view.tell()

            self._desk.toasts.show(f"Limits of {self._tenant} set", undo=undo)
            self._view.tell()
