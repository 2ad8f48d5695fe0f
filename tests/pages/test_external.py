"""Signing in with a real OpenID Connect provider, and with ones that cheat."""

import time
from collections.abc import Iterator
from dataclasses import replace
from datetime import timedelta
from urllib.parse import parse_qs, urlsplit

import httpx
import pytest
from joserfc.jwk import RSAKey

from setwise.service.domain.accounts.callers import SYSTEM, Role
from setwise.service.sign_in.oidc import OpenIdConnect, Provider, read_roles
from tests.identity_provider import CLIENT_ID, CLIENT_SECRET, IdentityProvider, running
from tests.kit.edge import Service
from tests.pages.test_sign_in import Browser

ROLES = "coders=reviewer, bosses=lead, checks=auditor"


@pytest.fixture
def provider() -> Iterator[IdentityProvider]:
    with running() as provider:
        yield provider


@pytest.fixture
def browser(service: Service, provider: IdentityProvider) -> Browser:
    asked = Provider(provider.issuer, CLIENT_ID, CLIENT_SECRET, "groups", read_roles(ROLES))
    service.app.state.edge = replace(service.app.state.edge, provider=OpenIdConnect(asked))
    return Browser(service)


def come_in(browser: Browser, provider: IdentityProvider, back: str = "/account") -> httpx.Response:
    left = browser.get(f"/login/oidc?next={back}")
    assert left.status_code == 303, left.text
    arrived = urlsplit(provider.sign_in(left.headers["location"]))
    assert arrived.path == "/login/oidc/callback"
    return browser.get(f"{arrived.path}?{arrived.query}")


def people(browser: Browser) -> list[tuple[str, str, Role]]:
    found = browser._service.database.contents.people.values()
    return [(person.login, person.name, person.role) for person in found]


def test_a_newcomer_gets_an_account_with_the_role_of_their_group(
    browser: Browser, provider: IdentityProvider
) -> None:
    assert "/login/oidc?next=" in browser.get("/login").text
    response = come_in(browser, provider)
    assert (response.status_code, response.headers["location"]) == (303, "/account")
    assert "Ann Lee" in browser.get("/account").text
    assert people(browser) == [("ann", "Ann Lee", Role.REVIEWER)]
    come_in(Browser(browser._service), provider)
    assert len(people(browser)) == 1


def test_who_was_invited_joins_with_the_provider(
    browser: Browser, provider: IdentityProvider
) -> None:
    services = browser._service.services
    person = services.people.create(SYSTEM, login="lee", name="Lee", role=Role.LEAD, password=None)
    _, secret = services.people.invite(SYSTEM, person.id, 7)
    assert "Sign in with your organisation" in browser.get(f"/join?secret={secret}").text
    provider.claims = {"groups": ["cooks"]}
    assert come_in(browser, provider, f"/join%3Fsecret={secret}").status_code == 403
    provider.claims = {}
    assert come_in(browser, provider, f"/join%3Fsecret={secret}").headers["location"] == "/"
    assert people(browser) == [("lee", "Ann Lee", Role.REVIEWER)], "the provider names the role"
    assert browser.get(f"/join?secret={secret}").status_code == 404


def test_the_provider_decides_about_name_and_role(
    browser: Browser, provider: IdentityProvider
) -> None:
    come_in(browser, provider)
    provider.claims = {"name": "Ann Roe", "groups": ["coders", "bosses"]}
    come_in(Browser(browser._service), provider)
    assert people(browser) == [("ann", "Ann Roe", Role.LEAD)]
    assert browser.get("/account").status_code == 303  # the old role's session has ended


def test_whoever_has_no_role_stays_outside(browser: Browser, provider: IdentityProvider) -> None:
    for groups in (["cooks"], [], "cooks", None, [["coders"]]):
        provider.claims = {"groups": groups}
        assert come_in(browser, provider).status_code == 403
    assert people(browser) == []


def test_a_disabled_account_stays_outside(browser: Browser, provider: IdentityProvider) -> None:
    come_in(browser, provider)
    people_kept = browser._service.database.contents.people
    (person,) = people_kept.values()
    browser._service.services.people.change(SYSTEM, person.id, disabled=True)
    assert come_in(browser, provider).status_code == 403


def test_a_login_name_that_is_somebody_elses_stays_theirs(
    browser: Browser, provider: IdentityProvider
) -> None:
    browser._service.person("ann", Role.LEAD)
    come_in(browser, provider)
    assert sorted(role for _, _, role in people(browser)) == [Role.LEAD, Role.REVIEWER]
    assert [login for login, *_ in people(browser)][1].startswith("external-")


@pytest.mark.parametrize(
    "claims",
    [
        {"iss": "https://evil.example"},
        {"aud": "another-program"},
        {"aud": [CLIENT_ID, "other"], "azp": "other"},
        {"nonce": "another"},
        {"nonce": None},
        {"exp": timedelta(hours=-1)},
        {"exp": None},
        {"iat": timedelta(hours=1)},
        {"sub": None},
    ],
)
def test_a_token_that_is_not_for_this_sign_in_is_refused(
    browser: Browser, provider: IdentityProvider, claims: dict[str, object]
) -> None:
    provider.claims = {
        name: int(time.time() + given.total_seconds()) if isinstance(given, timedelta) else given
        for name, given in claims.items()  # from now, not from when the tests were collected
    }
    response = come_in(browser, provider)
    assert response.status_code == 403
    assert "token is" in response.text
    assert people(browser) == []


def test_a_token_signed_by_somebody_else_is_refused(
    browser: Browser, provider: IdentityProvider
) -> None:
    provider.published = RSAKey.generate_key(2048, {"kid": "one"})
    assert come_in(browser, provider).status_code == 403
    assert people(browser) == []


def test_keys_that_the_provider_changed_are_read_again_at_once(
    browser: Browser, provider: IdentityProvider
) -> None:
    come_in(browser, provider)
    provider.key = RSAKey.generate_key(2048, {"kid": "two"})
    assert come_in(Browser(browser._service), provider).status_code == 303
    provider.published, provider.key = provider.key, RSAKey.generate_key(2048, {"kid": "three"})
    assert come_in(Browser(browser._service), provider).status_code == 403


def test_who_lost_every_group_is_signed_out_everywhere_at_the_next_attempt(
    browser: Browser, provider: IdentityProvider
) -> None:
    come_in(browser, provider)
    assert browser.get("/account").status_code == 200
    provider.claims = {"groups": ["visitors"]}
    assert come_in(Browser(browser._service), provider).status_code == 403
    assert browser.get("/account").status_code == 303


def test_only_the_browser_that_left_can_come_back(
    browser: Browser, provider: IdentityProvider
) -> None:
    left = browser.get("/login/oidc")
    arrived = urlsplit(provider.sign_in(left.headers["location"]))
    back = f"{arrived.path}?{arrived.query}"
    victim = Browser(browser._service)
    assert victim.get(back).status_code == 403
    victim.get("/login/oidc")
    assert victim.get(back).status_code == 403  # with an attempt of its own
    victim.cookies.set("setwise-away", "e30.forged")
    assert victim.get(back).status_code == 403
    assert browser.get(back).status_code == 303
    assert browser.get(back).status_code == 403  # a code is good once
    assert browser.get(f"{arrived.path}?error=access_denied").status_code == 403


def test_the_verifier_never_travels_through_the_provider(
    browser: Browser, provider: IdentityProvider
) -> None:
    left = browser.get("/login/oidc")
    asked = parse_qs(urlsplit(left.headers["location"]).query)
    assert "code_verifier" not in asked
    kept = left.headers["set-cookie"]
    assert "HttpOnly" in kept
    assert asked["nonce"][0] not in left.headers["location"].partition("nonce=")[0]


def test_a_provider_that_fails_is_told_as_such(
    browser: Browser, provider: IdentityProvider
) -> None:
    provider.broken = True
    assert browser.get("/login/oidc").status_code == 503
    provider.broken = False
    assert come_in(browser, provider).status_code == 303


def test_the_way_back_never_leads_elsewhere(browser: Browser, provider: IdentityProvider) -> None:
    response = come_in(browser, provider, back="//evil.example")
    assert response.headers["location"] == "/"


@pytest.mark.parametrize("written", ["coders", "coders=king", "=lead", "coders=client"])
def test_roles_that_make_no_sense_are_refused(written: str) -> None:
    with pytest.raises(ValueError, match="GROUP=ROLE"):
        read_roles(written)
