"""Annotators and groups over HTTP."""

from typing import Any

import pytest

from setwise.service.domain.accounts.callers import Caller, Role
from setwise.service.domain.annotators import PersonalFigures
from setwise.service.settings import Settings
from tests.browsing import Browser
from tests.kit.edge import Service, assert_problem, build_service

FIXED = {
    "mode": "fixed",
    "alpha": 0.2,
    "beta": 0.05,
    "with_suggestion": {"alpha": 0.05, "beta": 0.3},
}
SEEN_BADLY = {"with_suggestion": {"alpha": 0.7, "beta": 0.4}}


def _put(service: Service, path: str, body: Any, by: str = "admin", **headers: str) -> Any:
    named = {name.replace("_", "-"): value for name, value in headers.items()}
    return service.send("PUT", f"/v1/admin/{path}", by=by, json=body, headers=named)


def test_a_group_is_made_changed_and_read(service: Service) -> None:
    response = _put(service, "groups/coders", {"name": "Coders", "noise": FIXED})
    assert response.status_code == 200, response.text
    assert response.headers["etag"].startswith('"1.')
    body = response.json()
    assert body["noise"] == FIXED
    assert (body["usable"], body["estimate"], body["findings"]) == (True, None, [])
    assert service.get("/v1/admin/groups/coders", by="lead").json() == body
    changed_body = _put(service, "groups/coders", {"name": "All coders"}, If_Match='"1"').json()
    assert changed_body["noise"] == dict.fromkeys(FIXED) | {"mode": "estimated"}
    assert (changed_body["version"], changed_body["usable"]) == (2, False)
    assert [one["kind"] for one in changed_body["findings"]] == [
        "too-few-gold-right",
        "too-few-gold-wrong",
    ]
    items = service.get("/v1/admin/groups", by="auditor").json()["items"]
    assert [one["id"] for one in items] == ["coders", "default"]
    again = {name: changed_body[name] for name in ("name", "noise")}
    assert _put(service, "groups/coders", again).json()["noise"] == changed_body["noise"]


def test_somebody_is_put_into_a_group_from_the_next_answer_on(service: Service) -> None:
    who = service.person("ann", Role.REVIEWER)
    before = service.get(f"/v1/admin/annotators/{who}", by="lead")
    assert before.headers["etag"].startswith('"0.')
    assert (before.json()["group"], before.json()["name"]) == ("default", "Ann")
    _put(service, "groups/coders", {"name": "Coders"})
    after = _put(service, f"annotators/{who}", {"group": "coders"}, If_Match='"0"')
    assert after.status_code == 200, after.text
    assert (after.json()["group"], after.json()["version"]) == ("coders", 1)
    same = _put(service, f"annotators/{who}", {"group": "coders"}).json()
    assert same == after.json(), "nothing has changed"
    response = _put(service, f"annotators/{who}", {"group": "none"})
    assert_problem(response, 422, "invalid-request", "/group")
    items = service.get("/v1/admin/annotators", by="auditor").json()["items"]
    assert {one["name"]: one["group"] for one in items} == {
        "Ann": "coders",
        "admin": "default",
        "lead": "default",
        "reviewer": "default",
    }


def _decide(service: Service, by: str, seconds: float = 20) -> None:
    service.predict("0.5")
    task = service.post("/v1/reviews/claim", by=by).json()
    service.clock.advance(seconds=seconds)
    service.post(
        f"/v1/reviews/{task['id']}/complete",
        by=by,
        json={"labels": ["a", "b"]},
        headers={"If-Match": f'"{task["version"]}"'},
    )


def test_an_annotator_is_shown_with_what_they_did(service: Service) -> None:
    _decide(service, "reviewer")
    items = service.get("/v1/admin/annotators", by="lead").json()["items"]
    (shown,) = [one for one in items if one["name"] == "reviewer"]
    assert (shown["answers"], shown["blind_answers"]) == (1, 0)
    assert (shown["alpha"], shown["beta"]) == (None, None)
    assert shown["agreements"] == {"read_again": 0, "contradicted": 0, "rate": None}
    assert shown["pace"] == {"decisions": 1, "median_seconds": 20}
    service.clock.advance(days=3)
    for days, decisions in ((2, 0), (4, 1)):
        recent = service.get(f"/v1/admin/annotators/{shown['id']}?days={days}", by="lead").json()
        assert recent["pace"]["decisions"] == decisions
    response = service.get("/v1/admin/annotators?days=0", by="lead")
    assert_problem(response, 422, "invalid-request", "/query/days")


_FIGURES = ("answers", "blind_answers", "mean_seconds", "last_answer_at", "pace", "agreements")


@pytest.mark.parametrize(
    ("setting", "see"),
    [
        ("leads", {"lead", "admin", "auditor"}),
        ("admins", {"admin", "auditor"}),
        ("self", set()),
    ],
)
def test_figures_of_a_person_are_shown_to_whom_the_setting_allows_and_to_them(
    setting: PersonalFigures, see: set[str]
) -> None:
    service = build_service(Settings(max_text_bytes=1_000, personal_figures=setting))
    _decide(service, "reviewer")
    _decide(service, "lead")
    for by in ("lead", "admin", "auditor"):
        items = service.get("/v1/admin/annotators", by=by).json()["items"]
        by_name = {one["name"]: one for one in items}
        assert service.get(f"/v1/admin/annotators/{by_name['lead']['id']}", by=by).json() in items
        seen = {
            name for name, one in by_name.items() if any(one[each] is not None for each in _FIGURES)
        }
        assert seen == ({"admin", "lead", "reviewer"} if by in see else {by} & set(by_name)), by
        assert service.get("/v1/admin/groups/default", by=by).json()["findings"]
    body = _put(service, f"annotators/{by_name['reviewer']['id']}", {"group": "default"}).json()
    assert (body["pace"] is not None) == ("admin" in see), "nor does a change tell them"
    ann = Caller(service.person("ann", Role.LEAD), "ann", Role.LEAD)
    service.services.annotators.own(ann)
    browser = Browser(service)
    browser.sign_in("ann")
    page = browser.get("/board/groups").text
    assert ("20 seconds (only 1 decision)" in page) == ("lead" in see)
    assert ("You may not see the figures of other people." in page) == ("lead" not in see)
    assert "in the last four weeks: no decisions." in browser.get("/recent").text


@pytest.mark.parametrize(
    ("path", "body", "pointers"),
    [
        ("groups/coders", {"name": " "}, ["/name"]),
        ("groups/Big%20Team", {"name": "x"}, ["/path/group_id"]),
        ("groups/x", {"name": "x", "noise": {"mode": "fixed", "alpha": 0.1}}, ["/noise/beta"]),
        ("groups/x", {"name": "x", "noise": {**FIXED, "alpha": 0.95}}, ["/noise/alpha"]),
        ("groups/x", {"name": "x", "noise": {**FIXED, "beta": -0.1}}, ["/noise/beta"]),
        (
            "groups/x",
            {"name": "x", "noise": {**FIXED, **SEEN_BADLY}},
            ["/noise/with_suggestion/alpha"],
        ),
        ("groups/x", {"name": "x", "noise": {**FIXED, "alpha": 1.0}}, ["/noise/alpha"]),
        (
            "groups/x",
            {"name": "x", "noise": {**FIXED, "mode": "estimated"}},
            ["/noise/alpha", "/noise/beta"],
        ),
        ("groups/x", {"name": "x", "colour": "red"}, ["/colour"]),
    ],
)
def test_a_group_that_cannot_be_is_refused_with_its_faults(
    service: Service, path: str, body: Any, pointers: list[str]
) -> None:
    assert_problem(_put(service, path, body), 422, "invalid-request", *pointers)
    assert service.get("/v1/admin/groups", by="lead").json()["limit"] == 1
