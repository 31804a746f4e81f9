"""The training loop: deterministic for a seed, and able to go on where it was stopped."""

from __future__ import annotations

import math
import time
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

import torch

from engine.training.checkpoint import Checkpoint
from engine.training.lora import LoraWeights
from engine.training.passes import loss_sum, order_of

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from engine.models.decoder import DecoderModel
    from engine.training.chats import Example
    from engine.training.recipe import Recipe

SAVE_EVERY_S = 30.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Progress:
    """Where a run stands after a step."""

    step: int
    steps: int
    loss: float
    """Mean over the step's target tokens, before the step."""
    learning_rate: float
    tokens_per_s: float
    """Of all tokens in the passes, since the run began or went on."""
    left_s: float


@dataclass(slots=True, kw_only=True)
class Training:
    """One run. Owned by the thread that runs it."""

    recipe: Recipe
    model: DecoderModel
    examples: Sequence[Example]
    checkpoint: Checkpoint | None = None
    """Where the state is kept on the way; None: nowhere."""
    weights: LoraWeights = field(init=False)
    optimizer: torch.optim.AdamW = field(init=False)
    losses: list[float] = field(init=False, default_factory=list)
    """One a step done."""

    def __post_init__(self) -> None:
        recipe = self.recipe
        self.weights = LoraWeights.fresh(self.model.spec, recipe)
        self.optimizer = torch.optim.AdamW(self.weights.parameters, lr=recipe.learning_rate, weight_decay=recipe.weight_decay)
        if self.checkpoint is not None:
            self.losses = self.checkpoint.restore(self.weights, self.optimizer)

    def run(self, report: Callable[[Progress], None] = lambda _progress: None, *, until: int | None = None) -> LoraWeights:
        """Do the steps that are left, up to ``until`` where given; the matrices."""
        started_s = saved_s = time.monotonic()
        done_before, tokens = len(self.losses), 0
        last = min(self.recipe.steps, until or self.recipe.steps)
        while len(self.losses) < last:
            tokens += self._step()
            now_s = time.monotonic()
            spent_s, steps = now_s - started_s, len(self.losses) - done_before
            report(
                Progress(
                    step=len(self.losses),
                    steps=self.recipe.steps,
                    loss=self.losses[-1],
                    learning_rate=learning_rate(self.recipe, len(self.losses) - 1),
                    tokens_per_s=tokens / spent_s,
                    left_s=spent_s / steps * (self.recipe.steps - len(self.losses)),
                )
            )
            if self.checkpoint is not None and (now_s - saved_s > SAVE_EVERY_S or len(self.losses) == last):
                self.checkpoint.save(self.weights, self.optimizer, self.losses)
                saved_s = now_s
        return self.weights

    def _step(self) -> int:
        """One optimizer step; the tokens in its passes."""
        recipe, step = self.recipe, len(self.losses)
        passes = [self._chats(step * recipe.accumulate + index) for index in range(recipe.accumulate)]
        targets = sum(each.num_targets for chats in passes for each in chats)
        self.optimizer.zero_grad(set_to_none=True)
        loss = 0.0
        for chats in passes:
            mean = loss_sum(self.model, self.weights, chats) / targets
            mean.backward()  # type: ignore[no-untyped-call]
            loss += mean.item()
        torch.nn.utils.clip_grad_norm_(self.weights.parameters, recipe.max_grad_norm)
        for group in self.optimizer.param_groups:
            group["lr"] = learning_rate(recipe, step)
        self.optimizer.step()
        self.losses.append(loss)
        return sum(len(each.token_ids) for chats in passes for each in chats)

    def _chats(self, index: int) -> list[Example]:
        """Chats of the run's n-th pass: epochs follow one another, each in its own order."""
        count = len(self.examples)
        places = range(index * self.recipe.batch, (index + 1) * self.recipe.batch)
        orders = {epoch: order_of(count, epoch, self.recipe.seed) for epoch in {place // count for place in places}}
        return [self.examples[orders[place // count][place % count]] for place in places]


def learning_rate(recipe: Recipe, step: int) -> float:
    """Of step ``step`` from 0: a linear rise over the warm-up, then the schedule down to 0 after the last step."""
    if step < recipe.warmup_steps:
        return recipe.learning_rate * (step + 1) / recipe.warmup_steps
    left = 1 - (step - recipe.warmup_steps) / max(recipe.steps - recipe.warmup_steps, 1)
    factor = {"constant": 1.0, "linear": left, "cosine": 0.5 * (1 + math.cos(math.pi * (1 - left)))}[recipe.schedule]
    return recipe.learning_rate * factor


def mean_loss(model: DecoderModel, weights: LoraWeights, examples: Sequence[Example], *, batch: int) -> float:
    """Cross-entropy a target token, in passes of ``batch`` chats."""
    total = 0.0
    for first in range(0, len(examples), batch):
        total += loss_sum(model, weights, examples[first : first + batch]).item()
    return total / sum(each.num_targets for each in examples)
