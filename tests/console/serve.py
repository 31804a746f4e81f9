"""Serves the console over the scripted engine: ``python -m tests.console.serve PORT DATA [FLAG ...]``.

Flags: trouble, still, cpu, many, empty, brief, wrong, accounts, past.
"""

from __future__ import annotations

import sys
from pathlib import Path

import uvicorn
from fastapi import FastAPI

import console
from engine import TenantId
from tests.console.scripted_cold_warm import ScriptedColdWarm
from tests.console.scripted_engine import ScriptedEngine


def main(port: int, data: Path, flags: set[str]) -> None:
    """Serve until killed; ``/poke/{name}`` changes the world for a test."""
    number = 50_000 if "many" in flags else 0 if "empty" in flags else 60
    engine = ScriptedEngine(
        data,
        num_adapters=number,
        trouble="trouble" in flags,
        moves="still" not in flags,
        cuda="cpu" not in flags,
        host="0.0.0.0" if "accounts" in flags else "127.0.0.1",
    )
    _set_up(engine, flags)
    comparison = ScriptedColdWarm(wrong="wrong" in flags)
    app = FastAPI()

    @app.get("/poke/mismatch")
    def mismatch() -> str:
        engine.subtract_bytes = 3 * 2**20
        return "ok"

    @app.get("/poke/whole")
    def whole() -> str:
        engine.subtract_bytes = 0
        return "ok"

    @app.get("/poke/limit/{tenant}")
    def limit(tenant: str) -> int | None:
        return engine.tenants.limits(tenant).requests_per_minute

    @app.get("/poke/calls")
    def calls() -> list[tuple[str, str]]:
        return engine.calls

    @app.get("/poke/clients")
    def clients() -> int:
        from nicegui import Client  # noqa: PLC0415 - only this probe needs it

        return len(Client.instances)

    @app.get("/poke/finish")
    def finish() -> str:
        comparison.finish()
        return "ok"

    if "brief" in flags:
        console.RECONNECT_S = 8.0
    console.build(engine, app, comparison)
    uvicorn.run(app, host="127.0.0.1", port=port, log_level="warning", timeout_graceful_shutdown=1)


def _set_up(engine: ScriptedEngine, flags: set[str]) -> None:
    if flags & {"past", "accounts"}:
        engine.audit = engine.services.audit
    if "past" in flags:
        engine.services.make_up_a_past()
    if "accounts" in flags:
        for tenant in ("acme", "novacart"):
            engine.tenants.create(tenant)
        for name, tenant in (("root", None), ("vera", TenantId("acme"))):
            engine.tenants.users.add(name, "correct horse battery", role="viewer" if tenant else "admin", tenant=tenant)


if __name__ == "__main__":
    main(int(sys.argv[1]), Path(sys.argv[2]), set(sys.argv[3:]))
