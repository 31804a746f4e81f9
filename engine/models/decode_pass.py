"""A decode step on the CPU as one call: every loop of every layer prepared, with its buffers, and used again while the rows stay."""

from __future__ import annotations

from typing import TYPE_CHECKING

import torch

from kernels.attention_loop import attention_decode_arguments, attention_decode_loop
from kernels.kv_write import kv_write_arguments, kv_write_loop
from kernels.loop_program import LoopProgram
from kernels.lora_loop import LoopWave
from kernels.panels import Panels, panels_loop
from kernels.rms_norm import rms_norm_arguments, rms_norm_loop
from kernels.rope import rope_arguments, rope_loop
from kernels.silu_mul import silu_mul_arguments, silu_mul_loop

if TYPE_CHECKING:
    from torch import Tensor

    from engine.batch import ForwardBatch
    from engine.models.attention import KVPages
    from engine.models.decoder import DecoderModel
    from engine.models.linear import Linear
    from kernels.cpu_loop import LoopCall
    from kernels.lora_batch import LoraBatch
    from kernels.lora_layout import GroupName

GROWTH_KEYS = 512
"""A pass has room for keys up to the next multiple of this."""


class DecodePasses:
    """The pass of the rows at hand, prepared anew when they change. Owned by the engine thread."""

    def __init__(self, model: DecoderModel, kv: KVPages) -> None:
        self._model, self._kv = model, kv
        self._serves_model = _can_serve(model)
        self._pass: DecodePass | None = None

    def can_run(self, batch: ForwardBatch) -> bool:
        """Whether a step is decode only, samples every row, and consists of loops."""
        rows = batch.num_decode
        if not self._serves_model or not 0 < rows == len(batch.token_ids) == len(batch.logit_rows):
            return False
        return batch.lora is None or _is_loops(batch.lora)

    def run(self, batch: ForwardBatch) -> Tensor:
        """Logits [R, vocab] fp32; valid until the next run. The same bits as ``DecoderModel.forward`` but for sums shared out otherwise."""
        if self._pass is None or not self._pass.serves(batch):
            self._pass = DecodePass(self._model, self._kv, batch)
        return self._pass.run(batch)


class DecodePass:
    """One program for so many rows, one LoRA batch and sequences up to some length."""

    def __init__(self, model: DecoderModel, kv: KVPages, batch: ForwardBatch) -> None:
        spec, rows = model.spec, batch.num_decode
        self._model, self._kv, self._lora = model, kv, batch.lora
        self._num_rows, self._threads = rows, torch.get_num_threads()
        self._longest = -(-batch.max_decode_length // GROWTH_KEYS) * GROWTH_KEYS
        self._positions, self._slots = torch.empty_like(batch.positions), torch.empty_like(batch.kv_slots)
        self._lengths = torch.empty_like(batch.decode_lengths)
        page_tokens = kv.k_pages(0).shape[1]
        self._pages = torch.zeros(rows, -(-self._longest // page_tokens), dtype=torch.int32)
        self._update, self._x = torch.empty(rows, spec.hidden_size), torch.empty(rows, spec.hidden_size)
        self._residuals = [torch.empty(rows, spec.hidden_size) for _ in range(2)]
        self._qkv, self._mixed = torch.empty(rows, spec.q_size + 2 * spec.kv_size), torch.empty(rows, spec.q_size)
        self._gate_up, self._gated = torch.empty(rows, 2 * spec.mlp_size), torch.empty(rows, spec.mlp_size)
        self._scores = torch.empty(self._threads, spec.num_heads // spec.num_kv_heads, self._longest)
        self._logits = torch.empty(rows, spec.vocab_size)
        self._spares: list[Tensor] = []
        self._program = LoopProgram(self._calls())

    def serves(self, batch: ForwardBatch) -> bool:
        """Whether the batch has these rows, these adapters and no longer sequences."""
        return (
            batch.num_decode == self._num_rows
            and batch.lora is self._lora
            and batch.max_decode_length <= self._longest
            and batch.decode_pages.shape[1] <= self._pages.shape[1]
            and torch.get_num_threads() == self._threads
        )

    def run(self, batch: ForwardBatch) -> Tensor:
        """Copy the step's few numbers in and run."""
        torch.index_select(self._model.weights.embedding, 0, batch.token_ids, out=self._update)
        self._positions.copy_(batch.positions)
        self._slots.copy_(batch.kv_slots)
        self._lengths.copy_(batch.decode_lengths)
        self._pages[:, : batch.decode_pages.shape[1]] = batch.decode_pages
        self._program.run()
        return self._logits

    def _calls(self) -> list[LoopCall]:
        calls: list[LoopCall] = []
        stream: Tensor | None = None
        for index, layer in enumerate(self._model.weights.layers):
            stream = self._norm(calls, stream, layer.input_norm)
            self._project(calls, layer.qkv, self._x, self._qkv, (index, "qkv"))
            self._attend(calls, index)
            self._project(calls, layer.o, self._mixed, self._update, (index, "o"))
            stream = self._norm(calls, stream, layer.mlp_norm)
            self._project(calls, layer.gate_up, self._x, self._gate_up, (index, "gate_up"))
            calls.append(silu_mul_loop.prepare(*silu_mul_arguments(self._gate_up, self._gated)))
            self._project(calls, layer.down, self._gated, self._update, (index, "down"))
        self._norm(calls, stream, self._model.weights.norm)
        self._project(calls, self._model.weights.head, self._x, self._logits, None)
        return calls

    def _norm(self, calls: list[LoopCall], stream: Tensor | None, weight: Tensor) -> Tensor:
        """Add the update to the stream and norm it into ``x``; returns the new stream, which lies where the last one does not."""
        total = self._residuals[0] if stream is not self._residuals[0] else self._residuals[1]
        if stream is None:
            stream = torch.zeros_like(self._update)
            self._spares.append(stream)
        eps = self._model.spec.norm_eps
        calls.append(rms_norm_loop.prepare(*rms_norm_arguments(self._update, stream, weight, self._x, total, eps=eps)))
        return total

    def _project(self, calls: list[LoopCall], linear: Linear, x: Tensor, out: Tensor, at: tuple[int, GroupName] | None) -> None:
        assert isinstance(linear, Panels)
        self._spares.append(linear.spare(x))
        calls.append(panels_loop.prepare(*linear.arguments(x, out, self._spares[-1])))
        if self._lora is not None and at is not None:
            layer, group = at
            for waves, activation in ((self._lora.plan.shrink, x), (self._lora.plan.expand, out)):
                calls.extend(wave.prepare(activation) for wave in waves[group][layer] if isinstance(wave, LoopWave))

    def _attend(self, calls: list[LoopCall], index: int) -> None:
        spec, model = self._model.spec, self._model
        heads = self._qkv.view(self._num_rows, -1, spec.head_dim)
        last_k = spec.num_heads + spec.num_kv_heads
        q, k, v = heads[:, : spec.num_heads], heads[:, spec.num_heads : last_k], heads[:, last_k:]
        pages = (self._kv.k_pages(index), self._kv.v_pages(index))
        calls.append(rope_loop.prepare(*rope_arguments(q, model.cos, model.sin, self._positions, num_heads=last_k)))
        calls.append(kv_write_loop.prepare(*kv_write_arguments(k, v, *pages, self._slots)))
        mixed = self._mixed.view(self._num_rows, spec.num_heads, spec.head_dim)
        arguments = attention_decode_arguments(
            q, pages, self._pages, self._lengths, mixed, self._scores, scale=spec.head_dim**-0.5, window=spec.windows[index]
        )
        calls.append(attention_decode_loop.prepare(*arguments))


def _can_serve(model: DecoderModel) -> bool:
    """fp32 on the CPU, every product in panels, heads without a norm of their own."""
    if model.device.type != "cpu" or model.dtype != torch.float32 or model.spec.qk_norm:
        return False
    linears = [each for layer in model.weights.layers for each in (layer.qkv, layer.o, layer.gate_up, layer.down)]
    return all(isinstance(linear, Panels) for linear in (*linears, model.weights.head))


def _is_loops(lora: LoraBatch) -> bool:
    """Whether every row has its products to itself."""
    return all(rows == 1 for _, rows, _ in lora.segments.runs)
