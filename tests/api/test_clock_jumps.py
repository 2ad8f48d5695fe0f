"""The machine's clock is set while people and programs work: nothing is lost, nothing twice."""

from datetime import timedelta

import pytest

from setwise.service.domain.accounts.callers import SYSTEM
from tests.kit.edge import Service

JUMPS = [timedelta(hours=-1), timedelta(days=-400), timedelta(hours=1), timedelta(days=400)]


@pytest.mark.parametrize("jump", JUMPS)
def test_a_repeated_request_gives_the_first_answer(service: Service, jump: timedelta) -> None:
    first = service.predict(headers={"Idempotency-Key": "k"})
    service.clock.instant += jump
    again = service.predict(headers={"Idempotency-Key": "k"})
    assert (again.status_code, again.json()) == (201, first.json())
    assert len(service.database.contents.predictions) == 1


@pytest.mark.parametrize("jump", [jump for jump in JUMPS if jump < timedelta(0)])
def test_a_clock_that_goes_back_takes_no_lease_away(service: Service, jump: timedelta) -> None:
    service.predict()
    response = service.post("/v1/reviews/claim", by="reviewer")
    service.clock.instant += jump
    assert service.post("/v1/reviews/claim", by="lead").status_code == 204
    done = service.post(
        f"/v1/reviews/{response.json()['id']}/complete",
        by="reviewer",
        json={"labels": ["a"]},
        headers={"If-Match": response.headers["etag"]},
    )
    assert done.status_code == 200


@pytest.mark.parametrize("jump", [jump for jump in JUMPS if jump > timedelta(0)])
def test_a_clock_that_leaps_ahead_leaves_one_holder(service: Service, jump: timedelta) -> None:
    service.predict()
    first = service.post("/v1/reviews/claim", by="reviewer")
    service.clock.instant += jump
    second = service.post("/v1/reviews/claim", by="lead")
    assert second.json()["id"] == first.json()["id"]
    address = f"/v1/reviews/{first.json()['id']}/complete"
    late = service.post(
        address,
        by="reviewer",
        json={"labels": ["a"]},
        headers={"If-Match": first.headers["etag"]},
    )
    assert late.status_code in {409, 412}
    service.clock.instant -= jump  # and somebody sets it right again
    response = service.post(
        address, by="lead", json={"labels": ["b"]}, headers={"If-Match": second.headers["etag"]}
    )
    assert response.status_code == 200
    assert len(service.database.contents.annotations) == 1


@pytest.mark.parametrize("jump", JUMPS)
def test_a_job_is_recorded_once_by_whoever_holds_it(service: Service, jump: timedelta) -> None:
    clock, office = service.clock, service.services.jobs
    office.enqueue("fit", key="fit")
    claim = office.claim
    first = claim(["fit"])
    assert first is not None
    clock.instant += jump
    second = claim(["fit"])
    assert (second is not None) == (jump > timedelta(0))
    holder = second or first
    assert office.succeed(holder, {"n": 1}).state.value == "succeeded"
    if second is not None:
        with pytest.raises(Exception, match="another worker"):
            office.succeed(first, {"n": 2})


def test_ages_are_never_negative(service: Service) -> None:
    service.predict()
    service.clock.advance(hours=-1)
    backlog, now = service.services.reports.backlog(SYSTEM)
    assert backlog.reviews["waiting"].age_s(now) == 0.0
    assert 'setwise_reviews_oldest_seconds{state="waiting"} 0.0' in service.get("/metrics").text
