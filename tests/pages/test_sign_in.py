"""Signing in and out in a browser: what gets in, and what other sites cannot make a browser do."""

import httpx
import pytest

from setwise.service.domain.accounts.callers import Role
from tests.browsing import Browser
from tests.kit.edge import PASSWORD, Service, assert_problem

ELSEWHERE = {"Sec-Fetch-Site": "cross-site"}


@pytest.fixture
def browser(service: Service) -> Browser:
    service.person("ann", Role.REVIEWER)
    return Browser(service)


def cookies_set(response: httpx.Response) -> str:
    return "; ".join(response.headers.get_list("set-cookie"))


def test_without_a_session_the_way_leads_to_the_door_and_back(browser: Browser) -> None:
    response = browser.get("/account?x=1")
    assert response.status_code == 303
    assert response.headers["location"] == "/login?next=%2Faccount%3Fx%3D1"
    form = browser.get(response.headers["location"])
    assert 'name="back" value="/account?x=1"' in form.text
    entered_response = browser.sign_in(back="/account?x=1")
    assert (entered_response.status_code, entered_response.headers["location"]) == (
        303,
        "/account?x=1",
    )
    page = browser.get("/account")
    assert page.status_code == 200
    assert "Ann" in page.text
    assert page.headers["cache-control"] == "no-store"
    assert browser.get("/login").headers["location"] == "/"  # they are in already


def test_the_cookie_is_out_of_the_reach_of_scripts_and_other_sites(browser: Browser) -> None:
    kept = cookies_set(browser.sign_in())
    assert "setwise-session=" in kept
    assert "HttpOnly" in kept
    assert "SameSite=lax" in kept
    assert "Path=/" in kept
    assert "Secure" not in kept


def test_over_tls_the_cookie_stays_on_tls_and_on_this_host(service: Service) -> None:
    service.person("ann", Role.REVIEWER)
    browser = Browser(service, "https://test")
    kept = cookies_set(browser.sign_in())
    assert "__Host-setwise-session=" in kept
    assert "Secure" in kept
    assert "Domain" not in kept
    assert browser.get("/account").status_code == 200


@pytest.mark.parametrize(("login", "password"), [("ann", "guessed"), ("bob", PASSWORD), ("", "")])
def test_whoever_does_not_know_the_password_stays_outside(
    browser: Browser, login: str, password: str
) -> None:
    response = browser.sign_in(login, password)
    assert response.status_code == 403
    assert "The name or the password is wrong." in response.text
    assert password == "" or password not in response.text
    assert "setwise-session" not in cookies_set(response)
    assert browser.get("/account").status_code == 303


def test_guessing_is_answered_with_a_pause(browser: Browser) -> None:
    for _ in range(5):
        browser.sign_in(password="wrong")
    response = browser.sign_in()
    assert response.status_code == 429
    assert int(response.headers["retry-after"]) >= 1
    assert "wait" in response.text


@pytest.mark.parametrize("back", ["//evil.example/", "https://evil.example/", "/\\evil.example"])
def test_the_way_back_never_leads_elsewhere(browser: Browser, back: str) -> None:
    assert "evil" not in browser.get(f"/login?next={back}").text
    assert browser.sign_in(back=back).headers["location"] == "/"


def test_another_site_cannot_sign_a_person_in_as_somebody_else(browser: Browser) -> None:
    assert browser.sign_in(**ELSEWHERE).status_code == 403
    assert browser.sign_in(Origin="http://evil.example").status_code == 403
    fields = {"login": "ann", "password": PASSWORD}
    stranger = Browser(browser._service)
    assert stranger.submit("/login", fields).status_code == 403
    borrowed = fields | {"csrf": browser.token("/login")}
    assert stranger.submit("/login", borrowed).status_code == 403


def test_signing_out_takes_the_token_of_a_page_of_ours(browser: Browser) -> None:
    browser.sign_in()
    assert browser.get("/logout").status_code == 405
    assert browser.submit("/logout", {}).status_code == 403
    token = browser.token("/account")
    assert browser.submit("/logout", {"csrf": token}, ELSEWHERE).status_code == 403
    assert browser.get("/account").status_code == 200
    kept = dict(browser.cookies)
    response = browser.submit("/logout", {"csrf": token})
    assert (response.status_code, response.headers["location"]) == (303, "/login")
    assert "setwise-session" not in browser.cookies
    browser.cookies = httpx.Cookies(kept)  # a copy of the cookie opens nothing any more
    assert browser.get("/account").status_code == 303


def test_a_person_takes_another_password(browser: Browser) -> None:
    browser.sign_in()
    token = browser.token("/account")
    fields = {"csrf": token, "old": PASSWORD, "new": "another long password"}
    path = "/account/password"
    assert "do not match" in browser.submit(path, fields | {"again": "x"}).text
    weak = browser.submit(path, fields | {"new": "short", "again": "short"})
    assert weak.status_code == 422
    assert "too short" in weak.text
    again = {"again": "another long password"}
    wrong = browser.submit(path, fields | again | {"old": "wrong"})
    assert "present password is wrong" in wrong.text
    assert browser.submit(path, fields | again | {"csrf": "forged"}).status_code == 403
    assert "is changed" in browser.submit(path, fields | again).text
    assert browser.get("/account").status_code == 200
    assert Browser(browser._service).sign_in(password="another long password").status_code == 303


def test_a_script_of_our_pages_calls_the_api_as_the_person(browser: Browser) -> None:
    browser.sign_in()
    token = browser.token("/account")
    assert browser.get("/v1/reviews").status_code == 200
    assert browser.send("POST", "/v1/reviews/claim", {"X-CSRF-Token": token}).status_code == 204
    for headers in (
        {},
        {"X-CSRF-Token": "forged"},
        {"X-CSRF-Token": token} | ELSEWHERE,
        {"X-CSRF-Token": token, "Origin": "http://evil.example"},
    ):
        response = browser.send("POST", "/v1/reviews/claim", headers)
        assert_problem(response, 403, "forged-request")
    assert_problem(browser.get("/v1/admin/models"), 403, "forbidden")


def test_a_script_without_a_session_gets_a_problem(browser: Browser) -> None:
    response = browser.get("/account", **{"Sec-Fetch-Dest": "empty"})
    assert_problem(response, 401, "unauthenticated")
    browser.cookies.set("setwise-session", "made up")
    assert_problem(browser.get("/v1/reviews"), 401, "unauthenticated")


def test_the_trail_names_the_person_and_where_they_were(browser: Browser) -> None:
    browser.sign_in()
    events = sorted(browser._service.database.contents.events.values(), key=lambda e: e.id)
    assert (events[-1].action, events[-1].actor.name) == ("session.begun", "Ann")
    assert events[-1].address == "192.0.2.7"


def test_a_browser_in_which_somebody_signed_in_is_not_slowed_by_strangers(
    browser: Browser, service: Service
) -> None:
    browser.sign_in()
    browser.submit("/logout", {"csrf": browser.token("/account")})
    stranger = Browser(service)
    for _ in range(6):
        stranger.sign_in(password="wrong")
    assert stranger.sign_in().status_code == 429
    assert browser.sign_in().status_code == 303


def test_a_forged_device_is_a_stranger(browser: Browser) -> None:
    browser.cookies.set("setwise-device", "bm9uY2UgYW5u.forged")
    for _ in range(6):
        response = browser.sign_in(password="wrong")
    assert response.status_code == 429


def test_guesses_of_the_present_password_are_answered_with_a_pause(browser: Browser) -> None:
    browser.sign_in()
    for _ in range(6):
        fields = {"csrf": browser.token("/account"), "old": "wrong", "new": "x", "again": "x"}
        response = browser.submit("/account/password", fields)
    assert response.status_code == 429
    assert "wait" in response.text
