"""Who is asking. In local mode everybody on this machine is tenant ``default``, with any API key or none."""

from __future__ import annotations

from fastapi import Request

from engine.ids import DEFAULT_TENANT, TenantId


def tenant_of(request: Request) -> TenantId:
    """The caller's tenant; an API key is not looked at while the server listens on loopback only."""
    del request  # until keys name tenants
    return DEFAULT_TENANT
