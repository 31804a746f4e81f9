"""The loop against ``peft`` under torch's own AdamW, and against itself: twice, and stopped half-way."""

from __future__ import annotations

import warnings
from collections.abc import Sequence
from pathlib import Path

import pytest
import torch
from peft import PeftModel
from torch import nn
from torch.nn import functional
from transformers import get_cosine_schedule_with_warmup

from engine.assemble import Base
from engine.errors import TrainingRefused
from engine.training.chats import Example, read_chats
from engine.training.checkpoint import Checkpoint
from engine.training.lora import LoraWeights
from engine.training.passes import order_of
from engine.training.recipe import Recipe, make_recipe
from engine.training.record import Outcome, write_adapter
from engine.training.trainer import Training, learning_rate, mean_loss
from tests import oracle

LOSS_TOLERANCE = 2e-5
"""Of a mean cross-entropy near 6; fp32 sums in another order differ by some 1e-6 and AdamW's first steps magnify that."""


def recipe_of(data: Path, **more: object) -> Recipe:
    """A run small enough for a test, strong enough that its loss falls."""
    said: dict[str, object] = {"name": "t", "data": data, "rank": 4, "modules": ("q_proj", "v_proj", "down_proj"), "learning_rate": 0.01}
    return make_recipe(said | {"steps": 8, "batch": 2, "accumulate": 2, "warmup_steps": 0, "schedule": "constant"} | more)


def peft_losses(model: nn.Module, examples: Sequence[Example], recipe: Recipe) -> list[float]:
    """The same training by ``transformers`` and ``peft``: one chat at a time, no page, no kernel of ours."""
    matrices = [matrix for matrix in model.parameters() if matrix.requires_grad]
    optimizer = torch.optim.AdamW(matrices, lr=recipe.learning_rate, weight_decay=recipe.weight_decay)
    losses, per_step = [], recipe.batch * recipe.accumulate
    order = [int(place) for epoch in range(9) for place in order_of(len(examples), epoch, recipe.seed)]
    for step in range(recipe.steps):
        chosen = [examples[place] for place in order[step * per_step : (step + 1) * per_step]]
        total = torch.zeros(())
        for each in chosen:
            logits = model(input_ids=torch.tensor([each.token_ids]), use_cache=False).logits[0]
            targets = torch.tensor(each.token_ids[each.num_prompt :])
            total = total + functional.cross_entropy(logits[each.num_prompt - 1 : -1], targets, reduction="sum")
        loss = total / sum(each.num_targets for each in chosen)
        optimizer.zero_grad()
        loss.backward()
        torch.nn.utils.clip_grad_norm_(matrices, recipe.max_grad_norm)
        optimizer.step()
        losses.append(loss.item())
    return losses


@pytest.mark.parametrize("rslora", [False, True])
def test_the_loss_curve_is_pefts(
    base: Base, tiny_base: Path, chats_file: Path, examples: Sequence[Example], tmp_path: Path, *, rslora: bool
) -> None:
    """Same chats, order, start and optimizer: the same loss at every step."""
    recipe = recipe_of(chats_file, rslora=rslora, stored="fp32", weight_decay=0.01)
    outcome = Outcome(seconds=0, loss=0, heldout_loss=None, base_heldout_loss=None)
    write_adapter(tmp_path, LoraWeights.fresh(base.spec, recipe), recipe, outcome, data=read_chats(chats_file), heldout=())
    training = Training(recipe=recipe, model=base.model, examples=examples)
    training.run()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        model = PeftModel.from_pretrained(oracle.base_model(tiny_base), tmp_path, is_trainable=True)
    expected = peft_losses(model, examples, recipe)
    assert training.losses == pytest.approx(expected, abs=LOSS_TOLERANCE)
    assert expected[-1] < expected[0] - 0.5  # it learned: equal flat lines would prove little


def test_the_same_seed_gives_the_same_matrices(base: Base, chats_file: Path, examples: Sequence[Example]) -> None:
    """And another seed others."""
    runs = [Training(recipe=recipe_of(chats_file, seed=seed), model=base.model, examples=examples).run().parameters for seed in (3, 3, 4)]
    assert all(torch.equal(one, other) for one, other in zip(runs[0], runs[1], strict=True))
    assert not torch.equal(runs[0][0], runs[2][0])


def test_a_stopped_run_goes_on(base: Base, chats_file: Path, examples: Sequence[Example], tmp_path: Path) -> None:
    """Three steps, then a new process's worth of state, then the rest: the matrices of a run that was never stopped."""
    recipe, checkpoint = recipe_of(chats_file), Checkpoint(folder=tmp_path, inputs={"recipe": "r", "data": "d"})
    whole = Training(recipe=recipe, model=base.model, examples=examples)
    whole.run()
    Training(recipe=recipe, model=base.model, examples=examples, checkpoint=checkpoint).run(until=3)
    rest = Training(recipe=recipe, model=base.model, examples=examples, checkpoint=checkpoint)
    assert len(rest.losses) == 3
    rest.run()
    assert rest.losses == whole.losses
    assert all(torch.equal(one, other) for one, other in zip(rest.weights.parameters, whole.weights.parameters, strict=True))


def test_another_runs_state_is_refused(base: Base, chats_file: Path, examples: Sequence[Example], tmp_path: Path) -> None:
    """By the input that differs."""
    recipe = recipe_of(chats_file)
    Training(recipe=recipe, model=base.model, examples=examples, checkpoint=Checkpoint(folder=tmp_path, inputs={"data": "d"})).run(until=1)
    with pytest.raises(TrainingRefused) as refused:
        Training(recipe=recipe, model=base.model, examples=examples, checkpoint=Checkpoint(folder=tmp_path, inputs={"data": "e"}))
    assert (refused.value.code, refused.value.param) == ("checkpoint_mismatch", "data")


def test_a_torn_checkpoint_is_refused(base: Base, chats_file: Path, examples: Sequence[Example], tmp_path: Path) -> None:
    """With what to do."""
    checkpoint = Checkpoint(folder=tmp_path, inputs={})
    checkpoint.path.write_bytes(b"\x10\0\0\0\0\0\0\0half")
    with pytest.raises(TrainingRefused, match="remove it to begin anew"):
        Training(recipe=recipe_of(chats_file), model=base.model, examples=examples, checkpoint=checkpoint)


def test_a_batch_does_not_change_a_loss(base: Base, chats_file: Path, examples: Sequence[Example]) -> None:
    """Chats side by side do not see one another."""
    weights = LoraWeights.fresh(base.spec, recipe_of(chats_file))
    one, four = (mean_loss(base.model, weights, examples, batch=batch) for batch in (1, 4))
    assert one == pytest.approx(four, abs=1e-6)


def test_the_schedule_is_the_usual_one(chats_file: Path) -> None:
    """After the warm-up, ``transformers``' cosine."""
    recipe = recipe_of(chats_file, schedule="cosine", steps=20, warmup_steps=4)
    optimizer = torch.optim.SGD([torch.zeros(1)], lr=recipe.learning_rate)
    schedule = get_cosine_schedule_with_warmup(optimizer, 4, 20)
    rates = []
    for _ in range(20):
        rates.append(optimizer.param_groups[0]["lr"])
        optimizer.step()
        schedule.step()
    assert [learning_rate(recipe, step) for step in range(4, 20)] == pytest.approx(rates[4:])
    assert [learning_rate(recipe, step) for step in range(4)] == pytest.approx([0.0025, 0.005, 0.0075, 0.01])
