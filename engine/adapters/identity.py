"""A version's name: what the adapter does to the output of one base, and whose it is, as one digest."""

from __future__ import annotations

import hashlib
import struct
from collections.abc import Iterable

import torch
from torch import Tensor

from engine.adapters.matrices import Matrix
from engine.ids import ID_DIGITS, AdapterId, TenantId, owned_id

SCHEME = b"loradeck adapter 1\n"


def content_digest(matrices: Iterable[Matrix]) -> str:
    """sha256 over layer, module, scale, dtypes, shapes and values, ordered by layer and module.

    Key spelling, file order, names, training fields and whether projections were fused leave it as it is.
    """
    digest = hashlib.sha256(SCHEME)
    for matrix in sorted(matrices, key=lambda matrix: (matrix.layer, matrix.module)):
        digest.update(struct.pack("<iid", matrix.layer, matrix.module, matrix.scale))
        _add(digest, matrix.a)
        _add(digest, matrix.b)
    return digest.hexdigest()


def version_id(digest: str, *, base_digest: str, owner: TenantId) -> AdapterId:
    """The id that is shown and used everywhere: the same matrices on another base, or of another tenant, are another version."""
    return owned_id(unowned_id(digest, base_digest=base_digest), owner)


def unowned_id(digest: str, *, base_digest: str) -> str:
    """Of content and base alone."""
    return hashlib.sha256(f"{digest}\n{base_digest}".encode()).hexdigest()[:ID_DIGITS]


def _add(digest: hashlib._Hash, values: Tensor) -> None:
    digest.update(f"{values.dtype} {list(values.shape)}\n".encode())
    digest.update(values.contiguous().view(-1).view(torch.uint8).numpy().data)
