"""Faults that every call can meet, and the explanation of each kind."""

import json
import re
from typing import Any
from urllib.parse import quote

import pytest

from setwise.service.api.http.problem_kinds import ALL_KINDS, PROBLEMS, ProblemKind
from setwise.service.domain.errors import INTERNAL_ERROR, StorageUnavailable
from tests.kit.edge import Service, assert_problem


@pytest.mark.parametrize(
    ("path", "meant"),
    [
        ("/nowhere", None),
        ("/v1/predictions/", "/v1/predictions"),
        ("/v1/prediction", "/v1/predictions"),
        ("/predictions", "/v1/predictions"),
        ("/v1/predictions/a/outcom", "/v1/predictions/{prediction_id}/outcome"),
        ("/v1/admin/policies", "/v1/admin/policy"),
    ],
)
def test_an_unknown_address_names_the_nearest(
    service: Service, path: str, meant: str | None
) -> None:
    problem = assert_problem(service.get(path, by="client"), 404, "unknown-address")
    assert problem["detail"].endswith(" All are listed at /docs.")
    match = re.search("is `(.*)` meant", problem["detail"])
    assert (match and match[1]) == meant


@pytest.mark.parametrize(
    ("path", "status", "link"),
    [("/documets", 404, "/documents"), ("/%3Cb%3E", 404, "/"), ("/logout", 405, "/")],
)
def test_a_browser_gets_a_page_for_an_unknown_address(
    service: Service, path: str, status: int, link: str
) -> None:
    response = service.get(path, headers={"Accept": "text/html,*/*"})
    assert (response.status_code, response.headers["content-type"]) == (
        status,
        "text/html; charset=utf-8",
    )
    assert f'<a href="{link}">' in response.text
    assert "<b>" not in response.text


@pytest.mark.parametrize(
    ("path", "sent", "cure"),
    [
        ("/v1/predictions", "application/x-ndjson", "POST /v1/jobs/scoring"),
        ("/v1/predictions", "application/x-www-form-urlencoded", "Content-Type: application/json"),
        ("/v1/jobs/scoring", "application/json", "POST /v1/predictions/batch"),
    ],
)
def test_a_body_for_another_route_names_that_route(
    service: Service, path: str, sent: str, cure: str
) -> None:
    response = service.post(path, by="client", content=b"{}", headers={"Content-Type": sent})
    assert cure in assert_problem(response, 415, "unsupported-media-type")["detail"]


def test_a_wrong_method_is_a_problem_that_names_the_right_ones(service: Service) -> None:
    response = service.send("DELETE", "/v1/admin/policy", by="admin")
    assert_problem(response, 405, "method-not-allowed")
    assert response.headers["allow"]


def test_a_silent_database_is_a_problem_that_says_when_to_come_back(service: Service) -> None:
    def silent(**_: object) -> None:
        raise StorageUnavailable("The database is not available: it sleeps.")

    object.__setattr__(service.services.keys, "begin", silent)
    response = service.get("/v1/predictions", by="client")
    assert_problem(response, 503, "storage-unavailable")
    assert int(response.headers["retry-after"]) > 0


def test_every_kind_of_problem_has_an_address_of_its_own() -> None:
    slugs = [kind.slug for kind in ALL_KINDS]
    assert len(set(slugs)) == len(slugs)
    assert all(re.fullmatch(r"[a-z]+(-[a-z]+)*", slug) for slug in slugs)
    assert set(PROBLEMS.values()) <= set(ALL_KINDS)
    assert INTERNAL_ERROR in slugs


@pytest.mark.parametrize("kind", ALL_KINDS, ids=lambda kind: kind.slug)
def test_the_address_of_a_kind_explains_it(service: Service, kind: ProblemKind) -> None:
    answer = service.get(kind.type)
    assert answer.json()["meaning"] == kind.meaning
    page = service.get(kind.type, headers={"Accept": "text/html,*/*"})
    assert page.headers["content-type"].startswith("text/html")
    assert kind.slug in page.text


def test_all_kinds_are_listed(service: Service) -> None:
    items = service.get("/problems").json()["items"]
    assert [item["type"] for item in items] == [kind.type for kind in ALL_KINDS]
    page = service.get("/problems", headers={"Accept": "text/html"}).text
    assert all(kind.type in page for kind in ALL_KINDS)


def test_an_unknown_kind_is_a_problem_itself(service: Service) -> None:
    assert_problem(service.get("/problems/boredom"), 404, "unknown-address")


LONG, ACTING = 5_000 * "n", "a\x1b[2J\x07\u202eb\x9b"
SENT: dict[str, tuple[str, str, dict[str, Any]]] = {
    "a member": ("POST", "/v1/predictions", {"json": {"document": {"text": "x"}, "NAME": 1}}),
    "a member inside": (
        "POST",
        "/v1/predictions",
        {"json": {"document": {"text": "x", "NAME": 1}}},
    ),
    "a parameter": ("GET", "/v1/predictions", {"params": {"NAME": "1"}}),
    "a parameter twice": ("GET", "/v1/predictions", {"params": [("NAME", "1"), ("NAME", "1")]}),
    "an address": ("GET", "/v1/NAME", {}),
    "an id": ("GET", "/v1/predictions/NAME", {}),
    "a label": ("GET", "/v1/admin/labels/NAME", {}),
    "a person": ("PATCH", "/v1/admin/people/NAME", {"json": {"disabled": True}}),
    "a kind of export": ("GET", "/v1/exports/NAME", {}),
}


@pytest.mark.parametrize("name", [LONG, 2_000 * "n n", ACTING], ids=["long", "words", "acting"])
@pytest.mark.parametrize("place", SENT)
def test_a_name_that_a_request_invents_is_shown_short_and_harmless(
    service: Service, place: str, name: str
) -> None:
    method, path, arguments = SENT[place]
    arguments = json.loads(json.dumps(arguments).replace("NAME", json.dumps(name)[1:-1]))
    for key, value in arguments.items():
        if isinstance(value, list):
            arguments[key] = [tuple(pair) for pair in value]
    response = service.send(method, path.replace("NAME", quote(name)), by="admin", **arguments)
    assert response.status_code in {404, 422}
    problem = response.json()
    assert len(problem["detail"]) < 900
    assert all(len(step) <= 501 for step in problem["instance"].split("/"))
    for each in problem.get("errors", ()):
        assert all(len(step) <= 501 for step in each["pointer"].split("/"))
    text = json.dumps(problem, ensure_ascii=False)
    assert text.isprintable()
    assert not re.search(r"(?<!\\)\\u00", text)  # what JSON itself escapes
