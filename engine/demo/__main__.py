"""``python -m engine.demo --out DIR --count N``: write sample adapters for a base."""

from __future__ import annotations

import argparse
import time
from pathlib import Path

from engine.demo.synthetic import SHOWN, write_samples
from engine.models.config import parse_spec, read_spec
from engine.models.spec import ModelSpec
from engine.weights.gguf_import import DEMO_NAME

DEMO_CONFIG = {
    "model_type": "llama",
    "hidden_size": 576,
    "intermediate_size": 1536,
    "num_hidden_layers": 30,
    "num_attention_heads": 9,
    "num_key_value_heads": 3,
    "vocab_size": 49152,
    "max_position_embeddings": 8192,
    "tie_word_embeddings": True,
}
"""Sizes of the demo base, so that its samples can be made before it is."""


def main() -> None:
    """Write and say what was written."""
    parser = argparse.ArgumentParser(prog="python -m engine.demo", description=__doc__)
    parser.add_argument("--out", type=Path, required=True, help="folder to write below; samples are DIR/sample/…")
    parser.add_argument("--count", type=int, default=len(SHOWN), help="how many adapters (default: %(default)s)")
    parser.add_argument("--base-config", type=Path, help="folder of the base, or its config.json (default: the demo base)")
    parser.add_argument("--seed", type=int, default=0, help="another seed, other adapters")
    options = parser.parse_args()
    start_s = time.monotonic()
    samples = list(write_samples(options.out, base_spec(options.base_config), count=options.count, seed=options.seed))
    print(f"{len(samples)} synthetic adapters in {options.out} ({time.monotonic() - start_s:.1f} s)")


def base_spec(config: Path | None) -> ModelSpec:
    """The base's sizes: from its folder or config.json, or the demo base's."""
    if config is None:
        return parse_spec(DEMO_CONFIG, name=DEMO_NAME)
    return read_spec(config if config.is_dir() else config.parent)


if __name__ == "__main__":
    main()
