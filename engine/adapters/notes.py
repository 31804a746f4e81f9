"""What an operator should know of an adapter that is accepted: sentences for the report and the console."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from engine.adapters.base_shape import BaseShape
from engine.adapters.config import AdapterConfig
from engine.adapters.keys import Pair, names_module
from engine.adapters.matrices import Matrix
from engine.adapters.refusal import shown


def notes_on(pairs: Sequence[Pair], matrices: Sequence[Matrix], config: AdapterConfig, base: BaseShape) -> tuple[str, ...]:
    """All of them, most important first."""
    return (
        *_on_effect(matrices),
        *_on_names(pairs, config),
        *_on_coverage(pairs, config, base),
        *_on_patterns(pairs, config),
    )


def _on_effect(matrices: Sequence[Matrix]) -> Iterator[str]:
    """Matrices that add nothing."""
    idle = sum(not matrix.has_effect for matrix in matrices)
    if idle == len(matrices):
        yield "The adapter changes nothing: its alpha is 0 or its matrices are all zero. Answers will equal the base's."
    elif idle:
        yield f"{idle} of its {len(matrices)} modules change nothing: their matrices are all zero."


def _on_names(pairs: Sequence[Pair], config: AdapterConfig) -> Iterator[str]:
    """target_modules in list form against the tensors: what counts is the tensors."""
    listed = config.named_modules
    if not listed:
        return
    modules = [pair.module_name for pair in pairs]
    extra = [module for module in modules if not any(names_module(entry, module) for entry in listed)]
    if extra:
        yield f"target_modules does not name {extra[0]} ({len(extra)} such modules), but their matrices are in the file and are served."
    absent = [entry for entry in listed if not any(names_module(entry, module) for module in modules)]
    if absent:
        yield f"target_modules names {shown(', '.join(absent))}, but the file has no matrices of it."


def _on_coverage(pairs: Sequence[Pair], config: AdapterConfig, base: BaseShape) -> Iterator[str]:
    """Layers left out without the config saying so, as when the adapter is from a shallower base."""
    layers = {pair.layer for pair in pairs}
    short_names = config.named_modules is not None and not any("." in name for name in config.named_modules)
    if short_names and not config.limits_layers and len(layers) < base.num_layers:
        yield f"It changes {len(layers)} of the base's {base.num_layers} layers, and its config does not say that this is meant."


def _on_patterns(pairs: Sequence[Pair], config: AdapterConfig) -> Iterator[str]:
    """Pattern keys that name nothing."""
    modules = [pair.module_name for pair in pairs]
    for field, patterns in (("rank_pattern", config.ranks), ("alpha_pattern", config.alphas)):
        unused = patterns.unused(modules)
        if unused:
            yield f"{field} names {shown(', '.join(unused))}, which matches no module in the file."
