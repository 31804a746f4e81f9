"""Another base on the same data: nothing serves on the wrong digest, and what was registered comes back through the gate."""

from __future__ import annotations

import asyncio
import dataclasses
import json
from pathlib import Path

import pytest

from engine.errors import Conflict, ModelNotFound
from tests import tiny
from tests.engine.integration.serving import expected, serve
from tests.engine.integration.test_moves import client_of
from tests.tiny import AdapterRecipe


async def test_a_new_base_serves_no_adapter_of_the_old_one(tiny_base: Path, tmp_path: Path) -> None:
    """A preview names what would stop; started with it, old names are 404 and a 409 with both digests to operators.

    Registering again serves what fits; back on the old base its own versions serve again.
    """
    data = tmp_path / "data"
    other = tiny.write_base(data / "other", tiny.TINY_2)
    wider = tiny.write_base(data / "wider", dataclasses.replace(tiny.TINY, mlp=112))
    with serve(tiny_base, data) as served:
        folder = await served.add("x", AdapterRecipe(seed=1))
        await served.add("mlp", AdapterRecipe(seed=2, modules=("up_proj",)))
        tied = served.folder("tied", AdapterRecipe(seed=3))
        (tied / "training.json").write_text(json.dumps({"base_digest": served.engine.base_spec.digest}))
        await served.register(tied, "tied")
        version = served.entry("x").record.id
        async with client_of(served) as http:
            preview = (await http.get("/api/bases/preview", params={"source": str(wider)})).json()
            assert {stop["alias"]: stop["fits"] for stop in preview["stops"]} == {"x": True, "mlp": False, "tied": True}
            assert [base["adapters"] for base in (await http.get("/api/bases")).json()["bases"]] == [3]
        old_digest = served.engine.base_spec.digest
    with serve(other, data) as served:
        for name in ("x", "mlp", version):
            with pytest.raises(ModelNotFound):
                served.submit(name)
        assert [card.id for card in served.engine.models()] == [served.engine.base_name]
        with pytest.raises(Conflict) as caught:
            await asyncio.to_thread(served.engine.versions.names.move, "x", version)
        assert (caught.value.code, caught.value.found, caught.value.expected) == (
            "base_mismatch",
            old_digest,
            served.engine.base_spec.digest,
        )
        async with client_of(served) as http:
            listed = (await http.get("/api/bases")).json()
            assert [(base["adapters"], base["serves"]) for base in listed["bases"]] == [(3, False), (0, True)]
            assert len(listed["stranded"]) == 3
            results = {row["alias"]: row["refusal"] for row in (await http.post("/api/bases/reregister")).json()["results"]}
        assert (results["x"], results["mlp"]) == ("", "")
        assert "trained on another base" in results["tied"]
        assert (await served.ask("x")).ids == expected(other, folder)
        lines = await asyncio.to_thread(served.engine.versions.history, "x")
        assert [(one["number"], one["state"], one["base_digest"]) for one in lines] == [
            (2, "ready", served.engine.base_spec.digest),
            (1, "ready", old_digest),
        ]
        with pytest.raises(ModelNotFound):
            served.submit("tied")
    with serve(tiny_base, data) as served:
        assert (await served.ask(version)).ids == expected(tiny_base, folder)
        with pytest.raises(ModelNotFound):
            served.submit("x")
        await asyncio.to_thread(served.engine.versions.names.move, "x", "1")
        assert (await served.ask("x")).ids == expected(tiny_base, folder)
