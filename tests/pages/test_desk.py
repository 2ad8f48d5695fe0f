"""The review desk's routes: who gets in, what is told, and that nothing is sent twice."""

import json
import re
from dataclasses import replace
from datetime import timedelta
from typing import Any
from urllib.parse import urljoin

import httpx
import pytest

from setwise.service.domain.accounts.callers import SYSTEM, Caller, Role
from setwise.service.domain.policy import PolicyChange, ThresholdMode
from setwise.service.domain.predictions import Document
from setwise.service.domain.reviews import ReviewKind, ReviewState, ReviewTask
from setwise.service.pages.desk import WITHHELD
from tests.kit.edge import Service, assert_problem
from tests.pages.test_sign_in import Browser
from tests.samples import ANN, add_predictions, annotation, prediction, task

SCRIPT = {"Accept": "application/json", "Sec-Fetch-Dest": "empty", "Sec-Fetch-Site": "same-origin"}
WORDS = re.compile(r"audit|overlap|blind|gold|below_threshold|above_threshold", re.IGNORECASE)


class Desk(Browser):
    """A browser whose script talks to the desk."""

    def __init__(self, service: Service, login: str, role: Role) -> None:
        super().__init__(service)
        self.id = service.person(login, role)
        self.sign_in(login)
        self.csrf = re.search(r'name="csrf-token" content="([^"]+)"', self.get("/account").text)[1]

    def ask(
        self, path: str, body: object = None, *, csrf: str | None = None, **headers: str
    ) -> httpx.Response:
        token = self.csrf if csrf is None else csrf
        sent = {**SCRIPT, "X-CSRF-Token": token, "Content-Type": "application/json", **headers}
        return self.send("POST", f"/desk{path}", sent, content=json.dumps(body or {}))

    def look(self, path: str) -> httpx.Response:
        return self.send("GET", f"/desk{path}", SCRIPT)

    def next(self, *having: str) -> dict[str, Any]:
        answer = self.ask("/next", {"having": list(having)})
        assert answer.status_code == 200, answer.text
        return answer.json()

    def decide(self, item: dict[str, Any], *labels: str, **more: object) -> httpx.Response:
        body = {"labels": labels, "version": item["version"], **more}
        return self.ask(f"/tasks/{item['id']}/decide", body)

    def caller(self) -> Caller:
        return Caller(self.id, "Ann", Role.REVIEWER)


def fill(
    service: Service, kind: ReviewKind = ReviewKind.REVIEW, *, text: str = "fever, no cough"
) -> ReviewTask:
    new_task = replace(task(prediction(document=Document(id="note-17", text=text))), kind=kind)
    with service.database() as transaction:
        add_predictions(transaction, new_task.prediction)
        transaction.reviews.add(new_task)
    return new_task


def fill_adjudication(service: Service, *labels: str) -> ReviewTask:
    """Store an audit that Ann answered with ``labels``, and the lead's task that follows."""
    audit = fill(service, ReviewKind.AUDIT)
    new_task = replace(task(audit.prediction), kind=ReviewKind.ADJUDICATION)
    leased_task = audit.claimed(ANN.id, service.clock(), timedelta(minutes=15))
    with service.database() as transaction:
        transaction.reviews.save(leased_task)
    with service.database() as transaction:
        transaction.reviews.save(leased_task.completed(ANN.id, leased_task.version))
        given = annotation(audit, *labels)
        transaction.reviews.annotate(replace(given, kind=ReviewKind.AUDIT, settles=False))
        transaction.reviews.add(new_task)
    return new_task


def stored(service: Service, task_id: str) -> ReviewTask:
    return service.database.contents.reviews[task_id]


@pytest.fixture
def desk(service: Service) -> Desk:
    return Desk(service, "ann", Role.REVIEWER)


@pytest.mark.parametrize("role", [Role.REVIEWER, Role.LEAD, Role.ADMIN])
def test_whoever_may_review_has_a_desk_and_a_way_there(service: Service, role: Role) -> None:
    desk = Desk(service, "person", role)
    assert 'href="/desk">Review the next document</a>' in desk.get("/").text
    page = desk.get("/desk")
    assert page.status_code == 200
    assert 'aria-current="page">Review' in page.text


def test_others_are_kept_out_of_everything(service: Service) -> None:
    task = fill(service)
    desk = Desk(service, "otto", Role.AUDITOR)
    assert 'href="/desk"' not in desk.get("/").text
    assert desk.get("/desk").status_code == 403
    assert_problem(desk.look("/progress"), 403, "forbidden")
    bodies = {
        "/next": {},
        f"/tasks/{task.id}/heartbeat": {},
        f"/tasks/{task.id}/take-back": {},
        f"/tasks/{task.id}/release": {},
        f"/tasks/{task.id}/undo": {},
        f"/tasks/{task.id}/skip": {"reason": "hard"},
        f"/tasks/{task.id}/check": {"labels": []},
        f"/tasks/{task.id}/explain": {"labels": []},
        f"/tasks/{task.id}/decide": {"labels": [], "version": 1},
    }
    for path, body in bodies.items():
        assert_problem(desk.ask(path, body), 403, "forbidden")
    assert stored(service, task.id) == task


def test_without_a_text_the_desk_says_so_and_shows_the_answer_that_came(
    service: Service, desk: Desk
) -> None:
    answer = {"candidates": [{"labels": ["a"], "score": -0.5}]}
    document = Document(id="note-17", metadata={"site": "north"}, answer=answer)
    new_task = task(prediction(document=document))
    with service.database() as transaction:
        add_predictions(transaction, new_task.prediction)
        transaction.reviews.add(new_task)
    assert desk.next()["document"]["answer"] == answer
    plain = desk.get("/desk").text
    assert "came without its text" in plain
    assert "north" in plain
    shown = service.get(f"/v1/reviews/{new_task.id}", by="lead").json()["document"]
    assert (shown["text"], shown["candidates"]) == (None, answer["candidates"])


def test_what_no_page_of_ours_sent_is_refused(service: Service, desk: Desk) -> None:
    fill(service)
    assert_problem(desk.ask("/next", csrf="forged"), 403, "forged-request")
    assert_problem(desk.ask("/next", **{"Sec-Fetch-Site": "cross-site"}), 403, "forged-request")
    plain = desk.submit("/desk/claim", {"csrf": "forged"})
    assert plain.status_code == 403
    assert desk.next()["version"] == 2


def test_a_session_that_ended_is_told_to_scripts_and_leads_people_back(desk: Desk) -> None:
    desk.cookies.clear()
    assert_problem(desk.ask("/next"), 401, "unauthenticated")
    assert desk.get("/desk").headers["location"] == "/login?next=%2Fdesk"


def test_the_next_task_is_claimed_and_told_with_what_is_odd(service: Service, desk: Desk) -> None:
    rule = {"kind": "requires", "label": "b", "labels": ["c"], "name": "b needs c"}
    change = PolicyChange(0.95, 0.1, True, ThresholdMode.FIXED, 0.9, rules=[rule])
    service.services.policy.change(SYSTEM, change, None)
    task = fill(service)
    item = desk.next()
    assert (item["id"], item["version"], item["kind"]) == (task.id, 2, "review")
    assert item["document"]["text"] == "fever, no cough"
    assert item["why"] == "The model's confidence is below the threshold."
    assert [one["labels"] for one in item["candidates"]] == [["a", "b"], ["a"], []]
    assert item["candidates"][0]["warnings"] == ["Rule “b needs c”: b comes with c."]
    assert item["marginals"][0] == {"label": "a", "probability": 0.98}
    assert item["expires_in_s"] == 900
    for labels, warnings in ((["a", "c", "d"], []), (["b"], ["Rule “b needs c”: b comes with c."])):
        response = desk.ask(f"/tasks/{task.id}/check", {"labels": labels})
        assert response.json() == {"warnings": warnings}


def test_a_reload_gives_the_same_task_and_a_second_tab_another(
    service: Service, desk: Desk
) -> None:
    first, second = fill(service), fill(service)
    assert desk.next()["id"] == first.id
    assert desk.next()["id"] == first.id
    assert desk.next(first.id)["id"] == second.id
    assert desk.ask("/next", {"having": [first.id, second.id]}).status_code == 204


@pytest.mark.parametrize("kind", [ReviewKind.AUDIT, ReviewKind.OVERLAP])
def test_a_blind_task_looks_like_any_review_without_suggestions(
    service: Service, desk: Desk, kind: ReviewKind
) -> None:
    fill(service, kind)
    answer = desk.ask("/next")
    item = answer.json()
    assert item["kind"] == "review"
    assert [item[name] for name in ("why", "candidates", "marginals", "answers")] == [None] * 4
    told = {**item, "document": None}
    assert not WORDS.search(json.dumps(told))
    assert item["beyond"] == {}
    assert set(item) == {
        "beyond",
        "id",
        "version",
        "document",
        "kind",
        "why",
        "withheld",
        "urgency",
        "candidates",
        "marginals",
        "answers",
        "skips",
        "expires_in_s",
    }
    assert_problem(desk.ask(f"/tasks/{item['id']}/explain", {"labels": ["a"]}), 403, "forbidden")
    form = desk.get("/desk").text
    assert not WORDS.search(form)
    assert item["withheld"] == WITHHELD
    assert WITHHELD in form, "with a script and without one, whatever the reason"
    assert desk.decide(item, "a", "b").json() == {"version": 3, "undo_s": 60}


@pytest.mark.parametrize("kind", [ReviewKind.REVIEW, ReviewKind.AUDIT])
def test_the_desk_says_how_urgent_a_document_is_whatever_the_kind_of_its_review(
    service: Service, desk: Desk, kind: ReviewKind
) -> None:
    plain = fill(service, kind)
    due_at = service.clock() - timedelta(hours=1)
    document = Document(text="x", priority=2, due_at=due_at)
    urgent = replace(task(prediction(document=document)), kind=kind)
    with service.database() as transaction:
        add_predictions(transaction, urgent.prediction)
        transaction.reviews.add(urgent)
    first = desk.next()
    assert first["id"] == urgent.id
    assert first["urgency"] == "Urgent priority, overdue since 2 Jan 2026, 02:04 UTC"
    assert first["urgency"] in desk.get("/desk").text, "without a script"
    second = desk.next(urgent.id)
    assert (second["id"], second["urgency"]) == (plain.id, "")


def test_a_lead_sees_the_answers_of_an_adjudication(service: Service) -> None:
    fill_adjudication(service, "a")
    item = Desk(service, "lea", Role.LEAD).next()
    assert item["answers"] == [["a"], ["a", "b"]]
    assert item["why"] == "Two answers differ; yours decides."


def test_an_audit_that_agreed_is_read_again_like_an_audit(service: Service) -> None:
    fill_adjudication(service, "a", "b")
    item = Desk(service, "lea", Role.LEAD).next()
    assert item["kind"] == "review"
    assert [item[name] for name in ("why", "candidates", "marginals", "answers")] == [None] * 4


def test_without_a_script_a_lead_chooses_between_the_answers_alone(service: Service) -> None:
    task = fill_adjudication(service, "c", "d")
    desk = Desk(service, "lea", Role.LEAD)
    desk.submit("/desk/claim", {"csrf": desk.csrf})
    page = desk.get("/desk").text
    form = page.partition("<noscript>")[2].partition("</noscript>")[0]
    assert answers_in(form)[:2] == [["a", "b"], ["c", "d"]]
    assert "checked" not in form
    assert "% sure" not in form
    fields = dict(re.findall(r'<input type="hidden" name="(\w+)" value="([^"]+)"', form))
    desk.submit("/desk/submit", {**fields, "chosen": "1"})
    assert stored(service, task.id).decision.labels == ("c", "d")


def test_a_decision_sent_twice_is_one_and_may_be_taken_back(service: Service, desk: Desk) -> None:
    task = fill(service)
    item = desk.next()
    first = desk.decide(item, "a", comment="<b>sûr</b> 👍")
    assert first.json() == desk.decide(item, "a", comment="<b>sûr</b> 👍").json()
    assert_problem(desk.decide(item, "b"), 409, "review-already-decided")
    assert desk.look("/progress").json() == {"done": 1, "comments": 0}
    back = desk.ask(f"/tasks/{task.id}/undo").json()
    assert (back["id"], back["version"]) == (task.id, 4)
    assert desk.look("/progress").json() == {"done": 0, "comments": 0}
    assert_problem(desk.decide(item, "b"), 412, "stale-version")
    assert desk.decide(back, "b").status_code == 200
    service.clock.advance(seconds=61)
    assert_problem(desk.ask(f"/tasks/{task.id}/undo"), 409, "review-already-decided")
    assert service.services.reviews.submit_decisions() == 1
    assert stored(service, task.id).state is ReviewState.COMPLETED


def test_a_lost_lease_is_told(service: Service, desk: Desk) -> None:
    fill(service)
    item = desk.next()
    assert desk.ask(f"/tasks/{item['id']}/heartbeat").json() == {"version": 2, "expires_in_s": 900}
    service.clock.advance(minutes=16)
    other = Desk(service, "ben", Role.REVIEWER)
    assert other.next()["id"] == item["id"]
    assert_problem(desk.decide(item, "a"), 412, "stale-version")
    assert_problem(desk.ask(f"/tasks/{item['id']}/heartbeat"), 409, "lease-lost")
    assert_problem(desk.ask(f"/tasks/{item['id']}/check", {"labels": []}), 404, "review-not-found")


def test_a_task_that_went_back_to_the_queue_is_taken_back(service: Service, desk: Desk) -> None:
    fill(service)
    item = desk.next()
    path = f"/tasks/{item['id']}"
    service.clock.advance(minutes=16)
    response = desk.ask(f"{path}/take-back")
    assert response.json() == {"version": 2, "expires_in_s": 900}, "no job has ended the lease yet"
    service.clock.advance(minutes=16)
    assert service.services.queue.expire_leases() == 1
    assert_problem(desk.ask(f"{path}/heartbeat"), 409, "lease-lost")
    assert desk.ask(f"{path}/take-back").json() == {"version": 4, "expires_in_s": 900}
    assert desk.decide(item | {"version": 4}, "a").status_code == 200
    claims = [
        one for one in service.database.contents.events.values() if one.action == "review.claimed"
    ]
    assert [one.subject for one in claims] == [item["id"]] * 2


def test_what_others_have_is_not_taken_back(service: Service, desk: Desk) -> None:
    fill(service)
    item = desk.next()
    path = f"/tasks/{item['id']}/take-back"
    service.clock.advance(minutes=16)
    other = Desk(service, "ben", Role.REVIEWER)
    theirs = other.next()
    assert_problem(desk.ask(path), 409, "lease-lost")
    assert other.decide(theirs, "a").status_code == 200
    service.clock.advance(minutes=16)
    service.services.reviews.submit_decisions()
    assert_problem(desk.ask(path), 409, "review-already-decided")
    assert_problem(desk.ask("/tasks/nonsense/take-back"), 404, "review-not-found")


def test_a_task_is_skipped_with_a_reason_and_given_back(service: Service, desk: Desk) -> None:
    fill(service)
    item = desk.next()
    assert_problem(
        desk.ask(f"/tasks/{item['id']}/skip", {"reason": " "}), 422, "invalid-request", "/reason"
    )
    assert desk.ask(f"/tasks/{item['id']}/release").json() == {"undo_s": 60}
    again = desk.next()
    assert again["id"] == item["id"]
    assert desk.ask(f"/tasks/{item['id']}/skip", {"reason": "hard"}).json() == {"undo_s": 60}
    assert desk.ask("/next").status_code == 204
    assert desk.ask(f"/tasks/{item['id']}/undo").json()["id"] == item["id"]
    assert desk.next()["id"] == item["id"]


@pytest.mark.parametrize("kind", [ReviewKind.REVIEW, ReviewKind.AUDIT])
def test_a_lead_sees_who_skipped_a_document_and_why_and_reviewers_do_not(
    service: Service, desk: Desk, kind: ReviewKind
) -> None:
    task = fill(service, kind)
    for one, reason in (desk, "page <2> missing"), (Desk(service, "ben", Role.REVIEWER), "hard"):
        item = one.next()
        assert item["skips"] is None
        one.ask(f"/tasks/{task.id}/skip", {"reason": reason})
    lead = Desk(service, "lea", Role.LEAD)
    text = Desk(service, "otto", Role.ADMIN).get("/documents?state=skipped").text
    assert '<span class="sub">skipped: page &lt;2&gt; missing; skipped: hard</span>' in text
    item = lead.next()
    assert item["skips"] == ["Ann skipped it: page <2> missing", "Ben skipped it: hard"]
    assert item["why"] == (None if kind.blind else "Two reviewers skipped it; you decide.")
    assert "Ann skipped it: page &lt;2&gt; missing" in lead.get("/desk").text


def test_terms_are_told_on_demand(service: Service, desk: Desk) -> None:
    fill(service)
    item = desk.next()
    body = desk.ask(f"/tasks/{item['id']}/explain", {"labels": ["a"]}).json()
    assert body == {
        "terms": [[{"term": "fever,", "weight": 1.5}, {"term": "cough", "weight": -0.5}]]
    }


def test_labels_are_found_by_words_in_any_order(service: Service, desk: Desk) -> None:
    service.predictors.predictor.labels = ["R07 Chest pain", "R10 Pain, chest wall", "J18 Fever"]
    body = desk.look("/labels?query=pain%20chest").json()
    labels = [match["label"] for match in body["items"]]
    assert (labels, body["total"]) == (["R07 Chest pain", "R10 Pain, chest wall"], 2)
    assert desk.look("/labels?query=chest%20pain").json()["items"][0]["label"] == "R07 Chest pain"


@pytest.mark.parametrize(
    "body",
    [{"labels": ["a"]}, {"labels": "a", "version": 2}, {"labels": [], "version": 2, "kind": "x"}],
)
def test_a_malformed_decision_is_refused_with_its_place(
    service: Service, desk: Desk, body: dict[str, object]
) -> None:
    fill(service)
    item = desk.next()
    answer = desk.ask(f"/tasks/{item['id']}/decide", body)
    assert answer.status_code == 422
    assert answer.json()["errors"]


def test_the_page_runs_only_what_the_server_has_as_files(desk: Desk) -> None:
    page = desk.get("/desk").text
    assert not re.search(r"<script(?![^>]*\ssrc=)|\son\w+=|\sstyle=", page)
    scripts = re.findall(r'<script type="module" src="([^"]+)"', page)
    (script,) = [address for address in scripts if "/desk" in address]
    assert all(desk.get(address).status_code == 200 for address in scripts)
    module = desk.get(script)
    assert module.headers["content-type"].startswith("text/javascript")
    waiting, modules = [urljoin("/", script)], set[str]()
    while waiting:
        address = waiting.pop()
        for name in re.findall(r'from "([^"]+)"', desk.get(address).text):
            assert re.fullmatch(r"\.{1,2}/[\w/]+\.js\?v=[0-9a-f]{12}", name)  # below any prefix
            beside = urljoin(address, name)
            assert desk.get(beside).status_code == 200
            if beside not in modules:
                modules.add(beside)
                waiting.append(beside)
    assert len(modules) > len(re.findall(r'from "', module.text))


def answers_in(form: str) -> list[list[str]]:
    """Return the sets that a form without a script lets choose."""
    options = re.findall(r'<input type="radio" name="chosen" value="\d.*', form)
    return [re.findall(r'<span class="label" dir="auto">([^<]+)</span>', each) for each in options]


@pytest.mark.parametrize(
    "sent",
    [
        {"chosen": "-1", "labels": " \r\n"},
        {"labels": ""},
        {"chosen": "0", "labels": "c"},
        {"chosen": "-2", "labels": "c"},
        {"chosen": "7"},
    ],
    ids=["none written", "none chosen", "two answers", "none and some", "no such set"],
)
def test_without_a_script_a_form_that_says_no_answer_submits_nothing(
    service: Service, desk: Desk, sent: dict[str, str]
) -> None:
    task = fill(service)
    desk.submit("/desk/claim", {"csrf": desk.csrf})
    page = desk.get("/desk").text
    fields = dict(re.findall(r'<input type="hidden" name="(\w+)" value="([^"]+)"', page))
    answer = desk.submit("/desk/submit", {**fields, **sent, "comment": "half a thought"})
    assert answer.status_code == 422
    assert "Choose one answer" in answer.text
    assert ">half a thought</textarea>" in answer.text
    assert stored(service, task.id).decision is None
    if "labels" not in sent:
        return
    desk.submit("/desk/submit", {**fields, "chosen": "-2"})
    assert stored(service, task.id).decision.labels == ()


def test_without_a_script_a_document_is_submitted_with_a_form(service: Service, desk: Desk) -> None:
    first, second = fill(service, text="<script>alert(1)</script> & more"), fill(service)
    assert "You have no document open." in desk.get("/desk").text
    assert desk.submit("/desk/claim", {"csrf": desk.csrf}).headers["location"] == "/desk"
    page = desk.get("/desk").text
    assert "&lt;script&gt;alert(1)&lt;/script&gt; &amp; more" in page
    fields = dict(re.findall(r'<input type="hidden" name="(\w+)" value="([^"]+)"', page))
    assert fields["task"] == first.id
    response = desk.submit("/desk/submit", {**fields, "chosen": "1", "comment": " sure "})
    assert (response.status_code, response.headers["location"]) == (303, "/desk")
    decision = stored(service, first.id).decision
    assert decision is not None
    assert (decision.labels, decision.comment) == (("a",), "sure")
    assert desk.submit("/desk/submit", {**fields, "chosen": "1"}).status_code == 404
    assert f'value="{second.id}"' in desk.get("/desk").text
    page = desk.get("/desk").text
    fields = dict(re.findall(r'<input type="hidden" name="(\w+)" value="([^"]+)"', page))
    desk.submit("/desk/submit", {**fields, "chosen": "-1", "labels": "c\r\n\r\n d \r\n"})
    assert stored(service, second.id).decision.labels == ("c", "d")
