"""Faults of form in plain words, with the name that a misspelt one stands for."""

import re
from collections.abc import Iterator
from typing import Any

import pytest
from pydantic import BaseModel, TypeAdapter, ValidationError

from setwise.service.api.http.validation import UNKNOWN_MEMBER, worded
from setwise.service.api.schemas import Query
from setwise.service.domain.errors import MOST_FAULTS
from setwise.service.requests import RequestBody
from tests.kit.edge import Service, assert_problem


@pytest.mark.parametrize(
    ("path", "body", "pointer", "hint"),
    [
        ("predictions", {"document": {"txet": "a"}}, "/document/txet", "; is `text` meant?"),
        ("predictions", {"documnet": {}}, "/documnet", "; is `document` meant?"),
        (
            "predictions",
            {"document": {"text": "a", "metadata": {}}},
            "/document/metadata",
            "; put it beside `document`",
        ),
        ("predictions", {"document": {}, "text": "a"}, "/text", "; put it inside `document`"),
        (
            "predictions/batch",
            {"documents": [{"text": "a", "meta_data": {}}]},
            "/documents/0/meta_data",
            "; is `metadata` meant?",
        ),
        (
            "predictions",
            {"document": {"candidates": [{"label": ["a"], "labels": []}]}},
            "/document/candidates/0/label",
            "; is `labels` meant?",
        ),
        ("predictions", {"document": {"text": "a", "zzz": 1}}, "/document/zzz", "this request"),
    ],
)
def test_an_unknown_member_names_the_nearest(
    service: Service, path: str, body: dict[str, Any], pointer: str, hint: str
) -> None:
    problem = service.post(f"/v1/{path}", by="client", json=body).json()
    details = {error["pointer"]: error["detail"] for error in problem["errors"]}
    assert details[pointer].endswith(hint)


def test_an_unknown_parameter_names_the_nearest(service: Service) -> None:
    response = service.get("/v1/predictions?created_form=x", by="client")
    problem = assert_problem(response, 422, "invalid-request", "/query/created_form")
    assert "is `created_from` meant?" in problem["detail"]


def below(model: type[BaseModel]) -> Iterator[type[BaseModel]]:
    for child in model.__subclasses__():
        if child.__module__.startswith("setwise.service.api."):
            yield child
        yield from below(child)


WRONG = (None, True, 1.5, -(10**9), 10**9, 10**5000, float("nan"), "", "x", "x" * 10_001, "\x00")
WRONG_SHAPES: tuple[object, ...] = ([], ["x"] * 300, [None], {}, {"x": None}, {"": {}})
ENGLISH = re.compile(r"(is|must|has|in)\b")


@pytest.mark.parametrize("base", [Query, RequestBody])
def test_every_fault_of_form_is_in_our_words(base: type[BaseModel]) -> None:
    """Give each field of each request what it does not take."""
    for model in below(base):
        adapter = TypeAdapter(model)
        for name in model.model_fields:
            for value in (*WRONG, *WRONG_SHAPES):
                try:
                    adapter.validate_python({name: value})
                except ValidationError as error:
                    for entry in error.errors():
                        assert ENGLISH.match(worded(entry)), (
                            model,
                            name,
                            entry["type"],
                            worded(entry),
                        )


@pytest.mark.parametrize("model", list(below(RequestBody)))
def test_only_the_first_unknown_members_of_a_request_are_described(
    model: type[BaseModel],
) -> None:
    with pytest.raises(ValidationError) as error:
        model.model_validate({f"f{place}": 1 for place in range(2_000)})
    kinds = [entry["type"] for entry in error.value.errors()]
    assert kinds.count(UNKNOWN_MEMBER) == MOST_FAULTS


@pytest.mark.parametrize("model", list(below(RequestBody)))
def test_only_the_first_faulty_items_of_a_list_are_described(model: type[BaseModel]) -> None:
    for name in model.model_fields:
        number = 0
        try:
            model.model_validate({name: [object()] * 2_000})
        except ValidationError as error:
            number = error.error_count()
        assert number < 3 * MOST_FAULTS, name


MANY = [f"f{place}" for place in range(2_000)]
UNKNOWN = dict.fromkeys(MANY, 1)


@pytest.mark.parametrize(
    ("address", "body"),
    [
        ("/v1/predictions", {"document": {"features": dict.fromkeys(MANY, "high")}}),
        ("/v1/predictions", {"document": {"scores": dict.fromkeys(MANY, "high")}}),
        ("/v1/predictions", {"document": {"features": dict.fromkeys(MANY, 1e39)}}),
        ("/v1/predictions", {"document": {"text": "a"}, **UNKNOWN}),
        ("/v1/predictions", {"document": {"text": "a", **UNKNOWN}}),
        ("/v1/predictions", {"document": {"candidates": [{"labels": [], **UNKNOWN}]}}),
        ("/v1/predictions/batch", {"documents": [{"text": "a", **UNKNOWN}]}),
        ("/v1/predictions", {"document": {"labels": [1] * 2_000}}),
        ("/v1/predictions", {"document": {"candidates": [1] * 2_000}}),
        ("/v1/predictions", {"document": {"candidates": [{"labels": [1]}] * 2_000}}),
        ("/v1/predictions", {"document": {"candidates": [{"labels": ["a"] * 60 + [1] * 99}]}}),
    ],
    ids=[
        "features",
        "scores",
        "range",
        "body",
        "document",
        "candidate",
        "batch",
        "labels",
        "candidates",
        "sets",
        "late",
    ],
)
def test_only_the_first_of_many_faults_are_described(
    service: Service, address: str, body: dict[str, Any]
) -> None:
    """Each takes time: hundreds of thousands fit into a body."""
    response = service.post(address, by="client", json=body)
    more = re.search(r"\(and (\d+) more\)\.$", response.json()["detail"])
    assert more is not None
    assert MOST_FAULTS - 1 <= int(more[1]) < 2 * MOST_FAULTS
    assert len(response.json()["errors"]) == MOST_FAULTS


@pytest.mark.parametrize(
    ("address", "pointers"),
    [
        ("/v1/predictions?limit=1&limit=2", ["/query/limit"]),
        (
            "/v1/predictions?decision=auto&decision=auto&limit=1&limit=1",
            ["/query/decision", "/query/limit"],
        ),
        ("/v1/documents?text=a&text=b&label=a&label=b", ["/query/text"]),
        ("/v1/exports/predictions?format=csv&format=csv", ["/query/format"]),
        ("/v1/admin/annotators?days=7&days=8", ["/query/days"]),
        ("/v1/predictions?limit=1.0", ["/query/limit"]),
        ("/v1/predictions?limit=1e1", ["/query/limit"]),
        ("/v1/predictions?limit=%201", ["/query/limit"]),
        ("/v1/predictions?limit=1_0", ["/query/limit"]),
        ("/v1/documents?confidence_from=%201", ["/query/confidence_from"]),
        ("/v1/documents?confidence_from=.5", ["/query/confidence_from"]),
        ("/v1/documents?confidence_to=1%0A", ["/query/confidence_to"]),
        ("/v1/documents?confidence_to=nan", ["/query/confidence_to"]),
        ("/v1/documents?prioritized=yes", ["/query/prioritized"]),
        ("/v1/documents?prioritized=1", ["/query/prioritized"]),
        ("/v1/documents?prioritized=", ["/query/prioritized"]),
        ("/v1/admin/annotators?days=7.0", ["/query/days"]),
    ],
)
def test_a_parameter_is_given_once_and_a_number_of_items_is_whole(
    service: Service, address: str, pointers: list[str]
) -> None:
    assert_problem(service.get(address, by="admin"), 422, "invalid-request", *pointers)


def test_a_list_in_the_query_is_given_by_repeating_its_name(service: Service) -> None:
    response = service.get("/v1/documents?label=a&label=b&limit=5", by="lead")
    assert response.status_code == 200


def test_numbers_and_truth_values_in_the_query_are_as_in_json(service: Service) -> None:
    query = "confidence_from=0.5&confidence_to=9e-1&prioritized=true&beyond_model=False"
    response = service.get(f"/v1/documents?{query}", by="lead")
    assert response.status_code == 200


def test_an_unknown_address_is_not_explained_by_what_stands_for_a_parameter(
    service: Service,
) -> None:
    for address, meant in (
        ("/v2/health/ready", ""),
        ("/v2/models/m/ready", ""),
        ("/v1/zebra/17/stripes", ""),
        ("/v2/predictions", "; is `/v1/predictions` meant?"),
        ("/v1/jobz/17/retry", "; is `/v1/jobs/{job_id}/retry` meant?"),
    ):
        detail = service.get(address).json()["detail"]
        assert ("meant?" in detail) == bool(meant), detail
        assert meant in detail
