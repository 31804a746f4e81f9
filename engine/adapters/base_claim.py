"""What an adapter's record claims: the base it was trained on (a digest proves, a name only hints), its weights, its scores."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Literal

from engine.adapters.config import AdapterConfig
from engine.adapters.fields import field_refusal, text_field
from engine.adapters.folder import TRAINING
from engine.adapters.refusal import refusal, shown
from engine.report import Scores

QUANTISED = re.compile(r"(bnb|[48]-?bit|int[48]|nf4|gptq|awq|fp8|hqq|aqlm|exl2|eetq|gguf|w[48]a(8|16))([-_.]|$)", re.IGNORECASE)
"""How names of quantised copies end, or what they contain before a separator."""


@dataclass(frozen=True, slots=True, kw_only=True)
class BaseClaim:
    """``recorded``: the training record carries this base's digest. ``declared``: somebody says so."""

    proof: Literal["recorded", "declared"]
    warnings: tuple[str, ...] = ()


def prove_base(
    config: AdapterConfig, record: dict[str, object] | None, *, base_name: str, base_digest: str, compatible_base: bool
) -> BaseClaim:
    """Judge the claim. Raises AdapterRefused: ``base_mismatch``, ``base_undeclared``; ``compatible_base`` turns both into warnings."""
    recorded = text_field((record or {}).get("base_digest"), f"{TRAINING}:base_digest")
    if recorded:
        return _recorded(recorded, base_digest=base_digest, compatible_base=compatible_base)
    if QUANTISED.search(last_part(config.base_name)):
        return _quantised(config.base_name, compatible_base=compatible_base)
    return BaseClaim(proof="declared", warnings=(*_name_hint(config.base_name, base_name), *_revision_hint(config.revision)))


def last_part(name: str) -> str:
    """The last part of a hub name or of a path of any system."""
    return re.split(r"[/\\]", name.rstrip("/\\"))[-1]


def _recorded(recorded: str, *, base_digest: str, compatible_base: bool) -> BaseClaim:
    if recorded == base_digest:
        return BaseClaim(proof="recorded")
    if compatible_base:
        warning = f"Trained on another base (digest {shown(recorded)}), declared compatible with this one ({base_digest})."
        return BaseClaim(proof="declared", warnings=(warning,))
    message = (
        f"The adapter was trained on another base: its record names {shown(recorded)}, this base is {base_digest}."
        " Register it for that one, or declare the two compatible."
    )
    raise refusal("base_mismatch", message, param=f"{TRAINING}:base_digest", expected=base_digest, found=recorded)


def _quantised(name: str, *, compatible_base: bool) -> BaseClaim:
    if compatible_base:
        return BaseClaim(
            proof="declared", warnings=(f"Trained on a quantised base ({shown(name)}): check its answers with an evaluation.",)
        )
    message = f"The adapter was trained on a quantised base ({shown(name)}). Declare it compatible with this base to serve it."
    raise refusal("base_undeclared", message, param="base_model_name_or_path", expected="compatible_base: true", found=name)


def _name_hint(trained_on: str, base_name: str) -> tuple[str, ...]:
    if not trained_on:
        return ("The adapter does not say what base it was trained on.",)
    if last_part(trained_on).casefold() == last_part(base_name).casefold():
        return ()
    return (f"Trained on {shown(trained_on)}; that it fits {shown(base_name)} is declared, not proven.",)


def _revision_hint(revision: str) -> tuple[str, ...]:
    if revision in {"", "main"}:
        return ()
    return (f"Trained on revision {shown(revision)} of its base; only a recorded digest can prove that this is the one served.",)


def check_record(record: dict[str, object] | None, *, adapter_digest: str) -> None:
    """A record that names the weights it was written for must lie beside them. Raises AdapterRefused: ``record_mismatch``."""
    recorded = text_field((record or {}).get("adapter_digest"), f"{TRAINING}:adapter_digest")
    if recorded and recorded != adapter_digest:
        message = f"{TRAINING} is the record of other weights ({shown(recorded)}) than those beside it ({adapter_digest})."
        raise refusal("record_mismatch", message, param=f"{TRAINING}:adapter_digest", expected=recorded, found=adapter_digest)


def read_scores(record: dict[str, object] | None) -> Scores | None:
    """What the record says of its adapter; None when it was not measured. Raises AdapterRefused on a field of the wrong kind."""
    scores = (record or {}).get("scores")
    if record is None or scores is None:
        return None
    if not isinstance(scores, dict):
        raise field_refusal(scores, f"{TRAINING}:scores", "an object")
    rows = record.get("heldout_rows")
    return Scores(
        adapter=_share(scores.get("adapter"), "adapter"),
        base=None if scores.get("base") is None else _share(scores["base"], "base"),
        metric=shown(text_field(record.get("metric"), f"{TRAINING}:metric")),
        rows=rows if isinstance(rows, int) and not isinstance(rows, bool) else None,
        rows_digest=shown(text_field(record.get("heldout_digest"), f"{TRAINING}:heldout_digest")),
    )


def _share(value: object, name: str) -> float:
    if isinstance(value, int | float) and not isinstance(value, bool) and 0 <= value <= 1:
        return float(value)
    raise field_refusal(value, f"{TRAINING}:scores.{name}", "a share from 0 to 1")
