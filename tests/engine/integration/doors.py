"""A real engine on TINY behind its HTTP application, with an admin and keys."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import httpx
import openai

from engine.allowance import Allowance
from engine.api.app import build_app
from engine.caller import Role
from engine.ids import TenantId
from tests.engine.integration.serving import Served

PASSWORD = "correct horse battery"  # noqa: S105 - an account of the test
HERE = "http://127.0.0.1"


class Doors:
    """Closed to whoever shows no key, since there is an admin."""

    def __init__(self, served: Served, client: httpx.AsyncClient) -> None:
        self.served, self.client = served, client
        self.tenants = served.engine.tenants
        if not self.tenants.directory.has_admin:
            self.tenants.users.add("root", PASSWORD, role="admin")

    def tenant(self, name: str, limits: Allowance | None = None) -> TenantId:
        """A tenant that exists from now on."""
        tenant = TenantId(name)
        self.tenants.create(tenant)
        if limits is not None:
            self.tenants.set_limits(tenant, limits)
        return tenant

    def key(self, tenant: TenantId | None, role: Role | None = None) -> str:
        """A new key's secret."""
        return self.tenants.keys.create("k", tenant=tenant, role=role).token

    def openai(self, key: str) -> openai.AsyncOpenAI:
        """The official client with a key, which never tries again by itself."""
        return openai.AsyncOpenAI(base_url=f"{HERE}/v1", api_key=key, max_retries=0, http_client=self.client)

    async def call(self, method: str, path: str, key: str, body: object = None) -> httpx.Response:
        """One request."""
        return await self.client.request(method, path, json=body, headers={"authorization": f"Bearer {key}"})


@asynccontextmanager
async def opened(served: Served) -> AsyncIterator[Doors]:
    """Its doors, in the test's own loop."""
    transport = httpx.ASGITransport(app=build_app(served.engine), raise_app_exceptions=False)
    async with httpx.AsyncClient(transport=transport, base_url=HERE) as client:
        yield Doors(served, client)
