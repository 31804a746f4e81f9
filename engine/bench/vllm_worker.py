"""Answers the bench's traffic with vLLM on the CPU; run by the interpreter of ``--vllm-python``, so it imports nothing of ours.

One JSON object a line on standard input: first the set-up, then a traffic a line. Each is answered by a line that begins with
``MARK``; what vLLM itself prints goes by.
"""

from __future__ import annotations

import importlib
import json
import sys
import time
from typing import Any

MARK = "bench-answer "


def main() -> None:
    """Set up, say ready, answer until the input ends."""
    setup = json.loads(sys.stdin.readline())
    vllm = importlib.import_module("vllm")
    llm = open_llm(vllm, setup)
    tell({"ready": True, "version": vllm.__version__})
    for line in sys.stdin:
        tell(answer(vllm, llm, setup, json.loads(line)))


def open_llm(vllm: Any, setup: dict[str, Any]) -> Any:  # noqa: ANN401 - vLLM lives in another environment
    """float32, eager, adapters on."""
    return vllm.LLM(
        model=setup["base"],
        dtype="float32",
        enforce_eager=True,
        enable_lora=True,
        max_loras=setup["rows"],
        max_cpu_loras=len(setup["adapters"]),
        max_lora_rank=setup["max_rank"],
        max_num_seqs=setup["rows"],
        max_model_len=setup["max_model_len"],
    )


def answer(vllm: Any, llm: Any, setup: dict[str, Any], traffic: dict[str, Any]) -> dict[str, Any]:  # noqa: ANN401 - likewise
    """Seconds around ``generate``, and the new ids of each row. An adapter is its place in the set-up's list, or null."""
    request = importlib.import_module("vllm.lora.request").LoRARequest
    loras = [None if index is None else request(f"a{index}", index + 1, setup["adapters"][index]) for index in traffic["adapters"]]
    sampling = vllm.SamplingParams(
        temperature=0.0, max_tokens=traffic["new_tokens"], min_tokens=traffic["new_tokens"], ignore_eos=True, detokenize=False
    )
    prompts = [{"prompt_token_ids": ids} for ids in traffic["prompts"]]
    started_s = time.perf_counter()
    outputs = llm.generate(prompts, sampling, lora_request=loras, use_tqdm=False)
    seconds = time.perf_counter() - started_s
    return {"seconds": seconds, "tokens": [list(output.outputs[0].token_ids) for output in outputs]}


def tell(value: dict[str, Any]) -> None:
    """One answer."""
    print(MARK + json.dumps(value), flush=True)


if __name__ == "__main__":
    main()
