"""Who calls, and for how long that is trusted."""

import re

import pytest

from setwise.service.api.http.callers import Callers
from setwise.service.domain.accounts.callers import Caller, Role
from setwise.service.domain.errors import Unauthenticated
from tests.kit.edge import Service, assert_problem, described

CALLS = sorted(
    (method.upper(), re.sub(r"\{\w+\}", "x", path))
    for path, operations in described()["paths"].items()
    for method in operations
    if path.startswith("/v1")
)


def test_there_are_calls_to_protect() -> None:
    assert len(CALLS) > 50


def test_no_call_is_answered_without_a_key(service: Service) -> None:
    for method, path in CALLS:
        response = service.send(method, path)
        assert_problem(response, 401, "unauthenticated")
        assert response.headers["www-authenticate"].startswith("Bearer")


@pytest.mark.parametrize(
    "header", ["", "Bearer", "Bearer ", "Bearer wrong", "Basic Og==", "Bearer \x7f"]
)
def test_a_call_without_a_good_key_is_refused(service: Service, header: str) -> None:
    response = service.get("/v1/predictions", headers={"Authorization": header})
    assert_problem(response, 401, "unauthenticated")


class Keys:
    """A key store that counts how often it is asked."""

    def __init__(self) -> None:
        self.asked = 0
        self.revoked = False

    def __call__(self, secret: str) -> Caller:
        self.asked += 1
        if self.revoked or secret != "good":
            raise Unauthenticated("no")
        return Caller("id", "name", Role.CLIENT)


def test_a_caller_is_trusted_for_the_given_time_and_no_longer() -> None:
    keys, now = Keys(), [0.0]
    callers = Callers(keys, trusted_s=3, clock=lambda: now[0])
    assert callers.known("good") is None
    assert callers.find("good").caller.id == "id"
    keys.revoked = True
    now[0] = 1.4
    assert callers.known("good") is not None
    now[0] = 2.9
    assert callers.known("good") is None  # this one asks; see below
    assert callers.known("good") is not None
    now[0] = 3.0
    assert callers.known("good") is None
    with pytest.raises(Unauthenticated):
        callers.find("good")
    assert keys.asked == 2


def test_under_load_one_request_asks_anew_while_the_others_trust_on() -> None:
    keys, now = Keys(), [0.0]
    callers = Callers(keys, trusted_s=3, clock=lambda: now[0])
    callers.find("good")
    count = 0
    for tenth in range(100):
        now[0] = tenth / 10
        for _ in range(32):
            if callers.known("good") is None:
                count += 1
                callers.find("good")
    assert count == keys.asked - 1 == 6


def test_a_refusal_is_not_remembered() -> None:
    keys = Keys()
    callers = Callers(keys, trusted_s=3)
    with pytest.raises(Unauthenticated):
        callers.find("bad")
    assert callers.known("bad") is None


def test_the_memory_of_callers_is_bounded() -> None:
    callers = Callers(lambda secret: Caller(secret, "", Role.CLIENT), trusted_s=60)
    for n in range(10_050):
        callers.find(str(n))
    assert callers.known("49") is None
    assert callers.known("50") is not None
