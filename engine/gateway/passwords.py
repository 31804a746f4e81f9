"""Passwords: hashed with argon2id, and checked in the same time whether or not there is such a person."""

from __future__ import annotations

import re
from functools import cache

from argon2 import PasswordHasher
from argon2.exceptions import InvalidHashError, VerificationError

from engine.errors import InvalidRequest

LEAST_CHARS, MOST_CHARS = 10, 200
USER_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._@-]{0,127}")
_HASHER = PasswordHasher()


def check_password(password: str) -> str:
    """The password itself. Raises InvalidRequest for one that is too short or far too long."""
    if not LEAST_CHARS <= len(password) <= MOST_CHARS:
        message = f"A password has {LEAST_CHARS} to {MOST_CHARS} characters."
        raise InvalidRequest(message, param="password", expected=f"{LEAST_CHARS} to {MOST_CHARS} characters", found=len(password))
    return password


def check_user_name(name: str) -> str:
    """The name itself. Raises InvalidRequest for one that is none."""
    if not USER_NAME.fullmatch(name):
        message = "A user's name is 1 to 128 letters, digits, '.', '_', '@' or '-'."
        raise InvalidRequest(message, param="name", found=name[:80])
    return name


def hash_password(password: str) -> str:
    """Salted; about 50 ms."""
    return _HASHER.hash(password)


def matches(password: str, password_hash: str | None) -> bool:
    """Whether it is the one; None is nobody's and takes as long. About 50 ms."""
    nobody = _nobody()  # whoever is asked for: the first call makes it
    try:
        return _HASHER.verify(password_hash or nobody, password[:MOST_CHARS]) and password_hash is not None
    except (VerificationError, InvalidHashError):
        return False


@cache
def _nobody() -> str:
    return _HASHER.hash("nobody's password")
