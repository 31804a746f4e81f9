"""A store of one artifact on this machine, as slow as it is told to be."""

from __future__ import annotations

import contextlib
import http.server
import secrets
import threading
import time
from typing import TYPE_CHECKING, Self

if TYPE_CHECKING:
    from pathlib import Path

CHUNK_BYTES = 64 * 1024


class ArtifactStore:
    """Serves one file on loopback under an address that nobody guesses, at most ``bytes_per_s``. A context manager."""

    def __init__(self, path: Path, *, bytes_per_s: int) -> None:
        self._name = f"/{secrets.token_urlsafe(16)}/{path.name}"
        self._hurry, self._closing = threading.Event(), threading.Event()
        self._server = http.server.ThreadingHTTPServer(
            ("127.0.0.1", 0), _handler(self._name, path, bytes_per_s, self._hurry, self._closing)
        )
        self._thread = threading.Thread(target=self._server.serve_forever, kwargs={"poll_interval": 0.05}, name="store", daemon=True)

    @property
    def url(self) -> str:
        """Where the artifact is."""
        host, port = self._server.server_address[:2]
        return f"http://{host!s}:{port}{self._name}"

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def hurry(self) -> None:
        """From now on without a limit: what is under way is better finished than broken off."""
        self._hurry.set()

    def close(self) -> None:
        """Break off what is being sent, and stop listening."""
        self._closing.set()
        self._hurry.set()
        self._server.shutdown()
        self._server.server_close()
        self._thread.join(timeout=5)


def _handler(
    name: str, path: Path, bytes_per_s: int, hurry: threading.Event, closing: threading.Event
) -> type[http.server.BaseHTTPRequestHandler]:
    class Handler(http.server.BaseHTTPRequestHandler):
        """Answers GET of the one artifact."""

        def do_GET(self) -> None:
            """Send the file, no faster than the limit."""
            if self.path != name or not path.exists():
                self.send_error(404)
                return
            self.send_response(200)
            self.send_header("Content-Length", str(path.stat().st_size))
            self.end_headers()
            with contextlib.suppress(ConnectionError):
                self._send()

        def _send(self) -> None:
            began_s, sent = time.monotonic(), 0
            with path.open("rb") as file:
                while (chunk := file.read(CHUNK_BYTES)) and not closing.is_set():
                    sent += len(chunk)
                    hurry.wait(max(0.0, began_s + sent / bytes_per_s - time.monotonic()))
                    self.wfile.write(chunk)

        def log_message(self, *_: object) -> None:
            """Nothing: what it does is in the comparison."""

    return Handler
