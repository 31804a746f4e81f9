"""What a run leaves behind: a PEFT folder, its training record, its evaluation set and a card."""

from __future__ import annotations

import json
import platform
import time
from dataclasses import dataclass
from importlib.metadata import version
from typing import TYPE_CHECKING, Any

import torch
from safetensors.torch import save_file

from engine.adapters.folder import CONFIG, TRAINING, WEIGHTS
from engine.adapters.peft import parse_adapter
from engine.training.chats import Chat, chats_digest, read_chats

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

    from engine.models.spec import ModelSpec
    from engine.training.lora import LoraWeights
    from engine.training.recipe import Recipe

EVALS = "evals.jsonl"
CARD = "README.md"
DTYPES = {"fp16": torch.float16, "bf16": torch.bfloat16, "fp32": torch.float32}
LIBRARIES = ("torch", "safetensors", "tokenizers", "numpy")


@dataclass(frozen=True, slots=True, kw_only=True)
class Outcome:
    """What a run measured. Losses are cross-entropies a target token."""

    seconds: float
    loss: float
    """Of the last step."""
    heldout_loss: float | None
    base_heldout_loss: float | None


def write_adapter(
    folder: Path, weights: LoraWeights, recipe: Recipe, outcome: Outcome, *, data: Sequence[Chat], heldout: Sequence[Chat]
) -> None:
    """The folder, whole but for the scores, which ``add_scores`` writes once the adapter has answered."""
    spec = weights.spec
    folder.mkdir(parents=True, exist_ok=True)
    tensors = {name: matrix.to(DTYPES[recipe.stored]).contiguous() for name, matrix in sorted(weights.named().items())}
    (folder / TRAINING).unlink(missing_ok=True)
    save_file(tensors, folder / WEIGHTS, metadata={"format": "pt"})
    write_json(folder / CONFIG, _config(spec, recipe))
    (folder / EVALS).write_text("".join(f"{chat.as_row()}\n" for chat in heldout), encoding="utf-8")
    adapter_digest = parse_adapter(folder, spec, max_rank=256, base_digest=spec.digest).digest
    write_json(folder / TRAINING, _record(spec, recipe, outcome, adapter_digest, data=data, heldout=heldout))


def _config(spec: ModelSpec, recipe: Recipe) -> dict[str, object]:
    """What PEFT would save."""
    return {
        "peft_type": "LORA",
        "task_type": "CAUSAL_LM",
        "base_model_name_or_path": spec.name,
        "r": recipe.rank,
        "lora_alpha": recipe.lora_alpha,
        "lora_dropout": 0.0,
        "target_modules": list(recipe.modules),
        "use_rslora": recipe.rslora,
        "use_dora": False,
        "bias": "none",
        "fan_in_fan_out": False,
        "modules_to_save": None,
        "inference_mode": True,
    }


def _record(
    spec: ModelSpec, recipe: Recipe, outcome: Outcome, adapter_digest: str, *, data: Sequence[Chat], heldout: Sequence[Chat]
) -> dict[str, object]:
    """training.json. ``adapter_digest`` ties it to the weights beside it."""
    return {
        "made_by": "python -m engine.training",
        "base": spec.name,
        "base_digest": spec.digest,
        "adapter_digest": adapter_digest,
        "about": recipe.about,
        "rank": recipe.rank,
        "modules": list(recipe.modules),
        "steps": recipe.steps,
        "recipe": recipe.model_dump(mode="json", exclude={"data", "heldout"}),
        "recipe_digest": recipe.digest,
        "data_digest": chats_digest(data),
        "data_rows": len(data),
        "heldout_digest": chats_digest(heldout),
        "heldout_rows": len(heldout),
        "loss": outcome.loss,
        "heldout_loss": outcome.heldout_loss,
        "base_heldout_loss": outcome.base_heldout_loss,
        "metric": recipe.metric,
        "answer_tokens": recipe.answer_tokens,
        "scores": None,
        "seconds": round(outcome.seconds, 1),
        "trained_unix": int(time.time()),
        "versions": {name: version(name) for name in LIBRARIES} | {"python": platform.python_version()},
        "machine": platform.machine(),
    }


def add_scores(folder: Path, *, base: float, adapter: float) -> None:
    """Both shares of right answers into the record."""
    record = read_record(folder)
    write_json(folder / TRAINING, record | {"scores": {"base": base, "adapter": adapter}})


def read_record(folder: Path) -> dict[str, Any]:
    """A record that we wrote."""
    record: dict[str, Any] = json.loads((folder / TRAINING).read_text(encoding="utf-8"))
    return record


def read_evals(folder: Path) -> tuple[Chat, ...]:
    """The evaluation set that an adapter carries. Raises TrainingRefused where there is none."""
    return read_chats(folder / EVALS)


def write_card(folder: Path, name: str, samples: Sequence[tuple[str, str]]) -> None:
    """README.md: what it is, how good, and prompts with the answers it gave."""
    record = read_record(folder)
    lines = [f"# {name}", "", str(record["about"] or "A LoRA adapter."), ""]
    modules = ", ".join(record["modules"])
    lines += [f"LoRA for {record['base']}, rank {record['rank']}, on {modules}; {record['steps']} steps on {record['data_rows']} chats."]
    match record["scores"]:
        case {"base": float(base), "adapter": float(adapter)}:
            rows, metric = record["heldout_rows"], record["metric"]
            lines += ["", f"Right answers of {rows} held-out chats ({metric}): {adapter:.0%}; the base alone: {base:.0%}."]
    for prompt, answer in samples:
        lines += ["", f"> {prompt}", "", "```", answer.strip(), "```"]
    (folder / CARD).write_text("\n".join(lines) + "\n", encoding="utf-8")


def write_json(path: Path, value: object) -> None:
    """Readable, and the same bytes for the same value."""
    path.write_text(json.dumps(value, indent=1, ensure_ascii=False) + "\n", encoding="utf-8")
