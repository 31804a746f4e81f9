"""The state of one open tenants page: which tenant, which part of it, which filter."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final
from urllib.parse import urlencode

from nicegui import ui

from engine import NotFound

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from console.desk import Desk
    from console.feed import Feed
    from engine import Allowance, TenantId, TenantRecord, TenantRow, Use

PARTS: Final = {"limits": "Limits", "keys": "Keys", "usage": "Usage", "members": "Members"}
SHOWN: Final = 100


@dataclass(frozen=True, slots=True, kw_only=True)
class TenantLine:
    """What is known of one tenant: its record, limits, what it uses, its traffic of the last minute, how many adapters it owns."""

    record: TenantRecord
    allowance: Allowance
    use: Use
    row: TenantRow | None
    adapters: int
    slowdown: float | None = None


class TenantsView:
    """Belongs to one client. Rows keep their places while numbers move."""

    def __init__(self, feed: Feed, desk: Desk, address: Mapping[str, str]) -> None:
        self.feed, self.desk = feed, desk
        self.open = address.get("open", "")
        self.part = address.get("part", "") if address.get("part", "") in PARTS else "limits"
        self.q = address.get("q", "")
        self._listeners: list[Callable[[], None]] = []
        self._places: dict[TenantId, int] = {}
        self._owned: Counter[TenantId] = Counter()
        self._owned_at = -1

    def on_change(self, listener: Callable[[], None]) -> None:
        """Call ``listener`` now and after every change of what is asked."""
        self._listeners.append(listener)
        listener()

    def change(self, *, open: str | None = None, part: str | None = None, q: str | None = None) -> None:  # noqa: A002 - the address's word
        """Show something else, and put it into the address."""
        self.open = self.open if open is None else open
        self.part = self.part if part is None else part
        if q is not None and q != self.q:
            self.q, self._places = q, {}
        asked = {"q": self.q, "open": self.open, "part": self.part if self.open and self.part != "limits" else ""}
        query = urlencode({name: value for name, value in asked.items() if value})
        ui.navigate.history.replace(f"/tenants?{query}" if query else "/tenants")
        self.tell()

    def tell(self) -> None:
        """Something was changed: look again. After the session has ended nothing is shown anew."""
        if not self.desk.is_open:
            return
        for listener in self._listeners:
            listener()

    def lines(self) -> tuple[list[TenantLine], int]:
        """Those that fit the filter, most troubled first when the page was opened, and how many there are in all."""
        rows = {row.tenant: row for row in self.feed.snapshot.tenants}
        records = self.desk.engine.tenants.visible(caller=self.desk.caller)
        fitting = [record for record in records if self.q.lower() in f"{record.id} {record.name}".lower()]
        for record in sorted(fitting, key=lambda each: (_pain(rows.get(each.id)), each.id)):
            self._places.setdefault(record.id, len(self._places))
        fitting.sort(key=lambda each: self._places[each.id])
        return [self._line(record, rows.get(record.id)) for record in fitting[:SHOWN]], len(fitting)

    def opened(self) -> TenantLine | None:
        """The tenant in the drawer; None when none is open or it is not this visitor's to see."""
        if not self.open:
            return None
        try:
            record = next(each for each in self.desk.engine.tenants.visible(caller=self.desk.caller) if each.id == self.open)
        except (StopIteration, NotFound):
            return None
        return self._line(record, next((row for row in self.feed.snapshot.tenants if row.tenant == record.id), None))

    def _line(self, record: TenantRecord, row: TenantRow | None) -> TenantLine:
        if self._owned_at != self.feed.adapters_revision:
            self._owned_at, self._owned = self.feed.adapters_revision, Counter(each.tenant for each in self.feed.snapshot.adapters)
        tenants, caller = self.desk.engine.tenants, self.desk.caller
        return TenantLine(
            record=record,
            allowance=tenants.limits(record.id, caller=caller),
            use=tenants.use(record.id, caller=caller),
            row=row,
            adapters=self._owned[record.id],
            slowdown=next((share.slowdown for share in self.feed.snapshot.fairness.tenants if share.tenant == record.id), None),
        )


def _pain(row: TenantRow | None) -> tuple[float, ...]:
    """Most waiting first, then the slowest first token, then the busiest; without traffic last."""
    return (1.0,) if row is None else (0.0, -row.waiting, -(row.ttft_p95_s or 0.0), -row.requests_per_s)
