"""Register many: a source, a dry run as a table, then one operation."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, Literal

from nicegui import ui

from console import format as fmt
from console.widgets.dry_run_table import DryRunTable
from console.widgets.elements import box, button, enable, icon, segments, text
from console.widgets.import_fields import IF_TAKEN, labelled, taken_choice
from console.widgets.operation_toast import follow
from console.widgets.refusal import refusal
from engine import DEFAULT_TENANT, Import, InvalidRequest, LoradeckError

if TYPE_CHECKING:
    from collections.abc import Callable

    from nicegui.events import UploadEventArguments

    from console.import_actions import ImportActions

Format = Literal["csv", "jsonl", "yaml"]
FORMATS: Final = {"csv": "CSV", "jsonl": "JSONL", "yaml": "YAML"}
EXAMPLES: Final = {
    "csv": "source,alias,tenant\n/data/adapters/support,acme/support,acme\ns3://loras/tone,acme/tone,acme",
    "jsonl": '{"source": "/data/adapters/support", "alias": "acme/support", "tenant": "acme"}',
    "yaml": "- source: /data/adapters/support\n  alias: acme/support\n  tenant: acme",
}
MAX_PASTED_BYTES: Final = 64 * 2**20


class ImportForm:
    """Source fields, a dry run, Apply. Belongs to its dialog; each way adds its own fields."""

    NOUN = "row"
    why_not_apply = ""
    """Why what was looked at cannot be applied; empty where it can."""

    def __init__(self, actions: ImportActions, close: Callable[[], object]) -> None:
        self._actions, self._close = actions, close
        with box("form"):
            self._fields()
            self._rules()
        self._report = box("preview")
        with box("dialog-foot"):
            self._hint = text("A dry run reads every file it counts and changes nothing.", "hint")
            self._look = button("Dry run", self._dry_run)
            self._apply_button = button("Apply", self._apply, kind="primary")
        self._changed()

    def _fields(self) -> None:
        """Those of this way."""
        raise NotImplementedError

    def _rules(self) -> None:
        """Whose rows are, and what becomes of a name that is taken."""
        self._replace = False
        self._tenant = self._field("Tenant", "", "Of rows that name none", value=self._actions.caller.tenant or DEFAULT_TENANT)
        text("If taken", "label")
        taken_choice(self._choose_taken)

    def _request(self) -> Import:
        """What the fields say. Raises InvalidRequest where one is missing."""
        raise NotImplementedError

    def _field(self, label: str, placeholder: str, hint: str, *, value: str = "") -> ui.input:
        return labelled(label, placeholder, hint, value=value, on_change=self._changed)

    @property
    def _common(self) -> dict[str, object]:
        return {"tenant": str(self._tenant.value or "").strip(), "replace": self._replace}

    def _choose_taken(self, choice: str) -> None:
        self._replace = choice == IF_TAKEN.move
        self._changed()

    def _changed(self) -> None:
        """A changed source has to be looked at again."""
        if hasattr(self, "_apply_button"):
            enable(self._apply_button, enabled=False, why_not="Dry run first")
            self._apply_button.default_slot.children[0].text = "Apply"  # type: ignore[attr-defined]
            self._report.clear()

    async def _dry_run(self) -> None:
        self._report.clear()
        with self._report, box("check-line"):
            icon("unknown", "unknown")
            text("Reading…")
        enable(self._look, enabled=False, why_not="Under way")
        try:
            request = self._request()
            first = await self._actions.dry_run(request, offset=0, limit=DryRunTable.ROWS)
        except LoradeckError as error:
            self._refused(error)
            return
        finally:
            enable(self._look, enabled=True)
        self._report.clear()
        with self._report:
            DryRunTable(request, first, self._actions)
        self._apply_button.default_slot.children[0].text = f"Apply {fmt.plural(first.total, self.NOUN)}"  # type: ignore[attr-defined]
        enable(self._apply_button, not self.why_not_apply, self.why_not_apply)

    async def _apply(self) -> None:
        enable(self._apply_button, enabled=False, why_not="Under way")
        try:
            started = await self._actions.start(self._request())
        except LoradeckError as error:
            self._refused(error)
            return
        self._started()
        self._close()
        follow(started, self._actions, self._ended)

    def _started(self) -> None:
        """The operation has what it needs."""

    def _ended(self) -> None:
        """The operation has come to its end, while the page is still there."""

    def _refused(self, error: LoradeckError) -> None:
        self._report.clear()
        with self._report:
            refusal("import", error)


class PrefixForm(ImportForm):
    """A folder or bucket that is scanned."""

    def _fields(self) -> None:
        self._source = self._field("Prefix", "s3://loras/acme", "A folder or bucket of an allowed source; four levels deep")
        self._alias = self._field("Names", "acme", "What aliases begin with, before a slash; empty for none")

    def _request(self) -> Import:
        source, alias = str(self._source.value or "").strip(), str(self._alias.value or "").strip()
        if not source:
            message = "Say which prefix to scan."
            raise InvalidRequest(message, code="missing_required_parameter", param="prefix")
        return Import(kind="scan", source=source, alias=alias, **self._common)  # type: ignore[arg-type] # its own fields


class ManifestForm(ImportForm):
    """A list, pasted or from a file."""

    def _fields(self) -> None:
        self._format: Format = "csv"
        text("Format", "label")
        with box("form-field"):
            self._formats = box("format-line")
            self._draw_formats()
        text("Rows", "label")
        with box("form-field"):
            self._rows = ui.textarea(placeholder=EXAMPLES["csv"], on_change=lambda _: self._changed()).props("borderless dense")
            self._rows.classes("field rows-field").props["aria-label"] = "Rows"
            take_file("a .csv, .jsonl or .yaml file", ".csv,.jsonl,.yaml,.yml", self._take, most=MAX_PASTED_BYTES)

    def _draw_formats(self) -> None:
        self._formats.clear()
        with self._formats:
            segments(FORMATS, self._format, self._choose_format, "Format")

    def _choose_format(self, form: str) -> None:
        self._format = form  # type: ignore[assignment] # a key of FORMATS
        self._rows.props["placeholder"] = EXAMPLES[form]
        self._changed()

    async def _take(self, event: UploadEventArguments) -> None:
        ending = event.file.name.rpartition(".")[2].lower()
        self._format = "yaml" if ending in {"yml", "yaml"} else "jsonl" if ending == "jsonl" else "csv"
        self._draw_formats()
        try:
            self._rows.value = (await event.file.read()).decode("utf-8-sig")
        except UnicodeDecodeError:
            message = "The file is not UTF-8."
            self._refused(InvalidRequest(message, code="manifest_invalid", param="file"))

    def _request(self) -> Import:
        rows = str(self._rows.value or "")
        if not rows.strip():
            message = "Paste rows, or choose a file."
            raise InvalidRequest(message, code="missing_required_parameter", param="manifest")
        return Import(kind="manifest", manifest=rows, form=self._format, **self._common)  # type: ignore[arg-type] # its own fields


class UploadForm(ImportForm):
    """A zip from the visitor's machine, kept under a name of ours until it is applied or the page goes."""

    def _fields(self) -> None:
        self._upload = ""
        text("Archive", "label")
        with box("form-field"):
            self._name = text("", "name ellipsis")
            take_file("a .zip with one adapter or many", ".zip", self._take, most=None)
        self._alias = self._field("Names", "acme", "Of one adapter its alias; of many what their aliases begin with")
        self._name.client.on_delete(self._drop)

    async def _take(self, event: UploadEventArguments) -> None:
        self._drop()
        self._changed()
        try:
            self._upload = await self._actions.keep_upload(event.file)
        except LoradeckError as error:
            self._refused(error)
            return
        self._name.text = f"{event.file.name}, {fmt.size(event.file.size())}"

    def _drop(self) -> None:
        if self._upload:
            self._actions.drop_upload(self._upload)
        self._upload = ""

    def _started(self) -> None:
        self._upload = ""

    def _request(self) -> Import:
        if not self._upload:
            message = "Choose an archive first."
            raise InvalidRequest(message, code="missing_required_parameter", param="archive")
        return Import(kind="upload", upload=self._upload, alias=str(self._alias.value or "").strip(), **self._common)  # type: ignore[arg-type]


def take_file(what: str, endings: str, on_file: Callable[[UploadEventArguments], object], *, most: int | None) -> None:
    """A quiet place to choose or drop a file; its size is checked again where it arrives."""
    upload = ui.upload(label=f"Drop {what} here, or choose it", auto_upload=True, max_files=1, max_file_size=most, on_upload=on_file)
    upload.classes("drop").props(f"accept={endings} flat")
