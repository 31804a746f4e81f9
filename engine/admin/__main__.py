"""``python -m engine.admin add NAME``, ``list``, ``disable NAME``, ``reset NAME``: the accounts of a data folder."""

from __future__ import annotations

import argparse
import getpass
import sys
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

from engine.admin.accounts import accounts
from engine.caller import SYSTEM
from engine.errors import LoradeckError
from engine.settings import Settings

if TYPE_CHECKING:
    from engine.tenants.users import Users

WHO = replace(SYSTEM, name="command line")


def main(arguments: list[str]) -> int:
    """Do one thing; 0 when it was done, 1 when it was refused."""
    options = _parser().parse_args(arguments)
    settings = Settings(**{name: value for name, value in (("data", options.data), ("database", options.database)) if value})
    try:
        with accounts(settings) as tenants:
            _act(tenants.users, options)
    except LoradeckError as refusal:
        print(refusal.message, file=sys.stderr)
        return 1
    return 0


def _act(users: Users, options: argparse.Namespace) -> None:
    if options.verb == "list":
        for user in users.list(caller=WHO):
            print(user.name, user.role, user.tenant or "all tenants", "disabled" if user.disabled_unix else "", sep="\t")
    elif options.verb == "disable":
        users.disable(options.name, caller=WHO)
    elif options.verb == "reset":
        users.reset(options.name, _password(options), caller=WHO)
    else:
        users.add(options.name, _password(options), role=options.role, tenant=options.tenant, caller=WHO)


def _password(options: argparse.Namespace) -> str:
    return sys.stdin.readline().rstrip("\n") if options.password_stdin else getpass.getpass(f"Password of {options.name}: ")


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="python -m engine.admin", description=__doc__)
    parser.add_argument("--data", type=Path, help="the data folder, as for run.py")
    parser.add_argument("--database", help="the registry, as for run.py")
    verbs = parser.add_subparsers(dest="verb", required=True)
    verbs.add_parser("list")
    for verb in ("add", "reset", "disable"):
        sub = verbs.add_parser(verb)
        sub.add_argument("name")
        if verb != "disable":
            sub.add_argument("--password-stdin", action="store_true", help="read it from standard input")
        if verb == "add":
            sub.add_argument("--role", choices=("viewer", "operator", "admin"), default="admin")
            sub.add_argument("--tenant", help="without it the role is for all tenants")
    return parser


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
