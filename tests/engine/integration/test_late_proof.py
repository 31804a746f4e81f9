"""A version whose probe was put off answers nothing before it passed, and what it said is kept."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest

from engine.errors import AdapterRefused, Conflict, ModelNotFound
from engine.prover import Prover
from tests.engine.integration.serving import Served, expected, first_chunk, outcome, read, serve, until
from tests.tiny import AdapterRecipe


async def effect(served: Served, ref: str) -> tuple[str, str, str]:
    """State of a version, and verdict and code of its probe, once all that was left for later is stored."""
    await asyncio.to_thread(served.host.catalog.store.write, lambda _: None)
    facts = await asyncio.to_thread(served.engine.versions.report, ref)
    (check,) = [check for check in facts["report"]["checks"] if check["name"] == "effect"]
    return facts["state"], check["verdict"], check["code"]


async def test_a_late_proof_that_fails_outlasts_a_restart(tiny_base: Path, tmp_path: Path) -> None:
    """The version is rejected with its report completed and a line by Loradeck; nothing routes to it then or after a restart."""
    with serve(tiny_base, tmp_path) as served:
        folder = served.folder("faint", AdapterRecipe(seed=85, std=1e-6))
        version = (await served.register(folder, "x", prove="first_load")).row.id
        assert await effect(served, "x@1") == ("ready", "pending", "")
        refused = await outcome(served.submit("x"))
        assert isinstance(refused, AdapterRefused)
        assert await effect(served, "x@1") == ("rejected", "failed", "no_effect")
        (line,) = served.engine.audit.lines(action="version.reject")
        assert (line.by, line.object, line.after) == ("loradeck", "x@1", {"state": "rejected", "code": "no_effect"})
    with serve(tiny_base, tmp_path) as served:
        assert await effect(served, "x@1") == ("rejected", "failed", "no_effect")
        for name in ("x", version):
            with pytest.raises(ModelNotFound):
                served.submit(name)
        with pytest.raises(Conflict) as caught:
            await asyncio.to_thread(served.engine.versions.names.move, "x", "1")
        assert caught.value.code == "version_rejected"


async def test_an_unproven_version_answers_only_after_it_passed(tiny_base: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """On the device and unproven, also after a restart, it is in no step while others run; proven, it answers and the report says so."""
    with serve(tiny_base, tmp_path) as served:
        folder = served.folder("x", AdapterRecipe(seed=84))
        await served.register(folder, "x", prove="first_load")
    with serve(tiny_base, tmp_path) as served:
        assert await effect(served, "x@1") == ("ready", "pending", "")
        with monkeypatch.context() as held:
            held.setattr(Prover, "run_pending", lambda _: None)
            stream = served.submit("x")
            await until(lambda: served.entry("x").on_device)
            await served.ask(None, max_tokens=30)
            assert (served.entry("x").probe, served.entry("x").leases) == ("unproven", 0)
            assert all(step.num_adapters == 0 for step in served.engine.steps())
        late = served.submit("x")
        assert (await first_chunk(late)).token_ids == expected(tiny_base, folder)[:1]
        answer, _ = await asyncio.gather(read(stream), read(late))
        assert answer.ids == expected(tiny_base, folder)
        assert await effect(served, "x@1") == ("ready", "passed", "")
