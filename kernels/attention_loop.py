"""Decode's attention on CPU: pages are read where they lie."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
from numba import njit

from kernels.cpu_loop import MATH, CpuLoop, exp, f32, float_bits, float_from, floats, ints, share, thread_num

if TYPE_CHECKING:
    from torch import Tensor

NO_SCORE = f32(-3.0e38)


def attention_decode_arguments(
    q: Tensor,
    pages: tuple[Tensor, Tensor],
    page_table: Tensor,
    lengths: Tensor,
    out: Tensor,
    scores: Tensor,
    *,
    scale: float,
    window: int | None,
) -> tuple[int, ...]:
    """Of the loop. scores [threads, Hq / Hk, longest]: as many keys as any sequence may have."""
    page_tokens, num_kv_heads = pages[0].shape[1:3]
    addresses = [each.data_ptr() for each in (q, *pages, page_table, lengths, out, scores)]
    strides = (q.stride(0), pages[0].stride(0), page_table.stride(0))
    sizes = (q.shape[0], q.shape[1], num_kv_heads, q.shape[2], page_tokens, scores.shape[2])
    return (*addresses, *strides, *sizes, float_bits(scale), window or 0)


@CpuLoop
def attention_decode_loop(a):  # type: ignore[no-untyped-def]
    """Each thread takes a run of key heads, each with the query heads that share it: runs of about as many keys.

    A head's sums have one order, whoever makes them and whatever else is in the batch.
    """
    q, k_pages, v_pages, page_table, lengths = floats(a[0]), floats(a[1]), floats(a[2]), ints(a[3]), ints(a[4])
    out, scores, stride_q, stride_page, stride_table = floats(a[5]), floats(a[6]), a[7], a[8], a[9]
    num_sequences, num_q_heads, num_kv_heads, size, page_tokens, max_length = a[10], a[11], a[12], a[13], a[14], a[15]
    scale, window = float_from(a[16]), a[17]
    group = num_q_heads // num_kv_heads
    row, o_scores = num_kv_heads * size, np.int64(thread_num()) * group * max_length
    work, done = np.int64(0), np.int64(0)
    for sequence in range(num_sequences):
        work += num_kv_heads * (lengths[sequence] + 1)
    first_work, end_work = share(work)
    for item in range(num_sequences * num_kv_heads):
        sequence, head = item // num_kv_heads, item % num_kv_heads
        length = np.int64(lengths[sequence])
        mine = first_work <= done < end_work
        done += length + 1
        if not mine:
            continue
        begin = max(length - window, 0) if window > 0 else 0
        o_q, o_out = sequence * stride_q + head * group * size, (sequence * num_q_heads + head * group) * size
        for d in range(group * size):
            out[o_out + d] = f32(0.0)
        key = begin
        while key < length:
            page = np.int64(page_table[sequence * stride_table + key // page_tokens]) * stride_page
            count = min(length - key, page_tokens - key % page_tokens)
            score_page(
                q, o_q, k_pages, page + key % page_tokens * row + head * size, row, size, group, count, scores, o_scores + key, max_length
            )
            key += count
        for g in range(group):
            softmax_in_place(scores, o_scores + g * max_length + begin, length - begin, scale)
        key = begin
        while key < length:
            page = np.int64(page_table[sequence * stride_table + key // page_tokens]) * stride_page
            count = min(length - key, page_tokens - key % page_tokens)
            mix_page(
                out,
                o_out,
                v_pages,
                page + key % page_tokens * row + head * size,
                row,
                size,
                group,
                count,
                scores,
                o_scores + key,
                max_length,
            )
            key += count


@njit(inline="always", fastmath=MATH, error_model="numpy")
def score_page(q, o_q, keys, o_key, row, size, group, count, scores, o_score, stride_score):  # type: ignore[no-untyped-def]
    """Products of the group's queries with ``count`` keys that lie ``row`` apart, four keys to a pass over a query."""
    for g in range(group):
        o_query, o_s = o_q + g * size, o_score + g * stride_score
        key = 0
        while key + 4 <= count:
            o_0 = o_key + key * row
            o_1, o_2, o_3 = o_0 + row, o_0 + 2 * row, o_0 + 3 * row
            s_0, s_1, s_2, s_3 = f32(0.0), f32(0.0), f32(0.0), f32(0.0)
            for d in range(size):
                x = q[o_query + d]
                s_0 += x * keys[o_0 + d]
                s_1 += x * keys[o_1 + d]
                s_2 += x * keys[o_2 + d]
                s_3 += x * keys[o_3 + d]
            scores[o_s + key], scores[o_s + key + 1], scores[o_s + key + 2], scores[o_s + key + 3] = s_0, s_1, s_2, s_3
            key += 4
        while key < count:
            s_0 = f32(0.0)
            for d in range(size):
                s_0 += q[o_query + d] * keys[o_key + key * row + d]
            scores[o_s + key] = s_0
            key += 1


@njit(inline="always", fastmath=MATH, error_model="numpy")
def softmax_in_place(scores, o_score, count, scale):  # type: ignore[no-untyped-def]
    """Of ``count`` scores times ``scale``."""
    peak, total = NO_SCORE, f32(0.0)
    for key in range(count):
        scores[o_score + key] *= scale
        peak = max(peak, scores[o_score + key])
    for key in range(count):
        weight = exp(scores[o_score + key] - peak)
        scores[o_score + key] = weight
        total += weight
    for key in range(count):
        scores[o_score + key] /= total


@njit(inline="always", fastmath=MATH, error_model="numpy")
def mix_page(out, o_out, values, o_value, row, size, group, count, weights, o_weight, stride_weight):  # type: ignore[no-untyped-def]
    """Add ``count`` values, each by its weight, to the group's outputs, four values to a pass over an output."""
    for g in range(group):
        o_o, o_w = o_out + g * size, o_weight + g * stride_weight
        key = 0
        while key + 4 <= count:
            o_0 = o_value + key * row
            o_1, o_2, o_3 = o_0 + row, o_0 + 2 * row, o_0 + 3 * row
            w_0, w_1, w_2, w_3 = weights[o_w + key], weights[o_w + key + 1], weights[o_w + key + 2], weights[o_w + key + 3]
            for d in range(size):
                out[o_o + d] += w_0 * values[o_0 + d] + w_1 * values[o_1 + d] + w_2 * values[o_2 + d] + w_3 * values[o_3 + d]
            key += 4
        while key < count:
            for d in range(size):
                out[o_o + d] += weights[o_w + key] * values[o_value + key * row + d]
            key += 1
