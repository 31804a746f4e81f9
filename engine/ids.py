"""Names of things, so that a digest is never mistaken for an alias."""

from __future__ import annotations

import hashlib
from typing import Literal, NewType

AdapterId = NewType("AdapterId", str)
"""Version id: 32 hex digits of a digest over content, base and owner. Immutable."""

RequestId = NewType("RequestId", str)
TenantId = NewType("TenantId", str)
TOLD_APART = "~"
"""Stands before what tells a request from another under way with the id that its client chose; in no client's own id."""

Tier = Literal["device", "host", "disk", "remote"]
"""Where an adapter's weights are, nearest first."""

Residency = Literal["device", "loading", "host", "disk", "remote", "draining"]
"""A tier, or the way to or from ``device``."""

WaitReason = Literal[
    "tenant_limit",
    "kv_pages",
    "adapter_pages",
    "adapter_loading",
    "batch_full",
    "fair_share",
    "draining",
]
"""Why a request that could run does not; the same code in API, metrics and console."""

LOAD_REASONS: tuple[WaitReason, ...] = ("adapter_loading", "adapter_pages")
"""Waits for an adapter to come to the device."""

DEFAULT_TENANT = TenantId("default")
"""Everybody, in local mode."""
SHARED_TENANT = TenantId("shared")
"""Owns what all tenants may call."""

ID_DIGITS = 32


def given_id(request: RequestId) -> RequestId:
    """As its client chose it, whoever else has chosen the same."""
    return RequestId(request.partition(TOLD_APART)[0])


def owned_id(unowned: str, owner: TenantId) -> AdapterId:
    """The version id of an owner; that of the tenant ``default`` is of content and base alone."""
    return AdapterId(unowned if owner == DEFAULT_TENANT else hashlib.sha256(f"{unowned}\n{owner}".encode()).hexdigest()[:ID_DIGITS])
