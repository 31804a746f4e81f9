"""In network mode the console is for people who are signed in, and shows each what they may see (C05, C09, C10)."""

from __future__ import annotations

import re
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Literal

import httpx
import pytest

from tests.console.conftest import served
from tests.pictures.checks import faults, watch

if TYPE_CHECKING:
    from playwright.sync_api import Browser

PASSWORD = "correct horse battery"  # noqa: S105 - an account of the test


@pytest.fixture(scope="module")
def console(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """A console that listens to others, with an admin and a viewer of one tenant."""
    with served(tmp_path_factory.mktemp("network"), "accounts", "still") as address:
        yield address


@contextmanager
def signed_in(console: str, name: str) -> Iterator[httpx.Client]:
    """A browser's session."""
    with httpx.Client(base_url=console) as client:
        answer = client.post("/login", data={"name": name, "password": PASSWORD})
        assert answer.status_code == 303
        cookie = answer.headers["set-cookie"].lower()
        assert "httponly" in cookie
        assert "samesite=lax" in cookie
        yield client


@pytest.mark.parametrize("path", ["/", "/adapters", "/playground", "/cold-warm", "/anything"])
def test_pages_need_a_session(console: str, path: str) -> None:
    """Nobody gets a page without one: they are sent to the form."""
    answer = httpx.get(console + path)
    assert (answer.status_code, answer.headers["location"]) == (303, "/login")
    assert httpx.get(console + path, headers={"cookie": "loradeck_session=ls-x"}).status_code == 303


def test_sockets_need_a_session(console: str) -> None:
    """Neither kind of transport opens."""
    assert httpx.get(f"{console}/_nicegui_ws/socket.io/?EIO=4&transport=polling").status_code == 401
    assert httpx.get(f"{console}/_nicegui_ws/socket.io/?EIO=4&transport=websocket", headers=UPGRADE).status_code == 403


UPGRADE = {
    "connection": "upgrade", "upgrade": "websocket", "sec-websocket-version": "13", "sec-websocket-key": "AAAAAAAAAAAAAAAAAAAAAA==",
}  # fmt: skip
OPEN = {("GET", "/login"): 200, ("POST", "/login"): 401, ("GET", "/favicon.ico"): 200}


def test_every_route_needs_a_session(console: str) -> None:
    """Each route that the application has, by each method and as a socket: probes, media that a page adds, the framework's own files."""
    with signed_in(console, "root") as admin:
        routes = {path for path, _ in admin.get("/poke/routes").json()} - {"", "?", "/static"}
        assert admin.get("/media/of-a-page").status_code == 200
    assert {"/", "/tenants", "/poke/calls", "/media/of-a-page"} <= routes
    assert any(path.startswith("/_nicegui/") for path in routes)
    with httpx.Client(base_url=console) as stranger:
        for path in routes | {"/media/of-a-page", "/_nicegui_ws/socket.io/", "//tenants", "/login/", "/tenants/"}:
            shown = re.sub(r"\{[^}]*\}", "x", path)
            for method in ("GET", "HEAD", "OPTIONS", "POST", "PUT", "PATCH", "DELETE"):
                answer = stranger.request(method, httpx.URL(console).copy_with(raw_path=shown.encode()), json={})
                closed = 303 if method == "GET" and not shown.startswith("/_nicegui") else 401
                assert answer.status_code == OPEN.get((method, path), closed), (method, path)
                assert "set-cookie" not in answer.headers, (method, path)
            assert stranger.get(shown, headers=UPGRADE).status_code == 403, path


def test_strangers_leave_nothing_behind(console: str) -> None:
    """A thousand visitors with a fresh cookie each, who get no further than the form, make no page, no store and no session (C10)."""
    with signed_in(console, "root") as admin, httpx.Client(base_url=console) as stranger:
        before = admin.get("/poke/kept").json()
        for number in range(1000):
            path = ("/", "/login", "/favicon.ico", "/static/tokens.css", "/poke/calls")[number % 5]
            cookie = f"loradeck_session=ls-{number}; session={number:032x}; id={number}"
            assert "set-cookie" not in stranger.get(path, headers={"cookie": cookie}).headers
        assert all(now <= then for now, then in zip(admin.get("/poke/kept").json(), before, strict=True))


def test_wrong_password(console: str) -> None:
    """The same words for a wrong name and a wrong password, and no cookie."""
    pages = [httpx.post(f"{console}/login", data={"name": name, "password": "wrong"}) for name in ("root", "<b>nobody")]
    assert {page.status_code for page in pages} == {401}
    assert all("Name or password is wrong" in page.text and "set-cookie" not in page.headers for page in pages)
    assert "<b>" not in pages[1].text


@pytest.mark.browser
@pytest.mark.parametrize("scheme", ["dark", "light"])
def test_the_form_wears_the_theme(chromium: Browser, console: str, scheme: Literal["dark", "light"]) -> None:
    """It has no framework behind it, and still a card in the middle, in the theme of the browser, without a fault, also after a refusal."""
    context = chromium.new_context(viewport={"width": 390, "height": 844}, color_scheme=scheme)
    errors = watch(context)
    page = context.new_page()
    page.goto(f"{console}/login")
    page.get_by_label("Name").fill("root")
    page.get_by_label("Password").fill("wrong")
    page.get_by_role("button", name="Sign in").click()
    page.get_by_role("alert").get_by_text("Name or password is wrong").wait_for()
    assert faults(page) == []
    assert page.locator(f"body.body--{scheme} .card").bounding_box()["y"] > 200  # type: ignore[index] # it is there
    assert [error for error in errors if "401" not in error] == []
    context.close()


def test_signing_out_ends_it(console: str) -> None:
    """The cookie opens nothing any more."""
    with signed_in(console, "root") as client:
        assert client.get("/").status_code == 200
        cookie = f"loradeck_session={client.cookies['loradeck_session']}"
        assert client.post("/logout").status_code == 303
    assert httpx.get(console, headers={"cookie": cookie}).status_code == 303


def test_a_viewer_of_one_tenant_never_gets_others_rows(console: str) -> None:
    """What the server sends them names no other tenant; the admin gets all."""
    with signed_in(console, "root") as admin, signed_in(console, "vera") as viewer:
        assert "quillpad" in admin.get("/").text
        for path in ("/", "/adapters", "/playground"):
            assert "quillpad" not in viewer.get(path).text
        assert viewer.get("/cold-warm").status_code in {302, 303, 307}
