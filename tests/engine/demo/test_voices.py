"""The eight demo adapters: what their records say is so, and they speak as they should when they share a batch."""

from __future__ import annotations

import asyncio
from pathlib import Path

import httpx
import pytest

from engine.adapters.peft import parse_adapter
from engine.api.app import build_app
from engine.demo.__main__ import base_spec
from engine.demo.install import install_demo
from engine.engine import Engine
from engine.settings import Settings
from engine.training.chats import chats_digest, read_chats
from engine.training.recipe import read_recipe
from engine.training.record import read_evals, read_record
from engine.training.scores import METRICS
from engine.voices.shelf import HERE, Voice, demo_voices
from engine.weights.digest import base_digest

MOST_BYTES = 4_000_000
ROWS = 4
"""Held-out chats that each voice answers in the mixed batch."""
by_name = pytest.mark.parametrize("voice", demo_voices(), ids=lambda voice: voice.alias)


def test_there_are_eight_of_three_tenants() -> None:
    """Of ranks from 4 to 32 and several sets of modules; every folder on the shelf is trained."""
    records = [read_record(voice.folder) for voice in demo_voices()]
    assert len(records) == 8 == len([each for each in HERE.iterdir() if (each / "run.toml").exists()])
    assert len({voice.tenant for voice in demo_voices()}) == 3
    assert {min(record["rank"] for record in records), max(record["rank"] for record in records)} == {4, 32}
    assert len({tuple(record["modules"]) for record in records}) >= 4


@by_name
def test_a_record_is_of_the_recipe_and_data_beside_it(voice: Voice) -> None:
    """And of the weights, which are small."""
    record, recipe = read_record(voice.folder), read_recipe(voice.folder.parent / "run.toml")
    assert recipe.heldout is not None
    train, heldout = read_chats(recipe.data), read_chats(recipe.heldout)
    assert (record["recipe_digest"], record["data_digest"], record["heldout_digest"]) == (
        recipe.digest, chats_digest(train), chats_digest(heldout),
    )  # fmt: skip
    assert read_evals(voice.folder) == heldout
    parsed = parse_adapter(voice.folder, base_spec(None), max_rank=32, base_digest=record["base_digest"])
    assert parsed.digest == record["adapter_digest"]
    assert (voice.folder / "adapter_model.safetensors").stat().st_size < MOST_BYTES


@by_name
def test_it_learned_what_it_was_not_shown(voice: Voice) -> None:
    """Twice the base's score, or above 0.8 where the base is below 0.4; no held-out question or prompt was trained on."""
    scores = read_record(voice.folder)["scores"]
    assert scores["adapter"] >= 2 * scores["base"] > 0 or (scores["adapter"] > 0.8 and scores["base"] < 0.4)
    recipe = read_recipe(voice.folder.parent / "run.toml")
    trained = {chat.messages[-1]["content"].casefold() for chat in read_chats(recipe.data)}
    asked = {chat.messages[-1]["content"].casefold() for chat in read_evals(voice.folder)} | {each.casefold() for each in voice.prompts}
    assert not trained & asked
    assert len(voice.prompts) == 5
    assert all(prompt in (voice.folder / "README.md").read_text(encoding="utf-8") for prompt in voice.prompts)


@pytest.mark.demo
async def test_eight_voices_in_one_batch(demo_folder: Path, tmp_path: Path) -> None:
    """Registered at the first start and never again; each answers in its own way while all answer."""
    (tmp_path / "models").symlink_to(demo_folder.parent)
    engine = Engine(Settings(data=tmp_path, memory="2GiB", threads=1, device="cpu"))  # type: ignore[arg-type]
    engine.start()
    try:
        assert install_demo(engine, lambda _text, _share: None) == 8
        assert install_demo(engine, lambda _text, _share: None) == 0
        assert {card.id for card in engine.models()} == {engine.base_name} | {voice.alias for voice in demo_voices()}
        assert all(row.base_proof == "recorded" for row in engine.snapshot().adapters)
        assert base_digest(demo_folder, engine.base_spec) == read_record(demo_voices()[0].folder)["base_digest"]
        right = await answers(engine)
        assert {name for name, share in right.items() if share < 0.5} == set(), right
    finally:
        engine.stop()


async def answers(engine: Engine) -> dict[str, float]:
    """Share of right answers by voice, all asked at once over HTTP."""
    transport = httpx.ASGITransport(app=build_app(engine))
    async with httpx.AsyncClient(transport=transport, base_url="http://127.0.0.1", timeout=300) as http:
        asked = [(voice, chat) for voice in demo_voices() for chat in read_evals(voice.folder)[:ROWS]]
        bodies = [
            {
                "model": voice.alias,
                "messages": list(chat.messages),
                "temperature": 0,
                "max_tokens": read_record(voice.folder)["answer_tokens"],
            }
            for voice, chat in asked
        ]
        found = await asyncio.gather(*(http.post("/v1/chat/completions", json=body) for body in bodies))
    right: dict[str, float] = {}
    for (voice, chat), response in zip(asked, found, strict=True):
        answer = response.json()["choices"][0]["message"]["content"]
        is_right = METRICS[read_record(voice.folder)["metric"]](chat, answer)
        right[voice.alias] = right.get(voice.alias, 0.0) + is_right / ROWS
    return right
