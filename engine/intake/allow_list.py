"""The folders and URL prefixes that adapters may come from; everything else is refused in the same words, unseen."""

from __future__ import annotations

import os
from pathlib import Path
from typing import TYPE_CHECKING
from urllib.parse import unquote, urlsplit

from engine.errors import SourceNotAllowed
from engine.intake.place import MAX_SOURCE_CHARS, Place, read_place

if TYPE_CHECKING:
    from collections.abc import Iterable


class AllowList:
    """Settled at the start. Safe to use from any thread."""

    def __init__(self, allowed: Iterable[str], *, never: Iterable[Path] = ()) -> None:
        """``never`` are folders inside the allowed ones that nothing comes from."""
        texts = tuple(allowed)
        self._roots = _spellings(path for text in texts if (path := local_path(text)) is not None)
        self._never = _spellings(never)
        self._places = tuple(place for text in texts if (place := read_place(text)) is not None)

    def admit(self, source: str) -> Path | Place:
        """The real path, or the place, that a source names. Raises SourceNotAllowed, whether or not there is anything.

        A path is compared as it is written before the disk is asked for anything, so that what lies outside cannot be told by time;
        then its links are followed, and where they lead must be inside too.
        """
        path = local_path(source)
        if path is not None and self._holds(Path(os.path.normpath(path.absolute()))):
            real = _real(path)
            if self._holds(real):
                return real
        place = read_place(source)
        if place is not None and any(place.lies_in(prefix) for prefix in self._places):
            return place
        raise SourceNotAllowed(
            "This source is outside the folders and addresses that adapters may be registered from; see --source-allow.",
            param="source",
            found=source[:80],
        )

    def _holds(self, path: Path) -> bool:
        return any(path.is_relative_to(root) for root in self._roots) and not self.is_never(path)

    def is_never(self, path: Path) -> bool:
        """Whether nothing comes from there, though it lies in an allowed folder."""
        return any(path.is_relative_to(root) for root in self._never)


def local_path(text: str) -> Path | None:
    """A path or ``file://`` URL; None for another scheme and for what names nothing. Another user's home is never looked up."""
    if not text or len(text) > MAX_SOURCE_CHARS or "\0" in text:
        return None
    if "://" not in text:
        return Path(text).expanduser() if text == "~" or text.startswith("~/") else Path(text)
    parts = urlsplit(text)
    path = unquote(parts.path)
    return Path(path) if parts.scheme == "file" and parts.netloc in {"", "localhost"} and path and "\0" not in path else None


def _spellings(folders: Iterable[Path]) -> tuple[Path, ...]:
    """Each as it is written and with its links followed."""
    return tuple(dict.fromkeys(path for each in folders for path in (Path(os.path.normpath(each.absolute())), _real(each))))


def _real(path: Path) -> Path:
    """Links followed as far as they go; a loop of links ends where it is."""
    return Path(os.path.realpath(path))
