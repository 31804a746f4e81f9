"""A version's archive is deleted: nothing brings it back. Blocks on disk: call it in a thread."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

from engine.caller import SYSTEM
from engine.errors import AdapterRefused
from engine.registry import audit, reports
from engine.versions.archived import archive_of
from engine.versions.facts import title, version_subject
from engine.versions.retirement import Departure

if TYPE_CHECKING:
    from sqlmodel import Session

    from engine.adapters.archive import Archive
    from engine.caller import Caller
    from engine.ids import TenantId
    from engine.model_host import ModelHost
    from engine.version import VersionRecord
    from engine.versions.find import Finder


class Removal:
    """What was archived goes from the disk; its version stays in the registry, archived, and says that it cannot be restored."""

    def __init__(self, host: ModelHost, finder: Finder, archive: Archive) -> None:
        self._host = host
        self._find = finder
        self._archive = archive

    def delete_archive(
        self, ref: str, *, tenant: TenantId | None = None, why: str = "", preview: bool = False, caller: Caller = SYSTEM
    ) -> Departure:
        """Raises Forbidden for anybody but an admin, AdapterNotFound, or Conflict where there is no archive."""
        caller.need("admin")
        record = self._find.version(ref, caller.tenant or tenant)
        with self._archive.changing:
            digest = archive_of(self._host, record, "deleted")
            goes = self._goes(record, digest)
            num_bytes = sum(self._archive.size(one) for one in goes)
            if not preview:
                self._note(record, digest, why=why, caller=caller)
                left = self._drop(goes)
                return Departure(version=record, preview=False, message=f"Deleted the archive of {title(record)}{left}.", bytes=num_bytes)
        message = f"Would delete the archive of {title(record)}: it could never be restored."
        return Departure(version=record, preview=True, message=message, bytes=num_bytes)

    def _goes(self, record: VersionRecord, digest: str) -> list[str]:
        """Its record, and its image where no other version's archive names that."""
        image = self._image(digest)
        records = tuple(self._host.catalog.records.values())
        others = [other.key for other in records if other.digest == record.digest and other.key != record.key]
        kept = self._host.catalog.store.read(lambda session: reports.archives_of(session, others))
        return [digest] if image is None or image in {self._image(other) for other in kept} else [digest, image]

    def _image(self, digest: str) -> str | None:
        """What an archived record names; None where the record cannot be read any more."""
        try:
            image: str = json.loads(self._archive.read(digest))["image"]
        except (AdapterRefused, OSError):
            return None
        return image

    def _note(self, record: VersionRecord, digest: str, *, why: str, caller: Caller) -> None:
        def work(session: Session) -> None:
            reports.drop_archive(session, record.key, note=why)
            before, after = {"state": record.state, "archive": digest}, {"state": record.state, "archive": None}
            audit.append(session, caller, "archive.delete", version_subject(record), before=before, after=after, why=why)

        self._host.catalog.store.write(work)

    def _drop(self, digests: list[str]) -> str:
        """What to say of files that stay, since they cannot be removed."""
        try:
            for digest in digests:
                self._archive.drop(digest)
        except OSError as error:
            return f", but its files lie there still: {error.strerror or error}"
        return ""
