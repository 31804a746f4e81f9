"""A new key, at the only moment when its secret is known, with what to do with it."""

from __future__ import annotations

from typing import TYPE_CHECKING

from console.widgets.elements import box, button, text

if TYPE_CHECKING:
    from engine import ShownKey


def secret_card(made: ShownKey, site: str) -> None:
    """The secret and two ways to try it against this server, each to copy."""
    model = made.record.models[0] if made.record.models else "MODEL"
    with box("checks"):
        copyable("Secret", made.token)
        copyable("curl", curl_words(made.token, site, model), lines=True)
        copyable("Python", python_words(made.token, site, model), lines=True)
    if model == "MODEL":
        text("MODEL is a name that /v1/models lists for this key.", "faint small", "p")


def copyable(label: str, words: str, *, lines: bool = False) -> None:
    """A text to take along."""
    with box("copyable"):
        with box("copy-head"):
            text(label, "label")
            box("gap")
            button("Copy", kind="quiet", glyph="copy", small=True, hint=label).props("data-do=copy").props["data-text"] = words
        text(words, "copy-text lines" if lines else "copy-text", "pre")


def curl_words(token: str, site: str, model: str) -> str:
    """One line for a shell."""
    return (
        f"curl {site}/v1/chat/completions \\\n  -H 'Authorization: Bearer {token}' \\\n  -H 'Content-Type: application/json' \\\n"
        f'  -d \'{{"model": "{model}", "messages": [{{"role": "user", "content": "Hello"}}]}}\''
    )


def python_words(token: str, site: str, model: str) -> str:
    """The same with OpenAI's client."""
    return (
        f'from openai import OpenAI\n\nclient = OpenAI(base_url="{site}/v1", api_key="{token}")\n'
        f'answer = client.chat.completions.create(\n    model="{model}", messages=[{{"role": "user", "content": "Hello"}}]\n)\n'
        "print(answer.choices[0].message.content)"
    )
