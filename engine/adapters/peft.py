"""A PEFT folder → the matrices it adds to the base, or a refusal that names the field or tensor at fault."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Literal

from engine.adapters.base_claim import check_record, prove_base, read_scores
from engine.adapters.base_shape import BaseShape
from engine.adapters.config import AdapterConfig, read_config
from engine.adapters.fields import flag_field
from engine.adapters.folder import ADDED_TOKENS, CONFIG, TRAINING, WEIGHTS, AdapterFolder
from engine.adapters.identity import content_digest, version_id
from engine.adapters.json_text import parse_object
from engine.adapters.keys import Pair, names_module, pair_up, read_key
from engine.adapters.matrices import Matrix, check_pair, read_matrices, refuse_empty
from engine.adapters.notes import notes_on
from engine.adapters.refusal import refusal, shown
from engine.adapters.safetensors_file import StoredTensor, read_header
from engine.adapters.strangers import refuse_strangers
from engine.ids import DEFAULT_TENANT, AdapterId, TenantId
from engine.models.spec import MODULES
from engine.report import Scores


@dataclass(frozen=True, kw_only=True)
class ParsedAdapter:
    """An adapter that fits the base. Values are as stored; ``pack`` brings them to the serving dtype."""

    digest: str
    base_digest: str
    """Of the base that it was read for."""
    owner: TenantId
    """Whose it is to be."""
    matrices: tuple[Matrix, ...]
    """Ordered by layer and module."""
    num_layers: int
    """Of the base."""
    base_proof: Literal["recorded", "declared"]
    base_name: str
    """What the config names, made safe to show; a hint, never opened."""
    synthetic: bool
    no_effect: bool
    """Whether the file itself says that it changes nothing: alpha 0, or B all zero."""
    warnings: tuple[str, ...]
    scores: Scores | None = None
    """What its record says of it."""

    @property
    def id(self) -> AdapterId:
        """The version's name."""
        return version_id(self.digest, base_digest=self.base_digest, owner=self.owner)

    @property
    def rank(self) -> int:
        """The largest of its modules."""
        return max(matrix.rank for matrix in self.matrices)

    @property
    def num_matched(self) -> int:
        """Modules of the base that it changes."""
        return len(self.matrices)

    @cached_property
    def module_names(self) -> tuple[str, ...]:
        """Which projections it changes in some layer, in module order."""
        present = {matrix.module for matrix in self.matrices}
        return tuple(name for index, name in enumerate(MODULES) if index in present)


def parse_adapter(
    folder: Path,
    base: BaseShape,
    *,
    max_rank: int,
    base_digest: str,
    owner: TenantId = DEFAULT_TENANT,
    compatible_base: bool = False,
) -> ParsedAdapter:
    """Read a folder that somebody else wrote. Raises AdapterRefused; opens four known files at most and runs nothing."""
    place = AdapterFolder.look(folder)
    config = read_config(_config_text(place))
    record = _object(place, TRAINING)
    claim = prove_base(config, record, base_name=base.name, base_digest=base_digest, compatible_base=compatible_base)
    _check_added_tokens(place, base)
    matrices, notes = _read_weights(place, config, base, max_rank=max_rank)
    no_effect = not any(matrix.has_effect for matrix in matrices)
    digest = content_digest(matrices)
    check_record(record, adapter_digest=digest)
    return ParsedAdapter(
        digest=digest,
        base_digest=base_digest,
        owner=owner,
        matrices=matrices,
        num_layers=base.num_layers,
        base_proof=claim.proof,
        base_name=shown(config.base_name),
        synthetic=flag_field((record or {}).get("synthetic"), f"{TRAINING}:synthetic"),
        no_effect=no_effect,
        warnings=(*config.warnings, *claim.warnings, *notes),
        scores=read_scores(record),
    )


def _read_weights(
    place: AdapterFolder, config: AdapterConfig, base: BaseShape, *, max_rank: int
) -> tuple[tuple[Matrix, ...], tuple[str, ...]]:
    """The matrices, and what the operator should know of them. The header is proven before a value is read."""
    with place.open(WEIGHTS) as file:
        stored = read_header(file, name=WEIGHTS)
        pairs = _pairs(stored, config, base)
        for pair in pairs:
            check_pair(pair, config, base, max_rank=max_rank)
        matrices = tuple(sorted(read_matrices(file, pairs, config, base), key=lambda matrix: (matrix.layer, matrix.module)))
    return matrices, notes_on(pairs, matrices, config, base)


def _pairs(stored: Sequence[StoredTensor], config: AdapterConfig, base: BaseShape) -> tuple[Pair, ...]:
    """Every tensor placed, or a refusal."""
    if not stored:
        message = f"{WEIGHTS} holds no tensors: was the training state gathered before it was saved (ZeRO-3, FSDP)?"
        raise refusal("no_tensors", message, param=WEIGHTS, expected="LoRA matrices", found=0)
    for tensor in stored:
        refuse_empty(tensor)
    matched = [tensor for tensor in stored if read_key(tensor.name) is not None]
    strangers = [tensor for tensor in stored if read_key(tensor.name) is None]
    refuse_strangers(strangers, num_matched=len(matched), base=base)
    if config.saved_modules:
        message = "modules_to_save asks for whole modules beside the LoRA matrices, which is not served."
        raise refusal("modules_to_save_unsupported", message, param="modules_to_save", expected=None, found=", ".join(config.saved_modules))
    pairs = pair_up(matched)
    _check_targets(pairs, config)
    return pairs


def _check_targets(pairs: Sequence[Pair], config: AdapterConfig) -> None:
    """A list that names none of the tensors' modules is the config of another adapter, whose alpha is not theirs."""
    listed = config.named_modules
    if listed and not any(names_module(entry, pair.module_name) for entry in listed for pair in pairs):
        found = ", ".join(sorted({pair.target for pair in pairs}))
        message = f"target_modules names none of the modules in the file ({found}): config and weights are of two adapters."
        raise refusal("no_matching_modules", message, param="target_modules", expected=shown(", ".join(listed)), found=found)


def _config_text(place: AdapterFolder) -> bytes:
    text = place.read_text(CONFIG)
    assert text is not None, "a folder without a config was refused when it was looked at"
    return text


def _object(place: AdapterFolder, name: str) -> dict[str, object] | None:
    """A JSON file that may be absent."""
    text = place.read_text(name)
    return None if text is None else parse_object(text, file=name)


def _check_added_tokens(place: AdapterFolder, base: BaseShape) -> None:
    """A copied added_tokens.json is harmless while its ids are the base's own."""
    tokens = _object(place, ADDED_TOKENS) or {}
    new = {text: token for text, token in tokens.items() if isinstance(token, int) and token >= base.vocab_size}
    if new:
        message = f"{ADDED_TOKENS} adds {len(new)} tokens beyond the base's {base.vocab_size}, and the adapter brings no rows for them."
        raise refusal("vocab_mismatch", message, param=ADDED_TOKENS, expected=f"ids below {base.vocab_size}", found=min(new.values()))
