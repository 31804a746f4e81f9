"""Starts Loradeck: settings → engine → console → serve."""

from __future__ import annotations

import asyncio
import ipaddress
import logging
import os
import shlex
import socket
import sys
import time
import warnings
from collections.abc import Callable
from pathlib import Path
from tomllib import TOMLDecodeError

import psutil
import uvicorn
from pydantic import ValidationError
from pydantic_settings import SettingsError

from engine import Engine, LoradeckError, Settings
from engine.admin.accounts import has_admin
from engine.api.app import build_app
from engine.api.log_lines import OneLineFormatter
from engine.demo.install import install_demo

GRACE_S = 2
"""How long open connections may take to end after Ctrl-C; the engine ends their streams first."""


class CannotListen(Exception):
    """The address or port is refused, with what to do about it."""


def main(arguments: list[str]) -> int:
    """Serve until Ctrl-C. Returns 0, or 1 when the base is refused, 2 when a setting or the port is."""
    try:
        settings = Settings(_cli_parse_args=arguments)
        with open_port(settings) as port:
            serve(settings, port)
    except ValidationError as error:
        faults = (f"--{'.'.join(map(str, fault['loc'])).replace('_', '-')}: {fault['msg']}" for fault in error.errors())
        return refuse("Loradeck cannot use these settings:", *faults, code=2)
    except (SettingsError, TOMLDecodeError) as error:
        return refuse(f"Loradeck cannot read its settings: {error}", code=2)
    except CannotListen as error:
        return refuse(str(error), code=2)
    except LoradeckError as error:
        return refuse(error.message, code=1)
    except KeyboardInterrupt:
        print("\nStopped.")
    return 0


def open_port(settings: Settings) -> socket.socket:
    """A listening socket, taken before the model loads so that a port in use shows at once. Raises CannotListen."""
    where = f"{settings.host}:{settings.port}"
    try:
        family, _, _, _, address = socket.getaddrinfo(settings.host, settings.port, type=socket.SOCK_STREAM)[0]
        if not ipaddress.ip_address(address[0]).is_loopback and not has_admin(settings):
            raise CannotListen(
                f"Loradeck does not listen on {where}: other machines could reach it, and there is no admin account to keep strangers out. "
                f"Make one with {admin_command(settings)}, or use --host 127.0.0.1."
            )
        return socket.create_server(address, family=family)
    except OSError as error:
        why = error.strerror if isinstance(error, socket.gaierror) else os.strerror(error.errno or 0)  # without the address again
        raise CannotListen(f"Cannot listen on {where}: {why}. Choose another with --host or --port.") from error


def serve(settings: Settings, port: socket.socket) -> None:
    """Load, then answer until asked to stop."""
    engine = Engine(settings)
    try:
        progress = Progress()
        engine.start(progress)
        install_demo(engine, progress)
        app = build_app(engine)
        if not settings.headless:
            import console  # noqa: PLC0415 - a headless server needs no UI library

            expect_search_for_server()
            console.build(engine, app)
        log_to_stderr()
        config = uvicorn.Config(
            app, log_config=None, log_level="warning", access_log=False, proxy_headers=False, timeout_graceful_shutdown=GRACE_S
        )
        Server(config, engine, announce=lambda: print(ready_line(engine, port), flush=True)).run([port])
    finally:
        engine.stop()


class Server(uvicorn.Server):
    """Says when it is ready, and ends the engine's streams before it waits for connections to close."""

    def __init__(self, config: uvicorn.Config, engine: Engine, *, announce: Callable[[], None]) -> None:
        super().__init__(config)
        self._engine = engine
        self._announce = announce

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        """Listen, then announce."""
        await super().startup(sockets)
        if self.started:
            self._announce()

    async def shutdown(self, sockets: list[socket.socket] | None = None) -> None:
        """Stop the engine, then the connections."""
        await asyncio.to_thread(self._engine.stop)
        await super().shutdown(sockets)


class Progress:
    """Long work on one line of a terminal; elsewhere one line for each kind of work."""

    def __init__(self) -> None:
        self._label = ""

    def __call__(self, label: str, share: float | None = None) -> None:
        """Show ``label`` and how much of it is done, 0 to 1."""
        if sys.stdout.isatty():
            print(f"\r\033[K{label}" if share is None else f"\r\033[K{label} {share:.0%}", end="", flush=True)
        elif label != self._label:
            print(label, flush=True)
        self._label = label


def log_to_stderr() -> None:
    """One physical line an event, requests included, so that nobody can forge one."""
    handler = logging.StreamHandler()
    handler.setFormatter(OneLineFormatter("%(asctime)s %(levelname)s %(name)s %(message)s"))
    logging.basicConfig(level=logging.WARNING, handlers=[handler], force=True)
    logging.getLogger("loradeck").setLevel(logging.INFO)


def expect_search_for_server() -> None:
    """NiceGUI looks through every object for its server, and one of torch's warns of itself when it is looked at."""
    warnings.filterwarnings("ignore", r"`torch\.distributed\.reduce_op`", FutureWarning)


def ready_line(engine: Engine, port: socket.socket) -> str:
    """Where to point a browser, what is served, and the seconds since this process began."""
    took_s = time.time() - psutil.Process().create_time()
    host, number = port.getsockname()[:2]
    address = f"[{host}]:{number}" if ":" in host else f"{host}:{number}"
    num_adapters = sum(card.adapter is not None for card in engine.models())
    clear = "\r\033[K" if sys.stdout.isatty() else ""
    return f"{clear}Loradeck is ready at http://{address} (base {engine.base_name}, {num_adapters} adapters, {took_s:.1f} s)"


def admin_command(settings: Settings) -> str:
    """What makes an admin, typed here: with the Python that has what Loradeck needs, and for the same accounts."""
    python, here, plain = Path(sys.executable), Path.cwd(), Settings()
    words = [str(python.relative_to(here) if python.is_relative_to(here) else python), "-m", "engine.admin"]
    for name in ("data", "database"):
        if getattr(settings, name) != getattr(plain, name):
            words += [f"--{name}", str(getattr(settings, name))]
    return shlex.join([*words, "add", "NAME"])


def refuse(*lines: str, code: int) -> int:
    """Say why on standard error; no traceback for what is not our bug."""
    print(*lines, sep="\n  ", file=sys.stderr)
    return code


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
