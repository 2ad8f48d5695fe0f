"""A request takes effect wholly or not at all, whichever of its commits fails."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import pytest

from setwise.service.domain.accounts.callers import Role
from setwise.service.stores.transaction import Transaction
from tests.api.test_idempotency import (
    ADMIN_,
    EVERY,
    Request,
    added_hook,
    do,
    send_keyed,
    stored_models,
)
from tests.api.test_rights import bodies
from tests.kit.edge import Service, described


def _on(method: str, path: str, **content: Any) -> Request:
    return {"method": method, "path": path, "by": "admin", **content}


def _shadowed(service: Service) -> Request:
    path = f"{ADMIN_}/models/{stored_models(service)[0]}/shadow"
    do(service, path)
    return _on("DELETE", path)


def _proposed(service: Service) -> Request:
    do(service, "/v1/labels", json={"label": "J12.82"})
    path, body = f"{ADMIN_}/labels/J12.82", {"state": "accepted", "label": "U09.9"}
    return _on("PUT", path, json=body, headers={"If-Match": '"1"'})


OTHERS: dict[str, Callable[[Service], Request]] = {
    "change_policy": lambda service: _on(
        "PUT",
        f"{ADMIN_}/policy",
        **bodies(described(), "PUT", f"{ADMIN_}/policy"),
        headers={"If-Match": service.get(f"{ADMIN_}/policy", by="admin").headers["ETag"]},
    ),
    "place_annotator": lambda service: _on(
        "PUT", f"{ADMIN_}/annotators/{service.person('cy', Role.LEAD)}", json={"group": "default"}
    ),
    "change_group": lambda _: _on("PUT", f"{ADMIN_}/groups/trainees", json={"name": "Trainees"}),
    "change_label": _proposed,
    "remove_label": lambda service: _proposed(service) | {"method": "DELETE", "json": None},
    "change_webhook": lambda service: _on(
        "PUT", added_hook(service), json={"url": "https://example.com/other"}
    ),
    "delete_webhook": lambda service: _on("DELETE", added_hook(service)),
    "end_shadow": _shadowed,
    "change_person": lambda service: _on(
        "PATCH",
        f"{ADMIN_}/people/{service.person('cy', Role.LEAD)}",
        json={"name": "Cy", "role": "reviewer", "password": "a sentence that only Cy knows"},
    ),
}
"""A request that succeeds, for each other changing operation."""


def test_every_changing_operation_has_its_request_here() -> None:
    changing = {
        operation["operationId"]
        for operations in described()["paths"].values()
        for method, operation in operations.items()
        if method != "get"
    }
    assert changing == {*EVERY, *OTHERS}


class _Fault(Exception):
    """What a commit raises."""


@contextmanager
def failing_commit(number: int) -> Iterator[pytest.MonkeyPatch]:
    """Have the commit of this number fail, counted from 1; others go on."""
    commit, left = Transaction.commit, number

    def fail(transaction: Transaction) -> None:
        nonlocal left
        left -= 1
        if left == 0:
            raise _Fault
        commit(transaction)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(Transaction, "commit", fail)
        yield patch


@pytest.mark.parametrize("name", {**EVERY, **OTHERS})
def test_whichever_commit_fails_nothing_has_changed_and_the_key_is_free(
    service: Service, name: str
) -> None:
    request = {**EVERY, **OTHERS}[name](service)
    service.get("/v1/jobs", by=request["by"])  # which notes that the key was used
    before = repr(service.database.contents)
    response_stored = type(service.services.idempotency), "finish", lambda *_: None
    for failing in range(1, 9):
        with failing_commit(failing) as patch:
            patch.setattr(*response_stored)
            response = send_keyed(service, request)
        if response.status_code < 300:
            assert failing <= 2, "it commits more than once"
            return
        assert response.status_code == 500, response.text
        assert repr(service.database.contents) == before, f"commit {failing} was not the first"
    pytest.fail("the request never succeeds")
