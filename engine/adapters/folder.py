"""The few files of an adapter folder that may be opened; nothing else in it is ever read, imported or followed."""

from __future__ import annotations

import os
import stat
from collections.abc import Callable
from dataclasses import dataclass
from io import FileIO
from itertools import islice
from pathlib import Path, PurePath

from engine.adapters.refusal import refusal, shown

CONFIG = "adapter_config.json"
WEIGHTS = "adapter_model.safetensors"
TRAINING = "training.json"
ADDED_TOKENS = "added_tokens.json"

KNOWN = (CONFIG, WEIGHTS, TRAINING, ADDED_TOKENS)
"""All that is ever opened, fetched or unpacked."""

MAX_FILES = 10_000
MAX_TEXT_BYTES = 2**20
PICKLE_SUFFIXES = {".bin", ".pt", ".pth", ".ckpt", ".pkl", ".pickle"}
WEIGHT_STEMS = ("adapter_model", "pytorch_model", "pytorch_lora_weights", "consolidated")
"""A pickle of such a name is a copy of the weights; others (training_args.bin, optimizer.pt) are a trainer's leftovers."""


@dataclass(frozen=True, slots=True)
class AdapterFolder:
    """A folder that looks like a PEFT adapter. ``root`` is its real path."""

    root: Path
    names: frozenset[str]

    @classmethod
    def look(cls, folder: Path) -> AdapterFolder:
        """List the folder and refuse what is no PEFT folder; opens nothing."""
        try:
            root = Path(os.path.realpath(folder))
            with os.scandir(root) as entries:
                names = frozenset(entry.name for entry in islice(entries, MAX_FILES + 1))
        except (OSError, ValueError):
            raise refusal("source_unreadable", "The source is no folder that can be read.", param="source") from None
        check_form(names, has_config=lambda name: (root / name / CONFIG).is_file())
        return cls(root, names)

    def read_text(self, name: str) -> bytes | None:
        """A small file's bytes; None when it is not there. Raises AdapterRefused when it is too large or leaves the folder."""
        if name not in self.names:
            return None
        with self.open(name) as file:
            data = file.read(MAX_TEXT_BYTES + 1)
        if len(data) > MAX_TEXT_BYTES:
            raise refusal("header_too_large", f"{name} is larger than 1 MiB.", param=name, expected=f"at most {MAX_TEXT_BYTES} bytes")
        return data

    def open(self, name: str) -> FileIO:
        """Open a regular file inside the folder, unbuffered. A link may lead to another file of the folder only."""
        real = os.path.realpath(self.root / name)
        if not Path(real).is_relative_to(self.root):
            message = f"{name} is a link that leaves the folder. Copy the folder with its files (cp -rL) and register the copy."
            raise refusal("outside_folder", message, param=name, expected="a file inside the folder", found="link to the outside")
        try:
            file = os.open(real, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)
        except OSError as error:
            raise refusal("source_unreadable", f"{name} cannot be opened: {error.strerror}.", param=name) from None
        if not stat.S_ISREG(os.fstat(file).st_mode):
            os.close(file)
            raise refusal("source_unreadable", f"{name} is not a regular file.", param=name, expected="a regular file")
        return FileIO(file, "rb")


def check_form(names: frozenset[str], *, has_config: Callable[[str], bool]) -> None:
    """Refuse pickles, shards, MLX folders and folders one level too high, each with what to do; only names are looked at."""
    if len(names) > MAX_FILES:
        raise refusal("not_peft", f"The folder holds more than {MAX_FILES} files.", param="source", expected=CONFIG)
    _refuse_pickles(names)
    if CONFIG not in names:
        _refuse_without_config(names, has_config)
    if WEIGHTS not in names:
        _refuse_without_weights(names)


def _refuse_pickles(names: frozenset[str]) -> None:
    pickles = sorted(name for name in names if PurePath(name).suffix.lower() in PICKLE_SUFFIXES)
    weights = [name for name in pickles if name.lower().startswith(WEIGHT_STEMS)]
    if WEIGHTS not in names and CONFIG in names:
        weights = weights or pickles
    if weights:
        message = f"{shown(weights[0])} is a pickle, which can run code when it is read: convert to safetensors and remove it."
        raise refusal("pickle_refused", message, param=weights[0], expected=WEIGHTS, found=weights[0])


def _refuse_without_config(names: frozenset[str], has_config: Callable[[str], bool]) -> None:
    inner = sorted(filter(has_config, names))
    hint = f" Did you mean the folder {shown(inner[0])} inside it?" if inner else ""
    message = f"The folder has no {CONFIG}, so it is no PEFT adapter.{hint}"
    raise refusal("not_peft", message, param=CONFIG, expected=CONFIG, found=inner[0] if inner else None)


def _refuse_without_weights(names: frozenset[str]) -> None:
    if "adapters.safetensors" in names:
        raise refusal("mlx_format", _MLX, param="adapters.safetensors", expected=WEIGHTS, found="adapters.safetensors")
    if any(name.startswith("adapter_model-") for name in names) or f"{WEIGHTS}.index.json" in names:
        message = f"The weights are in several files; save them as one {WEIGHTS}."
        raise refusal("sharded_weights", message, param=WEIGHTS, expected=WEIGHTS)
    raise refusal("no_weights", f"The folder has no {WEIGHTS}.", param=WEIGHTS, expected=WEIGHTS)


_MLX = "This is an MLX-LM adapter, not a PEFT one: its matrices are transposed and its scale is absolute. Convert it to PEFT first."


def refuse_mlx(config: dict[str, object]) -> None:
    """MLX-LM writes its own config under PEFT's file name."""
    if "peft_type" not in config and ("lora_parameters" in config or "fine_tune_type" in config):
        raise refusal("mlx_format", _MLX, param=CONFIG, expected="peft_type", found="lora_parameters")
