"""What the gate refuses is in the audit log: who tried what, and why it was refused."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest

from engine.audit_record import AuditRecord
from engine.caller import LOCAL, Caller
from engine.errors import AdapterRefused, Conflict
from engine.intake import work
from tests.engine.integration.conftest import Make
from tests.engine.integration.serving import Served, until
from tests.engine.integration.test_imports import ended, listed, now, sources, start
from tests.tiny import AdapterRecipe

ANA = Caller(name="ana", kind="user", role="operator", tenant=None)


async def refusals(served: Served) -> list[AuditRecord]:
    """Newest first."""
    return await asyncio.to_thread(lambda: served.engine.audit.lines(action="adapter.reject"))


def without_weights(folders: list[Path]) -> None:
    """No adapter any more."""
    for folder in folders:
        (folder / "adapter_model.safetensors").unlink()


async def test_a_refused_version_is_a_line(engine: Make) -> None:
    """By whom, behind which alias, from where, for which reason; a dry run leaves none, and there is nothing to take back."""
    served = engine()
    await served.add("x", AdapterRecipe(seed=1))
    faint = served.folder("faint", AdapterRecipe(seed=2, std=1e-6))
    with pytest.raises(AdapterRefused) as refused:
        await served.register(faint, "x", replace=True, caller=ANA)
    (faint / "adapter_config.json").unlink()
    with pytest.raises(AdapterRefused):
        await served.register(faint, "x", dry_run=True, caller=ANA)
    (line,) = await refusals(served)
    assert (line.by, line.object_kind, line.object, line.tenant, line.why) == ("ana", "alias", "x", "default", refused.value.message)
    assert line.after == {
        "state": "rejected",
        "code": refused.value.code,
        "param": refused.value.param,
        "source": str(faint),
        "number": 2,
    }
    with pytest.raises(Conflict, match="nothing that serves was changed"):
        await asyncio.to_thread(served.engine.audit.undo, line.key)


async def test_the_refused_rows_of_an_import_are_one_line(engine: Make) -> None:
    """However many: how many for which code, by whoever began it; tried again without them there is no other line."""
    served = engine()
    folders = sources(served.data, 12)
    kept = (folders[2] / "adapter_config.json").read_bytes()
    without_weights(folders[5:])
    (folders[2] / "adapter_config.json").unlink()
    request = listed(folders)
    operation = (await asyncio.to_thread(served.engine.operations.start, request, caller=ANA)).record.id
    await ended(served, operation)
    (line,) = await refusals(served)
    assert (line.by, line.object_kind, line.object) == ("ana", "operation", operation)
    assert line.after == {
        "rejected": 8,
        "of": 12,
        "codes": {"no_weights": 7, "not_peft": 1},
        "kind": "import.manifest",
        "operation": "done",
    }
    (folders[2] / "adapter_config.json").write_bytes(kept)
    sources(served.data, 12)
    await asyncio.to_thread(served.engine.operations.retry, operation, caller=LOCAL)
    assert (await ended(served, operation)).record.failed == 0
    assert len(await refusals(served)) == 1


async def test_a_cancelled_import_says_what_it_had_refused(engine: Make, monkeypatch: pytest.MonkeyPatch) -> None:
    """The line is by whoever cancelled it; resumed, the next one tells of what was refused since, so that each row is in one."""
    monkeypatch.setattr(work, "TOGETHER_ROWS", 2)
    served = engine()
    folders = sources(served.data, 24)
    without_weights([*folders[:2], folders[20]])
    operation = await start(served, listed(folders))
    await until(lambda: now(served, operation).record.failed == 2)
    await asyncio.to_thread(served.engine.operations.cancel, operation, caller=ANA)
    (line,) = await refusals(served)
    assert line.by == "ana"
    assert line.after is not None
    assert (line.after["rejected"], line.after["operation"]) == (2, "cancelled")
    await asyncio.to_thread(served.engine.operations.resume, operation, caller=ANA)
    assert (await ended(served, operation)).record.failed == 3
    assert [(line.after or {})["rejected"] for line in await refusals(served)] == [1, 2]
    await asyncio.to_thread(served.engine.operations.retry, operation, caller=ANA)  # and refused anew
    await ended(served, operation)
    assert [(line.after or {})["rejected"] for line in await refusals(served)] == [3, 1, 2]
