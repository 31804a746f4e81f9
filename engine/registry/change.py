"""A change that waits for the database, and what a refusal of it means to whoever asked."""

from __future__ import annotations

from concurrent.futures import Future
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Generic, TypeVar, cast

from sqlalchemy.exc import DBAPIError, IntegrityError, StatementError

from engine.errors import Conflict, InvalidRequest

if TYPE_CHECKING:
    from collections.abc import Callable

    from sqlmodel import Session

T = TypeVar("T")
ONLY_GROWS = "the audit log only grows"
"""What the database's own triggers say."""


@dataclass(slots=True, kw_only=True, eq=False)
class Change(Generic[T]):
    """What is to be done, and who hears of it. ``answer`` is None for what nobody waits for."""

    work: Callable[[Session], T]
    then: Callable[[T], None] | None
    answer: Future[T] | None
    result: T | None = None

    def tell(self) -> None:
        """It is on disk. A fault of ``then`` is told to who waits, and ends nothing else."""
        try:
            if self.then is not None:
                self.then(cast("T", self.result))
        except Exception as fault:  # noqa: BLE001 - handed to the thread that waits for it
            self.refuse(fault)
        else:
            if self.answer is not None and not self.answer.done():
                self.answer.set_result(cast("T", self.result))

    def refuse(self, error: Exception) -> None:
        """Who still waits hears why it was not done."""
        if self.answer is not None and not self.answer.done():
            self.answer.set_exception(error)


@dataclass(frozen=True, slots=True, kw_only=True)
class Doubt:
    """A transaction whose commit may have reached the database before the connection broke."""

    mark: int
    """PostgreSQL's number of it."""
    batch: list[Change[Any]]
    done: list[Change[Any]]


def refusal(error: Exception) -> Exception:
    """What a constraint or a value that cannot be stored means to the caller."""
    if isinstance(error, DBAPIError) and ONLY_GROWS in str(error.orig):
        return Conflict("The audit log only grows: no line of it can be changed or removed.", code="audit_only_grows")
    if isinstance(error, IntegrityError):
        return Conflict("Another change came first, or something else still refers to this. Look again.", code="registry_conflict")
    if isinstance(error, StatementError | UnicodeError):
        return InvalidRequest("A value cannot be stored.", code="invalid_value")
    return error
