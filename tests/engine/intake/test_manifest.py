"""Manifests: three spellings of the same rows, and every mistake named by line and field."""

from __future__ import annotations

import time
from dataclasses import replace

import pytest

from engine.errors import InvalidRequest
from engine.intake import manifest
from engine.intake.manifest import Format, read_manifest
from engine.intake.row import ImportRow

SHA = "ab" * 32
ROWS = [
    ImportRow(line=0, source="/data/a", alias="acme/a", tenant="acme", description='says "hi", twice', replace=True, sha256=SHA),
    ImportRow(line=0, source="s3://b/c", alias="b", compatible_base=False),
]
CSV = f'source,alias,tenant,description,replace,sha256,compatible_base\r\n/data/a,acme/a,acme,"says ""hi"", twice",true,{SHA},\r\n\r\ns3://b/c,b,,,,,no\r\n'
JSONL = (
    '{"source": "/data/a", "alias": "acme/a", "tenant": "acme", "description": "says \\"hi\\", twice", "replace": true,'
    f' "sha256": "{SHA}"}}\n'
    '\n{"source": "s3://b/c", "alias": "b", "tenant": null, "compatible_base": false}\n'
)
YAML = f"""
- source: /data/a
  alias: acme/a
  tenant: acme
  description: says "hi", twice
  replace: true
  sha256: {SHA}
- {{source: "s3://b/c", alias: b, compatible_base: no, tenant: }}
"""


def plain(rows: list[ImportRow]) -> list[dict[str, object]]:
    """Without where they stood."""
    return [row.as_json() | {"line": 0} for row in rows]


@pytest.mark.parametrize(
    ("text", "form", "lines"),
    [
        (CSV, "csv", [2, 4]),
        (CSV.replace(",", ";").replace('hi"";', 'hi"",'), "csv", [2, 4]),
        (JSONL, "jsonl", [1, 3]),
        (YAML, "yaml", [2, 8]),
        ("adapters:" + YAML, "yaml", [2, 8]),
    ],
)
@pytest.mark.parametrize("mark", ["", "\ufeff"])
def test_three_spellings_of_the_same(text: str, form: Format, lines: list[int], mark: str) -> None:
    """With and without a byte order mark, with quotes and Windows line ends; each row knows its line."""
    rows = read_manifest((mark + text).encode(), form)
    assert [row.fault for row in rows] == [None, None]
    assert plain(rows) == plain(ROWS)
    assert [row.line for row in rows] == lines


def test_stored_rows_come_back() -> None:
    """As they are kept with an operation."""
    assert [ImportRow.from_json(row.as_json()) for row in ROWS] == ROWS


@pytest.mark.parametrize(
    ("field", "value", "code"),
    [
        ("source", "", "invalid_value"),
        ("source", "x" * 1025, "invalid_value"),
        ("source", "a\0b", "invalid_value"),
        ("source", 7, "invalid_value"),
        ("alias", "", "invalid_alias"),
        ("alias", "../x", "invalid_alias"),
        ("alias", "a b", "invalid_alias"),
        ("alias", ["a"], "invalid_value"),
        ("tenant", "Acme Inc", "invalid_value"),
        ("adapter", "-x", "invalid_value"),
        ("description", "x" * 2001, "invalid_value"),
        ("replace", "maybe", "invalid_value"),
        ("compatible_base", 1.5, "invalid_value"),
        ("sha256", "abc", "invalid_value"),
        ("colour", "red", "unknown_field"),
    ],
)
def test_each_field_is_checked(field: str, value: object, code: str) -> None:
    """The row is kept, with what is wrong in which field."""
    row = ImportRow.read(3, {"source": "/x", "alias": "x", field: value})
    assert row.fault is not None
    assert (row.line, row.fault.param, row.fault.code) == (3, field, code)


def test_the_same_alias_twice() -> None:
    """The later row is at fault and names the earlier; another tenant's is another."""
    rows = read_manifest(b"source,alias,tenant\n/a,x,\n/b,x,acme\n/c,x,\n", "csv")
    assert [row.fault and (row.fault.code, row.fault.param) for row in rows] == [None, None, ("duplicate_alias", "alias")]
    assert "line 2" in rows[2].fault.message  # type: ignore[union-attr]


@pytest.mark.parametrize(
    ("text", "form", "line"),
    [
        ("source,alias\n/a,x,more\n/b,y\n", "csv", 2),
        ('{"source": "/b", "alias": "y"}\n[1]\n', "jsonl", 2),
        ('{"source": "/b", "alias": "y"}\n{"source": NaN}\n', "jsonl", 2),
        ("- {source: /b, alias: y}\n- text\n", "yaml", 2),
        ("- {source: /b, alias: y}\n- {source: [1], alias: x}\n", "yaml", 2),
        ("- {source: /b, alias: y}\n- {source: a, source: b, alias: x}\n", "yaml", 2),
    ],
)
def test_a_bad_row_spoils_only_itself(text: str, form: Format, line: int) -> None:
    """The others are read."""
    rows = read_manifest(text.encode(), form)
    assert [row.line for row in rows if row.fault is not None] == [line]
    assert [row.alias for row in rows if row.fault is None] == ["y"]


@pytest.mark.parametrize(
    ("data", "form", "param"),
    [
        (b"", "csv", "source"),
        (b"source,alias\n", "csv", "manifest"),
        (b"source\n/a\n", "csv", "alias"),
        (b"source,alias,colour\n/a,x,red\n", "csv", "colour"),
        (b"source,alias,alias\n/a,x,y\n", "csv", "source"),
        (b'source,alias\n"/a,x\n', "csv", "line 2"),
        (b'source,alias\n/a,"x"y\n', "csv", "line 2"),
        (b"source,alias\n/a," + b"x" * 20_000, "csv", "line 2"),
        (b"source,alias\n/a,\xff\n", "csv", "line 2"),
        (b"\n\n", "jsonl", "manifest"),
        (b"a: b", "yaml", "manifest"),
        (b"- {a: [", "yaml", "line 2"),
        (b"- {a: \x07}", "yaml", "manifest"),
        (b"", "yaml", "manifest"),
        (b"- &a {source: x, alias: y}\n- *a\n", "yaml", "line 1"),
        (b"- {source: x, <<: *a}", "yaml", "line 1"),
    ],
)
def test_a_file_that_cannot_be_read(data: bytes, form: Format, param: str) -> None:
    """400 with the line or the column."""
    with pytest.raises(InvalidRequest) as caught:
        read_manifest(data, form)
    assert caught.value.param == param


def test_yaml_bombs_are_refused_at_once() -> None:
    """Aliases that would unfold to a billion, and brackets without end."""
    laughs = "a: &a [x,x]\n" + "".join(f"{new}: &{new} [*{old},*{old}]\n" for old, new in zip("abcdefghij", "bcdefghijk", strict=True))
    started_s = time.perf_counter()
    for bomb in (laughs, "[" * 100_000, "- " * 10_000 + "x", "{a: " * 50_000):
        with pytest.raises(InvalidRequest):
            read_manifest(bomb.encode(), "yaml")
    assert time.perf_counter() - started_s < 5


def test_yaml_tags_build_nothing() -> None:
    """They are text with a label."""
    rows = read_manifest(b"- {source: !!python/object/apply:os.system [ls], alias: x}\n- {source: !!binary YQ==, alias: y}\n", "yaml")
    assert rows[0].fault is not None
    assert rows[1].source == "YQ=="


def test_no_more_rows_than_the_cap(monkeypatch: pytest.MonkeyPatch) -> None:
    """A hundred thousand, in the product."""
    assert manifest.MAX_ROWS == 100_000
    monkeypatch.setattr(manifest, "MAX_ROWS", 3)
    text = "source,alias\n" + "".join(f"/a,x{number}\n" for number in range(4))
    with pytest.raises(InvalidRequest) as caught:
        read_manifest(text.encode(), "csv")
    assert caught.value.code == "too_many_rows"
    assert len(read_manifest(text[:-6].encode(), "csv")) == 3


def test_a_row_at_fault_can_be_stored() -> None:
    """What is wrong with it is stored beside it, and what it said comes back."""
    row = read_manifest(b"source,alias\n/somewhere,../x\n", "csv")[0]
    assert row.fault is not None
    assert ImportRow.from_json(row.as_json()) == replace(row, fault=None)
