"""Webhooks on the board: a webhook that refuses messages looks like one."""

from setwise.service.domain.accounts.callers import SYSTEM, Role
from setwise.service.domain.webhooks import EndpointChange, ReceiverResponse
from tests.browsing import Browser
from tests.fakes import START
from tests.kit.edge import Service


def signed_in(service: Service, login: str) -> Browser:
    browser = Browser(service)
    browser.sign_in(login)
    return browser


def test_the_first_failure_is_on_the_board_and_on_the_start_page(service: Service) -> None:
    service.person("ann", Role.ADMIN)
    browser = signed_in(service, "ann")
    hooks = service.services.webhooks
    hook, _ = hooks.add(SYSTEM, EndpointChange("https://b.example/"))
    service.fix_threshold(0.5)
    service.predict("0.9")
    hooks.route()
    (parcel,) = hooks.claim({}, otherwise=9)
    for page in ("/board/webhooks", "/"):
        assert "failed and is retried" not in browser.get(page).text
    hooks.record([(parcel.delivery, ReceiverResponse(START, 0.1, 500))])
    text = "1 message failed and is retried"
    for page in ("/board/webhooks", f"/board/webhooks/{hook.id}", "/board", "/"):
        assert text in browser.get(page).text, page
    service.person("lea", Role.LEAD)
    assert text not in signed_in(service, "lea").get("/").text, "nothing that leads may not see"
    assert "1, 1 of them failing." in browser.get("/board").text
