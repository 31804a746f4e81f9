"""``python -m engine.training run.toml | chats.jsonl``: train an adapter, measure it, and say how to serve it."""

from __future__ import annotations

import argparse
import sys
import time
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from engine.assemble import Base, open_base
from engine.errors import LoradeckError
from engine.settings import Settings
from engine.training.chats import Chat, Encoder, chats_digest, hold_back, read_chats
from engine.training.checkpoint import Checkpoint
from engine.training.exam import ask, exam_engine, examine
from engine.training.lora import LoraWeights
from engine.training.recipe import Recipe, read_recipe
from engine.training.record import Outcome, add_scores, write_adapter, write_card
from engine.training.served import Served
from engine.training.trainer import Progress, Training, mean_loss

if TYPE_CHECKING:
    from collections.abc import Sequence

    from engine.training.chats import Example

SAMPLES = 5


@dataclass(frozen=True, slots=True, kw_only=True)
class Run:
    """What the command line asked for."""

    recipe: Recipe
    settings: Settings
    out: Path


def main(arguments: Sequence[str] | None = None) -> int:
    """Train, and return the exit status."""
    parser = argparse.ArgumentParser(prog="python -m engine.training", description=__doc__)
    parser.add_argument("recipe", type=Path, help="a recipe (TOML), or chats (JSONL) to train on with the default recipe")
    parser.add_argument("--name", help="the adapter's name (default: the recipe's, or the file's)")
    parser.add_argument("--base", default="demo", help="folder of the base, or 'demo'")
    parser.add_argument("--data", type=Path, help="Loradeck's data folder")
    parser.add_argument("--out", type=Path, help="the adapter's folder (default: trained/NAME in the data folder)")
    parser.add_argument("--register", metavar="URL", help="register it at a running Loradeck, such as http://127.0.0.1:8080")
    options = parser.parse_args(arguments)
    try:
        recipe = read_recipe(options.recipe, name=options.name)
        settings = Settings(base=options.base, **({"data": options.data} if options.data else {}))
        out = options.out or settings.data / "trained" / recipe.name
        train(Run(recipe=recipe, settings=settings, out=out))
        if options.register:
            print(Served(options.register).register(out, recipe.name))
    except LoradeckError as error:
        print(error.message, file=sys.stderr)
        return 2
    except KeyboardInterrupt:
        print("\nStopped. The same command goes on from the last checkpoint.", file=sys.stderr)
        return 130
    return 0


def train(run: Run) -> None:
    """Train, write the folder, let it answer, write scores and card. Raises TrainingRefused."""
    recipe = run.recipe
    chats, heldout = _data(recipe)
    base = open_base(run.settings, _say_base, trains=True)
    encoder = Encoder(base.tokenizer, base.chat_template, max_tokens=min(recipe.max_tokens, base.context_tokens))
    examples, unseen = encoder.examples(chats), encoder.examples(heldout)
    inputs = {"recipe": recipe.digest, "data": chats_digest(chats), "base": base.spec.digest}
    checkpoint = Checkpoint(folder=run.out, inputs=inputs)
    weights, outcome = _train(recipe, base, examples, unseen, checkpoint)
    write_adapter(run.out, weights, recipe, outcome, data=chats, heldout=heldout)
    checkpoint.remove()
    print(f"Written to {run.out}")
    if heldout:
        del base, weights
        _examine(run, heldout)


def _data(recipe: Recipe) -> tuple[tuple[Chat, ...], tuple[Chat, ...]]:
    """(to train on, held out)."""
    chats = read_chats(recipe.data)
    if recipe.heldout is None:
        return hold_back(chats, recipe.heldout_share, recipe.seed)
    return chats, read_chats(recipe.heldout)


def _train(
    recipe: Recipe, base: Base, examples: Sequence[Example], unseen: Sequence[Example], checkpoint: Checkpoint
) -> tuple[LoraWeights, Outcome]:
    started_s = time.monotonic()
    fresh = LoraWeights.fresh(base.spec, recipe)
    before = mean_loss(base.model, fresh, unseen, batch=recipe.batch) if unseen else None
    training = Training(recipe=recipe, model=base.model, examples=examples, checkpoint=checkpoint)
    if training.losses:
        print(f"Going on after step {len(training.losses)}")
    weights = training.run(_say)
    after = mean_loss(base.model, weights, unseen, batch=recipe.batch) if unseen else None
    outcome = Outcome(seconds=time.monotonic() - started_s, loss=training.losses[-1], heldout_loss=after, base_heldout_loss=before)
    if after is not None and before is not None:
        print(f"Held-out loss {after:.3f}, the base's {before:.3f}")
    return weights, outcome


def _examine(run: Run, heldout: Sequence[Chat]) -> None:
    """Scores and card, from answers of the engine that will serve it."""
    with exam_engine(run.settings) as engine:
        marks = examine(engine, run.out, run.recipe.name)
        add_scores(run.out, base=marks.base_score, adapter=marks.adapter_score)
        asked = [Chat(messages=({"role": "user", "content": prompt},), answer="") for prompt in run.recipe.prompts] or list(
            heldout[:SAMPLES]
        )
        engine.register(str(run.out), alias="card")
        answers = ask(engine, ["card"] * len(asked), asked, max_tokens=run.recipe.answer_tokens)
    write_card(run.out, run.recipe.name, [(chat.messages[-1]["content"], answer) for chat, answer in zip(asked, answers, strict=True)])
    print(f"Right answers on the held-out chats ({marks.rows}): {marks.adapter_score:.0%}, the base's {marks.base_score:.0%}")


def _say(progress: Progress) -> None:
    rate = f"{progress.tokens_per_s:.0f} tokens/s, {progress.left_s:.0f} s left"
    print(f"step {progress.step:>4}/{progress.steps}  loss {progress.loss:.4f}  lr {progress.learning_rate:.2e}  {rate}", flush=True)


def _say_base(text: str, share: float | None) -> None:
    if share is None:
        print(text, flush=True)


if __name__ == "__main__":
    raise SystemExit(main())
