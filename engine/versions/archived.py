"""What the archive keeps of a version: its image, and a record that names the image by digest and says all that was known of it."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

from engine.errors import AdapterRefused

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

    from engine.adapters.archive import Archive

FORMAT = 1


def keep(archive: Archive, image: Path, facts: Mapping[str, Any]) -> str:
    """Both into the archive, and read back; the record's digest. Raises OSError or AdapterRefused (``archive_damaged``)."""
    image_digest = archive.keep(image)
    archive.verify(image_digest)
    record = {"format": FORMAT, "image": image_digest, "version": dict(facts)}
    digest = archive.keep_bytes(json.dumps(record, sort_keys=True, indent=1).encode())
    archive.verify(digest)
    return digest


def parts_of(archive: Archive, digest: str, *, content: str) -> str:
    """The digest of the image that an archived record names; ``content`` is the digest of its matrices. Raises AdapterRefused."""
    record = json.loads(archive.read(digest))
    found = record["version"]["digest"]
    if found != content:
        message = "The archived record is that of another version. Register the adapter from its source."
        raise AdapterRefused(message, code="archive_damaged", param="archive", expected=content, found=found)
    image: str = record["image"]
    archive.verify(image)
    return image
