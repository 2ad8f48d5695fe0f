"""Advice and accuracy where reviewers accept wrong suggestions, in streams whose truth is known."""

from collections.abc import Iterator
from dataclasses import replace

import numpy as np
import pytest
from scipy.stats import binom

from setwise.service.domain.evidence import CheckedDocument
from setwise.service.domain.policy import first_policy
from setwise.service.domain.predictions import Reason
from setwise.service.domain.reviews import Annotation, ReviewKind
from setwise.service.domain.routing.audits import AuditRole
from setwise.service.domain.truth import check
from setwise.service.services.analysis.accuracy import share
from setwise.service.services.analysis.what_if import advise_on
from tests.fakes import START
from tests.samples import annotation, checked, leased

RISK = 0.1
POLICY = replace(first_policy(START), target_accuracy=0.9, risk=RISK)
ACCEPTED = 0.6
"""Share of wrong suggestions that reviewers accept."""
ANSWER = annotation(leased(), "a")


def answers(right: bool, accepts: bool, again: bool) -> Iterator[Annotation]:
    """Yield a review with the suggestion in view, and perhaps a blind reading of it."""
    agreed = right or accepts
    yield replace(ANSWER, id="1", agreed=agreed, labels=("a",) if agreed else ("b",))
    if again:
        blind = replace(ANSWER, id="2", kind=ReviewKind.OVERLAP, settles=False, agreed=right)
        yield replace(blind, suggestion_shown=False, labels=("a",) if right else ("b",))
        if agreed != right:
            lead = replace(ANSWER, id="3", kind=ReviewKind.ADJUDICATION, suggestion_shown=False)
            yield replace(lead, agreed=right, labels=("a",) if right else ("b",))


def reviewed(
    random: np.random.Generator, n: int, accuracy: float, overlap: float, audits: float
) -> Iterator[CheckedDocument]:
    """Return documents that people read while nothing is sent."""
    right = random.random(n) < accuracy
    accepts = random.random(n) < ACCEPTED
    again, mask = random.random(n) < overlap, random.random(n) < audits
    confidence = random.uniform(0.9, 0.99, n)
    for place in range(n):
        if mask[place]:
            truth = ("a",) if right[place] else ("b",)
            document = checked(str(place), truth, truth, reread_rate=1.0)
            document = document._replace(role=AuditRole.CERTIFICATION)
        else:
            facts = list(answers(bool(right[place]), bool(accepts[place]), bool(again[place])))
            document = checked(str(place))._replace(check=check(str(place), facts))
            document = document._replace(role=AuditRole.NONE)
        yield document._replace(confidence=confidence[place], reason=Reason.NO_THRESHOLD)


@pytest.mark.parametrize("runs", [40, pytest.param(1_000, marks=pytest.mark.verify)])
@pytest.mark.parametrize(
    ("overlap", "audits"), [(0.0, 0.0), (0.1, 0.0), (0.3, 0.0), (0.0, 0.1), (0.1, 0.04)]
)
def test_accepted_errors_advise_no_threshold_more_often_than_the_risk(
    overlap: float, audits: float, runs: int
) -> None:
    """With these answers taken at their word, a third of the runs would advise one."""
    random = np.random.default_rng(41)
    false = count = 0
    for _ in range(runs):
        documents: list[CheckedDocument] = list(reviewed(random, 1_000, 0.8, overlap, audits))
        false += advise_on(documents, POLICY).threshold is not None
        low = share(documents, RISK).low or 0.0
        count += low <= 0.8
    most = binom.ppf(0.999, runs, RISK)
    assert false <= most
    assert runs - count <= most


@pytest.mark.parametrize(("overlap", "audits"), [(0.3, 0.0), (0.0, 0.3)])
def test_blind_readings_advise_a_threshold_that_is_right(overlap: float, audits: float) -> None:
    random = np.random.default_rng(42)
    thresholds = [
        advise_on(list(reviewed(random, 1_000, 0.97, overlap, audits)), POLICY).threshold
        for _ in range(10)
    ]
    assert sum(each is not None for each in thresholds) >= 8
