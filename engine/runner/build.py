"""A step plan as tensors: pure, the same on every device."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import torch

from engine.batch import ForwardBatch

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from numpy.typing import NDArray

    from engine.ids import AdapterId
    from engine.plan import PlannedRow, StepPlan
    from kernels.lora_batch import LoraBatch

Run = tuple[int, int, int]
"""(first token row, rows, adapter slot) of a run of tokens of one adapter."""


def build_batch(plan: StepPlan, *, page_tokens: int, device: torch.device, lora: LoraBatch | None) -> ForwardBatch:
    """Lay a plan out as the tensors of ``ForwardBatch``."""
    decode = [row for row in plan.rows if row.phase == "decode"]
    prefill = plan.rows[len(decode) :]
    positions = np.concatenate([np.arange(row.start, row.start + row.num_tokens) for row in plan.rows])
    bounds = _bounds(prefill)
    decode_lengths = np.fromiter((row.start + 1 for row in decode), dtype=np.int32, count=len(decode))

    def tensor(array: NDArray[np.generic]) -> torch.Tensor:
        host = torch.from_numpy(array)
        return host if device.type == "cpu" else host.pin_memory().to(device, non_blocking=True)

    return ForwardBatch(
        token_ids=tensor(_token_ids(plan.rows)),
        positions=tensor(positions),
        kv_slots=tensor(_kv_slots(plan.rows, page_tokens)),
        num_decode=len(decode),
        decode_pages=tensor(_page_table(decode)),
        decode_lengths=tensor(decode_lengths),
        max_decode_length=int(decode_lengths.max(initial=0)),
        prefill_pages=tensor(_page_table(prefill)),
        prefill_starts=tensor(np.array([0, *(end for _, end, _ in bounds)], dtype=np.int32)),
        prefill_lengths=tensor(np.array([keys for _, _, keys in bounds], dtype=np.int32)),
        prefill_bounds=bounds,
        logit_rows=tensor(_logit_rows(plan.rows)),
        lora=lora,
    )


def adapter_runs(plan: StepPlan, slot_of: Callable[[AdapterId], int]) -> tuple[Run, ...]:
    """Runs of neighbouring tokens of one adapter; base rows belong to none."""
    runs: list[Run] = []
    first = 0
    for row in plan.rows:
        adapter = row.sequence.adapter
        if adapter is not None:
            slot = slot_of(adapter)
            if runs and runs[-1][2] == slot and runs[-1][0] + runs[-1][1] == first:
                runs[-1] = (runs[-1][0], runs[-1][1] + row.num_tokens, slot)
            else:
                runs.append((first, row.num_tokens, slot))
        first += row.num_tokens
    return tuple(runs)


def wants_prompt_logprobs(row: PlannedRow) -> bool:
    """Whether the prompt tokens after this row's positions are to be scored."""
    return row.sequence.request.echo_logprobs and row.phase == "prefill" and row.start < row.sequence.num_prompt - 1


def _token_ids(rows: Sequence[PlannedRow]) -> NDArray[np.int64]:
    ids: list[int] = []
    for row in rows:
        if row.num_tokens == 1:
            ids.append(row.sequence.token_ids[row.start])
        else:
            ids.extend(row.sequence.token_ids[row.start : row.start + row.num_tokens])
    return np.array(ids, dtype=np.int64)


def _kv_slots(rows: Sequence[PlannedRow], page_tokens: int) -> NDArray[np.int64]:
    slots: list[int] = []
    for row in rows:
        pages = row.sequence.pages
        slots.extend(pages[at // page_tokens] * page_tokens + at % page_tokens for at in range(row.start, row.start + row.num_tokens))
    return np.array(slots, dtype=np.int64)


def _page_table(rows: Sequence[PlannedRow]) -> NDArray[np.int32]:
    """[len(rows), longest], padded with page 0, which is never read: lengths end before it."""
    width = max((len(row.sequence.pages) for row in rows), default=0)
    table = np.zeros((len(rows), width), dtype=np.int32)
    for index, row in enumerate(rows):
        table[index, : len(row.sequence.pages)] = row.sequence.pages
    return table


def _bounds(prefill: Sequence[PlannedRow]) -> tuple[tuple[int, int, int], ...]:
    bounds = []
    first = 0
    for row in prefill:
        bounds.append((first, first + row.num_tokens, row.start + row.num_tokens))
        first += row.num_tokens
    return tuple(bounds)


def _logit_rows(rows: Sequence[PlannedRow]) -> NDArray[np.int64]:
    """The last token of each sampling row, in row order; then every token of rows whose prompt is scored."""
    wanted: list[int] = []
    scored: list[int] = []
    first = 0
    for row in rows:
        if row.samples:
            wanted.append(first + row.num_tokens - 1)
        if wants_prompt_logprobs(row):
            scored.extend(range(first, first + row.num_tokens))
        first += row.num_tokens
    return np.array(wanted + scored, dtype=np.int64)
