"""The naive way inside the process: read the base again, add the adapter to its weights, build a second model, answer."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Literal

import psutil
import torch

from engine.errors import LoradeckError
from engine.lanes.results import LanePhase
from engine.lanes.served import LaneAnswer
from engine.lanes.solo import greedy_tokens
from engine.models.decoder import DecoderModel
from engine.models.spec import MODULES
from engine.process import release_team
from engine.weights.checkpoint import stream_checkpoint
from engine.weights.fill import fill

if TYPE_CHECKING:
    from collections.abc import Iterator

    import numpy as np
    from numpy.typing import NDArray
    from torch import Tensor

    from engine.adapters.entry import HostCopy
    from engine.adapters.image import AdapterImage
    from engine.ids import AdapterId
    from engine.lanes.halt import Halt
    from engine.lanes.results import PhaseKind
    from engine.model_host import ModelHost
    from engine.models.spec import ModelSpec
    from engine.request import Request

COPIES = 2
"""Times the base's bytes that a merge may hold at once beside the serving model: merged tensors, and the model built from them."""
BLOCK_ROWS = 16
ATTENTION = MODULES[:4]


class Stopwatch:
    """Phases that follow one another from the moment it is made."""

    def __init__(self, host: ModelHost) -> None:
        self._clock = host.clock
        self._began_s = self._since_s = self._clock.now_s()
        self.phases: list[LanePhase] = []

    def end(self, name: str, kind: PhaseKind) -> float:
        """The phase that runs now is over; seconds since the beginning."""
        now_s = self._clock.now_s()
        self.phases.append(LanePhase(name=name, kind=kind, start_s=self._since_s - self._began_s, duration_s=now_s - self._since_s))
        self._since_s = now_s
        return now_s - self._began_s


def why_no_merge(host: ModelHost) -> str:
    """Why a second copy of the base has no room beside the first; empty when it has."""
    device = host.runner.model.device
    free = torch.cuda.mem_get_info(device)[0] if device.type == "cuda" else psutil.virtual_memory().available
    needed = COPIES * host.parts.budget.base
    return "" if free >= needed else f"a second copy of the base needs {needed / 2**30:.1f} GiB and {free / 2**30:.1f} GiB are free"


def merge_and_answer(host: ModelHost, adapter: AdapterId, request: Request, halt: Halt) -> LaneAnswer:
    """Everything from the first byte read to the last token. Raises LoradeckError, OSError, Halted."""
    watch = Stopwatch(host)
    try:
        deltas = read_deltas(host.residency.disk.open(adapter), host, adapter)
        watch.end("read adapter", "adapter")
        tensors = dict(_watched(stream_checkpoint(Path(host.parts.base_root)), halt))
        watch.end("read base", "base")
        merge(tensors, deltas, halt)
        watch.end("merge", "adapter")
        model = _build(host, tensors, halt)
        del tensors
        watch.end("build model", "warm_up")
        tokens: list[int] = []
        ttft_s = 0.0
        for token in greedy_tokens(
            model, request, layout=host.parts.arena.layout, table=host.residency.table, eos_ids=host.parts.tokenizer.eos_ids
        ):
            ttft_s = ttft_s or watch.end("prefill", "prefill")
            tokens.append(token)
            halt.check()
    finally:
        release_team()
    return LaneAnswer(ttft_s=ttft_s, phases=tuple(watch.phases), token_ids=tuple(tokens))


def read_deltas(image: AdapterImage, host: ModelHost, adapter: AdapterId) -> dict[str, tuple[Tensor, Tensor]]:
    """(A [r, in], B transposed [r, out] with the scale in it) by the name of the base's tensor. Raises AdapterRefused, OSError."""
    copy = host.residency.disk.read(image)
    image.verify(copy.pages.view(-1).numpy().data)
    if image.id != adapter:
        raise LoradeckError(f"The image of {adapter} is that of {image.id}.", code="image_damaged")
    flat = copy.pages.view(image.dtype).view(-1)
    return {
        name: (_rows(flat, copy, "a", at, widths[0]), _rows(flat, copy, "b", at, widths[1])) for name, at, widths in _changed(copy, host)
    }


def merge(tensors: dict[str, Tensor], deltas: dict[str, tuple[Tensor, Tensor]], halt: Halt) -> None:
    """Replace each changed weight W [out, in] by W + scale·B·A, summed in fp32."""
    for name, (a, b) in deltas.items():
        halt.check()
        tensors[name] = torch.addmm(tensors[name].float(), b.float().t(), a.float())


def _changed(copy: HostCopy, host: ModelHost) -> Iterator[tuple[str, tuple[int, int], tuple[int, int]]]:
    """(tensor name, (layer, module), (in, out)) of what the adapter changes."""
    dims = host.parts.spec.module_dims
    for layer in range(copy.table.ranks.shape[0]):
        for index, module in enumerate(MODULES):
            if copy.table.ranks[layer, index]:
                block = "self_attn" if module in ATTENTION else "mlp"
                yield f"model.layers.{layer}.{block}.{module}.weight", (layer, index), dims[module]


def _rows(flat: Tensor, copy: HostCopy, half: Literal["a", "b"], at: tuple[int, int], width: int) -> Tensor:
    """A matrix put together from its blocks of at most 16 rank rows: [r, width]."""
    blocks: NDArray[np.int64] = (copy.table.a_blocks if half == "a" else copy.table.b_blocks)[at]
    rank = int(copy.table.ranks[at])
    pieces = [
        flat[int(start) : int(start) + min(BLOCK_ROWS, rank - first) * width].view(-1, width)
        for start, first in zip(blocks, range(0, rank, BLOCK_ROWS), strict=False)
    ]
    return torch.cat(pieces)


def _build(host: ModelHost, tensors: dict[str, Tensor], halt: Halt) -> DecoderModel:
    model = host.runner.model
    spec: ModelSpec = model.spec
    weights = fill(
        spec,
        _watched(iter(tensors.items()), halt),
        device=model.device,
        dtype=model.dtype,
        cpu_weights=host.parts.settings.cpu_weights,
    )
    return DecoderModel(spec, weights, max_position=host.parts.context_tokens)


def _watched(stream: Iterator[tuple[str, Tensor]], halt: Halt) -> Iterator[tuple[str, Tensor]]:
    for item in stream:
        halt.check()
        yield item
