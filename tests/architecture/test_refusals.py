"""Every refusal of the domain has its answer over HTTP."""

from http import HTTPStatus

import pytest

from setwise.service.api.http.problem_kinds import PROBLEMS
from setwise.service.domain.errors import ServiceError

DOMAIN = "setwise.service.domain."


def _refusals(root: type[ServiceError]) -> set[type[ServiceError]]:
    children = root.__subclasses__()
    return set(children).union(*(_refusals(child) for child in children))


def test_every_refusal_has_a_problem_of_its_own() -> None:
    domain = {one for one in _refusals(ServiceError) if one.__module__.startswith(DOMAIN)}
    assert set(PROBLEMS) == domain


@pytest.mark.parametrize("refusal", PROBLEMS, ids=lambda refusal: refusal.__name__)
def test_a_refusal_is_never_a_fault_of_the_server(refusal: type[ServiceError]) -> None:
    status = PROBLEMS[refusal].status
    # A database or a disk that is not there for now is nobody's fault.
    busy = {HTTPStatus.SERVICE_UNAVAILABLE, HTTPStatus.INSUFFICIENT_STORAGE}
    assert 400 <= status < 500 or status in busy
