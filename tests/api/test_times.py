"""Times in requests: RFC 3339 and nothing else, wherever the API takes one."""

from collections.abc import Iterator
from typing import Any
from urllib.parse import quote

import pytest

from tests.kit.edge import Service, assert_problem, described

BODIES = {
    "/v1/jobs/export": ("created_from", {"what": "predictions"}),
    "/v1/admin/keys": ("expires_at", {"name": "k", "role": "client"}),
    "/v1/predictions": ("due_at", {"document": {"text": "x"}}),
}
"""The bodies that take a time, and their other members."""


def parameters() -> Iterator[tuple[str, str]]:
    for path, operations in described()["paths"].items():
        for parameter in operations.get("get", {}).get("parameters", ()):
            if "date-time" in str(parameter["schema"]):
                yield path.replace("{what}", "outcomes"), parameter["name"]


def test_every_body_with_a_time_is_in_this_table() -> None:
    document = described()
    schemas = document["components"]["schemas"]
    taking = set()
    for path, operations in document["paths"].items():
        for operation in operations.values():
            content = operation.get("requestBody", {}).get("content", {})
            reference = content.get("application/json", {}).get("schema", {}).get("$ref", "")
            if "date-time" in str(schemas.get(reference.rpartition("/")[2])):
                taking.add(path)
    assert taking == set(BODIES)


WRONG = (
    "20261127",
    "2026",
    "1",
    "1764201600.5",
    "2026-11-27",
    "2026-11-27T09:00Z",
    "2026-11-27T09:00:00",
    "2026-11-27 09:00:00Z",
    "2026-11-27T09:00:00+0100",
    "2026-13-27T09:00:00Z",
    "٢٠٢٦-11-27T09:00:00Z",
)


@pytest.mark.parametrize(("path", "name"), list(parameters()))
def test_a_parameter_takes_only_rfc_3339(service: Service, path: str, name: str) -> None:
    for wrong in WRONG:
        response = service.get(f"{path}?{name}={quote(wrong)}", by="admin")
        assert_problem(response, 422, "invalid-request", f"/query/{name}")
    for right in ("2026-11-27t09:00:00.5z", "2026-11-27T09:00:00%2B01:00"):
        assert service.get(f"{path}?{name}={right}", by="admin").status_code == 200
    bare = service.get(f"{path}?{name}=2026-11-27T09:00:00+01:00", by="admin")
    assert "%2B" in assert_problem(bare, 422, "invalid-request", f"/query/{name}")["detail"]


@pytest.mark.parametrize(("path", "name", "rest"), [(p, *b) for p, b in BODIES.items()])
def test_a_body_takes_only_rfc_3339(
    service: Service, path: str, name: str, rest: dict[str, Any]
) -> None:
    for wrong in (*WRONG, 20261127, 1764201600.5, True):
        response = service.post(path, by="admin", json={**rest, name: wrong})
        assert_problem(response, 422, "invalid-request", f"/{name}")
    right = service.post(path, by="admin", json={**rest, name: "2026-11-27T09:00:00+01:00"})
    assert right.status_code in {201, 202}, right.text
