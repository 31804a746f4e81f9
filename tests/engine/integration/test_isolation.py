"""Nothing of one adapter, tenant or version shows in another's answer."""

from __future__ import annotations

from pathlib import Path

import pytest

from engine.errors import ModelNotFound
from engine.ids import SHARED_TENANT, TenantId
from tests.engine.integration.conftest import Make
from tests.engine.integration.serving import PROMPT, expected
from tests.tiny import MODULES, AdapterRecipe

LONG = tuple((13 * i) % 250 for i in range(100))
STRONG_A = AdapterRecipe(seed=21, modules=("k_proj", "v_proj"))
STRONG_B = AdapterRecipe(seed=22, modules=("k_proj", "v_proj"))


async def test_prefixes_never_cross_adapters(engine: Make, tiny_base: Path) -> None:
    """A prompt shared by A, B and the base is reused by a second A alone, and every answer is the oracle's."""
    served = engine()
    a, b = await served.add("a", STRONG_A), await served.add("b", STRONG_B)
    cached = []
    for name, folder in (("a", a), ("b", b), (None, None), ("a", a), ("b", b), (None, None)):
        answer = await served.ask(name, LONG)
        assert answer.ids == expected(tiny_base, folder, LONG), name
        cached.append(answer.record.cached_tokens)
    assert cached[:3] == [0, 0, 0]
    assert cached[3:] == [96, 96, 96]


async def test_prefixes_never_cross_tenants(engine: Make) -> None:
    """The same prompt for the same adapter is computed anew for another tenant."""
    served = engine()
    await served.add("a", STRONG_A, tenant=SHARED_TENANT)
    cached = [(await served.ask("a", LONG, tenant=tenant)).record.cached_tokens for tenant in ("acme", "globex", "acme", "globex")]
    assert cached == [0, 0, 96, 96]


async def test_b03_a_slot_that_is_used_again_leaks_nothing(engine: Make, tiny_base: Path) -> None:
    """In the only slot, on the same pages, a small adapter after a strong one answers as on a fresh engine."""
    served = engine(max_step_adapters=1, pages=26)
    big = AdapterRecipe(seed=31, rank=16, modules=MODULES)
    x = await served.add("x", big)
    y = await served.add("y", AdapterRecipe(seed=32, rank=4, modules=("q_proj",), layers=(1,)))
    for name, folder in (("x", x), ("y", y), ("x", x), (None, None), ("y", y)):
        assert (await served.ask(name)).ids == expected(tiny_base, folder), name
        if name is not None:
            await served.control("evict", name, tier="host")


async def test_pages_that_held_weights_are_clean_for_keys(engine: Make, tiny_base: Path) -> None:
    """KV in pages that an evicted adapter filled, and weights in pages that KV filled, change no answer."""
    served = engine(pages=24)
    folders = {
        name: await served.add(name, AdapterRecipe(seed=seed, rank=24, modules=("q_proj", "v_proj", "down_proj")), tenant=SHARED_TENANT)
        for name, seed in (("a", 41), ("b", 42))
    }
    for turn in range(3):
        for name, folder in folders.items():
            assert (await served.ask(name, tenant=f"{turn}")).ids == expected(tiny_base, folder), (turn, name)
            assert (await served.ask(None, LONG, tenant=f"{turn}")).ids == expected(tiny_base, None, LONG), (turn, name)
    assert served.engine.snapshot().totals.evictions > 0


@pytest.mark.parametrize("name", ["nope", "", "A", "a ", " a", "a/", "A" * 5000, "tiny2"])
async def test_an_unknown_name_is_never_the_bases_answer(engine: Make, name: str) -> None:
    """A name that is nearly an alias is refused at once, to the letter, and nothing runs."""
    served = engine()
    await served.add("a", STRONG_A)
    steps = served.engine.snapshot().totals.steps
    with pytest.raises(ModelNotFound) as caught:
        served.submit(name or "", PROMPT) if name else served.engine.resolve(name)
    assert (caught.value.status, caught.value.code, caught.value.param) == (404, "model_not_found", "model")
    assert len(caught.value.message) < 200
    await served.check()
    assert served.engine.snapshot().totals.steps == steps


async def test_a_version_answers_to_its_id_while_an_alias_names_it(engine: Make, tiny_base: Path) -> None:
    """The id of a version is a model name too; the target says which name was asked for."""
    served = engine()
    folder = await served.add("a", STRONG_A)
    version = served.entry("a").record.id
    assert (await served.ask(version)).ids == expected(tiny_base, folder)
    assert served.engine.resolve(version).name == version
    await served.unregister("a")
    with pytest.raises(ModelNotFound):
        served.submit(version)


async def test_a_card_names_no_source_of_others(engine: Make) -> None:
    """Two tenants registered the same weights from different folders: each card names its own, in the list and by itself."""
    served = engine()
    places = {tenant: served.folder(f"{tenant}/secret", STRONG_A) for tenant in (TenantId("acme"), TenantId("globex"))}
    for tenant, folder in places.items():
        await served.register(folder, "x", tenant=tenant)
    for tenant, folder in places.items():
        listed = {card.id: card.root for card in served.engine.models(tenant)}
        assert listed["x"] == str(folder)
        by_name, by_version = served.engine.card("x", tenant), served.engine.card(served.engine.resolve("x", tenant).adapter or "", tenant)
        assert (by_name.root, by_version.root) == (str(folder), str(folder))
