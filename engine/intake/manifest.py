"""A list of adapters as CSV, JSONL or YAML → rows, each checked; what is wrong names its line and field."""

from __future__ import annotations

import csv
import io
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import replace
from typing import Any, Literal, get_args

import orjson
import yaml

from engine.errors import InvalidRequest
from engine.intake.row import FIELDS, Fault, ImportRow

Format = Literal["csv", "jsonl", "yaml"]
FORMATS: tuple[Format, ...] = get_args(Format)
MAX_ROWS = 100_000
MAX_DEPTH = 8
"""Of YAML: a list of flat mappings needs three."""
MAX_FIELD_CHARS = 16 * 1024
DELIMITERS = (",", ";", "\t")
LOADER: Any = getattr(yaml, "CSafeLoader", yaml.SafeLoader)


def read_manifest(data: bytes, form: Format) -> list[ImportRow]:
    """Every row in order, at most 100,000. Raises InvalidRequest, naming the line where there is one, for a file that cannot be read."""
    try:
        text = data.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        line = data[: error.start].count(b"\n") + 1
        raise _unreadable(f"Line {line} is not UTF-8.", line) from None
    readers = {"csv": _read_csv, "jsonl": _read_jsonl, "yaml": _read_yaml}
    rows: list[ImportRow] = []
    for line, values in readers[form](text):
        if len(rows) == MAX_ROWS:
            message = f"The manifest has more than {MAX_ROWS} rows; split it."
            raise InvalidRequest(message, code="too_many_rows", param="manifest", expected=f"at most {MAX_ROWS} rows")
        rows.append(values if isinstance(values, ImportRow) else ImportRow.read(line, values))
    if not rows:
        raise _unreadable("The manifest has no rows.", None)
    return without_twins(rows)


def form_of(name: str) -> Format:
    """By the ending of a file's name."""
    ending = name.rpartition(".")[2].lower()
    return "yaml" if ending == "yml" else next((form for form in FORMATS if form == ending), "csv")


def without_twins(rows: Iterable[ImportRow]) -> list[ImportRow]:
    """The same, but a row that names the alias of an earlier one is at fault."""
    first: dict[tuple[str, str], int] = {}
    told = []
    for row in rows:
        line = row.line if row.fault is not None else first.setdefault((row.tenant, row.alias), row.line)
        if line != row.line:
            fault = Fault(code="duplicate_alias", message=f"The alias {row.alias!r} is already on line {line}.", param="alias")
            told.append(replace(row, fault=fault))
        else:
            told.append(row)
    return told


def _read_csv(text: str) -> Iterator[tuple[int, Mapping[str, Any] | ImportRow]]:
    """The first line names the columns; commas, semicolons or tabs are told apart by it."""
    header = text.split("\n", 1)[0]
    delimiter = max(DELIMITERS, key=header.count)
    reader = csv.reader(io.StringIO(text, newline=""), delimiter=delimiter, strict=True)
    csv.field_size_limit(MAX_FIELD_CHARS)
    try:
        names = [name.strip().lower() for name in next(reader, [])]
        _check_columns(names)
        before = reader.line_num
        for values in reader:
            line, before = before + 1, reader.line_num
            if not any(values):
                continue
            if len(values) != len(names):
                fault = Fault(code="invalid_row", message=f"The row has {len(values)} fields and the first line names {len(names)}.")
                yield line, ImportRow(line=line, fault=fault)
            else:
                yield line, dict(zip(names, values, strict=True))
    except csv.Error as error:
        raise _unreadable(f"Line {reader.line_num} is no CSV: {error}.", reader.line_num) from None


def _check_columns(names: list[str]) -> None:
    unknown = [name for name in names if name not in FIELDS]
    missing = [name for name in ("source", "alias") if name not in names]
    if unknown or missing or len(set(names)) != len(names):
        what = f"names no column {missing[0]!r}" if missing else f"names {unknown[0][:80]!r}" if unknown else "names a column twice"
        message = f"The first line {what}; the columns are {', '.join(FIELDS)}."
        raise InvalidRequest(message, code="unknown_field", param=(missing or unknown or names)[0][:80], expected=list(FIELDS), found=1)


def _read_jsonl(text: str) -> Iterator[tuple[int, Mapping[str, Any] | ImportRow]]:
    for line, content in enumerate(text.split("\n"), start=1):
        if not content.strip():
            continue
        try:
            values = orjson.loads(content)
        except orjson.JSONDecodeError as error:
            values = f"The line is no JSON: {error}."
        if isinstance(values, dict):
            yield line, values
        else:
            message = values if isinstance(values, str) and values.startswith("The line") else "The line is no JSON object."
            yield line, ImportRow(line=line, fault=Fault(code="invalid_row", message=message))


def _read_yaml(text: str) -> Iterator[tuple[int, Mapping[str, Any] | ImportRow]]:
    """A list of mappings, or one under ``adapters``. Tags build nothing; aliases, which could unfold without end, are refused."""
    try:
        _check_events(text)
        root = yaml.compose(text, Loader=LOADER)
    except yaml.MarkedYAMLError as error:
        line = error.problem_mark.line + 1 if error.problem_mark else 1
        raise _unreadable(f"Line {line} is no YAML: {error.problem}.", line) from None
    except yaml.YAMLError:
        raise _unreadable("The manifest is no YAML: it holds characters that YAML has not.", None) from None
    if isinstance(root, yaml.MappingNode) and len(root.value) == 1 and root.value[0][0].value == "adapters":
        root = root.value[0][1]
    if not isinstance(root, yaml.SequenceNode):
        raise _unreadable("The manifest is a list of mappings, or 'adapters:' with one.", None)
    for node in root.value:
        yield node.start_mark.line + 1, _yaml_row(node)


def _check_events(text: str) -> None:
    """Depth and aliases, before anything is built."""
    depth = 0
    for event in yaml.parse(text, Loader=LOADER):
        depth += isinstance(event, yaml.CollectionStartEvent) - isinstance(event, yaml.CollectionEndEvent)
        line = event.start_mark.line + 1
        if isinstance(event, yaml.AliasEvent) or getattr(event, "anchor", None) is not None:
            raise _unreadable(f"Line {line} has an anchor or an alias, which a manifest may not.", line)
        if depth > MAX_DEPTH:
            raise _unreadable(f"Line {line} is nested more than {MAX_DEPTH} deep.", line)


def _yaml_row(node: yaml.Node) -> Mapping[str, Any] | ImportRow:
    line = node.start_mark.line + 1
    if not isinstance(node, yaml.MappingNode):
        return ImportRow(line=line, fault=Fault(code="invalid_row", message="The row is no mapping."))
    values: dict[str, Any] = {}
    for key, value in node.value:
        if not isinstance(key, yaml.ScalarNode) or not isinstance(value, yaml.ScalarNode) or key.value in values:
            message = "A row has fields with texts, each once."
            return ImportRow(line=line, fault=Fault(code="invalid_row", message=message, param=str(key.value)[:80]))
        is_null = value.tag == "tag:yaml.org,2002:null"
        values[key.value] = None if is_null else value.value
    return values


def _unreadable(message: str, line: int | None) -> InvalidRequest:
    return InvalidRequest(message, code="manifest_invalid", param="manifest" if line is None else f"line {line}")
