"""A form takes effect wholly or not at all, whichever of its commits fails."""

import re
from collections.abc import Callable
from html.parser import HTMLParser
from typing import NamedTuple

import httpx
import pytest

from setwise.service.domain.accounts.callers import SYSTEM, Role
from setwise.service.domain.routing.audits import AuditPlan
from setwise.service.pages import desk as desk_pages
from setwise.service.pages.board.sections import PAGES
from setwise.service.pages.documents import document, listing, recent
from tests.api.test_idempotency import added_hook, queued_job, stored_models, tried_delivery, trip
from tests.api.test_one_transaction import failing_commit
from tests.kit.edge import PASSWORD, Service
from tests.kit.loop import settle_all
from tests.pages.test_desk import Desk
from tests.samples import ADMIN, ANN, LEAD, change

PERSON = {"login": "cy", "name": "Cy", "role": "lead", "days": "7", "password": ""}


class Sending(NamedTuple):
    """Something to send, and how it is answered if it has taken effect."""

    path: str
    fields: dict[str, str]
    page: str = ""
    """Where its form stands, whose other inputs are sent as they are."""
    script: bool = False
    """Whether the desk's script sends it."""


class Forms(HTMLParser):
    """The inputs of a page's forms, by the address that each is sent to."""

    def __init__(self, page: str) -> None:
        super().__init__()
        self.inputs: dict[str, dict[str, str]] = {}
        self._here: dict[str, str] = {}
        self._choice = ""
        self.feed(page)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        given = dict(attrs)
        name = given.get("name") or ""
        ticked = given.get("type") not in {"checkbox", "radio"} or "checked" in given
        if tag == "form":
            self._here = self.inputs.setdefault(given.get("action") or "", {})
        elif tag == "select":
            self._choice = name
        elif tag == "option" and (self._choice not in self._here or "selected" in given):
            self._here[self._choice] = given.get("value") or ""
        elif tag in {"input", "textarea"} and name and ticked and given.get("type") != "file":
            self._here[name] = given.get("value") or ""


def _model(path: str, place: int = 0, page: str = "", **fields: str) -> Callable[..., Sending]:
    def make(service: Service, _: Desk) -> Sending:
        id_ = stored_models(service)[place]
        return Sending(f"/board/{path}".format(id_), fields, page.format(id_))

    return make


def _person(verb: str = "", **fields: str) -> Callable[..., Sending]:
    def make(service: Service, _: Desk) -> Sending:
        here = f"/board/people/{service.person('cy', Role.LEAD)}"
        return Sending(here + verb, fields, here)

    return make


def _hook(verb: str = "", **fields: str) -> Callable[..., Sending]:
    def make(service: Service, _: Desk) -> Sending:
        here = f"/board/webhooks/{added_hook(service).rpartition('/')[2]}"
        return Sending(here + verb, fields, here)

    return make


def _disabled(service: Service, desk: Desk) -> Sending:
    sending = _person("/enable")(service, desk)
    desk.submit(sending.path.replace("enable", "disable"), {"csrf": desk.csrf})
    return sending


def _retried(service: Service, desk: Desk) -> Sending:
    here = f"/board/jobs/{queued_job(service)}"
    desk.submit(f"{here}/cancel", {"csrf": desk.csrf})
    return Sending(f"{here}/retry", {})


def _tripped(service: Service, _: Desk) -> Sending:
    trip(service)
    return Sending("/board/breaker/reset", {})


def _recalibrated(service: Service, desk: Desk) -> Sending:
    id_ = stored_models(service)[2]
    desk.submit(f"/board/calibrators/{id_}/activate", {"csrf": desk.csrf})
    return Sending("/board/calibrators/rollback?leaving=sha256:learnt", {})


def _labels(service: Service, desk: Desk) -> Sending:
    desk.submit("/board/labels", {"csrf": desk.csrf, "text": "label,name\na,Asthma\n"})
    return Sending("/board/labels/remove", {})


def _label(verb: str, **fields: str) -> Callable[..., Sending]:
    def make(service: Service, _: Desk) -> Sending:
        service.services.labels.propose(ADMIN, "zzz", insist=True)
        page = "/label?label" if verb.startswith("label/") else "?query"
        return Sending(f"/board/labels/{verb}", fields, f"/board/labels{page}=zzz")

    return make


def _certified(service: Service, _: Desk) -> Sending:
    audits = AuditPlan(certification_rate=1.0, gold_reread_rate=1.0)
    service.services.policy.change(ADMIN, change(audits=audits), None)
    for place in range(12):
        service.predict(f"0.9{place:02}")
    for who in (ANN, LEAD):
        settle_all(service.services.reviews, who, lambda _: ["a", "b"])
    return Sending("/board/certifications/now", {})


def _task(verb: str, **body: object) -> Callable[..., Sending]:
    def make(service: Service, desk: Desk) -> Sending:
        service.predict("0.41")
        item = desk.next()
        if verb == "undo":
            desk.decide(item, "a")
        versioned_body = {"version": item["version"]} if verb == "decide" else {}
        return Sending(f"/tasks/{item['id']}/{verb}", {**body, **versioned_body}, script=True)

    return make


def _expired(service: Service, desk: Desk) -> Sending:
    sending = _task("take-back")(service, desk)
    service.clock.advance(hours=1)
    service.services.queue.expire_leases()
    return sending


def _on_desk(service: Service, desk: Desk) -> Sending:
    service.predict("0.41")
    item = desk.next()
    fields = {"task": item["id"], "version": str(item["version"]), "chosen": "0"}
    return Sending("/desk/submit", fields)


def _answered(service: Service, desk: Desk) -> Sending:
    service.predict("0.41")
    item = desk.next()
    desk.decide(item, "a")
    service.services.reviews.submit_decisions_of(desk.id)
    (prediction,) = service.database.contents.predictions
    fields = {"labels": "b", "reason": "page two"}
    return Sending(f"/recent/{prediction}", fields)


def _about(verb: str, **fields: str) -> Callable[..., Sending]:
    def make(service: Service, _: Desk) -> Sending:
        service.fix_threshold(0.8)
        return Sending(f"/documents/{service.predict('0.9').json()['id']}/{verb}", fields)

    return make


def _predicted(path: str, *, script: bool = False) -> Callable[..., Sending]:
    def make(service: Service, _: Desk) -> Sending:
        service.predict("0.41")
        return Sending(path, {}, script=script)

    return make


def _ticked(service: Service, _: Desk) -> Sending:
    return Sending("/documents", {"act": "prioritize", "id": service.predict("0.4").json()["id"]})


def _rotated(service: Service, verb: str) -> Sending:
    return Sending(f"/board/keys/{service.key('old', Role.CLIENT)}/{verb}", {})


BOARD: dict[str, Callable[[Service, Desk], Sending]] = {
    "/board/policy": lambda service, _: Sending(
        "/board/policy",
        {"target_accuracy": "91", "version": service.services.policy.get(SYSTEM).version},
        "/board/policy",
    ),
    "/board/breaker/reset": _tripped,
    "/board/certifications/now": _certified,
    "/board/models/rollback": _model("models/rollback?leaving=sha256:two"),
    "/board/models/retrain": _model("models/retrain", page="/board/models"),
    "/board/models/{model_id}/activate": _model("models/{}/activate"),
    "/board/models/{model_id}/compare": _model(
        "models/{}/compare", page="/board/models/{}", documents="100"
    ),
    "/board/models/{model_id}/certify": _model(
        "models/{}/certify", page="/board/models/{}", untrained="yes"
    ),
    "/board/models/{model_id}/shadow": _model("models/{}/shadow"),
    "/board/labels": lambda *_: Sending("/board/labels", {"text": "label,name\na,Asthma\n"}),
    "/board/labels/remove": _labels,
    "/board/start/labels": lambda *_: Sending("/board/start/labels", {"typed": "asthma\n"}),
    "/board/labels/label/accept": _label("label/accept"),
    "/board/labels/label/retire": _label("label/retire"),
    "/board/labels/label/rename": _label("label/rename", name="yyy", sure="yes"),
    "/board/labels/label/merge": _label("label/merge", into="a", sure="yes"),
    "/board/labels/label/forget": _label("label/forget", sure="yes"),
    "/board/labels/accept": _label("accept"),
    "/board/labels/retire": _label("retire"),
    "/board/labels/rename": _label("rename", name="yyy", sure="yes"),
    "/board/labels/merge": _label("merge", into="a", sure="yes"),
    "/board/calibrators": _model("calibrators", page="/board/calibrators"),
    "/board/calibrators/rollback": _recalibrated,
    "/board/calibrators/{calibration_id}/activate": _model("calibrators/{}/activate", 2),
    "/board/jobs/{job_id}/cancel": lambda service, _: Sending(
        f"/board/jobs/{queued_job(service)}/cancel", {}
    ),
    "/board/jobs/{job_id}/retry": _retried,
    "/board/webhooks": lambda *_: Sending("/board/webhooks", {"url": "https://example.com/hook"}),
    "/board/webhooks/{webhook_id}": _hook(url="https://example.com/other", enabled="yes"),
    "/board/webhooks/{webhook_id}/test": _hook("/test"),
    "/board/webhooks/{webhook_id}/rotate": _hook("/rotate"),
    "/board/webhooks/{webhook_id}/delete": _hook("/delete"),
    "/board/webhooks/{webhook_id}/replay": _hook("/replay"),
    "/board/deliveries/{delivery_id}/replay": lambda service, _: Sending(
        tried_delivery(service).replace("/v1/admin", "/board"), {}
    ),
    "/board/keys": lambda *_: Sending("/board/keys", {"name": "new", "role": "client"}),
    "/board/keys/{key_id}/rotate": lambda service, _: _rotated(service, "rotate"),
    "/board/keys/{key_id}/revoke": lambda service, _: _rotated(service, "revoke"),
    "/board/people": lambda *_: Sending("/board/people", PERSON),
    "/board/people/{person_id}": _person(name="Cyd", role="reviewer"),
    "/board/people/{person_id}/invite": _person("/invite"),
    "/board/people/{person_id}/password": _person("/password", password=PASSWORD),
    "/board/people/{person_id}/disable": _person("/disable"),
    "/board/people/{person_id}/enable": _disabled,
    "/board/groups": lambda *_: Sending("/board/groups", {"name": "Trainees", "group": "new"}),
    "/board/groups/place": lambda service, _: Sending(
        "/board/groups/place",
        {"annotator": service.person("cy", Role.LEAD), "version": "0", "group": "default"},
    ),
    "/board/groups/{group_id}": lambda *_: Sending(
        "/board/groups/default", {"name": "All"}, "/board/groups/default"
    ),
}
"""A form that is accepted, for each action of the board that changes something."""

OTHERS: dict[str, Callable[[Service, Desk], Sending]] = {
    "/desk/next": _predicted("/next", script=True),
    "/desk/claim": _predicted("/desk/claim"),
    "/desk/submit": _on_desk,
    "/desk/tasks/{task_id}/heartbeat": _task("heartbeat"),
    "/desk/tasks/{task_id}/take-back": _expired,
    "/desk/tasks/{task_id}/release": _task("release"),
    "/desk/tasks/{task_id}/decide": _task("decide", labels=["a"]),
    "/desk/tasks/{task_id}/undo": _task("undo"),
    "/desk/tasks/{task_id}/skip": _task("skip", reason="page two is missing"),
    "/documents": _ticked,
    "/documents/{prediction_id}/reopen": _about("reopen", reason="page two"),
    "/documents/{prediction_id}/comments": _about("comments", text="Is the date right?"),
    "/recent/{prediction_id}": _answered,
}
"""The same for the desk and the documents."""

READS = {
    "/board/policy/preview",
    "/board/models/{model_id}/verify",
    "/desk/tasks/{task_id}/check",
    "/desk/tasks/{task_id}/explain",
    "/recent/{prediction_id}/comments",
}
"""These only read, or store by the same call as another form."""


def test_every_form_that_changes_something_stands_here() -> None:
    board = {action.address for page in PAGES for action in page.actions}
    others = {
        route.path
        for part in (desk_pages, document, listing, recent)
        for route in part.router.routes
        if "POST" in route.methods
    }
    assert board | others == {*BOARD, *OTHERS, *READS}


def sound_fields(desk: Desk, sending: Sending) -> dict[str, str]:
    """Return what a browser sends, with what the form's page has filled in."""
    fields = {"csrf": desk.csrf, **sending.fields}
    if sending.page:
        for address, inputs in Forms(desk.get(sending.page).text).inputs.items():
            fields = {**(inputs if address.startswith(sending.path) else {}), **fields}
    return fields


def _send(desk: Desk, sending: Sending, fields: dict[str, str]) -> httpx.Response:
    if sending.script:
        return desk.ask(sending.path, sending.fields)
    return desk.submit(sending.path, fields)


@pytest.mark.parametrize("name", {**BOARD, **OTHERS})
def test_whichever_commit_fails_nothing_has_changed(service: Service, name: str) -> None:
    desk = Desk(service, "ann", Role.ADMIN)
    sending = {**BOARD, **OTHERS}[name](service, desk)
    fields = sound_fields(desk, sending)
    service.clock.advance(seconds=30)
    desk.get("/account")
    before = repr(service.database.contents)
    for failing in range(1, 9):
        with failing_commit(failing):
            response = _send(desk, sending, fields)
        if response.status_code < 400:
            assert failing > 1, "it commits nothing"
            assert repr(service.database.contents) != before, "it changes nothing"
            return
        matches = re.findall(
            r"<p[^>]*(?:alert|fault)[^>]*>.*?</p>|<p>[^<]*</p>|commit[^<]*", response.text
        )
        assert response.status_code == 500, matches
        assert repr(service.database.contents) == before, f"commit {failing} was not the first"
    pytest.fail("the form is never accepted")
