"""What the archive keeps of a version: its image, and a record that names the image by digest and says all that was known of it."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

from engine.errors import AdapterRefused, Conflict
from engine.registry import reports
from engine.versions.facts import title

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

    from engine.adapters.archive import Archive
    from engine.model_host import ModelHost
    from engine.version import VersionRecord

FORMAT = 1


def keep(archive: Archive, image: Path, facts: Mapping[str, Any]) -> str:
    """Both into the archive, and read back; the record's digest. Raises OSError or AdapterRefused (``archive_damaged``, ``…_missing``)."""
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


def archive_of(host: ModelHost, record: VersionRecord, done: str) -> str:
    """The digest of the archive of an archived version, which is to be restored or deleted. Raises Conflict where there is none."""
    if record.state != "archived":
        message = f"{title(record)} is {record.state}; only the archive of what is archived can be {done}."
        raise Conflict(message, code=f"version_{record.state}", param="ref", expected=["archived"], found=record.state)
    digest = host.catalog.store.read(lambda session: reports.archive_of(session, record.key))
    if digest is None:
        message = f"The archive of {title(record)} was deleted; it cannot be {done}. Register the adapter from its source."
        raise Conflict(message, code="archive_deleted", param="ref", found=title(record))
    return digest
