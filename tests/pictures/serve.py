"""Serves Loradeck as on a network, to this machine only: ``python -m tests.pictures.serve PORT FLAG ...``, with the flags of ``run.py``."""

from __future__ import annotations

import socket
import sys
from contextlib import suppress

from engine import Settings
from run import serve

if __name__ == "__main__":
    with suppress(KeyboardInterrupt), socket.create_server(("127.0.0.1", int(sys.argv[1]))) as port:
        serve(Settings(_cli_parse_args=["--host", "0.0.0.0", *sys.argv[2:]]), port)
