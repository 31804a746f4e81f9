"""API keys: made at random, shown once, and recognised by their public id and the hash of the whole."""

from __future__ import annotations

import hashlib
import hmac
import re
import secrets
from typing import NamedTuple, TypeVar

TOKEN = re.compile(r"sk-([0-9a-f]{12})-([0-9a-f]{64})")
ID_BYTES, SECRET_BYTES = 6, 32
NOBODY = "0" * 64
"""What an unknown id is compared with, so that it takes as long as a known one."""

T = TypeVar("T")


class NewKey(NamedTuple):
    """A key as it is shown once, and what is kept of it."""

    id: str
    token: str
    """``sk-`` id ``-`` 256 random bits."""
    secret_hash: str


def new_key() -> NewKey:
    """A random key."""
    key, secret = secrets.token_hex(ID_BYTES), secrets.token_hex(SECRET_BYTES)
    token = f"sk-{key}-{secret}"
    return NewKey(key, token, hash_token(token))


def hash_token(token: str) -> str:
    """SHA-256: a secret of 256 random bits needs no slow hash."""
    return hashlib.sha256(token.encode()).hexdigest()


def bearer(header: str | None) -> str | None:
    """The token of an ``Authorization`` header whose scheme is ``Bearer``, in any case and with one space; else None."""
    scheme, _, token = (header or "").partition(" ")
    return token if scheme.lower() == "bearer" and token and token == token.strip() else None


class KeyRing:
    """Hashes of keys by public id. One dict, changed item by item; any thread."""

    def __init__(self) -> None:
        self._hashes: dict[str, str] = {}

    def put(self, key: str, secret_hash: str) -> None:
        """Know a key."""
        self._hashes[key] = secret_hash

    def recognise(self, token: str) -> str | None:
        """The public id of the key that ``token`` is; the same work whether or not there is such an id."""
        match = TOKEN.fullmatch(token)
        key = match[1] if match else ""
        known = self._hashes.get(key)
        same = hmac.compare_digest(hash_token(token), known or NOBODY)
        return key if same and known is not None else None
