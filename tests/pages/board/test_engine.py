"""What pages of the board share: addresses that hold ids."""

from urllib.parse import quote

import pytest

from setwise.service.domain.accounts.callers import Role
from setwise.service.pages.board.engine import Action, Call
from tests.browsing import Browser
from tests.kit.edge import Service

ODD = ["a?done=x", "a#b", "a b", "a%2Fb", "{b}", "a&b=c", "é", '"><b>']
"""Parts of an address that mean something else unless they are quoted."""


@pytest.mark.parametrize("name", [*ODD, "../keys", "a/b"])
def test_a_form_is_sent_to_the_address_of_its_id_whatever_the_id_holds(name: str) -> None:
    action = Action("/board/groups/{group_id}/change", lambda *_: None)
    call = Call(None, None, {"group_id": name}, {}, ())  # type: ignore[arg-type]  # ids alone
    quoted = quote(name, safe="")
    assert call.form(action).address == f"/board/groups/{quoted}/change"


@pytest.mark.parametrize("name", ODD)
def test_whoever_opens_the_address_of_a_form_comes_to_the_page_of_its_id(
    service: Service, name: str
) -> None:
    service.person("ann", Role.ADMIN)
    browser = Browser(service)
    browser.sign_in()
    address = f"/board/webhooks/{quote(name, safe='')}"
    response = browser.get(f"{address}/test")
    assert (response.status_code, response.headers["location"]) == (303, address)
    assert browser.get(address).status_code == 404
