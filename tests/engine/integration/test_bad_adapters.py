"""A bad adapter is refused at its registration, and nobody else notices."""

from __future__ import annotations

import asyncio
import dataclasses
import json
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
from safetensors.numpy import load_file, save_file

from engine.errors import AdapterRefused, LoradeckError, ModelNotFound, SourceNotAllowed
from engine.events import AdapterRejected
from tests.engine.integration.conftest import Make
from tests.engine.integration.serving import Served, expected, first_chunk, outcome, read, until
from tests.tiny import TINY, AdapterRecipe, Tensors, write_adapter

WEIGHTS = "adapter_model.safetensors"
Q0 = "base_model.model.model.layers.0.self_attn.q_proj.lora_A.weight"


def edit_tensors(folder: Path, change: Callable[[Tensors], object]) -> None:
    """Rewrite the weights."""
    tensors = load_file(folder / WEIGHTS)
    change(tensors)
    save_file(tensors, folder / WEIGHTS)


def edit_config(folder: Path, **fields: object) -> None:
    """Overwrite fields of the config."""
    path = folder / "adapter_config.json"
    path.write_text(json.dumps(json.loads(path.read_text()) | fields))


def cut(folder: Path, name: str, size: int) -> None:
    """Keep the first bytes of a file."""
    (folder / name).write_bytes((folder / name).read_bytes()[:size])


BREAK: dict[str, Callable[[Path], object]] = {
    "over_rank": lambda folder: write_adapter(folder, AdapterRecipe(rank=65)),
    "no_folder": lambda folder: folder.rename(folder.with_name("elsewhere")),
    "no_weights": lambda folder: (folder / WEIGHTS).unlink(),
    "no_config": lambda folder: (folder / "adapter_config.json").unlink(),
    "empty_weights": lambda folder: cut(folder, WEIGHTS, 0),
    "cut_header": lambda folder: cut(folder, WEIGHTS, 20),
    "cut_data": lambda folder: cut(folder, WEIGHTS, -64),
    "bad_json": lambda folder: cut(folder, "adapter_config.json", 30),
    "pickle": lambda folder: (folder / WEIGHTS).rename(folder / "adapter_model.bin"),
    "nan": lambda folder: edit_tensors(folder, lambda tensors: tensors[Q0].fill(np.nan)),
    "infinite": lambda folder: edit_tensors(folder, lambda tensors: tensors[Q0].fill(np.inf)),
    "half_a_pair": lambda folder: edit_tensors(folder, lambda tensors: tensors.pop(Q0)),
    "stranger": lambda folder: edit_tensors(folder, lambda tensors: tensors.update({"lm_head.weight": tensors[Q0]})),
    "nothing_matches": lambda folder: write_adapter(folder, AdapterRecipe(spell=lambda key: key.replace("self_attn", "attention"))),
    "dora": lambda folder: edit_config(folder, use_dora=True),
    "bias": lambda folder: edit_config(folder, bias="all"),
    "whole_modules": lambda folder: edit_config(folder, modules_to_save=["lm_head"]),
    "wider_base": lambda folder: write_adapter(folder, None, dataclasses.replace(TINY, hidden=80)),
    "other_mlp": lambda folder: write_adapter(folder, AdapterRecipe(modules=("up_proj",)), dataclasses.replace(TINY, mlp=112)),
    "other_kv": lambda folder: write_adapter(folder, None, dataclasses.replace(TINY, kv_heads=4)),
    "deeper_base": lambda folder: write_adapter(folder, None, dataclasses.replace(TINY, layers=3)),
    "quantised_base": lambda folder: edit_config(folder, base_model_name_or_path="unsloth/tiny-bnb-4bit"),
    "other_base": lambda folder: (folder / "training.json").write_text(json.dumps({"base_digest": "0" * 64})),
}


async def test_b09_broken_adapters_disturb_nobody(engine: Make, tiny_base: Path) -> None:
    """Every broken folder is a 4xx with a code and a reason while a stream runs; the stream is the oracle's, and no name is listed."""
    served = engine()
    good = await served.add("good")
    stream = served.submit("good", max_tokens=200)
    first = await first_chunk(stream)
    for name, damage in BREAK.items():
        folder = served.folder(name)
        damage(folder)
        with pytest.raises(LoradeckError) as caught:
            await served.register(folder, name)
        assert 400 <= caught.value.status < 500, name
        assert caught.value.code not in {"internal_error", ""}, name
        with pytest.raises(ModelNotFound):
            served.submit(name)
    rest = await read(stream)
    assert first.token_ids + rest.ids == expected(tiny_base, good, num_tokens=200)
    assert [card.id for card in served.engine.models()] == [served.engine.base_name, "good"]
    rejected = [event.alias for _, event in served.engine.events().events if isinstance(event, AdapterRejected)]
    assert rejected == list(BREAK)
    assert len(served.host.residency.entries) == len(list(served.host.residency.disk.folder.glob("*.image"))) == 1


async def test_a_folder_outside_the_allowed_ones_is_not_looked_at(engine: Make, tmp_path: Path) -> None:
    """A source elsewhere gives the same refusal whether or not it exists, and also through a link."""
    served = engine()
    outside = write_adapter(tmp_path / "outside")
    link = served.data / "link"
    link.symlink_to(outside)
    messages = set()
    for source in (outside, tmp_path / "nothing", link, f"{served.data}/../outside", "s3://bucket/x"):
        with pytest.raises(SourceNotAllowed) as caught:
            await served.register(source, "x")
        messages.add(caught.value.message)
    assert len(messages) == 1


async def test_a_base_is_known_by_its_weights(engine: Make, tiny_base: Path) -> None:
    """A record with this base's digest is proof under any name; another digest is served only when declared compatible, with a trace."""
    served = engine()
    for name, digest in (("same", served.engine.base_spec.digest), ("other", "0" * 64)):
        folder = served.folder(name, AdapterRecipe(seed=len(name), base_name="somewhere/else"))
        (folder / "training.json").write_text(json.dumps({"base_digest": digest}))
    same = await served.register(served.data / "sources/same", "same")
    assert (same.report.base_proof, same.row.base_proof) == ("recorded", "recorded")
    other = await served.register(served.data / "sources/other", "other", compatible_base=True)
    assert other.report.base_proof == "declared"
    assert any("0" * 16 in warning for warning in other.row.warnings)


async def zero(served: Served, name: str, half: str) -> Path:
    """An adapter whose A or B matrices are all zero."""
    folder = served.folder(name, AdapterRecipe(seed=81))
    edit_tensors(folder, lambda tensors: [tensor.fill(0) for key, tensor in tensors.items() if f"lora_{half}" in key])
    return folder


async def test_an_adapter_without_effect_is_refused_by_the_probe(engine: Make) -> None:
    """One whose file promises a change and gives none never serves; the refusal names the probe and leaves nothing behind."""
    served = engine()
    folder = served.folder("faint", AdapterRecipe(seed=82, std=1e-6))
    with pytest.raises(AdapterRefused) as caught:
        await served.register(folder, "faint")
    assert (caught.value.code, caught.value.param) == ("no_effect", "probe")
    assert not served.host.residency.entries
    assert not list(served.host.residency.disk.folder.glob("*.image"))
    assert served.host.pool.count("adapter") == 0


@pytest.mark.parametrize("kind", ["alpha", "B"])
async def test_an_adapter_that_says_it_has_no_effect_serves_with_a_warning(engine: Make, tiny_base: Path, kind: str) -> None:
    """Alpha 0 or a B of zeros is what a fresh training starts with: it registers with a warning and answers as the base."""
    served = engine()
    folder = served.folder("x", AdapterRecipe(seed=83, alpha=0)) if kind == "alpha" else await zero(served, "x", "B")
    answer = await served.register(folder, "x")
    assert answer.report.warnings
    assert answer.report.probe == "ok"
    assert (await served.ask("x")).ids == expected(tiny_base, None)


async def test_proof_may_wait_for_the_first_load(engine: Make, tiny_base: Path) -> None:
    """With ``prove="first_load"`` nothing is loaded at registration; the first request is answered after the probe, and rightly."""
    served = engine()
    folder = served.folder("x", AdapterRecipe(seed=84))
    answer = await served.register(folder, "x", prove="first_load")
    assert (answer.report.probe, answer.row.probe, answer.row.tier) == ("unproven", "unproven", "disk")
    first = await served.ask("x")
    assert first.ids == expected(tiny_base, folder)
    row = await served.row("x")
    assert (row.probe, bool(row.probe_fingerprint)) == ("ok", True)
    assert row.last_load is not None
    assert "probe" in {phase.name for phase in row.last_load.phases}


async def test_an_adapter_that_fails_its_late_proof_answers_nothing(engine: Make, tiny_base: Path) -> None:
    """Requests that waited for an unproven adapter end with the probe's refusal, later ones with 404, and the base never answers."""
    served = engine()
    folder = served.folder("faint", AdapterRecipe(seed=85, std=1e-6))
    await served.register(folder, "faint", prove="first_load")
    results = await asyncio.gather(*[outcome(served.submit("faint")) for _ in range(3)], served.ask(None))
    assert [getattr(result, "code", None) for result in results[:3]] == ["no_effect"] * 3
    assert results[3].ids == expected(tiny_base, None)  # type: ignore[union-attr]
    with pytest.raises(ModelNotFound):
        served.submit("faint")
    await until(lambda: served.host.pool.count("adapter") == 0)
    assert (await served.row("faint")).lifecycle == "rejected"
