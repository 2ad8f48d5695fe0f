"""Each operation is open to the roles and scopes of the table, and to nobody else."""

from typing import Any

import pytest

from setwise.service.domain.accounts.callers import SYSTEM, Permission, Role
from setwise.service.settings import Settings
from tests.kit.edge import Service, assert_problem, build_service
from tests.rights import BY_BODY, OPEN, operations

UNKNOWN = "019b7a0b-0000-7000-9000-0000000000ff"
CALLERS: list[tuple[Role, frozenset[Permission] | None]] = [
    *((role, None) for role in Role),
    *((Role.ADMIN, frozenset({scope})) for scope in Permission),
    *((Role.AUDITOR, frozenset({scope})) for scope in (Permission.INSPECT, Permission.REPORT)),
    (Role.LEAD, frozenset({Permission.REPORT})),
    (Role.CLIENT, frozenset({Permission.RUN_JOBS})),
]


@pytest.fixture(scope="module")
def service() -> Service:
    service = build_service(Settings(max_text_bytes=1_000, open_metrics=False))
    for role, scopes in CALLERS:
        _, secret = service.services.keys.create(SYSTEM, "key", role, scopes=scopes, per_minute=0)
        service.secrets[f"{role} {scopes}"] = secret
    return service


def bodies(document: dict[str, Any], method: str, path: str) -> dict[str, Any]:
    """Return arguments of a request with the example that the documentation gives."""
    body = document["paths"].get(path, {}).get(method.lower(), {}).get("requestBody")
    if body is None:
        return {}
    ((kind, content), *_) = body["content"].items()
    if "$ref" not in content["schema"]:
        return {"content": b"no file", "headers": {"Content-Type": kind}}
    schema = document["components"]["schemas"][content["schema"]["$ref"].rsplit("/", 1)[1]]
    return {"json": schema["examples"][0]}


@pytest.mark.parametrize("operation", operations(), ids=" ".join)
def test_an_operation_is_open_to_the_roles_and_scopes_of_the_table(
    service: Service, operation: tuple[str, str]
) -> None:
    method, path = operation
    arguments = bodies(service.app.openapi(), method, path)
    address = "/".join(UNKNOWN if part.startswith("{") else part for part in path.split("/"))
    right, differing = operations()[operation], []
    for role, scopes in CALLERS:
        response = service.send(method, address, by=f"{role} {scopes}", **arguments)
        assert response.status_code < 500 or response.status_code == 503
        refused = response.status_code == 403
        if refused == right.opens(role, scopes):
            differing.append((role, scopes, response.text))
    assert not differing


WRONG: dict[str, dict[str, Any]] = {
    "nothing": {},
    "no JSON": {"content": b"{", "headers": {"Content-Type": "application/json"}},
    "another type": {"content": b"x", "headers": {"Content-Type": "text/plain; charset=x"}},
    "a long key": {"headers": {"Idempotency-Key": 5_000 * "x"}},
    "an empty key": {"headers": {"Idempotency-Key": ""}},
    "no version": {"headers": {"If-Match": '"1", W/"2", *'}},
}
WRONG_STEPS = (300 * "x", "%00", "%ff", "1.5")


@pytest.mark.parametrize("operation", operations(), ids=" ".join)
def test_a_caller_without_the_right_is_not_told_what_is_wrong_with_a_request(
    service: Service, operation: tuple[str, str]
) -> None:
    method, path = operation
    described = service.app.openapi()["paths"].get(path, {}).get(method.lower(), {})
    parameters = described.get("parameters", ())
    names = [each["name"] for each in parameters if each["in"] == "query"]
    address = "/".join(UNKNOWN if part.startswith("{") else part for part in path.split("/"))
    usual = (f"{address}?nonsense=1&nonsense=2", {"json": {"nonsense": 1}})
    others = [(address, arguments) for arguments in WRONG.values()]
    others += [(f"{address}?{name}=%00&{name}=1.0", {}) for name in names]
    others += [(address.replace(UNKNOWN, step), {}) for step in WRONG_STEPS if "{" in path]
    right = operations()[operation]
    refused = [caller for caller in CALLERS if not right.opens(*caller)]
    for role, scopes in refused:
        for wrong, arguments in (usual, *(others if (role, scopes) == refused[0] else ())):
            response = service.send(method, wrong, by=f"{role} {scopes}", **arguments)
            assert response.status_code == 403, (role, scopes, wrong, response.text)


@pytest.mark.parametrize("operation", operations(), ids=" ".join)
def test_no_body_is_read_for_a_caller_without_a_key(
    service: Service, operation: tuple[str, str]
) -> None:
    """What is parsed takes memory and time, and its faults say what the service knows."""
    method, path = operation
    address = "/".join(UNKNOWN if part.startswith("{") else part for part in path.split("/"))
    headers = {"Content-Type": "application/json"}
    response = service.send(method, address, content=b"{broken", headers=headers)
    assert_problem(response, 401, "unauthenticated")


def test_the_table_has_every_operation(service: Service) -> None:
    declared = {
        (method.upper(), path)
        for path, methods in service.app.openapi()["paths"].items()
        for method in methods
    }
    words = f"{OPEN} {BY_BODY} GET /v1/exports/{{what}}".split()
    exports = {one for one in operations() if one[1].startswith("/v1/exports/")}
    named = (set(operations()) - exports) | set(zip(words[::2], words[1::2], strict=True))
    assert named == declared
