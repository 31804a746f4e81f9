"""A TINY base open for training, and chats to train on."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from engine.assemble import Base, open_base
from engine.settings import Settings
from engine.training.chats import Encoder, Example, read_chats


@pytest.fixture(scope="session")
def chats_file(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Twelve chats of one form, of different lengths."""
    rows = [
        {"messages": [{"role": "user", "content": f"say {word} {'please ' * (index % 3)}"}, {"role": "assistant", "content": f"{word}!"}]}
        for index, word in enumerate(["red", "blue", "green", "one", "two", "three", "sun", "moon", "star", "cat", "dog", "bird"])
    ]
    path = tmp_path_factory.mktemp("chats") / "chats.jsonl"
    path.write_text("".join(json.dumps(row) + "\n" for row in rows))
    return path


@pytest.fixture(scope="session")
def base(tiny_base: Path, tmp_path_factory: pytest.TempPathFactory) -> Base:
    """TINY with weights that gradients pass through."""
    settings = Settings(base=str(tiny_base), data=tmp_path_factory.mktemp("data"), device="cpu")
    return open_base(settings, lambda _text, _share: None, trains=True)


@pytest.fixture(scope="session")
def examples(base: Base, chats_file: Path) -> tuple[Example, ...]:
    """The chats in TINY's tokens."""
    return Encoder(base.tokenizer, base.chat_template, max_tokens=200).examples(read_chats(chats_file))
