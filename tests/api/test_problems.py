"""Faults that every call can meet, and the explanation of each kind."""

import re

import pytest

from setwise.service.api.http.problem_kinds import ALL_KINDS, PROBLEMS, ProblemKind
from setwise.service.domain.errors import INTERNAL_ERROR, StorageUnavailable
from tests.edge import Service, assert_problem


@pytest.mark.parametrize("path", ["/nowhere", "/v1", "/v1/predictions/", "/v1/predictions/a/b"])
def test_an_unknown_address_is_a_problem(service: Service, path: str) -> None:
    assert_problem(service.get(path, by="client"), 404, "unknown-address")


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
    listed = service.get("/problems").json()["items"]
    assert [item["type"] for item in listed] == [kind.type for kind in ALL_KINDS]
    page = service.get("/problems", headers={"Accept": "text/html"}).text
    assert all(kind.type in page for kind in ALL_KINDS)


def test_an_unknown_kind_is_a_problem_itself(service: Service) -> None:
    assert_problem(service.get("/problems/boredom"), 404, "unknown-address")
