"""Stores for tests: a plain HTTP server with traps, and the few calls of S3 that reading needs."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from email.utils import formatdate
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from urllib.parse import parse_qs, unquote, urlsplit
from xml.sax.saxutils import escape


@dataclass(slots=True, kw_only=True)
class Answer:
    """What a path gives."""

    body: bytes = b""
    status: int = 200
    headers: dict[str, str] = field(default_factory=dict)


@dataclass(slots=True, kw_only=True)
class FakeStore:
    """A server on loopback. ``asked`` has every path that was asked for."""

    answers: dict[str, Answer]
    host: str = ""
    asked: list[str] = field(default_factory=list)


@contextmanager
def http_store(answers: dict[str, Answer]) -> Iterator[FakeStore]:
    """Serves exactly these paths."""
    store = FakeStore(answers=answers)

    class Handler(_Quiet):
        def do_GET(self) -> None:
            store.asked.append(self.path)
            self.answer(store.answers.get(self.path, Answer(status=404)))

    with _running(Handler) as store.host:
        yield store


@contextmanager
def s3_store(bucket: str, files: dict[str, bytes]) -> Iterator[FakeStore]:
    """ListObjectsV2 with a delimiter, HEAD, and GET with a range, of one bucket; signatures are not looked at."""
    store = FakeStore(answers={f"/{bucket}/{key}": Answer(body=body) for key, body in files.items()})

    class Handler(_Quiet):
        def do_GET(self) -> None:
            store.asked.append(self.path)
            parts = urlsplit(self.path)
            query = parse_qs(parts.query)
            if "list-type" in query:
                prefix = query.get("prefix", [""])[0]
                self.answer(Answer(body=_listing(bucket, files, prefix), headers={"Content-Type": "application/xml"}))
                return
            found = store.answers.get(unquote(parts.path))
            self.answer(self.ranged(found.body) if found else Answer(status=404))

        do_HEAD = do_GET  # noqa: N815 - the library's name

    with _running(Handler) as store.host:
        yield store


def _listing(bucket: str, files: dict[str, bytes], prefix: str) -> bytes:
    here = {key: body for key, body in files.items() if key.startswith(prefix)}
    folders = sorted({prefix + key[len(prefix) :].split("/")[0] + "/" for key in here if "/" in key[len(prefix) :]})
    plain = [key for key in sorted(here) if "/" not in key[len(prefix) :]]
    contents = "".join(
        f"<Contents><Key>{escape(key)}</Key><Size>{len(files[key])}</Size><LastModified>2026-01-01T00:00:00.000Z</LastModified>"
        f'<ETag>"x"</ETag><StorageClass>STANDARD</StorageClass></Contents>'
        for key in plain
    )
    common = "".join(f"<CommonPrefixes><Prefix>{escape(folder)}</Prefix></CommonPrefixes>" for folder in folders)
    count = len(plain) + len(folders)
    return (
        f'<?xml version="1.0"?><ListBucketResult><Name>{bucket}</Name><Prefix>{escape(prefix)}</Prefix><KeyCount>{count}</KeyCount>'
        f"<MaxKeys>1000</MaxKeys><Delimiter>/</Delimiter><IsTruncated>false</IsTruncated>{contents}{common}</ListBucketResult>"
    ).encode()


class _Quiet(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"

    def log_message(self, format: str, *args: object) -> None:  # noqa: A002 - the library's name
        """Says nothing."""

    def answer(self, answer: Answer) -> None:
        """Status, headers, body."""
        self.send_response(answer.status)
        headers = {"Content-Length": str(len(answer.body)), "Last-Modified": formatdate(usegmt=True), "ETag": '"x"'} | answer.headers
        for name, value in headers.items():
            self.send_header(name, value)
        self.end_headers()
        if self.command == "GET":
            self.wfile.write(answer.body)

    def ranged(self, body: bytes) -> Answer:
        """The part that was asked for."""
        wanted = self.headers.get("Range")
        if wanted is None:
            return Answer(body=body)
        first, last = wanted.removeprefix("bytes=").split("-")
        end = min(int(last) if last else len(body) - 1, len(body) - 1)
        headers = {"Content-Range": f"bytes {first}-{end}/{len(body)}"}
        return Answer(body=body[int(first) : end + 1], status=206, headers=headers)


@contextmanager
def _running(handler: type[BaseHTTPRequestHandler]) -> Iterator[str]:
    server = ThreadingHTTPServer(("127.0.0.1", 0), handler)
    server.daemon_threads = True
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.02})
    thread.start()
    try:
        yield f"127.0.0.1:{server.server_port}"
    finally:
        server.shutdown()
        thread.join()
        server.server_close()
