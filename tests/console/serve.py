"""Serves the console over the scripted engine: ``python -m tests.console.serve PORT DATA [FLAG ...]``.

Flags: trouble, still, cpu, many, empty, brief, wrong, accounts, past.
"""

from __future__ import annotations

import sys
from dataclasses import replace
from pathlib import Path

import uvicorn
from fastapi import FastAPI

import console
from engine import LOCAL, Role, TenantId
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

    @app.get("/poke/canary")
    def canary(of: str, to: str) -> str:
        engine.canaries[of] = to
        return "ok"

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

    add_account_pokes(app, engine, comparison)
    if "brief" in flags:
        console.RECONNECT_S = 8.0
    console.build(engine, app, comparison)
    uvicorn.run(app, host="127.0.0.1", port=port, log_level="warning", timeout_graceful_shutdown=1)


def add_account_pokes(app: FastAPI, engine: ScriptedEngine, comparison: ScriptedColdWarm) -> None:
    """What ends somebody's rights, and all that nobody may have changed who had none."""
    tenants = engine.tenants

    @app.get("/poke/end/{how}/{name}")
    def end(how: str, name: str) -> str:
        if how == "suspend":
            tenants.suspend(name)
        else:
            found = tenants.sessions._open.items()
            tenants.sessions._open = {key: replace(each, began_s=float("-inf")) if each.user == name else each for key, each in found}
        return "ok"

    @app.get("/poke/resume/{tenant}")
    def resume(tenant: str) -> str:
        tenants.resume(tenant)
        return "ok"

    @app.get("/poke/changes")
    def changes() -> list[object]:
        actions = [line.action for line in engine.services.audit.lines(limit=1000)]
        operations = engine.operations.page(caller=LOCAL)
        return [engine.calls, actions, comparison.state.phase, len(engine.rows), len(operations)]

    @app.get("/poke/kept")
    def kept() -> list[int]:
        from nicegui import Client, core  # noqa: PLC0415 - only this probe needs it

        storage = core.app.storage
        return [len(Client.instances), len(storage._users), len(storage._tabs), len(tenants.sessions)]

    @app.get("/poke/routes")
    def routes() -> list[tuple[str, list[str]]]:
        from nicegui import core  # noqa: PLC0415 - only this probe needs it

        core.app.add_media_file(local_file=Path(__file__), url_path="/media/of-a-page")
        found = [*app.routes, *core.app.routes]
        return [(getattr(route, "path", "?"), sorted(getattr(route, "methods", None) or [])) for route in found]


def _set_up(engine: ScriptedEngine, flags: set[str]) -> None:
    if flags & {"past", "accounts"}:
        engine.audit = engine.services.audit
    if "past" in flags:
        engine.services.make_up_a_past()
    if "accounts" in flags:
        for tenant in ("acme", "novacart"):
            engine.tenants.create(tenant)
        people: tuple[tuple[str, Role, TenantId | None], ...] = (
            ("root", "admin", None),
            ("victor", "viewer", None),
            ("vera", "viewer", TenantId("acme")),
        )
        for name, role, tenant in people:
            engine.tenants.users.add(name, "correct horse battery", role=role, tenant=tenant)


if __name__ == "__main__":
    main(int(sys.argv[1]), Path(sys.argv[2]), set(sys.argv[3:]))
