"""The state of one open audit page: what is asked for, the page of lines that answers, which one is open."""

from __future__ import annotations

import time
from dataclasses import asdict, dataclass, replace
from typing import TYPE_CHECKING, Any, Final
from urllib.parse import urlencode

from nicegui import background_tasks, ui

from engine import TenantId

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from nicegui.element import Element

    from console.desk import Desk
    from engine import AuditRecord

SIZE: Final = 50
SPANS: Final = {"": "any time", "1": "1 h", "24": "24 h", "168": "7 days", "720": "30 days"}
MOST_CHARS: Final = 200


@dataclass(frozen=True, slots=True, kw_only=True)
class AuditQuery:
    """What is asked for; every field is in the address. Empty asks for all. ``hours`` is one of ``SPANS``."""

    by: str = ""
    action: str = ""
    object: str = ""
    tenant: str = ""
    hours: str = ""
    before: int | None = None
    open: int | None = None

    @classmethod
    def from_address(cls, address: Mapping[str, str]) -> AuditQuery:
        """What anyone typed into the address; what cannot be read is left out."""
        texts = {name: address.get(name, "")[:MOST_CHARS] for name in ("by", "action", "object", "tenant")}
        hours = address.get("hours", "")
        return cls(**texts, hours=hours if hours in SPANS else "", before=_key(address.get("before")), open=_key(address.get("open")))

    @property
    def address(self) -> str:
        """The page's path with what differs from the default."""
        query = urlencode({name: value for name, value in asdict(self).items() if value})
        return f"/audit?{query}" if query else "/audit"

    def fields(self, now_unix: float) -> dict[str, Any]:
        """Arguments of the service."""
        return {
            "by": self.by or None,
            "action": self.action or None,
            "subject": self.object or None,
            "tenant": TenantId(self.tenant) if self.tenant else None,
            "since_unix": now_unix - 3600 * int(self.hours) if self.hours else None,
        }


def _key(text: str | None) -> int | None:
    return int(text) if text and text.isascii() and text.isdigit() and len(text) < 15 else None  # noqa: PLR2004 - as many as a key may have


class AuditView:
    """Belongs to one client. Lines are asked for off the loop; newer ones come when the page is asked again."""

    def __init__(self, desk: Desk, address: Mapping[str, str]) -> None:
        self.desk = desk
        self.query = AuditQuery.from_address(address)
        self.lines: list[AuditRecord] = []
        self.undone: dict[int, int] = {}
        self.has_older = False
        self.is_asked = False
        self._newer: list[int | None] = []
        self._listeners: list[Callable[[], None]] = []
        self._place: Element | None = None

    def start(self, place: Element) -> None:
        """Ask for the first page; what goes wrong is shown at ``place``'s page."""
        self._place = place
        self.ask(self.query)

    def on_change(self, listener: Callable[[], None]) -> None:
        """Call ``listener`` now and after every answer."""
        self._listeners.append(listener)
        listener()

    def change(self, **fields: Any) -> None:  # noqa: ANN401 - the query's own fields
        """Ask with some fields changed, from the newest on."""
        self._newer = []
        self.ask(replace(self.query, **{"before": None, "open": None, **fields}))

    def older(self) -> None:
        """The page before in time."""
        if self.lines:
            self._newer.append(self.query.before)
            self.ask(replace(self.query, before=self.lines[-1].key, open=None))

    def newer(self) -> None:
        """The page after in time; the newest when it is not known."""
        self.ask(replace(self.query, before=self._newer.pop() if self._newer else None, open=None))

    def show(self, key: int | None) -> None:
        """Open a line in the drawer, or none."""
        self.query = replace(self.query, open=key)
        ui.navigate.history.replace(self.query.address)
        self._tell()

    @property
    def opened(self) -> AuditRecord | None:
        """The line in the drawer, if it is on this page."""
        return next((line for line in self.lines if line.key == self.query.open), None)

    def ask(self, query: AuditQuery) -> None:
        """Show another page, and put it into the address."""
        self.query = query
        ui.navigate.history.replace(query.address)
        background_tasks.create(self._fetch(query), context=self._place)

    async def _fetch(self, query: AuditQuery) -> None:
        audit = self.desk.engine.audit
        got = await self.desk.do(
            "The audit log was not read", audit.lines, **query.fields(time.time()), before=query.before, limit=SIZE + 1
        )
        if got is None or query is not self.query:
            return
        self.lines, self.has_older = got[0][:SIZE], len(got[0]) > SIZE
        self.undone = await self.desk.ask(audit.undone, self.lines)
        self.is_asked = True
        self._tell()

    def _tell(self) -> None:
        for listener in self._listeners:
            listener()
