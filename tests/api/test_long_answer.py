"""Answers with many rows are the same JSON as in one piece, and the loop goes on while they are made."""

from __future__ import annotations

import asyncio
from dataclasses import replace

import orjson
import pytest

from engine.api.adapter_rows import AdapterBook, AdapterQuery
from engine.api.long_answer import SLICE_ROWS, long_answer, rows_json, snapshot_json
from engine.ids import AdapterId, TenantId
from engine.snapshot import EMPTY, AdapterRow

MANY = tuple(AdapterRow(id=AdapterId(f"{n:032x}"), alias=f"acme/a{n:05}", tenant=TenantId("acme")) for n in range(20_000))


@pytest.mark.parametrize("count", [0, 1, SLICE_ROWS, SLICE_ROWS + 1, 3 * SLICE_ROWS])
def test_slices_are_one_list(count: int) -> None:
    """Whatever the number of rows."""
    assert orjson.loads(b"".join(rows_json(MANY[:count]))) == orjson.loads(orjson.dumps(MANY[:count]))


def test_a_snapshot_in_parts_is_the_snapshot() -> None:
    """Every field, in its order."""
    snapshot = replace(EMPTY, adapters=MANY[:600], step=3, state_reason='"adapters":[]')
    assert b"".join(snapshot_json(snapshot)) == orjson.dumps(snapshot)


async def test_the_loop_goes_on() -> None:
    """Other answers are sent while twenty thousand rows are made."""
    answer = long_answer(snapshot_json(replace(EMPTY, adapters=MANY)))
    looks = 0

    async def look() -> None:
        nonlocal looks
        while True:
            await asyncio.sleep(0)
            looks += 1

    looker = asyncio.create_task(look())
    size, seen = 0, []
    async for part in answer.body_iterator:
        size += len(part)
        seen.append(looks)
    looker.cancel()
    assert size == len(orjson.dumps(replace(EMPTY, adapters=MANY)))
    assert len(set(seen)) > len(MANY) / SLICE_ROWS / 2


def test_a_book_reads_the_same_rows_once() -> None:
    """Names are looked at only when there are other rows, and what changed is seen then."""
    book = AdapterBook()
    rows = [replace(row, alias=f"b{n}") for n, row in enumerate(MANY[:500])]
    assert book.page(rows, AdapterQuery(text="b499"))[1] == 1
    before = book._known
    book.page(rows, AdapterQuery(text="b4"))
    assert book._known is before
    assert book.page([*rows[1:], replace(rows[0], alias="z")], AdapterQuery(text="z"))[1] == 1
