"""One process a data folder: two would sweep away each other's images and write one journal."""

from __future__ import annotations

import contextlib
import fcntl
import os
from typing import TYPE_CHECKING

from engine.errors import BaseRefused

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

FILE = "lock"


class DataLock:
    """Held from start to stop, and let go by the system when the process ends in any way."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._file: int | None = None

    def take(self) -> None:
        """Raises BaseRefused naming the process that has the folder, or why nothing can be written there."""
        try:
            self._folder.mkdir(parents=True, exist_ok=True)
            file = os.open(self._folder / FILE, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
        except OSError as error:
            message = f"The data folder {self._folder} cannot be written: {error.strerror}. Make it writable, or name another with --data."
            raise BaseRefused(message, code="data_unwritable", param="data", found=str(self._folder)) from error
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError:
            holder = os.read(file, 20).decode("ascii", "replace").strip() or "?"
            os.close(file)
            message = f"Another Loradeck (process {holder}) uses the data folder {self._folder}. Stop it, or name another with --data."
            raise BaseRefused(message, code="data_in_use", param="data", found=str(self._folder)) from None
        os.truncate(file, 0)
        os.write(file, str(os.getpid()).encode())
        self._file = file

    @contextlib.contextmanager
    def taken_unless_it_fails(self) -> Iterator[None]:
        """Held after the block; given back where the block raises."""
        self.take()
        try:
            yield
        except BaseException:
            self.give_back()
            raise

    def give_back(self) -> None:
        """Safe to call again."""
        if self._file is not None:
            os.close(self._file)
            self._file = None
