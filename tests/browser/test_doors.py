"""The first pages that anybody sees, in a real browser."""

from collections.abc import Callable

import pytest
from playwright.sync_api import Page, expect

from setwise.service.domain.accounts.callers import Role
from tests.browser.conftest import executable
from tests.browser.watching import Faults, assert_accessible, until, violations
from tests.kit.browser import PASSWORD, PEOPLE
from tests.rights import pages

OPEN = sorted(
    {path for path, right in pages().items() if "{" not in path and right.opens(Role.ADMIN)}
    - {"/documents/rows", "/board/labels/label"}  # a part of a page, and a page about one label
    | {"/", "/account", "/docs", "/problems", "/cockpit?days=91", "/cockpit/details?threshold=0.5"}
)
"""Every page whose address names no single thing."""

READ_MOST = ("/", "/account", "/board/policy", "/cockpit", "/desk", "/documents")


@pytest.mark.parametrize(
    "login",
    [
        login if login == "reviewer" else pytest.param(login, marks=pytest.mark.verify)
        for login in sorted(PEOPLE)
    ],
)
def test_everybody_signs_in_with_the_keyboard_and_out_again(page: Page, login: str) -> None:
    page.goto("/account")
    expect(page).to_have_url("/login?next=%2Faccount")
    page.keyboard.type(login)  # the field has the focus
    page.keyboard.press("Tab")
    page.keyboard.type(PASSWORD)
    page.keyboard.press("Enter")
    expect(page.get_by_role("heading", level=1)).to_have_text(PEOPLE[login])
    page.get_by_role("button", name="Sign out").click()
    expect(page).to_have_url("/login")


def test_a_wrong_password_is_told_and_the_name_kept(page: Page, faults: Faults) -> None:
    faults.expect("status of 403")
    page.goto("/login")
    page.get_by_label("Login name").fill("admin")
    page.get_by_label("Password").fill("guessed")
    page.get_by_role("button", name="Sign in").click()
    expect(page.get_by_role("alert")).to_contain_text("wrong")
    expect(page.get_by_label("Login name")).to_have_value("admin")
    expect(page.get_by_label("Password")).to_be_focused()


@pytest.mark.usefixtures("history")
@pytest.mark.parametrize(
    "path",
    [path if path in READ_MOST else pytest.param(path, marks=pytest.mark.verify) for path in OPEN],
)
def test_pages_have_no_violation(sign_in: Callable[..., Page], path: str) -> None:
    assert_accessible(sign_in("admin", path))


@pytest.mark.usefixtures("history")
@pytest.mark.verify
@pytest.mark.parametrize("path", OPEN)
def test_pages_have_no_violation_in_any_look(sign_in: Callable[..., Page], path: str) -> None:
    assert_accessible(sign_in("admin", path), every_look=True)


def test_the_door_has_no_violation(page: Page) -> None:
    page.goto("/login")
    assert_accessible(page)


def test_an_administrator_invites_somebody_who_sets_a_password(
    sign_in: Callable[..., Page],
) -> None:
    page = sign_in("admin", "/board/people")
    form = page.get_by_role("form", name="Add a person")
    form.get_by_label("Name", exact=True).fill("Cy Cole")
    form.get_by_label("Login name").fill("cy")
    page.get_by_role("button", name="Add").click()
    link = page.get_by_role("note", name="Secret").inner_text()
    assert_accessible(page)
    page.context.clear_cookies()
    page.set_viewport_size({"width": 390, "height": 800})
    page.emulate_media(color_scheme="dark")
    page.goto(link)
    assert_accessible(page)
    page.get_by_label("Password, at least").fill(PASSWORD)
    page.get_by_label("Repeat").fill(PASSWORD)
    page.get_by_role("button", name="Begin").click()
    expect(page.get_by_role("link", name="Cy Cole")).to_be_visible()


def test_complaints_and_violations_are_noticed(page: Page, faults: Faults) -> None:
    page.goto("/login")
    page.evaluate("document.body.insertAdjacentHTML('beforeend', '<img src=\"/none.png\">')")
    page.evaluate(
        "document.body.insertAdjacentHTML('beforeend', '<p style=\"color: #eee\">faint</p>')"
    )
    page.evaluate("setTimeout(() => { throw new Error('thrown') })")
    assert any("image-alt" in line for line in violations(page))
    parts = ("404", "Content Security Policy", "thrown")
    until(page, lambda: all(any(part in said for said in faults.seen) for part in parts))
    for part in parts:
        faults.expect(part)


def test_the_browser_is_the_systems_where_it_has_one() -> None:
    path = executable()
    assert path is None or path.startswith("/")
