"""Sample adapters: what the generator writes is what the parser serves."""

from __future__ import annotations

from pathlib import Path

import pytest

from engine.adapters.peft import ParsedAdapter, parse_adapter
from engine.demo.__main__ import base_spec, main
from engine.demo.synthetic import SHOWN, write_samples
from engine.names import check_alias


def parsed(folder: Path) -> ParsedAdapter:
    """As the demo base would take it."""
    return parse_adapter(folder, base_spec(None), max_rank=256, base_digest="d" * 64)


@pytest.fixture(scope="module")
def samples(tmp_path_factory: pytest.TempPathFactory) -> dict[str, ParsedAdapter]:
    """Ten samples by alias: the eight that are shown and two of the many."""
    return {sample.alias: parsed(sample.folder) for sample in write_samples(tmp_path_factory.mktemp("samples"), base_spec(None), count=10)}


def test_samples_are_healthy_and_marked(samples: dict[str, ParsedAdapter]) -> None:
    """Accepted without a warning, synthetic, and with an effect."""
    assert len(samples) == 10
    for sample in samples.values():
        assert (sample.synthetic, sample.warnings, sample.no_effect) == (True, (), False)


def test_samples_differ_in_rank_modules_and_content(samples: dict[str, ParsedAdapter]) -> None:
    """Ranks 4, 8, 16 and 32, over different modules; no two are the same version."""
    assert {sample.rank for sample in list(samples.values())[: len(SHOWN)]} == {4, 8, 16, 32}
    assert len({sample.module_names for sample in samples.values()}) >= 4
    assert len({sample.digest for sample in samples.values()}) == len(samples)


def test_aliases_are_valid_and_stable(samples: dict[str, ParsedAdapter]) -> None:
    """Names do not depend on how many are written."""
    assert [check_alias(alias) for alias in samples][:2] == ["sample/r8-qv-01", "sample/r16-all-02"]


def test_the_same_seed_writes_the_same_adapters(tmp_path: Path, samples: dict[str, ParsedAdapter]) -> None:
    """And another seed, others."""
    again = next(write_samples(tmp_path / "again", base_spec(None), count=1))
    other = next(write_samples(tmp_path / "other", base_spec(None), count=1, seed=1))
    assert parsed(again.folder).digest == samples[again.alias].digest != parsed(other.folder).digest


def test_the_command_writes_for_any_base(
    tmp_path: Path, tiny_base: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """``python -m engine.demo`` reads the base's sizes from its folder."""
    monkeypatch.setattr("sys.argv", ["demo", "--out", str(tmp_path), "--count", "9", "--base-config", str(tiny_base / "config.json")])
    main()
    assert "9 synthetic adapters" in capsys.readouterr().out
    folders = sorted((tmp_path / "sample").iterdir())
    assert len(folders) == 9
    for folder in folders:
        assert parse_adapter(folder, base_spec(tiny_base), max_rank=64, base_digest="d" * 64).num_matched > 0
