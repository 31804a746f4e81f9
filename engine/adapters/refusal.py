"""Why an adapter is refused: the codes, and how foreign text is quoted."""

from __future__ import annotations

from typing import Literal

from engine.errors import AdapterRefused

RefusalCode = Literal[
    # the folder
    "source_unreadable",  # no such folder, or no right to read it
    "source_absent",  # a remote store has no such file
    "sha256_mismatch",  # the weights are not those that were announced
    "file_too_large",  # over the size limit while it came in
    "archive_invalid",  # no zip file, or one that cannot be unpacked
    "archive_unsafe",  # a zip file with a name, link or size that is no adapter's
    "not_peft",  # no adapter_config.json
    "mlx_format",  # an MLX-LM adapter
    "no_weights",  # a config without adapter_model.safetensors
    "sharded_weights",  # the weights are in several files
    "pickle_refused",  # weights that would run code
    "outside_folder",  # a link that leaves the folder
    # a file
    "lfs_pointer",  # Git-LFS text where the file should be
    "truncated",
    "trailing_bytes",
    "header_too_large",  # header, tensor count or nesting over the bounds
    "safetensors_invalid",
    "config_invalid",  # not JSON, or a field of the wrong kind
    # what it asks for
    "unsupported_peft_type",
    "unsupported_field",  # a field that changes the output in a way not built
    "dora_unsupported",
    "bias_unsupported",
    "modules_to_save_unsupported",
    "embedding_unsupported",  # LoRA on embed_tokens or lm_head
    "task_mismatch",  # a trained head on a text-generation base
    "pattern_too_complex",  # a rank or alpha pattern that could take for ever
    # the tensors
    "no_tensors",
    "empty_tensor",
    "dtype_unsupported",
    "no_matching_modules",  # nothing lands on the base
    "unmatched_tensor",
    "missing_pair",  # A without B, or B without A
    "ambiguous_keys",  # two tensors for one place
    "shape_mismatch",
    "layer_out_of_range",
    "vocab_mismatch",
    "rank_mismatch",
    "rank_too_large",
    "non_finite",
    "dtype_overflow",  # finite as stored, not in the serving dtype
    # the base
    "base_mismatch",  # the recorded digest is another base's
    "base_undeclared",  # trained on a quantised copy and nobody declared it compatible
    "record_mismatch",  # the training record is of other weights
    # our own store
    "image_damaged",
]

MAX_SHOWN_CHARS = 200


def refusal(
    code: RefusalCode,
    message: str,
    *,
    param: str | None = None,
    expected: object = None,
    found: object = None,
) -> AdapterRefused:
    """The error to raise. Texts from the adapter are made safe to print."""
    return AdapterRefused(
        message,
        code=code,
        param=None if param is None else shown(param),
        expected=expected,
        found=shown(found) if isinstance(found, str) else found,
    )


def shown(text: str) -> str:
    """Foreign text on one line: control characters escaped, long text cut."""
    safe = "".join(char if char.isprintable() else ascii(char)[1:-1] for char in text[:MAX_SHOWN_CHARS])
    return safe if len(text) <= MAX_SHOWN_CHARS else f"{safe}…"
