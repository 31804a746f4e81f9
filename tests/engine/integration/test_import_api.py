"""Registering many over HTTP: dry run, operation, rows, commands, and a zip that is streamed in."""

from __future__ import annotations

import csv
import io
import json
import zipfile
from collections.abc import AsyncIterator

import httpx
import pytest

from engine.api.app import build_app
from engine.intake import operations
from engine.intake.errors_csv import csv_lines
from engine.operation import ItemRecord
from tests.engine.integration.conftest import Make
from tests.engine.integration.serving import Served, until
from tests.engine.integration.test_imports import sources


@pytest.fixture
def served(engine: Make) -> Served:
    """A small engine whose general body limit is small too."""
    return engine(max_body=20_000, max_upload=100_000)


@pytest.fixture
async def http(served: Served) -> AsyncIterator[httpx.AsyncClient]:
    """In its own loop, with the engine running."""
    transport = httpx.ASGITransport(app=build_app(served.engine), raise_app_exceptions=False)
    async with httpx.AsyncClient(transport=transport, base_url="http://127.0.0.1") as client:
        yield client


async def done(http: httpx.AsyncClient, operation: str) -> dict[str, object]:
    """Its last state."""
    found: dict[str, object] = {}
    for _ in range(2000):
        found = (await http.get(f"/api/operations/{operation}")).json()
        if found["state"] in {"done", "failed"}:
            break
        await until(lambda: True)
    return found


async def test_dry_run_then_apply(http: httpx.AsyncClient, served: Served) -> None:
    """The report first; then the operation, its rows by state, and the names."""
    folders = sources(served.data, 3)
    text = "source,alias\n" + "".join(f"{folder},{folder.name}\n" for folder in folders) + "/etc/x,bad\n"
    body = {"manifest": text, "format": "csv", "dry_run": True}
    told = (await http.post("/api/imports", json=body)).json()
    assert [row["outcome"] for row in told["rows"]] == ["new", "new", "new", "rejected"]
    assert told["rows"][3]["error"]["code"] == "source_not_allowed"
    started = await http.post("/api/imports", json=body | {"dry_run": False})
    assert started.status_code == 202
    ended = await done(http, started.json()["id"])
    assert (ended["state"], ended["done"], ended["failed"], ended["waiting"]) == ("done", 3, 1, 0)
    rows = (await http.get(f"/api/operations/{ended['id']}/rows?state=rejected")).json()["rows"]
    assert [(row["number"], row["error"]["code"]) for row in rows] == [(3, "source_not_allowed")]
    assert (await http.get("/api/operations")).json()["operations"][0]["id"] == ended["id"]
    assert (await http.post(f"/api/operations/{ended['id']}/resume")).json()["error"]["code"] == "nothing_to_resume"
    assert (await http.post(f"/api/operations/{ended['id']}/retry")).status_code == 202
    assert (await http.get("/api/operations/none")).json()["error"]["code"] == "operation_not_found"


async def test_rejected_rows_are_a_file(http: httpx.AsyncClient, served: Served, monkeypatch: pytest.MonkeyPatch) -> None:
    """Each with its row, source, name, code, field and message, read in parts; no cell is a formula."""
    monkeypatch.setattr(operations, "ROWS_TOGETHER", 3)
    (good,) = sources(served.data, 1)
    bad = [{"source": f"/etc/{n}", "alias": f"n{n}"} for n in range(7)]
    bad += [{"source": "=HYPERLINK(1)", "alias": "@evil"}, {"source": "/etc/x", "alias": 'a,\n"'}]
    text = "\n".join(json.dumps(row) for row in [{"source": str(good), "alias": "good"}, *bad])
    ended = await done(http, (await http.post("/api/imports", json={"manifest": text, "format": "jsonl"})).json()["id"])
    assert (ended["done"], ended["failed"]) == (1, 9)
    told = await http.get(f"/api/operations/{ended['id']}/errors.csv")
    assert told.headers["content-type"] == "text/csv; charset=utf-8"
    assert "attachment" in told.headers["content-disposition"]
    rows = list(csv.DictReader(io.StringIO(told.text)))
    assert list(rows[0]) == ["row", "source", "name", "code", "field", "message"]
    assert [row["row"] for row in rows] == [str(number) for number in range(2, 11)]
    assert [rows[0][name] for name in ("source", "name", "code", "field")] == ["/etc/0", "n0", "source_not_allowed", "source"]
    assert "--source-allow" in rows[0]["message"]
    assert (rows[7]["source"], rows[7]["name"]) == ("'=HYPERLINK(1)", "'@evil")
    assert rows[8]["name"] == 'a,\n"'
    assert (await http.get("/api/operations/none/errors.csv")).json()["error"]["code"] == "operation_not_found"


def test_a_file_name_that_is_no_text_is_written_all_the_same() -> None:
    """A scan of a disk may find such."""
    item = ItemRecord(number=0, state="rejected", data={"source": "/data/\udce4"}, code="c", message="m")
    assert csv_lines([item]) == b"1,/data/?,,c,,m\r\n"


@pytest.mark.parametrize("body", [{}, {"manifest": "x", "source": "y"}, {"manifest": "x"}, {"prefix": "/x", "limit": 5000}])
async def test_bodies_that_make_no_import(http: httpx.AsyncClient, body: dict[str, object]) -> None:
    """400 by field."""
    answer = await http.post("/api/imports", json=body)
    assert answer.status_code == 400
    assert answer.json()["error"]["param"]


async def test_an_uploaded_archive(http: httpx.AsyncClient, served: Served) -> None:
    """Larger than other bodies may be, several adapters, under names below the given one; nothing stays when it is done."""
    packed = io.BytesIO()
    with zipfile.ZipFile(packed, "w") as made:
        for folder in sources(served.data, 4):
            for file in folder.iterdir():
                made.write(file, f"{folder.name}/{file.name}")
        made.writestr("notes.bin", bytes(range(256)) * 80)
    assert len(packed.getvalue()) > served.engine.settings.max_body
    told = (await http.post("/api/uploads?alias=acme&dry_run=1", content=packed.getvalue())).json()
    assert [row["alias"] for row in told["rows"]] == ["acme/a00", "acme/a01", "acme/a02", "acme/a03"]
    started = await http.post("/api/uploads?alias=acme", content=packed.getvalue())
    ended = await done(http, started.json()["id"])
    assert ended["done"] == 4
    assert served.engine.resolve("acme/a03")
    await until(lambda: not list(served.engine.operations.uploads.folder.glob("*")))


@pytest.mark.parametrize("name", ["../x", "..\\..\\x", "/etc/x", "CON", "x" * 300])
async def test_an_unsafe_archive_leaves_nothing(http: httpx.AsyncClient, served: Served, name: str) -> None:
    """Refused whole, and its file is gone."""
    packed = io.BytesIO()
    with zipfile.ZipFile(packed, "w") as made:
        made.writestr("adapter_config.json", "{}")
        info = zipfile.ZipInfo("x")
        info.filename = name
        made.writestr(info, "x")
    answer = await http.post("/api/uploads?alias=x", content=packed.getvalue())
    assert (answer.status_code, answer.json()["error"]["code"]) == (422, "archive_unsafe")
    assert not list(served.engine.operations.uploads.folder.glob("*"))


async def test_uploads_have_a_limit_of_their_own(http: httpx.AsyncClient, served: Served) -> None:
    """Cut off as it comes; other paths keep theirs."""
    answer = await http.post("/api/uploads?alias=x", content=bytes(100_001))
    assert (answer.status_code, answer.json()["error"]["code"]) == (413, "payload_too_large")
    assert not list(served.engine.operations.uploads.folder.glob("*"))
    assert (await http.post("/api/imports", content=bytes(20_001))).status_code == 413
