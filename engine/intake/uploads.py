"""Archives that were sent: each lies under a name of ours while an operation needs it."""

from __future__ import annotations

import math
import time
import uuid
from typing import TYPE_CHECKING

import anyio

from engine.errors import Conflict, PayloadTooLarge
from engine.full_disk import unwritable
from engine.registry import operations as stored

if TYPE_CHECKING:
    from collections.abc import AsyncIterator
    from pathlib import Path

    from engine.intake.staging import Staging
    from engine.operation import OperationRecord
    from engine.registry.store import Store

KEPT_DAYS = 7
"""How long after its operation ended an archive waits for somebody who tries its rejected rows again."""
DAY_S = 24 * 3600.0


class Uploads:
    """Safe to use from any thread."""

    def __init__(self, staging: Staging, store: Store, *, max_bytes: int) -> None:
        self.folder = staging.folder
        self._staging = staging
        self._store = store
        self._max_bytes = max_bytes

    def path(self, name: str) -> Path:
        """Where one lies."""
        return self.folder / name

    async def keep(self, chunks: AsyncIterator[bytes]) -> str:
        """Write one as it comes, cut off past the limit; its name. Raises PayloadTooLarge or RegistryUnavailable; then nothing is left."""
        name = f"{uuid.uuid4().hex}.zip"
        try:
            self.folder.mkdir(parents=True, exist_ok=True)
            async with await anyio.open_file(self.path(name), "xb") as file:
                async for chunk in self._capped(chunks):
                    await file.write(chunk)
        except BaseException as fault:
            self.drop(name)
            if isinstance(fault, OSError):
                raise unwritable("The upload", fault) from fault
            raise
        return name

    async def _capped(self, chunks: AsyncIterator[bytes]) -> AsyncIterator[bytes]:
        size = 0
        async for chunk in chunks:
            size += len(chunk)
            if size > self._max_bytes:
                message = f"The archive is larger than {self._max_bytes} bytes."
                raise PayloadTooLarge(message, param="body", expected=f"at most {self._max_bytes} bytes")
            yield chunk

    def drop(self, name: str) -> None:
        """It is not needed any more."""
        self.path(name).unlink(missing_ok=True)

    def check(self, record: OperationRecord) -> None:
        """Raises Conflict when the archive of an operation's rows is gone."""
        name = record.options.get("upload")
        if name and not self.path(name).exists():
            message = f"The archive is gone: it is kept for {KEPT_DAYS} days after its operation ended. Send it again."
            raise Conflict(message, code="upload_gone", param="id", found=record.id)

    def sweep(self) -> None:
        """Remove those whose time is over. Raises RegistryUnavailable."""
        since_unix = time.time() - KEPT_DAYS * DAY_S
        self._staging.sweep(keep=self._needed(since_unix), before_unix=since_unix)

    def sweep_all(self) -> None:
        """Before anybody sends or fetches anything: remove all that no operation needs. Raises RegistryUnavailable."""
        self._staging.sweep(keep=self._needed(time.time() - KEPT_DAYS * DAY_S), before_unix=math.inf)

    def _needed(self, since_unix: float) -> set[str]:
        return self._store.read(lambda session: stored.uploads_needed(session, since_unix=since_unix))
