"""The colours can be read and told apart: contrast and colour difference, computed from the tokens themselves."""

from __future__ import annotations

import itertools
import re
from pathlib import Path

import numpy as np
import pytest

CSS = (Path(__file__).resolve().parents[2] / "static" / "tokens.css").read_text(encoding="utf-8")
BLOCKS = {"light": r"body\.body--light \{(.*?)\}", "dark": r"body\.body--dark \{(.*?)\}"}
BODIES = {name: "".join(re.findall(pattern, CSS, re.DOTALL)) for name, pattern in BLOCKS.items()}
THEMES = {name: dict(re.findall(r"--([\w-]+): (#[0-9A-Fa-f]{6});", body)) for name, body in BODIES.items()}

TEXT = ("text", "muted", "faint", "accent", "ok", "warn", "crit")
GRAPHICS = ("ctl", "base", "adapter", "kv", "work", "other")
SURFACES = ("bg", "surface", "inset", "accent-soft")
SERIES = ("base", "adapter", "kv", "work", "other")
# Machado, Oliveira and Fernandes 2009, severity 1, on linear RGB.
SIGHTS = {
    "normal": np.eye(3),
    "protan": np.array([[0.152286, 1.052583, -0.204868], [0.114503, 0.786281, 0.099216], [-0.003882, -0.048116, 1.051998]]),
    "deutan": np.array([[0.367322, 0.860646, -0.227968], [0.280085, 0.672501, 0.047413], [-0.011820, 0.042940, 0.968881]]),
    "tritan": np.array([[1.255528, -0.076749, -0.178779], [-0.078411, 0.930809, 0.147602], [0.004733, 0.691367, 0.303900]]),
}


def linear(colour: str) -> np.ndarray:
    """Linear RGB of a hex colour."""
    value = np.array([int(colour[i : i + 2], 16) for i in (1, 3, 5)]) / 255
    return np.where(value <= 0.04045, value / 12.92, ((value + 0.055) / 1.055) ** 2.4)


def contrast(one: str, other: str) -> float:
    """WCAG 2 contrast ratio."""
    high, low = sorted((float(linear(colour) @ [0.2126, 0.7152, 0.0722]) for colour in (one, other)), reverse=True)
    return (high + 0.05) / (low + 0.05)


def lab(rgb: np.ndarray) -> np.ndarray:
    """CIE L*a*b* under D65 of linear RGB."""
    to_xyz = np.array([[0.4124564, 0.3575761, 0.1804375], [0.2126729, 0.7151522, 0.0721750], [0.0193339, 0.1191920, 0.9503041]])
    x, y, z = np.cbrt(np.clip(to_xyz @ np.clip(rgb, 0, 1) / [0.95047, 1.0, 1.08883], 1e-6, None))
    return np.array([116 * y - 16, 500 * (x - y), 200 * (y - z)])


def test_both_themes_name_the_same_tokens() -> None:
    """A component that is fine in one theme is not bare in the other."""
    assert THEMES["light"].keys() == THEMES["dark"].keys()


@pytest.mark.parametrize("theme", THEMES)
def test_text_reaches_four_and_a_half(theme: str) -> None:
    """On every surface that text stands on."""
    tokens = THEMES[theme]
    low = {(t, s): round(c, 2) for t in TEXT for s in SURFACES if (c := contrast(tokens[t], tokens[s])) < 4.5}
    fills = {fill: contrast(tokens["on-fill"], tokens[fill]) for fill in ("accent-fill", "crit-fill")}
    assert not low
    assert min(fills.values()) >= 4.5


@pytest.mark.parametrize("theme", THEMES)
def test_graphics_reach_three(theme: str) -> None:
    """Bars, swatches and field borders stand out from cards and page."""
    tokens = THEMES[theme]
    low = {(g, s): round(c, 2) for g in GRAPHICS for s in ("bg", "surface", "inset") if (c := contrast(tokens[g], tokens[s])) < 3.0}
    assert not low


@pytest.mark.parametrize("theme", THEMES)
def test_resources_differ_in_every_kind_of_sight(theme: str) -> None:
    """Least difference (CIE76) of two series colours is 18, also for colour-blind readers."""
    tokens = THEMES[theme]
    found = {
        (sight, one, other): float(np.linalg.norm(lab(matrix @ linear(tokens[one])) - lab(matrix @ linear(tokens[other]))))
        for sight, matrix in SIGHTS.items()
        for one, other in itertools.combinations(SERIES, 2)
    }
    assert min(found.values()) >= 18, min(found, key=lambda key: found[key])


def test_python_holds_no_colour() -> None:
    """Colours live in the tokens only."""
    console = Path(__file__).resolve().parents[2] / "console"
    found = [path.name for path in console.rglob("*.py") if re.search(r"#[0-9A-Fa-f]{3,8}\b(?![-\w])", path.read_text(encoding="utf-8"))]
    assert not found
