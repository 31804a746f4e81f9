"""The engine says what ``transformers`` and ``peft`` say, alone and in any company."""

from __future__ import annotations

import asyncio
import random
from dataclasses import dataclass
from pathlib import Path

import pytest
import torch

from engine.errors import AdapterRefused
from engine.ids import SHARED_TENANT
from tests import oracle
from tests.engine.integration.conftest import Make
from tests.engine.integration.serving import PROMPT, Served, expected
from tests.tiny import MODULES, AdapterRecipe

RECIPES = {
    "r1": AdapterRecipe(seed=101, rank=1, modules=("up_proj",)),
    "r3": AdapterRecipe(seed=102, rank=3, modules=("q_proj", "k_proj", "v_proj")),
    "r5": AdapterRecipe(seed=103, rank=5, modules=("down_proj", "o_proj")),
    "r8": AdapterRecipe(seed=104, rank=8, modules=MODULES),
    "r12": AdapterRecipe(seed=105, rank=12, modules=("gate_proj", "v_proj"), layers=(1,)),
    "r48": AdapterRecipe(seed=106, rank=48, modules=("q_proj", "v_proj"), rslora=True),
    "r64": AdapterRecipe(seed=107, rank=64, modules=MODULES, rank_pattern={"q_proj": 17}),
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Company:
    """An engine with one adapter of each rank, and their folders; the base is None."""

    served: Served
    folders: dict[str | None, Path | None]


@pytest.fixture
async def company(engine: Make) -> Company:
    """Seven adapters of as many ranks."""
    served = engine()
    folders: dict[str | None, Path | None] = {None: None}
    for name, recipe in RECIPES.items():
        folders[name] = await served.add(name, recipe, tenant=SHARED_TENANT)
    return Company(served=served, folders=folders)


async def test_every_adapter_alone_answers_as_the_oracle(company: Company, tiny_base: Path) -> None:
    """Greedy text of the base and of ranks 1, 3, 5, 8, 12, 48 and 64 is the oracle's, and each differs from the base's."""
    for name, folder in company.folders.items():
        answer = await company.served.ask(name)
        assert answer.ids == expected(tiny_base, folder), name
        assert name is None or answer.ids != expected(tiny_base, None), name


async def test_every_adapter_answers_as_the_oracle_in_one_batch(company: Company, tiny_base: Path) -> None:
    """The same, when all ranks and the base share the steps."""
    answers = await asyncio.gather(*[company.served.ask(name) for name in company.folders])
    assert [answer.ids for answer in answers] == [expected(tiny_base, folder) for folder in company.folders.values()]
    assert max(step.num_adapters for step in company.served.engine.steps()) == len(RECIPES)


async def test_a_prompt_cut_in_chunks_answers_as_the_oracle(engine: Make, tiny_base: Path) -> None:
    """A prompt longer than a step's tokens is computed in parts, beside others that decode, and nothing changes."""
    served = engine(max_step_tokens=24, prefill_chunk=16, max_sequences=8)
    folder = await served.add("r8", RECIPES["r8"])
    prompt = tuple((7 * i) % 250 for i in range(120))
    answers = await asyncio.gather(served.ask(None), served.ask("r8", prompt), served.ask("r8"), served.ask(None, prompt))
    keys = [(None, PROMPT), (folder, prompt), (folder, PROMPT), (None, prompt)]
    assert [answer.ids for answer in answers] == [expected(tiny_base, adapter, text) for adapter, text in keys]


async def test_b05_any_mixture_equals_alone(company: Company) -> None:
    """Eight requests of lengths 1 to 120, arriving at random, answer in thirty shuffles what each answered alone."""
    served, rng = company.served, random.Random(5)
    models = [None, None, "r1", "r3", "r5", "r8", "r12", "r64"]
    requests = [
        (model, tuple(rng.randrange(250) for _ in range(length)))
        for model, length in zip(models, (1, 120, 5, 17, 40, 64, 90, 33), strict=True)
    ]
    alone = {request: (await served.ask(*request, tenant="alone", max_tokens=8)).ids for request in requests}

    async def late(request: tuple[str | None, tuple[int, ...]], *, tenant: str) -> tuple[int, ...]:
        await asyncio.sleep(rng.random() * 0.03)
        return (await served.ask(*request, tenant=tenant, max_tokens=8)).ids

    for shuffle in range(30):
        rng.shuffle(requests)
        together = await asyncio.gather(*[late(request, tenant=f"shuffle {shuffle}") for request in requests])
        assert together == [alone[request] for request in requests], f"shuffle {shuffle}"


async def test_the_largest_rank_is_named_when_an_adapter_is_over_it(company: Company) -> None:
    """Rank 65 under a cap of 64 is refused with both numbers, and its name stays free."""
    folder = company.served.folder("r65", AdapterRecipe(seed=7, rank=65))
    with pytest.raises(AdapterRefused) as caught:
        await company.served.register(folder, "r65")
    assert "64" in f"{caught.value.expected}"
    assert "65" in f"{caught.value.found}"
    assert "r65" not in {card.id for card in company.served.engine.models()}


async def test_prompt_logprobs_are_the_oracles(company: Company, tiny_base: Path) -> None:
    """``echo`` scores each prompt token from the second on, with its two best rivals, on the first chunk of the choice."""
    for name, folder in ((None, None), ("r8", company.folders["r8"])):
        model = oracle.base_model(tiny_base) if folder is None else oracle.merged_model(tiny_base, folder)
        want = oracle.logits(model, PROMPT).log_softmax(dim=-1)
        answer = await company.served.ask(name, echo=True, logprobs=2, max_tokens=3)
        scored = answer.chunks[0].prompt_logprobs
        assert [item.token_id for item in scored] == list(PROMPT[1:])
        got = torch.tensor([item.logprob for item in scored])
        rows = want[torch.arange(len(PROMPT) - 1), torch.tensor(PROMPT[1:])]
        assert torch.allclose(got, rows, atol=oracle.LOGIT_TOLERANCE, rtol=0)
        best = want[:-1].topk(2)
        assert [[token for token, _ in item.top] for item in scored] == best.indices.tolist()
        assert not any(chunk.prompt_logprobs for chunk in answer.chunks[1:])


async def test_token_logprobs_are_the_oracles(company: Company, tiny_base: Path) -> None:
    """Each answered token carries its log-probability and the three best, from the unscaled distribution."""
    model = oracle.base_model(tiny_base)
    answer = await company.served.ask(None, logprobs=3, max_tokens=6, temperature=1.7, seed=3)
    want = oracle.logits(model, PROMPT + answer.ids).log_softmax(dim=-1)[len(PROMPT) - 1 : -1]
    scored = [item for chunk in answer.chunks for item in chunk.logprobs]
    assert [item.token_id for item in scored] == list(answer.ids)
    for item, row in zip(scored, want, strict=True):
        assert item.logprob == pytest.approx(float(row[item.token_id]), abs=oracle.LOGIT_TOLERANCE)
        assert [token for token, _ in item.top] == row.topk(3).indices.tolist()


async def test_echo_is_scored_once_in_chunks_and_per_choice(engine: Make, tiny_base: Path) -> None:
    """A scored prompt that is computed in parts, for two choices beside a stream, comes whole and once on each choice."""
    served = engine(max_step_tokens=24, prefill_chunk=16, max_sequences=8)
    prompt = tuple((11 * i) % 250 for i in range(90))
    want = oracle.logits(oracle.base_model(tiny_base), prompt).log_softmax(dim=-1)[torch.arange(89), torch.tensor(prompt[1:])]
    _, answer = await asyncio.gather(served.ask(None), served.ask(None, prompt, echo=True, logprobs=0, n=2, max_tokens=2))
    for index in (0, 1):
        chunks = [chunk for chunk in answer.chunks if chunk.index == index]
        got = torch.tensor([item.logprob for item in chunks[0].prompt_logprobs])
        assert len(got) == 89
        assert torch.allclose(got, want, atol=oracle.LOGIT_TOLERANCE, rtol=0)
