"""What somebody may not do any more, or never might, their open page cannot do either, whatever it sends (C09)."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from tests.console.conftest import SignIn, wait_for

if TYPE_CHECKING:
    from playwright.sync_api import Page

PARTS = ("/tenants?open=acme&part=keys", "/tenants?open=acme&part=limits")
PAGES = ("/", "/adapters", *PARTS, "/playground", "/cold-warm", "/operations", "/audit")
PRESS = """() => {
  for (const button of document.querySelectorAll('#page button, #page [role=button], dialog button, .q-dialog button')) {
    button.disabled = false;
    button.removeAttribute('disabled');
    button.click();
  } }"""
FILL = """() => {
  for (const field of document.querySelectorAll('input:not([type=checkbox]):not([type=radio]), textarea')) {
    field.value = 'forged';
    for (const name of ['input', 'change']) field.dispatchEvent(new Event(name, {bubbles: true}));
  } }"""
ALIVE = "window.did_handshake === true && document.querySelector('.shell')"


@pytest.mark.browser
def test_a_forged_press_is_refused(sign_in: SignIn, network: str) -> None:
    """A viewer switches every button of every page on and presses it, and those of the dialogs that come: nothing is changed or sent."""
    admin, viewer = sign_in("root"), sign_in("victor")
    before = admin.request.get(f"{network}/poke/changes").json()
    for path in PAGES:
        viewer.goto(network + path)
        viewer.wait_for_function(ALIVE)
        for script in (PRESS, FILL, PRESS):
            viewer.evaluate(script)
            viewer.request.get(f"{network}/poke/clients")
    for path in ("/playground", "/cold-warm"):
        viewer.goto(network + path)
        viewer.wait_for_function(ALIVE)
        run = viewer.get_by_role("button", name="Run").first
        assert run.is_disabled()
        assert str(run.get_attribute("title")).startswith("Needs operator")
    assert admin.request.get(f"{network}/poke/changes").json() == before


@pytest.mark.browser
@pytest.mark.parametrize("how", ["suspend/acme", "time/vera", "sign out"])
def test_an_open_page_ends_with_the_right_to_it(sign_in: SignIn, network: str, how: str) -> None:
    """It goes to the sign-in; one that does not go is forgotten by the server, hears nothing more and can send nothing."""
    admin = sign_in("root")
    admin.request.get(f"{network}/poke/resume/acme")
    viewer, stubborn = sign_in("vera"), sign_in("vera")
    stays_here(stubborn)
    if how == "sign out":
        for page in (viewer, stubborn):
            page.request.post(f"{network}/logout")
    else:
        admin.request.get(f"{network}/poke/end/{how}")
    viewer.wait_for_url("**/login")
    stubborn.wait_for_function("window.gone === true")
    asker = sign_in("root")
    wait_for(lambda: num_updates(asker) > 1, 20)
    before = num_updates(stubborn)
    stubborn.evaluate(PRESS)
    wait_for(lambda: num_updates(asker) > 3, 20)
    assert num_updates(stubborn) == before > 0


def stays_here(page: Page) -> None:
    """A page that does not go where it is sent."""
    page.evaluate("() => window.navigation.addEventListener('navigate', (event) => { window.gone = true; event.preventDefault(); })")


def num_updates(page: Page) -> int:
    """How often its socket was told what changed."""
    page.evaluate("1")
    return sum('["update"' in frame for frame in page.frames_read)  # type: ignore[attr-defined]
