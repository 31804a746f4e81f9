"""Registering many: looking first, starting, and what an operator does with the work under way; as the page's caller, off the loop."""

from __future__ import annotations

from typing import TYPE_CHECKING, Literal, TypeVar

from console.desk import Desk
from engine import LoradeckError

if TYPE_CHECKING:
    from nicegui.elements.upload_files import FileUpload

    from engine import Caller, DryRun, Import, ItemRecord, ItemState, Progress

T = TypeVar("T")
OperationVerb = Literal["cancel", "resume", "retry"]
DONE_WORDS: dict[OperationVerb, str] = {
    "cancel": "Cancelled; what was taken in stays",
    "resume": "Going on",
    "retry": "Trying the rejected rows again",
}


class ImportActions(Desk):
    """The only caller of the engine's operations in the console; one a page."""

    async def dry_run(self, request: Import, *, offset: int, limit: int) -> DryRun:
        """What would become of some rows. Raises LoradeckError for the whole."""
        return await self.ask(self.engine.operations.dry_run, request, offset=offset, limit=limit)

    async def start(self, request: Import) -> Progress:
        """Store the rows and begin. Raises LoradeckError; then nothing was begun."""
        return await self.ask(self.engine.operations.start, request)

    async def page(self, *, offset: int, limit: int) -> list[Progress]:
        """Operations, newest first."""
        return await self.ask(self.engine.operations.page, offset=offset, limit=limit)

    async def get(self, operation: str) -> Progress:
        """One operation. Raises LoradeckError where there is none for this caller."""
        return await self.ask(self.engine.operations.get, operation)

    async def rows(self, operation: str, *, state: ItemState | None, offset: int, limit: int) -> list[ItemRecord]:
        """Its rows, in their order."""
        return await self.ask(self.engine.operations.rows, operation, state=state, offset=offset, limit=limit)

    async def errors_csv(self, operation: str) -> bytes:
        """Its rejected rows as a file. Raises LoradeckError."""

        def read(*, caller: Caller) -> bytes:
            return b"".join(self.engine.operations.errors_csv(operation, caller=caller))

        return await self.ask(read)

    async def act(self, verb: OperationVerb, operation: str) -> bool:
        """Cancel, resume or retry; a toast says how that went. True: it was done."""
        try:
            await self.ask(getattr(self.engine.operations, verb), operation)
        except LoradeckError as error:
            self.toasts.show(error.message, glyph="crit", level="crit")
            return False
        self.toasts.show(DONE_WORDS[verb])
        return True

    async def keep_upload(self, file: FileUpload) -> str:
        """Put an archive where uploads lie; its name there. Raises LoradeckError; then nothing is left."""
        self.caller.need("operator")
        return await self.engine.operations.uploads.keep(file.iterate())

    def drop_upload(self, name: str) -> None:
        """An archive that nothing was made of goes."""
        self.engine.operations.uploads.drop(name)
