"""Each page is open to the roles of the table, as the API is, and to nobody else."""

import pytest

from setwise.service.domain.accounts.callers import Role
from setwise.service.pages import cockpit
from setwise.service.pages.board.engine import BOARD
from setwise.service.pages.board.sections import PAGES, SETTINGS
from setwise.service.pages.documents import document, listing, recent, trial
from setwise.service.pages.rendering import PLACES
from tests.browsing import Browser
from tests.kit.edge import Service
from tests.rights import pages

UNKNOWN = "019b7a0b-0000-7000-9000-0000000000ff"
PEOPLE = [role for role in Role if role is not Role.CLIENT]


@pytest.mark.parametrize("role", PEOPLE)
def test_a_page_is_open_to_the_roles_of_the_table(service: Service, role: Role) -> None:
    service.person("ann", role)
    browser = Browser(service)
    browser.sign_in()
    differing = []
    for page, right in pages().items():
        address = page.replace("{form}", "csv")
        for part in [part for part in address.split("/") if part.startswith("{")]:
            address = address.replace(part, UNKNOWN)
        status = browser.get(address).status_code
        assert status in {200, 403, 404}
        if (status == 403) == right.opens(role):
            differing.append((page, status))
    assert not differing


@pytest.mark.parametrize("role", PEOPLE)
def test_links_lead_to_every_page_that_is_open_and_to_no_other(
    service: Service, role: Role
) -> None:
    service.person("ann", role)
    browser = Browser(service)
    browser.sign_in()
    start = browser.get("/").text
    for place in PLACES[1:]:
        assert (f'<a href="{place.address}">' in start) == pages()[place.address].opens(role)
    if pages()[BOARD].opens(role):
        text = browser.get(BOARD).text
        for page in [one for one in (*PAGES,) if one.name]:
            linked = f'<a href="{page.address}">{page.name}</a>' in text
            assert linked == pages()[page.address].opens(role)


def test_the_table_has_every_page() -> None:
    declared = {one.address for one in PAGES} | {SETTINGS}
    others = {
        route.path
        for part in (cockpit, listing, document, trial, recent)
        for route in part.router.routes
        if "GET" in route.methods and "{name}" not in route.path
    }
    assert set(pages()) == declared | others | {place.address for place in PLACES[1:]}
