"""What a version's scores must be at least, before it may serve."""

from __future__ import annotations

from typing import TYPE_CHECKING

from console import format as fmt
from console.widgets.elements import box, button, choice, enable, text
from console.widgets.form import Form
from engine import TenantId, Thresholds

if TYPE_CHECKING:
    from console.desk import Desk

BASE = ""


class GateCard:
    """For the base that serves, or for one tenant, whose own come first."""

    def __init__(self, desk: Desk) -> None:
        self._desk, self._tenant = desk, str(desk.caller.tenant or BASE)
        own = {str(each.id): f"tenant {each.id}" for each in desk.engine.tenants.visible(caller=desk.caller)}
        with box("card padded gate-card", "section").props('aria-label="Gate"'):
            text("Gate", "card-title", "h2")
            text(
                "Checked when a version is registered, on the shares of right answers in its training record. "
                "A tenant’s own thresholds come before the base’s.",
                "muted",
                "p",
            )
            with box("form"):
                text("For", "label")
                choice("For", own if desk.caller.tenant else {BASE: "every tenant on this base", **own}, self._tenant, self._choose)
            self._body = box("gate-body")
        self._show()

    def _choose(self, tenant: str) -> None:
        self._tenant = tenant
        self._show()

    def _show(self) -> None:
        desk, form = self._desk, Form()
        now = self._now()
        why_not = desk.why_not("admin", everywhere=not self._tenant)
        self._body.clear()
        with self._body:
            with box("form"):
                least = form.line(
                    "min_score",
                    "Least score, %",
                    "no threshold",
                    "Empty asks for none; with one, a version without a score is refused",
                    value=_percent(now.min_score),
                )
                drop = form.line(
                    "max_drop", "Most drop, %", "2", "How much lower than the version it replaces", value=_percent(now.max_drop)
                )
            form.foot()

            async def save() -> None:
                try:
                    wanted = Thresholds(min_score=_share(str(least.value or "")), max_drop=_share(str(drop.value or "")) or 0.0)
                except ValueError:
                    form.fault("min_score", "Numbers from 0 to 100")
                    return
                thresholds, owner = desk.engine.versions.thresholds, self._owner()
                before = thresholds.own(owner)
                if await form.send(desk, thresholds.set, wanted, tenant=owner):

                    async def undo() -> None:
                        await desk.do("Not undone", thresholds.set, before, tenant=owner, why="undo", said="Undone")
                        self._show()

                    desk.toasts.show("Thresholds set", undo=undo)

            with box("drawer-foot"):
                enable(button("Set thresholds", save, kind="primary"), not why_not, why_not)

    def _owner(self) -> TenantId | None:
        return TenantId(self._tenant) if self._tenant else None

    def _now(self) -> Thresholds:
        return self._desk.engine.versions.thresholds.of(TenantId(self._tenant))


def _percent(share: float | None) -> str:
    return "" if share is None else fmt.percent(share, 2).rstrip("0").rstrip(".")


def _share(text: str) -> float | None:
    plain = text.replace("%", "").strip()
    return None if plain in {"", fmt.DASH} else float(plain) / 100
