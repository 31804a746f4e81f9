"""A training recipe: what a TOML file may say, and a refusal that names the field when it says something else."""

from __future__ import annotations

import hashlib
import json
import tomllib
from pathlib import Path
from typing import Annotated, Literal

from pydantic import BaseModel, ConfigDict, Field, ValidationError, field_validator

from engine.errors import TrainingRefused
from engine.models.spec import MODULES

Metric = Literal["exact", "contains", "json", "label"]
NAME = r"^[a-z0-9][a-z0-9._-]{0,63}$"


class Recipe(BaseModel):
    """One training run. Paths are relative to the recipe's folder."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    name: str = Field(pattern=NAME)
    """The adapter's alias, and its folder's name."""
    tenant: str = Field("default", pattern=NAME)
    about: str = ""
    """One line for people: what the adapter does."""
    prompts: tuple[str, ...] = ()
    """Questions that show it well, for its card; none takes the first held-out ones."""
    data: Path
    """Chats as JSONL; each row's last message is the answer to learn."""
    heldout: Path | None = None
    """Chats that are never trained on; None keeps back ``heldout_share`` of the data."""
    heldout_share: float = Field(0.1, ge=0.0, le=0.5)
    rank: int = Field(8, ge=1, le=256)
    alpha: float | None = Field(None, gt=0)
    """None: twice the rank."""
    rslora: bool = False
    modules: tuple[str, ...] = ("q_proj", "v_proj")
    """Projections to adapt in every layer."""
    learning_rate: float = Field(2e-3, gt=0, le=1)
    schedule: Literal["cosine", "linear", "constant"] = "cosine"
    warmup_steps: int = Field(5, ge=0)
    weight_decay: float = Field(0.0, ge=0)
    max_grad_norm: float = Field(1.0, gt=0)
    steps: int = Field(40, ge=1)
    batch: int = Field(8, ge=1)
    """Chats in one forward pass."""
    accumulate: int = Field(1, ge=1)
    """Forward passes in one step."""
    seed: int = 0
    max_tokens: int = Field(512, ge=8)
    """Of one chat, its answer included; a longer one is refused."""
    stored: Literal["fp16", "bf16", "fp32"] = "fp16"
    metric: Metric = "exact"
    answer_tokens: Annotated[int, Field(ge=1)] = 64
    """Most tokens of an answer in the evaluation."""

    @field_validator("modules")
    @classmethod
    def _known(cls, modules: tuple[str, ...]) -> tuple[str, ...]:
        unknown = [module for module in modules if module not in MODULES]
        if unknown or not modules or len(set(modules)) != len(modules):
            raise ValueError(f"name each of {', '.join(MODULES)} at most once, and one at least; found {list(modules)}")
        return tuple(module for module in MODULES if module in modules)

    @property
    def scale(self) -> float:
        """What multiplies B·A: alpha over the rank, or over its root with rsLoRA."""
        alpha = 2.0 * self.rank if self.alpha is None else self.alpha
        return alpha / self.rank**0.5 if self.rslora else alpha / self.rank

    @property
    def lora_alpha(self) -> float:
        """As PEFT's config names it."""
        return 2.0 * self.rank if self.alpha is None else self.alpha

    @property
    def digest(self) -> str:
        """sha256 of all that the weights depend on besides data and base."""
        said = self.model_dump(
            mode="json", exclude={"name", "tenant", "about", "prompts", "data", "heldout", "metric", "answer_tokens", "stored"}
        )
        return hashlib.sha256(json.dumps(said, sort_keys=True).encode()).hexdigest()


def read_recipe(path: Path, *, name: str | None = None) -> Recipe:
    """A recipe from TOML, or the default one for a JSONL file. Raises TrainingRefused by field."""
    if path.suffix == ".jsonl":
        return make_recipe({"data": path, "name": name or path.stem.lower()})
    try:
        said = tomllib.loads(path.read_text(encoding="utf-8"))
    except OSError as error:
        raise TrainingRefused(f"{path} cannot be read: {error.strerror}.", code="recipe_unreadable", param="recipe") from None
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        raise TrainingRefused(f"{path.name} is no TOML: {error}.", code="recipe_unreadable", param="recipe") from None
    for field in ("data", "heldout"):
        if isinstance(said.get(field), str):
            said[field] = path.parent / said[field]
    return make_recipe(said | ({"name": name} if name else {}))


def make_recipe(said: dict[str, object]) -> Recipe:
    """A checked recipe. Raises TrainingRefused naming the first field at fault."""
    try:
        return Recipe.model_validate(said)
    except ValidationError as error:
        first = error.errors(include_url=False, include_context=False)[0]
        field = ".".join(str(part) for part in first["loc"])
        message = f"The recipe's field {field!r} will not do: {first['msg']}."
        raise TrainingRefused(message, code="recipe_invalid", param=field, found=_shown(first["input"])) from None


def _shown(value: object) -> str:
    return str(value)[:80]
