"""A disk that cannot be written: what the caller is told, and whether room mends it."""

from __future__ import annotations

import errno

from engine.errors import RegistryUnavailable

DISK_FULL = "disk_full"
FULL = (errno.ENOSPC, errno.EDQUOT)


def is_full(error: OSError) -> bool:
    """No room is left on the disk, or of what Loradeck's user may take of it."""
    return error.errno in FULL


def unwritable(what: str, error: OSError, *, code: str = RegistryUnavailable.code) -> RegistryUnavailable:
    """Why ``what`` was not written and what to do; ``disk_full`` where room mends it, else ``code``."""
    full = is_full(error)
    help_ = "Free some space there" if full else "Make it writable for Loradeck"
    message = f"{what} cannot be written: {error.strerror or error}. {help_}. Nothing was changed, and serving goes on."
    return RegistryUnavailable(message, code=DISK_FULL if full else code, param="data")
