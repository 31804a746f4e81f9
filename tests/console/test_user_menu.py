"""Who looks at a page, in two letters."""

from __future__ import annotations

import pytest

from console.widgets.user_menu import initials


@pytest.mark.parametrize(("name", "letters"), [("j.okafor", "JO"), ("local", "LO"), ("ci-deploy-bot", "CB"), ("Ö", "Ö"), ("-", "-")])
def test_initials(name: str, letters: str) -> None:
    """First and last word, or the first two letters."""
    assert initials(name) == letters
