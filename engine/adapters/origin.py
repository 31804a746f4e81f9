"""Where an image comes from when it is not on disk: one file over HTTP."""

from __future__ import annotations

import http.client
from typing import TYPE_CHECKING
from urllib.parse import urlsplit

if TYPE_CHECKING:
    from pathlib import Path

CHUNK_BYTES = 256 * 1024
QUIET_S = 10.0
"""How long the other side may say nothing."""


class HttpOrigin:
    """The file behind one ``http://`` URL, fetched directly: no proxy, no redirect. Safe to use from any thread."""

    def __init__(self, url: str) -> None:
        self.url = url

    def fetch(self, path: Path) -> None:
        """Write the whole file to ``path``. Raises OSError when it does not come whole."""
        parts = urlsplit(self.url)
        connection = http.client.HTTPConnection(parts.netloc, timeout=QUIET_S)
        try:
            connection.request("GET", parts.path)
            answer = connection.getresponse()
            if answer.status != http.client.OK:
                raise OSError(0, f"its origin answered {answer.status}")
            with path.open("wb") as file:
                while chunk := answer.read(CHUNK_BYTES):
                    file.write(chunk)
            if answer.length:
                raise OSError(0, f"its origin broke off, {answer.length} bytes short")
        except TimeoutError:
            raise OSError(0, f"its origin said nothing for {QUIET_S:.0f} s") from None
        except http.client.HTTPException as fault:
            raise OSError(0, f"its origin answered with {fault!r}") from fault
        finally:
            connection.close()
