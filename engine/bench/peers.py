"""The peers that run in this process on the same weights: ``transformers`` alone, and under ``peft`` with a mixed batch."""

from __future__ import annotations

import importlib
import os
import time
import warnings
from typing import TYPE_CHECKING, Any

import torch

from engine.bench.timing import Contender, Outcome
from engine.process import release_team

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path
    from types import ModuleType

    from engine.bench.adapters import Source


class PeerMissing(Exception):
    """A package to measure against is not installed; the message says what to do."""


class Peer:
    """A Hugging Face model in fp32, with adapters of ``peft`` when there are any. Adapters go by alias."""

    def __init__(self, base: Path, adapters: Sequence[Source] = ()) -> None:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # peft uses names that transformers calls deprecated
            self._model: Any = _load(base, adapters)

    def contender(self, name: str, adapters: Sequence[Source] | None = None) -> Contender:
        """It as a contender: row i under ``adapters[i]`` by one mixed batch, or all on the base."""
        names = None if adapters is None else [_name(adapter) for adapter in adapters]
        return Contender(name=name, run=lambda traffic: self.generate(traffic.prompts(), traffic.new_tokens, names=names))

    @torch.inference_mode()
    def generate(self, prompts: Sequence[Sequence[int]], new_tokens: int, *, names: Sequence[str] | None = None) -> Outcome:
        """Greedy, with a cache, end tokens neither obeyed nor suppressed; timed around ``generate`` alone."""
        ids = torch.tensor([list(prompt) for prompt in prompts])
        mixed = {} if names is None else {"adapter_names": list(names)}
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            started_s = time.perf_counter()
            found = self._model.generate(
                input_ids=ids,
                attention_mask=torch.ones_like(ids),
                min_new_tokens=new_tokens,
                max_new_tokens=new_tokens,
                do_sample=False,
                use_cache=True,
                **mixed,
            )
            seconds = time.perf_counter() - started_s
        release_team()  # workers that spin for one contender are not there to slow the next
        return Outcome(seconds=seconds, tokens=tuple(tuple(row[ids.shape[1] :].tolist()) for row in found))

    @torch.inference_mode()
    def logit_gap(self, text: Sequence[int], chosen: int, other: int, *, adapter: Source | None = None) -> float:
        """By how much it prefers ``chosen`` to ``other`` after ``text``."""
        mixed = {} if adapter is None else {"adapter_names": [_name(adapter)]}
        logits = self._model(input_ids=torch.tensor([list(text)]), **mixed).logits[0, -1]
        return float(logits[chosen] - logits[other])

    def merged(self, adapter: Source, prompt: Sequence[int], new_tokens: int) -> tuple[float, Outcome, float]:
        """Merge an adapter into the base's weights, answer one row, take it out again: (merge seconds, outcome, unmerge seconds)."""
        self._model.set_adapter(_name(adapter))
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # of layers that this adapter leaves alone
            started_s = time.perf_counter()
            self._model.merge_adapter()
            merged_s = time.perf_counter()
            outcome = self.generate([prompt], new_tokens)
            answered_s = time.perf_counter()
            self._model.unmerge_adapter()
            restored_s = time.perf_counter()
        return merged_s - started_s, outcome, restored_s - answered_s


def require(package: str) -> ModuleType:
    """The package. Raises PeerMissing: peers are test dependencies, not the product's."""
    os.environ.setdefault("HF_HUB_OFFLINE", "1")  # everything is on this machine; nothing is looked up while timing
    try:
        return importlib.import_module(package)
    except ImportError as error:
        message = f"{package} is not installed ({error}): run `make bench`, which installs it, or leave peers out with --no-peers."
        raise PeerMissing(message) from None


def _load(base: Path, adapters: Sequence[Source]) -> Any:  # noqa: ANN401 - neither library is typed
    transformers = require("transformers")
    transformers.utils.logging.disable_progress_bar()
    transformers.utils.logging.set_verbosity_error()
    model = transformers.AutoModelForCausalLM.from_pretrained(base, dtype=torch.float32)
    model.generation_config = transformers.GenerationConfig(eos_token_id=None, pad_token_id=0)
    if adapters:
        first, *rest = adapters
        model = require("peft").PeftModel.from_pretrained(model, first.folder, adapter_name=_name(first))
        for adapter in rest:
            model.load_adapter(adapter.folder, adapter_name=_name(adapter))
    release_team()
    return model.eval()


def _name(adapter: Source) -> str:
    """A name that may be part of a module's: without dots and slashes."""
    return adapter.alias.replace("/", "_").replace(".", "_")
