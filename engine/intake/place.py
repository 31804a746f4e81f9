"""A source that is not on this machine, read into scheme, host and segments before anything is asked of it. Pure."""

from __future__ import annotations

import re
from dataclasses import dataclass, replace
from typing import Literal, get_args
from urllib.parse import quote, unquote, urlsplit

Scheme = Literal["http", "https", "s3", "hf"]
SCHEMES: tuple[Scheme, ...] = get_args(Scheme)
MAX_SOURCE_CHARS = 1024
DEFAULT_PORTS = {"http": 80, "https": 443}
HOST = re.compile(r"[a-z0-9]([a-z0-9._-]{0,251}[a-z0-9])?|\[[0-9a-f:.]{2,45}\]")
NAMELESS_CHARS = re.compile(r"[\x00-\x1f\x7f\\]")


@dataclass(frozen=True, slots=True, kw_only=True)
class Place:
    """A folder or file of a remote store. ``host`` is an HTTP host with its port, or a bucket; ``revision`` is of a hub repository."""

    scheme: Scheme
    host: str = ""
    parts: tuple[str, ...] = ()
    revision: str = ""

    def below(self, name: str) -> Place:
        """A file or folder inside it."""
        return replace(self, parts=(*self.parts, name))

    def lies_in(self, other: Place) -> bool:
        """Whether it is ``other`` or inside it, whole segments compared; a revision counts where ``other`` names one."""
        same_store = (self.scheme, self.host) == (other.scheme, other.host)
        return same_store and self.parts[: len(other.parts)] == other.parts and other.revision in {"", self.revision}

    @property
    def path(self) -> str:
        """Bucket and key, or repository, revision and path, as fsspec has them."""
        if self.scheme == "hf" and self.revision:
            return "/".join((self.parts[0], f"{self.parts[1]}@{self.revision}", *self.parts[2:]))
        return "/".join(part for part in (self.host, *self.parts) if part)

    @property
    def url(self) -> str:
        """The address; a folder without its last slash."""
        if self.scheme in {"s3", "hf"}:
            return f"{self.scheme}://{self.path}"
        return f"{self.scheme}://{self.host}" + "".join(f"/{quote(part, safe='')}" for part in self.parts)


def read_place(text: str) -> Place | None:
    """The place a URL names, or None for one that is not plain: credentials, queries, dot segments and hidden slashes are not read."""
    if len(text) > MAX_SOURCE_CHARS or NAMELESS_CHARS.search(text) or "?" in text or "#" in text:
        return None
    try:
        parts = urlsplit(text)
        port = parts.port
    except ValueError:
        return None
    scheme = next((scheme for scheme in SCHEMES if scheme == parts.scheme), None)
    segments = _segments(parts.path, decode=scheme in DEFAULT_PORTS)
    if scheme is None or segments is None or "@" in parts.netloc:
        return None
    if scheme == "hf":
        return _hub_place((parts.netloc, *segments))
    host = _host(parts.netloc if scheme == "s3" else parts.hostname or "", port=None if port == DEFAULT_PORTS.get(scheme) else port)
    return Place(scheme=scheme, host=host, parts=segments) if host else None


def _host(name: str, *, port: int | None) -> str:
    """Host and port as they are compared, or "" for what is no host name; a bucket has no port."""
    name = f"[{name}]" if ":" in name else name
    if not HOST.fullmatch(name):
        return ""
    return name if port is None else f"{name}:{port}"


def _segments(path: str, *, decode: bool) -> tuple[str, ...] | None:
    """Names between slashes; one slash at the end is not counted. Decoded once, and then there must be nothing left to decode."""
    names = path.removeprefix("/").removesuffix("/").split("/") if path.strip("/") else []
    try:
        names = [unquote(name, errors="strict") for name in names] if decode else names
    except UnicodeDecodeError:
        return None
    if any(name in {"", ".", ".."} or "/" in name or "%" in name or NAMELESS_CHARS.search(name) for name in names):
        return None
    return tuple(names)


def _hub_place(names: tuple[str, ...]) -> Place | None:
    """``org/repo@revision/folder``; an owner alone is a prefix."""
    if not names[0] or "@" in names[0]:
        return None
    if len(names) == 1:
        return Place(scheme="hf", parts=names)
    repository, at, revision = names[1].partition("@")
    if not repository or bool(at) != bool(revision) or "@" in revision:
        return None
    return Place(scheme="hf", parts=(names[0], repository, *names[2:]), revision=revision)
