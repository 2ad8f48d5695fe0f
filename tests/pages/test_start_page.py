"""The start page: true numbers, honest words when there are none, and nothing foreign."""

import re
from collections.abc import Iterator
from html.parser import HTMLParser

import httpx
import pytest

from setwise.service.domain.accounts.callers import PERMISSIONS, SYSTEM, Caller, Permission, Role
from setwise.service.domain.errors import StorageUnavailable
from setwise.service.domain.policy import PolicyChange, ThresholdMode
from setwise.service.domain.predictions import Reason
from setwise.service.pages.start import WHY
from setwise.service.services.reports import Reports
from tests.browsing import Browser
from tests.kit.edge import Service
from tests.samples import trip_breaker


@pytest.fixture
def browser(service: Service) -> Browser:
    return signed_in(service, Role.REVIEWER)


def signed_in(service: Service, role: Role) -> Browser:
    service.person("ann", role)
    browser = Browser(service)
    browser.sign_in()
    return browser


def add_model(service: Service, *, activate: bool = True) -> None:
    model = service.services.models.add(SYSTEM, "folder")
    if activate:
        service.services.models.activate(SYSTEM, model.id)


def predict(service: Service, *texts: str) -> None:
    for text in texts:
        assert service.predict(text).status_code == 201


def test_a_lead_is_told_how_many_documents_only_leads_decide(service: Service) -> None:
    predict(service, "0.5")
    for name in ("rita", "rob"):
        reviewer = Caller(service.person(name, Role.REVIEWER), name, Role.REVIEWER)
        task = service.services.queue.claim(reviewer)
        assert task is not None
        service.services.queue.skip(reviewer, task.id, "a page is missing")
    assert "; 1 needs a lead." in read(signed_in(service, Role.LEAD).get("/")).text
    rita = Browser(service)
    rita.sign_in("rita")
    assert "needs a lead" not in read(rita.get("/")).text


class _Reader(HTMLParser):
    """Collects the visible text and the elements of a page."""

    def __init__(self, page: str) -> None:
        super().__init__()
        self.elements: list[tuple[str, dict[str, str | None]]] = []
        self.words: list[str] = []
        self.feed(page)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.elements.append((tag, dict(attrs)))

    def handle_data(self, data: str) -> None:
        self.words.append(data)

    @property
    def text(self) -> str:
        return " ".join(" ".join(self.words).split())

    def all(self, tag: str) -> Iterator[dict[str, str | None]]:
        return (attributes for name, attributes in self.elements if name == tag)


def read(response: httpx.Response) -> _Reader:
    assert response.status_code == 200
    assert response.headers["content-type"] == "text/html; charset=utf-8"
    return _Reader(response.text)


def tiles(response: httpx.Response) -> dict[str, int]:
    matches = re.findall(
        r'class="name">([^<]+)</span>\s*<span class="number">([\d,]+)<', response.text
    )
    return {name: int(number.replace(",", "")) for name, number in matches}


def test_an_empty_service_says_so_and_what_to_do_first(service: Service) -> None:
    browser = signed_in(service, Role.ADMIN)
    page = read(browser.get("/")).text
    assert "No documents yet" in page
    assert "setwise train DATA --out model" in page
    assert "setwise model add model --activate" in page
    assert "setwise key create --role client" in page
    assert "No threshold is set yet: every document is reviewed." in page
    assert "Add labels and texts, and invite people to read them." in page
    assert "none yet, so people read every document" in page
    assert tiles(browser.get("/")) == {}


@pytest.mark.parametrize("role", [Role.REVIEWER, Role.LEAD, Role.AUDITOR])
def test_who_sets_nothing_up_is_shown_no_command_but_what_lacks(
    service: Service, role: Role
) -> None:
    browser = signed_in(service, role)
    page = read(browser.get("/"))
    assert "There is no model yet, so people read every document." in page.text
    assert "No documents yet" in page.text
    assert "so every document is reviewed" in page.text
    assert "setwise " not in page.text
    assert not any("/board/policy" in (link["href"] or "") for link in page.all("a"))


@pytest.mark.parametrize("role", [Role.REVIEWER, Role.LEAD, Role.ADMIN, Role.AUDITOR])
def test_each_role_is_led_only_to_what_it_can_do(service: Service, role: Role) -> None:
    browser = signed_in(service, role)
    places = {link["href"] or "" for link in read(browser.get("/")).all("a")}
    assert (Permission.REVIEW in PERMISSIONS[role]) == ("/desk" in places)
    assert (Permission.REPORT in PERMISSIONS[role]) == ("/cockpit/details#what-if" in places)
    assert (Permission.ADMINISTER in PERMISSIONS[role]) == ("/board/policy" in places)
    assert (Permission.READ_AUDIT_TRAIL in PERMISSIONS[role]) == ("/board/audit" in places)


def test_a_reviewer_learns_whether_something_waits(service: Service, browser: Browser) -> None:
    add_model(service)
    assert "No documents are waiting." in read(browser.get("/")).text
    predict(service, "0.3")
    assert "press the number of the right set" in read(browser.get("/")).text


def test_a_registered_model_that_does_not_serve_is_to_be_activated(service: Service) -> None:
    browser = signed_in(service, Role.ADMIN)
    add_model(service, activate=False)
    page = read(browser.get("/")).text
    assert "setwise model activate ID" in page
    assert "setwise train" not in page


def test_counts_follow_what_is_predicted_and_reviewed(service: Service, browser: Browser) -> None:
    add_model(service)
    service.fix_threshold(0.8)
    predict(service, "0.9", "0.85", "0.95", "0.3", "0.4", "unknown")
    reviews = service.services.reviews
    reviewer = service.services.keys.authenticate(service.secrets["reviewer"])
    task = reviews.queue.claim(reviewer)
    assert task is not None
    assert tiles(browser.get("/")) == {
        "Sent automatically": 3,
        "To a reviewer": 3,
        "Waiting": 2,
        "Being reviewed": 1,
        "Reviewed": 0,
    }
    reviews.complete(reviewer, task.id, ["a"], None, task.version)
    response = browser.get("/")
    assert tiles(response) == {
        "Sent automatically": 3,
        "To a reviewer": 3,
        "Waiting": 2,
        "Being reviewed": 0,
        "Reviewed": 1,
    }
    page = read(response).text
    assert "6 documents received" in page
    assert "Since the first one, 50 % of the label sets were sent automatically; 2 reviews" in page
    assert f"{WHY[Reason.OUT_OF_DOMAIN].capitalize()} 1 17 %" in page


def test_owners_read_first_what_sending_spared_them(service: Service) -> None:
    add_model(service)
    service.fix_threshold(0.8)
    predict(service, "0.9", "0.3")
    browser = signed_in(service, Role.LEAD)
    assert (
        "In the last seven days 50 % went out unread; audits will tell how many of them are "
        "right; people read nothing."
    ) in read(browser.get("/")).text
    reviews = service.services.reviews
    reviewer = service.services.keys.authenticate(service.secrets["reviewer"])
    task = reviews.queue.claim(reviewer)
    assert task is not None
    service.clock.advance(minutes=3)
    reviews.complete(reviewer, task.id, ["a"], None, task.version)
    assert "people read for 3 minutes instead of 6 minutes." in read(browser.get("/")).text


def test_the_bar_covers_exactly_the_documents(service: Service, browser: Browser) -> None:
    service.fix_threshold(0.8)
    predict(service, "0.9", "0.3", "0.4")
    reader = read(browser.get("/"))
    widths = [int(rect["width"] or "") for rect in reader.all("rect")]
    starts = [int(rect["x"] or "") for rect in reader.all("rect")]
    assert sum(widths) == 3
    assert starts == [sum(widths[:place]) for place in range(len(widths))]


def test_one_document_is_written_in_the_singular(service: Service, browser: Browser) -> None:
    predict(service, "0.5")
    page = read(browser.get("/")).text
    assert "1 document received" in page
    assert "1 review is waiting" in page


def test_a_threshold_set_by_hand_is_shown_as_not_certified(
    service: Service, browser: Browser
) -> None:
    service.fix_threshold(0.9)
    assert "at least 0.9 (set by hand, not certified)" in read(browser.get("/")).text


def test_switched_off_sending_is_said(service: Service, browser: Browser) -> None:
    change = PolicyChange(0.95, 0.1, False, ThresholdMode.FIXED, 0.9)
    service.services.policy.change(SYSTEM, change, None)
    assert "Automatic sending is switched off" in read(browser.get("/")).text


def test_a_tripped_breaker_is_said(service: Service, browser: Browser) -> None:
    service.fix_threshold(0.9)
    with service.database() as transaction:
        trip_breaker(transaction)
    page = read(browser.get("/")).text
    assert "The breaker has tripped: every document is reviewed." in page


def test_every_reason_has_its_words() -> None:
    assert WHY.keys() == set(Reason)


def test_nothing_inline_and_nothing_foreign_under_a_strict_policy(
    service: Service, browser: Browser
) -> None:
    predict(service, "0.5")
    response = browser.get("/")
    directives = dict(
        part.strip().partition(" ")[::2]
        for part in response.headers["content-security-policy"].split(";")
    )
    assert directives["default-src"] == "'none'"
    assert directives["style-src"] == "'self'"
    assert directives["frame-ancestors"] == "'none'"
    assert "unsafe" not in response.headers["content-security-policy"]
    assert response.headers["cache-control"] == "no-store"
    assert response.headers["x-content-type-options"] == "nosniff"
    reader = _Reader(response.text)
    for script in reader.all("script"):
        assert (script["src"] or "").startswith("/static/")
    assert not list(reader.all("style"))
    for _, attributes in reader.elements:
        assert "style" not in attributes
        assert not any(name.startswith("on") for name in attributes)
        for name in ("href", "src"):
            address = attributes.get(name) or "/"
            assert address.startswith(("/", "#"))
            assert not address.startswith("//")


def test_the_page_has_the_structure_that_screen_readers_follow(
    service: Service, browser: Browser
) -> None:
    predict(service, "0.5")
    reader = read(browser.get("/"))
    assert next(reader.all("html"))["lang"] == "en"
    assert len(list(reader.all("h1"))) == len(list(reader.all("main"))) == 1
    assert all(image["alt"] is not None for image in reader.all("img"))
    assert all("scope" in cell for cell in reader.all("th"))
    ids = {attributes["id"] for _, attributes in reader.elements if "id" in attributes}
    labelled = [a["aria-labelledby"] for a in reader.all("section")]
    assert labelled
    assert ids.issuperset(labelled)
    assert any(link["href"] == "#main" for link in reader.all("a"))


def test_the_page_links_to_the_description_of_the_interface(browser: Browser) -> None:
    links = {link["href"] for link in read(browser.get("/")).all("a")}
    assert links >= {"/docs", "/openapi.json"}


def test_assets_are_served_under_addresses_that_never_go_stale(browser: Browser) -> None:
    reader = read(browser.get("/"))
    addresses = {a["href"] for a in reader.all("link")} | {a["src"] for a in reader.all("img")}
    assert len(addresses) == 2
    for address in addresses:
        assert "?v=" in (address or "")
        response = browser.get(address or "")
        assert response.status_code == 200
        assert "immutable" in response.headers["cache-control"]
        assert response.headers["content-type"].split(";")[0] in {"text/css", "image/svg+xml"}


@pytest.mark.parametrize(
    "name",
    [
        "nothing.css",
        "desk",
        "desk/",
        "..%2fpages.py",
        "%2e%2e%2fpages.py",
        "desk/../../pages.py",
        "desk/..%2fdesk.js",
    ],
)
def test_only_assets_are_served(browser: Browser, name: str) -> None:
    assert browser.get(f"/static/{name}").status_code == 404


def test_a_database_that_does_not_answer_is_a_page_too(
    browser: Browser, monkeypatch: pytest.MonkeyPatch
) -> None:
    def unavailable(*_: object) -> None:
        raise StorageUnavailable("the disk is gone: /secret/path")

    monkeypatch.setattr(Reports, "summary", unavailable)
    response = browser.get("/")
    assert response.status_code == 503
    assert "The database is not responding" in response.text
    assert "/secret/path" not in response.text


def test_a_fault_of_ours_is_a_page_that_says_whom_to_tell(
    browser: Browser, monkeypatch: pytest.MonkeyPatch
) -> None:
    def broken(*_: object) -> None:
        raise ZeroDivisionError("of a secret document")

    monkeypatch.setattr(Reports, "summary", broken)
    response = browser.get("/")
    assert response.status_code == 500
    assert "Something went wrong" in response.text
    assert "logged as <code>" in response.text
    assert "secret" not in response.text


@pytest.mark.parametrize(
    ("role", "words"),
    [
        (Role.ADMIN, ("The active model, 0193, cannot be loaded.", "setwise doctor")),
        (Role.LEAD, ("The active model does not serve right now",)),
    ],
)
def test_an_active_model_that_does_not_serve_is_named_with_the_cure(
    service: Service, role: Role, words: tuple[str, ...]
) -> None:
    add_model(service)
    service.faults["model"] = "The active model, 0193, cannot be loaded."
    page = read(signed_in(service, role).get("/")).text
    assert all(text in page for text in words)
    assert "No model is active" not in page
