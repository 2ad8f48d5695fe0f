"""The start page: true numbers, honest words when there are none, and nothing foreign."""

import asyncio
import re
from collections.abc import Iterator
from dataclasses import replace
from html.parser import HTMLParser
from types import SimpleNamespace

import httpx
import pytest
from fastapi import FastAPI

from setwise.service.domain.accounts import Session, SignedIn
from setwise.service.domain.callers import SYSTEM, Caller, Permission, Role
from setwise.service.domain.errors import StorageUnavailable
from setwise.service.domain.policy import PolicyChange, ThresholdMode
from setwise.service.domain.predictions import Document, Reason
from setwise.service.pages.start import WHY, router
from setwise.service.services.documents.comments import Comments
from setwise.service.services.policy import Policies
from setwise.service.services.predictions import Predictions
from setwise.service.services.reviews import Reviews
from setwise.service.sign_in.sessions import SessionCookies
from tests import building
from tests.building import predict_one
from tests.fakes import LOTTERY, FakeClock, FakeIds, FakePredictors, FakeStore
from tests.samples import trip
from tests.sqlite import Database

CLIENT = Caller("client-1", "intake", Role.CLIENT)
REVIEWER = Caller("reviewer-1", "Ada", Role.REVIEWER)


class Service:
    """The services that fill the page, on a database in memory."""

    def __init__(self) -> None:
        self.begin, self.now, self.new_id = Database(), FakeClock(), FakeIds()
        self.visitor = REVIEWER
        self.services = SimpleNamespace(
            reports=building.reports(self.begin, self.now),
            policy=Policies(self.begin, self.now, self.new_id),
            models=building.models(
                self.begin, self.now, self.new_id, store=FakeStore(self.now, self.new_id)
            ),
            comments=Comments(self.begin, self.now, self.new_id),
            webhooks=building.webhooks(self.begin, self.now, self.new_id),
            keys=building.keys(self.begin, self.now, self.new_id),
            people=building.people(self.begin, self.now, self.new_id),
        )
        self.app = FastAPI(routes=router.routes)
        self.app.state.edge = SimpleNamespace(
            services=self.services, sessions=self.cookies(), now=self.now
        )

    def cookies(self) -> SessionCookies:
        """Return cookies of which each stands for the visitor."""
        session = Session("1", REVIEWER.id, bytes(32), self.now(), self.now(), self.now())
        return SessionCookies(
            lambda token, address: SignedIn(session, None, self.visitor),
            secret=b"s",
            public_url="",
            longest_s=60,
        )

    def set_threshold(self, threshold: float) -> None:
        change = PolicyChange(0.95, 0.1, True, ThresholdMode.FIXED, threshold)
        Policies(self.begin, self.now, self.new_id).change(SYSTEM, change, None)

    def add_model(self, *, activate: bool = True) -> None:
        model = self.services.models.add(SYSTEM, "folder")
        if activate:
            self.services.models.activate(SYSTEM, model.id)

    def predict(self, *texts: str) -> None:
        predictions = Predictions(FakePredictors(), self.begin, self.now, self.new_id, LOTTERY)
        for text in texts:
            predict_one(predictions, CLIENT, Document(text=text))

    @property
    def reviews(self) -> Reviews:
        return Reviews(self.begin, self.now, self.new_id, FakePredictors(), LOTTERY)

    def claim(self):
        return self.reviews.claim(REVIEWER)

    def complete(self, task) -> None:
        self.reviews.complete(REVIEWER, task.id, ["a"], None, task.version)

    def get(self, path: str = "/") -> httpx.Response:
        async def ask() -> httpx.Response:
            transport = httpx.ASGITransport(self.app)
            async with httpx.AsyncClient(transport=transport, base_url="http://page") as client:
                client.cookies.set("setwise-session", "token")
                return await client.get(path)

        return asyncio.run(ask())


@pytest.fixture
def service() -> Service:
    return Service()


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
    found = re.findall(
        r'class="name">([^<]+)</span>\s*<span class="number">([\d,]+)<', response.text
    )
    return {name: int(number.replace(",", "")) for name, number in found}


def test_an_empty_service_says_so_and_what_to_do_first(service: Service) -> None:
    service.visitor = Caller("admin-1", "Ada", Role.ADMIN)
    page = read(service.get()).text
    assert "No documents yet" in page
    assert "setwise train DATA --out model" in page
    assert "setwise model add model --activate" in page
    assert "setwise key create --role client" in page
    assert "No threshold is set yet: every document is reviewed." in page
    assert "none is active, so there are no predictions" in page
    assert tiles(service.get()) == {}


@pytest.mark.parametrize("role", [Role.REVIEWER, Role.LEAD, Role.AUDITOR])
def test_who_sets_nothing_up_is_shown_no_command_but_what_lacks(
    service: Service, role: Role
) -> None:
    service.visitor = Caller("1", "Ann", role)
    page = read(service.get())
    assert "No model is active yet; an administrator has to activate one." in page.text
    assert "No documents yet" in page.text
    assert "so every document is reviewed" in page.text
    assert "setwise " not in page.text
    assert not any("/board/policy" in (link["href"] or "") for link in page.all("a"))


@pytest.mark.parametrize("role", [Role.REVIEWER, Role.LEAD, Role.ADMIN, Role.AUDITOR])
def test_each_role_is_led_only_to_what_it_can_do(service: Service, role: Role) -> None:
    service.visitor = caller = Caller("1", "Ann", role)
    places = {link["href"] or "" for link in read(service.get()).all("a")}
    assert (caller.may(Permission.REVIEW)) == ("/desk" in places)
    assert (caller.may(Permission.REPORT)) == ("/cockpit/details#what-if" in places)
    assert (caller.may(Permission.ADMINISTER)) == ("/board/policy" in places)
    assert (caller.may(Permission.READ_AUDIT_TRAIL)) == ("/board/audit" in places)


def test_a_reviewer_learns_whether_something_waits(service: Service) -> None:
    service.add_model()
    assert "No documents are waiting." in read(service.get()).text
    service.predict("0.3")
    assert "press the number of the right set" in read(service.get()).text


def test_a_registered_model_that_does_not_serve_is_to_be_activated(service: Service) -> None:
    service.visitor = Caller("admin-1", "Ada", Role.ADMIN)
    service.add_model(activate=False)
    page = read(service.get()).text
    assert "setwise model activate ID" in page
    assert "setwise train" not in page


def test_counts_follow_what_is_predicted_and_reviewed(service: Service) -> None:
    service.add_model()
    service.set_threshold(0.8)
    service.predict("0.9", "0.85", "0.95", "0.3", "0.4", "unknown")
    held = service.claim()
    assert held is not None
    assert tiles(service.get()) == {
        "Sent automatically": 3,
        "To a reviewer": 3,
        "Waiting": 2,
        "Being reviewed": 1,
        "Reviewed": 0,
    }
    service.complete(held)
    response = service.get()
    assert tiles(response) == {
        "Sent automatically": 3,
        "To a reviewer": 3,
        "Waiting": 2,
        "Being reviewed": 0,
        "Reviewed": 1,
    }
    page = read(response).text
    assert "6 documents received" in page
    assert "50 % of the label sets were sent automatically; 2 reviews are waiting." in page
    assert f"{WHY[Reason.OUT_OF_DOMAIN].capitalize()} 1 17 %" in page


def test_the_bar_covers_exactly_the_documents(service: Service) -> None:
    service.set_threshold(0.8)
    service.predict("0.9", "0.3", "0.4")
    reader = read(service.get())
    widths = [int(rect["width"] or "") for rect in reader.all("rect")]
    starts = [int(rect["x"] or "") for rect in reader.all("rect")]
    assert sum(widths) == 3
    assert starts == [sum(widths[:place]) for place in range(len(widths))]


def test_one_document_is_written_in_the_singular(service: Service) -> None:
    service.predict("0.5")
    page = read(service.get()).text
    assert "1 document received" in page
    assert "1 review is waiting" in page


def test_a_threshold_set_by_hand_is_shown_as_not_certified(service: Service) -> None:
    service.set_threshold(0.9)
    assert "at least 0.9 (set by hand, not certified)" in read(service.get()).text


def test_switched_off_sending_is_said(service: Service) -> None:
    change = PolicyChange(0.95, 0.1, False, ThresholdMode.FIXED, 0.9)
    Policies(service.begin, service.now, service.new_id).change(SYSTEM, change, None)
    assert "Automatic sending is switched off" in read(service.get()).text


def test_a_tripped_breaker_is_said(service: Service) -> None:
    service.set_threshold(0.9)
    with service.begin() as transaction:
        stopped, policy = trip(), transaction.policies.current()
        transaction.breakers.add(stopped)
        transaction.policies.add(
            replace(policy, version=stopped.id, trip_id=stopped.id), replacing=policy.version
        )
    page = read(service.get()).text
    assert "The breaker has tripped: every document is reviewed." in page


def test_every_reason_has_its_words() -> None:
    assert WHY.keys() == set(Reason)


def test_nothing_inline_and_nothing_foreign_under_a_strict_policy(service: Service) -> None:
    service.predict("0.5")
    response = service.get()
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


def test_the_page_has_the_structure_that_screen_readers_follow(service: Service) -> None:
    service.predict("0.5")
    reader = read(service.get())
    assert next(reader.all("html"))["lang"] == "en"
    assert len(list(reader.all("h1"))) == len(list(reader.all("main"))) == 1
    assert all(image["alt"] is not None for image in reader.all("img"))
    assert all("scope" in cell for cell in reader.all("th"))
    ids = {attributes["id"] for _, attributes in reader.elements if "id" in attributes}
    labelled = [a["aria-labelledby"] for a in reader.all("section")]
    assert labelled
    assert ids.issuperset(labelled)
    assert any(link["href"] == "#main" for link in reader.all("a"))


def test_the_page_links_to_the_description_of_the_interface(service: Service) -> None:
    links = {link["href"] for link in read(service.get()).all("a")}
    assert links >= {"/docs", "/openapi.json"}


def test_assets_are_served_under_addresses_that_never_go_stale(service: Service) -> None:
    reader = read(service.get())
    addresses = {a["href"] for a in reader.all("link")} | {a["src"] for a in reader.all("img")}
    assert len(addresses) == 2
    for address in addresses:
        assert "?v=" in (address or "")
        response = service.get(address or "")
        assert response.status_code == 200
        assert "immutable" in response.headers["cache-control"]
        assert response.headers["content-type"].split(";")[0] in {"text/css", "image/svg+xml"}


@pytest.mark.parametrize("name", ["nothing.css", "..%2fpages.py", "%2e%2e%2fpages.py"])
def test_only_assets_are_served(service: Service, name: str) -> None:
    assert service.get(f"/static/{name}").status_code == 404


def test_a_database_that_does_not_answer_is_a_page_too(service: Service) -> None:
    def unavailable(_: Caller) -> None:
        raise StorageUnavailable("the disk is gone: /secret/path")

    service.services.reports = SimpleNamespace(summary=unavailable)
    response = service.get()
    assert response.status_code == 503
    assert "The database is not responding" in response.text
    assert "/secret/path" not in response.text


def test_a_fault_of_ours_is_a_page_that_says_whom_to_tell(service: Service) -> None:
    def broken(_: Caller) -> None:
        raise ZeroDivisionError("of a secret document")

    service.services.reports = SimpleNamespace(summary=broken)
    response = service.get()
    assert response.status_code == 500
    assert "Something went wrong" in response.text
    assert "logged as <code>" in response.text
    assert "secret" not in response.text
