"""Every adapter row, found by name and counted by view, kept as rows change: what a page asks costs what it shows."""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING, Final

from console.views import mark, marks_of

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from engine import AdapterId, AdapterRow, TenantId

CHUNK: Final = 512
"""Rows are compared this many at a time: a tuple of the same objects is equal at once."""


class Shelf:
    """Rows of one tenant or of all, and how many there are of each kind. Owned by the asyncio loop."""

    def __init__(self) -> None:
        self.rows: dict[AdapterId, AdapterRow] = {}
        self.members = 0
        """Rises when a row comes or goes."""
        self._marks: dict[AdapterId, int] = {}
        self._kinds: Counter[int] = Counter()
        """Rows by their marks, of which there are few."""
        self._places: dict[AdapterId, int] = {}
        self._line: list[AdapterRow] = []
        self._line_marks: list[int] = []
        """Both in the order of names, and true while ``_ordered_at`` is ``members``."""
        self._ordered_at = 0

    def put(self, row: AdapterRow, after: int) -> None:
        """A row is new, or another than it was under the same name; ``after`` are its marks."""
        before = self._marks.get(row.id)
        self.rows[row.id], self._marks[row.id] = row, after
        self._kinds[after] += 1
        if before is None:
            self.members += 1
        else:
            self._kinds[before] -= 1
            place = self._places.get(row.id)
            if place is not None:
                self._line[place], self._line_marks[place] = row, after

    def take(self, key: AdapterId) -> None:
        """A row is gone."""
        del self.rows[key]
        self._kinds[self._marks.pop(key)] -= 1
        self.members += 1

    def count(self, *names: str) -> int:
        """How many rows are in all of these views and facets."""
        wanted = mark(*names)
        return sum(number for marks, number in self._kinds.items() if marks & wanted == wanted)

    def having(self, wanted: int, any_of: int = 0) -> list[AdapterRow]:
        """The rows that have all wanted marks, and one of ``any_of`` unless it is 0, in the order of their names."""
        if self._ordered_at != self.members:
            self._order()
        pairs = zip(self._line, self._line_marks, strict=True)
        return [row for row, marks in pairs if marks & wanted == wanted and (not any_of or marks & any_of)]

    def _order(self) -> None:
        kept = [row for row in self._line if self.rows.get(row.id) is row]
        self._line = kept + [row for key, row in self.rows.items() if key not in self._places]
        if len(self._line) != len(self.rows):
            self._line = list(self.rows.values())
        self._line.sort(key=lambda row: row.alias)
        self._line_marks = [self._marks[row.id] for row in self._line]
        self._places = {row.id: place for place, row in enumerate(self._line)}
        self._ordered_at = self.members


class Shelves:
    """All rows, and each tenant's. Owned by the feed."""

    def __init__(self) -> None:
        self._all = Shelf()
        self._of: dict[TenantId, Shelf] = {}
        self._names: dict[str, dict[AdapterId, None]] = {}
        self._latest: tuple[AdapterRow, ...] = ()

    @property
    def tenants(self) -> dict[TenantId, Shelf]:
        """Those who have rows now or had some."""
        return self._of

    def of(self, tenant: TenantId | None) -> Shelf:
        """A tenant's; None is everyone's."""
        return self._all if tenant is None else self._of.get(tenant) or Shelf()

    def find(self, ref: str) -> AdapterRow | None:
        """The row of a version id or a name; where several tenants use the name, the oldest."""
        keys: Iterable[str] = (ref, *self._names.get(ref, ()))
        rows = (self._all.rows.get(key) for key in keys)  # type: ignore[call-overload] # an id is a string
        return next((row for row in rows if row is not None), None)

    def update(self, rows: tuple[AdapterRow, ...]) -> bool:
        """Follow the newest rows; whether anything changed. Rows that are the same objects cost next to nothing."""
        if rows is self._latest:
            return False
        fresh = self._changed(rows)
        self._latest = rows
        for row in fresh:
            self._put(row)
        gone = len(self._all.rows) - len(rows)
        if gone:
            here = {row.id for row in rows}
            for row in [row for row in self._all.rows.values() if row.id not in here]:
                self._take(row)
        return bool(fresh or gone)

    def _changed(self, rows: Sequence[AdapterRow]) -> list[AdapterRow]:
        found = []
        for at in range(0, len(rows), CHUNK):
            chunk = rows[at : at + CHUNK]
            if chunk != self._latest[at : at + CHUNK]:
                found += [row for row in chunk if (known := self._all.rows.get(row.id)) is not row and known != row]
        return found

    def _put(self, row: AdapterRow) -> None:
        before = self._all.rows.get(row.id)
        if before is not None and (before.tenant, before.alias, before.aliases) != (row.tenant, row.alias, row.aliases):
            self._take(before)
        marks = marks_of(row)
        self._all.put(row, marks)
        self._of.setdefault(row.tenant, Shelf()).put(row, marks)
        for name in {row.alias, *row.aliases}:
            self._names.setdefault(name, {})[row.id] = None

    def _take(self, row: AdapterRow) -> None:
        self._all.take(row.id)
        self._of[row.tenant].take(row.id)
        for name in {row.alias, *row.aliases}:
            self._names[name].pop(row.id, None)
            if not self._names[name]:
                del self._names[name]
