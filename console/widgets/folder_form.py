"""Register one folder: check it first, read the report, then accept it."""

from __future__ import annotations

from typing import TYPE_CHECKING

from console import format as fmt
from console.widgets.elements import box, button, enable, icon, text
from console.widgets.import_fields import IF_TAKEN, labelled, taken_choice
from console.widgets.refusal import refusal
from engine import DEFAULT_TENANT, LoradeckError

if TYPE_CHECKING:
    from collections.abc import Callable

    from nicegui import ui

    from console.actions import Actions
    from engine import ValidationReport


class FolderForm:
    """Three fields, a report, two buttons. Belongs to its dialog."""

    def __init__(self, actions: Actions, close: Callable[[], None]) -> None:
        self._actions, self._close = actions, close
        self._replace = False
        with box("form"):
            self._source = self._field(
                "Folder", "/data/adapters/support", "A PEFT folder on this machine: adapter_config.json and safetensors"
            )
            self._alias = self._field("Alias", "acme/support", "What callers put into model")
            self._tenant = self._field("Tenant", "", "Whose it is", value=actions.caller.tenant or DEFAULT_TENANT)
            text("If taken", "label")
            taken_choice(self._choose_taken)
        self._report = box("preview")
        with box("dialog-foot"):
            text("Nothing changes until you register.", "hint")
            button("Check", lambda: self._send(dry_run=True))
            self._accept = button("Register", lambda: self._send(dry_run=False), kind="primary")
        self._changed()

    def _field(self, label: str, placeholder: str, hint: str, *, value: str = "") -> ui.input:
        return labelled(label, placeholder, hint, value=value, on_change=self._changed)

    def _choose_taken(self, choice: str) -> None:
        self._replace = choice == IF_TAKEN.move
        self._changed()

    def _changed(self) -> None:
        """A changed form has to be checked again."""
        if hasattr(self, "_accept"):
            enable(self._accept, enabled=False, why_not="Check it first")
            self._report.clear()

    async def _send(self, *, dry_run: bool) -> None:
        self._report.clear()
        with self._report, box("check-line"):
            icon("unknown", "unknown")
            text("Reading the folder…" if dry_run else "Registering…")
        try:
            answer = await self._actions.register(
                str(self._source.value or "").strip(),
                alias=str(self._alias.value or "").strip(),
                tenant=str(self._tenant.value or "").strip() or DEFAULT_TENANT,
                dry_run=dry_run,
                replace=self._replace,
            )
        except LoradeckError as error:
            self._report.clear()
            with self._report:
                refusal("register", error)
            return
        if not dry_run:
            self._close()
            return
        self._report.clear()
        with self._report:
            validation_report(answer.report)
        enable(self._accept, enabled=True)


def validation_report(report: ValidationReport) -> None:
    """What was found, as lines with marks."""
    modules = ", ".join(module.removesuffix("_proj") for module in report.modules)
    with box("checks"):
        _line(
            "check",
            "ok",
            f"{fmt.plural(report.matched, 'matrix pair')} match the base, in {modules}",
        )
        _line("check", "ok", f"Rank {report.rank}, {fmt.size(report.bytes)}, {fmt.plural(report.pages, 'page')}")
        if report.base_proof == "recorded":
            _line("check", "ok", "Base proven by its digest")
        else:
            _line("unknown", "unknown", "Base declared, not proven")
        _line(
            *(
                ("check", "ok", "Changes the base’s answers")
                if report.probe == "ok"
                else ("unknown", "unknown", "Probed when it is registered")
            )
        )
        for warning in report.warnings:
            _line("warn", "warn", warning)


def _line(glyph: str, level: str, words: str) -> None:
    with box("check-line"):
        icon(glyph, level)
        text(words)
