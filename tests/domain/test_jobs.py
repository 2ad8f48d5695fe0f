"""Jobs: claims, retries, and how they end."""

from datetime import timedelta

import pytest
from hypothesis import given
from hypothesis import strategies as st

from setwise.service.domain.jobs import JobState, RetryRule
from tests.fakes import START
from tests.samples import job

MINUTE = timedelta(minutes=1)
TICK = timedelta(microseconds=1)


def test_a_claim_leases_the_job_under_a_new_token() -> None:
    first = job().claimed(START, MINUTE)
    assert (first.state, first.attempt, first.token) == (JobState.RUNNING, 1, 1)
    assert (first.started_at, first.lease_expires_at) == (START, START + MINUTE)
    second = first.claimed(START + MINUTE, MINUTE)
    assert (second.attempt, second.token) == (2, 2)


def test_a_sign_of_life_keeps_what_was_said_unless_something_new_is() -> None:
    running = job().claimed(START, MINUTE)
    told = running.continued(START + MINUTE, MINUTE, progress=0.4, message="fold 2 of 5")
    kept_job = told.continued(START + 2 * MINUTE, MINUTE, progress=None, message=None)
    assert (kept_job.progress, kept_job.message) == (0.4, "fold 2 of 5")
    assert kept_job.lease_expires_at == START + 3 * MINUTE


def test_a_job_that_succeeds_is_over() -> None:
    finished_job = job().claimed(START, MINUTE).succeeded({"expired": 3}, START + TICK)
    assert (finished_job.state, finished_job.progress, finished_job.result) == (
        JobState.SUCCEEDED,
        1.0,
        {"expired": 3},
    )
    assert (finished_job.finished_at, finished_job.lease_expires_at) == (START + TICK, None)


def test_a_failed_attempt_waits_and_is_tried_again_until_the_rule_gives_up() -> None:
    rule = RetryRule(attempts=2, first_delay=MINUTE)
    once = job().claimed(START, MINUTE).failed("boom", START, rule)
    assert (once.state, once.due_at, once.error) == (JobState.QUEUED, START + MINUTE, "boom")
    twice = once.claimed(START + MINUTE, MINUTE).failed("again", START + MINUTE, rule)
    assert (twice.state, twice.error, twice.finished_at) == (
        JobState.FAILED,
        "again",
        START + MINUTE,
    )


def test_success_forgets_the_error_of_an_earlier_attempt() -> None:
    retried_job = job().claimed(START, MINUTE).failed("boom", START, RetryRule(), code="forbidden")
    assert (retried_job.error, retried_job.error_code) == ("boom", "forbidden")
    finished_job = retried_job.claimed(START, MINUTE).succeeded(None, START)
    assert (finished_job.error, finished_job.error_code) == (None, None)


def test_a_job_given_back_by_a_stopping_worker_has_lost_no_attempt() -> None:
    returned_job = job().claimed(START, MINUTE).returned(START + TICK)
    assert (returned_job.state, returned_job.attempt, returned_job.token) == (JobState.QUEUED, 0, 1)
    assert returned_job.due_at == START + TICK


@given(st.integers(1, 40), st.floats(1, 10), st.integers(1, 100))
def test_waits_grow_up_to_the_longest(attempts: int, factor: float, first_s: int) -> None:
    rule = RetryRule(attempts, timedelta(seconds=first_s), factor)
    waits = [rule.delay_after(attempt) for attempt in range(1, attempts)]
    assert all(wait is not None and wait <= rule.longest_delay for wait in waits)
    assert waits == sorted(waits)  # type: ignore[type-var]  # none is None, as just seen
    assert rule.delay_after(attempts) is None


def test_a_rule_with_very_many_attempts_still_has_a_longest_wait() -> None:
    rule = RetryRule(attempts=10_000)
    assert rule.delay_after(9_999) == rule.longest_delay


@pytest.mark.parametrize("attempt", [5, 6, 100])
def test_no_wait_follows_the_last_attempt(attempt: int) -> None:
    assert RetryRule(attempts=5).delay_after(attempt) is None
