"""HTTP as a store of files: no proxy, no redirect, no compression, and no address that a name was not allowed to lead to."""

from __future__ import annotations

import ipaddress
import socket
from html.parser import HTMLParser
from typing import IO, TYPE_CHECKING, Any
from urllib.parse import urljoin

import aiohttp
import fsspec
from aiohttp.abc import AbstractResolver, ResolveResult
from aiohttp.resolver import ThreadedResolver

from engine.adapters.refusal import refusal
from engine.intake.place import read_place

if TYPE_CHECKING:
    from collections.abc import Iterator

    from engine.intake.place import Place

CONNECT_S, QUIET_S, LONGEST_S = 10.0, 30.0, 3600.0
MAX_INDEX_BYTES = 2 * 2**20
OK = 200


def http_file_system() -> Any:  # noqa: ANN401 - fsspec has no types
    """fsspec's, with a session of ours. It keeps no credentials and reads no environment."""
    return fsspec.filesystem("http", skip_instance_cache=True, allow_redirects=False, get_client=_open_session)


async def _open_session(**_options: object) -> aiohttp.ClientSession:
    timeout = aiohttp.ClientTimeout(total=LONGEST_S, sock_connect=CONNECT_S, sock_read=QUIET_S)
    return aiohttp.ClientSession(
        connector=aiohttp.TCPConnector(resolver=GuardedResolver(), limit=8),
        timeout=timeout,
        cookie_jar=aiohttp.DummyCookieJar(),
        headers={"Accept-Encoding": "identity"},
        raise_for_status=_only_the_file_itself,
        trust_env=False,
    )


async def _only_the_file_itself(answer: aiohttp.ClientResponse) -> None:
    """A redirect could lead out of what is allowed, and an encoding hides how much there is: neither is followed."""
    if answer.status in {404, 410}:
        raise FileNotFoundError
    if answer.status != OK:
        what = "a redirect, which is not followed" if 300 <= answer.status < 400 else f"HTTP {answer.status}"  # noqa: PLR2004 - the class of redirects
        raise OSError(0, f"it answers with {what}")
    if answer.headers.get("Content-Encoding", "identity").lower() != "identity":
        raise OSError(0, "it answers with compressed content, which was not asked for")


class GuardedResolver(AbstractResolver):
    """A name that an operator allowed may not lead to this machine or to a link-local service; a literal address may be anything."""

    def __init__(self) -> None:
        self._system = ThreadedResolver()

    async def resolve(self, host: str, port: int = 0, family: socket.AddressFamily = socket.AddressFamily.AF_INET) -> list[ResolveResult]:
        """The addresses that the name may lead to. Raises OSError when none is left."""
        found = await self._system.resolve(host, port, family)
        kept = found if host == "localhost" else [address for address in found if not _is_inner(address["host"])]
        if not kept:
            raise OSError(0, "its name leads to this machine or to a link-local address; allow that address itself")
        return kept

    async def close(self) -> None:
        """Nothing is held."""


def _is_inner(address: str) -> bool:
    number = ipaddress.ip_address(address.partition("%")[0])
    mapped = getattr(number, "ipv4_mapped", None) or number
    return mapped.is_loopback or mapped.is_link_local or mapped.is_multicast or mapped.is_unspecified


def read_index(page: IO[bytes], folder: Place) -> Iterator[tuple[str, bool]]:
    """(name, is it a folder) of each link of an index page that leads one level down. Raises AdapterRefused for a page past 2 MiB."""
    text = b""
    while chunk := page.read(64 * 1024):
        text += chunk
        if len(text) > MAX_INDEX_BYTES:
            message = f"The index page of {folder.url} is larger than {MAX_INDEX_BYTES} bytes; name the adapters in a manifest."
            raise refusal("source_unreadable", message, param="source", expected=f"at most {MAX_INDEX_BYTES} bytes")
    links = _Links()
    links.feed(text.decode("utf-8", "replace"))
    seen = set()
    for link in links.found:
        target = urljoin(folder.url + "/", link)
        place = read_place(target)
        if place is not None and place.lies_in(folder) and len(place.parts) == len(folder.parts) + 1 and place.parts not in seen:
            seen.add(place.parts)
            yield place.parts[-1], target.endswith("/")


class _Links(HTMLParser):
    """Collects ``href`` of every ``<a>``."""

    def __init__(self) -> None:
        super().__init__()
        self.found: list[str] = []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        """One opening tag."""
        self.found += [value for name, value in attrs if tag == "a" and name == "href" and value]
