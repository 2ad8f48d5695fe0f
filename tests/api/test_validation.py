"""Faults of form in plain words, with the name that a misspelt one stands for."""

import re
from collections.abc import Iterator
from typing import Any

import pytest
from pydantic import BaseModel, TypeAdapter, ValidationError

from setwise.service.api.http.validation import worded
from setwise.service.api.schemas import Query
from setwise.service.requests import RequestBody
from tests.edge import Service, assert_problem


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
    refused = service.get("/v1/predictions?created_form=x", by="client")
    problem = assert_problem(refused, 422, "invalid-request", "/query/created_form")
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
