"""A link invites a person, who sets a password with it, once."""

import re

import pytest

from setwise.service.domain import errors
from setwise.service.domain.accounts.callers import SYSTEM, Role
from setwise.service.stores.transaction import Transaction
from tests.browsing import Browser
from tests.kit.edge import Service, assert_problem

PASSWORD = "a sentence that only Cy knows"


def invite(service: Service) -> str:
    """Let an administrator invite Cy on the board; return the path of the link."""
    service.person("ada", Role.ADMIN)
    browser = Browser(service)
    browser.sign_in("ada")
    form = {
        "csrf": browser.token("/board/people"), "name": "Cy", "login": "cy", "role": "lead",
        "days": "7",
    }  # fmt: skip
    response = browser.submit("/board/people", form)
    assert response.status_code == 201, response.text
    match = re.search(r"http://test(/join\?secret=[\w-]+)", response.text)
    assert match is not None
    assert "invited" in browser.get("/board/people").text
    return match[1]


def answered(service: Service, path: str, new: str = PASSWORD, again: str = "") -> int:
    browser = Browser(service)
    token = re.search(r'name="csrf" value="([^"]+)"', browser.get(path).text)
    fields = {"csrf": token[1] if token else "", "new": new, "again": again or new}
    secret = path.partition("=")[2]
    return browser.submit("/join", fields | {"secret": secret}).status_code


def test_a_link_sets_a_password_once_and_signs_in(service: Service) -> None:
    path = invite(service)
    browser = Browser(service)
    text = browser.get(path).text
    assert "Welcome, Cy" in text
    assert answered(service, path, "short") == 422
    assert answered(service, path, again="another one altogether") == 422
    secret = path.partition("=")[2]
    fields = {
        "csrf": browser.token(path), "secret": secret, "new": PASSWORD, "again": PASSWORD,
    }  # fmt: skip
    response = browser.submit("/join", fields)
    assert (response.status_code, response.headers["location"]) == (303, "/")
    assert "lead" in browser.get("/account").text
    assert Browser(service).sign_in("cy", PASSWORD).status_code == 303
    assert "Ask for a new one" in browser.get(path).text
    assert browser.submit("/join", fields).status_code == 404
    events = service.database.contents.events.values()
    actions = [event.action for event in events if event.action.startswith("person.")]
    assert actions[-3:] == ["person.created", "person.invited", "person.joined"]
    assert all(secret not in str(event) for event in events)


def test_a_link_ends_when_it_expires_is_replaced_or_the_account_is_disabled(
    service: Service,
) -> None:
    people, sessions = service.services.people, service.services.sessions
    cy = people.create(SYSTEM, login="cy", name="Cy", role=Role.LEAD, password=None).id
    assert Browser(service).sign_in("cy", PASSWORD).status_code == 403
    _, replaced = people.invite(SYSTEM, cy, 1)
    _, secret = people.invite(SYSTEM, cy, 1)
    assert sessions.invited(secret).id == cy
    people.change(SYSTEM, cy, disabled=True)
    for over in (replaced, secret):
        with pytest.raises(errors.InvitationOver):
            sessions.accept(over, PASSWORD)
    people.change(SYSTEM, cy, disabled=False)  # which invites nobody again
    with pytest.raises(errors.InvitationOver):
        sessions.accept(secret, PASSWORD)
    _, secret = people.invite(SYSTEM, cy, 1)
    service.clock.advance(days=1)
    with pytest.raises(errors.InvitationOver):
        sessions.accept(secret, PASSWORD)
    _, secret = people.invite(SYSTEM, cy, 1)
    people.change(SYSTEM, cy, password=PASSWORD)
    with pytest.raises(errors.InvitationOver):
        sessions.invited(secret)


def test_an_account_is_never_stored_without_its_invitation(
    service: Service, monkeypatch: pytest.MonkeyPatch
) -> None:
    invited, commit = [], Transaction.commit

    def commit_and_look(transaction: Transaction) -> None:
        commit(transaction)
        people = service.database.contents.people.values()
        invited.extend(one.invited_until is not None for one in people if one.login == "cy")

    monkeypatch.setattr(Transaction, "commit", commit_and_look)
    invite(service)
    assert all(invited)


def test_a_program_invites_a_person(service: Service) -> None:
    person = {"login": "cy", "name": "Cy", "role": "reviewer"}
    body = service.post("/v1/admin/people", by="admin", json=person).json()
    path = f"/v1/admin/people/{body['id']}/invite"
    assert_problem(
        service.post(path, by="admin", json={"days": 31}), 422, "invalid-request", "/days"
    )
    invited_body = service.post(path, by="admin", json={}).json()
    assert invited_body["person"]["invited_until"] is not None
    assert answered(service, invited_body["path"]) == 303
    (found,) = service.get("/v1/admin/people", by="admin").json()["items"]
    assert found["invited_until"] is None
