"""What is registered, across restarts: a journal of versions and aliases beside the images."""

from __future__ import annotations

import dataclasses
import json
import os
import threading
from typing import TYPE_CHECKING, Any

from engine.adapters.entry import VersionRecord
from engine.ids import AdapterId

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator
    from pathlib import Path

JOURNAL = "catalog.jsonl"


class Catalog:
    """Versions by id and aliases by name, each change appended to a journal and flushed to disk before it is answered.

    A torn last line, as after a crash, is dropped; everything before it stands. Safe to use from any thread.
    """

    def __init__(self, folder: Path) -> None:
        self.versions: dict[AdapterId, VersionRecord] = {}
        self.aliases: dict[str, AdapterId] = {}
        self._path = folder / JOURNAL
        self._lock = threading.Lock()
        folder.mkdir(parents=True, exist_ok=True)
        for line in self._lines():
            self._apply(line)
        self._rewrite()

    def put_version(self, record: VersionRecord) -> None:
        """Add or replace a version's record."""
        self._append({"put_version": dataclasses.asdict(record)})

    def put_alias(self, alias: str, adapter: AdapterId) -> None:
        """Point an alias at a version."""
        self._append({"put_alias": {"alias": alias, "adapter": adapter}})

    def drop_alias(self, alias: str) -> None:
        """Withdraw an alias."""
        self._append({"drop_alias": {"alias": alias}})

    def drop_version(self, adapter: AdapterId) -> None:
        """Forget a version."""
        self._append({"drop_version": {"adapter": adapter}})

    def drop_nameless(self) -> None:
        """Forget versions that no alias names, as after a crash in the middle of a registration. Before anything is registered."""
        for adapter in set(self.versions) - set(self.aliases.values()):
            self.drop_version(adapter)

    def close(self) -> None:
        """Release the journal."""
        self._file.close()

    def _append(self, change: dict[str, Any]) -> None:
        with self._lock:
            self._apply(change)
            self._file.write(json.dumps(change) + "\n")
            self._file.flush()
            os.fsync(self._file.fileno())

    def _apply(self, change: dict[str, Any]) -> None:
        """Replace the mapping whole, so that readers in other threads never see it half changed."""
        ((verb, value),) = change.items()
        if verb == "put_version":
            record = _record(value)
            self.versions = {**self.versions, record.id: record}
        elif verb == "put_alias":
            self.aliases = {**self.aliases, value["alias"]: AdapterId(value["adapter"])}
        elif verb == "drop_alias":
            self.aliases = {alias: adapter for alias, adapter in self.aliases.items() if alias != value["alias"]}
        elif verb == "drop_version":
            self.versions = {adapter: record for adapter, record in self.versions.items() if adapter != value["adapter"]}

    def _lines(self) -> Iterator[dict[str, Any]]:
        if not self._path.exists():
            return
        for line in self._path.read_text(encoding="utf-8").splitlines():
            try:
                change = json.loads(line)
            except json.JSONDecodeError:
                return
            yield change

    def _rewrite(self) -> None:
        """Start from a journal that holds only what stands, replaced in one rename."""
        fresh = self._path.with_suffix(".new")
        with fresh.open("w", encoding="utf-8") as file:
            for change in self._standing():
                file.write(json.dumps(change) + "\n")
            file.flush()
            os.fsync(file.fileno())
        fresh.replace(self._path)
        self._file = self._path.open("a", encoding="utf-8")

    def _standing(self) -> Iterable[dict[str, Any]]:
        for record in self.versions.values():
            yield {"put_version": dataclasses.asdict(record)}
        for alias, adapter in self.aliases.items():
            yield {"put_alias": {"alias": alias, "adapter": adapter}}


def _record(value: dict[str, Any]) -> VersionRecord:
    lists = {name: tuple(item) for name, item in value.items() if isinstance(item, list)}
    return VersionRecord(**{**value, **lists})
