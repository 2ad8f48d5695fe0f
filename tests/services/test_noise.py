"""Noise rates of groups, as the answers of simulated people tell them."""

from collections.abc import Sequence
from dataclasses import replace

import numpy as np
import pytest
from scipy.stats import binom

from setwise.models.guarantees.noise import NoiseFault, NoiseRates
from setwise.service.domain.accounts.callers import Caller
from setwise.service.domain.annotators import (
    DEFAULT_GROUP,
    Annotator,
    AnnotatorGroup,
    GroupChange,
    Rates,
)
from setwise.service.domain.errors import InvalidRequest
from setwise.service.domain.policy import FIRST_POLICY_VERSION
from setwise.service.domain.predictions import Prediction
from setwise.service.domain.recalibration import NO_RATES, NO_RATES_WITH_SUGGESTION, Noise
from setwise.service.domain.reviews import Annotation, ReviewKind, ReviewTask
from setwise.service.domain.routing.audits import AuditPlan
from setwise.service.domain.truth import PersonAnswer
from setwise.service.services.analysis.noise import GroupReport, NoiseReport, report_noise
from setwise.service.services.analysis.rates import group_rates, refuse_contradicted
from setwise.service.services.annotators import Annotators
from setwise.service.stores.database import new_id
from tests.fakes import START, FakeClock
from tests.kit.databases import Database
from tests.samples import (
    ADMIN,
    ANN,
    BEN,
    CAT,
    LEAD,
    add_predictions,
    annotate_all,
    annotation,
    change,
    prediction,
    task,
)

RIGHT, WRONG = ("a", "b"), ("c",)
REREAD = 0.5


class Readers:
    """People who audit predictions of known truth, and leads who decide."""

    def __init__(self) -> None:
        self.database = Database()
        self.rng = np.random.default_rng(7)
        self.groups: dict[str, str] = {}
        self.policy = change(
            audits=AuditPlan(certification_rate=0.5, gold_reread_rate=REREAD)
        ).as_policy(prediction().id, START, "x")
        with self.database() as transaction:
            transaction.policies.add(self.policy, replacing=FIRST_POLICY_VERSION)

    def group(
        self, name: str, *people: Caller, fixed: Rates | None = None, seen: Rates | None = None
    ) -> None:
        with self.database() as transaction:
            transaction.annotators.save_group(
                AnnotatorGroup(name, name, fixed, 1, START, "x", seen)
            )
            for who in people:
                transaction.annotators.place(Annotator(who.id, name, 1))
                self.groups[who.id] = name

    def audit(
        self,
        who: Caller,
        n: int,
        *,
        alpha: float,
        beta: float,
        accuracy: float = 0.6,
        undecided: float = 0.0,
    ) -> None:
        """Let ``who`` answer, and leads decide where they are to."""
        right = self.rng.random(n) < accuracy
        errs = self.rng.random(n) < np.where(right, alpha, beta)
        mask = right ^ errs
        read = (~mask | (self.rng.random(n) < REREAD)) & (mask | (self.rng.random(n) >= undecided))
        answers = []
        for place in range(n):
            about = self._predicted(accuracy)
            answers.append(self._said(about, who, ReviewKind.AUDIT, agrees=mask[place]))
            if read[place]:
                lead = self._said(about, LEAD, ReviewKind.ADJUDICATION, agrees=right[place])
                answers.append(lead)
        self._store(answers)

    def _predicted(self, confidence: float) -> Prediction:
        return prediction(confidence=confidence)._replace(policy_version=self.policy.version)

    def _said(
        self, about: Prediction, who: Caller, kind: ReviewKind, *, agrees: bool
    ) -> tuple[ReviewTask, Annotation]:
        one = replace(task(about), kind=kind)
        said = replace(
            annotation(one, *(RIGHT if agrees else WRONG)),
            reviewer=who.id,
            kind=kind,
            group=self.groups.get(who.id, DEFAULT_GROUP),
            suggestion_shown=not kind.blind,
        )
        return one, said

    def _store(self, answers: Sequence[tuple[ReviewTask, Annotation]]) -> None:
        read = {one.prediction.id: one.prediction for one, _ in answers}
        with self.database() as transaction:
            add_predictions(transaction, *read.values())
            transaction.reviews.add_all([one for one, _ in answers])
            annotate_all(transaction, [said for _, said in answers])

    @property
    def report(self) -> NoiseReport:
        with self.database(read_only=True) as transaction:
            return report_noise(transaction)


@pytest.fixture
def readers() -> Readers:
    return Readers()


def _faults(group: GroupReport) -> list[NoiseFault]:
    return [finding.fault for finding in group.findings]


def test_gold_labels_tell_the_rates_although_agreements_are_read_by_chance(
    readers: Readers,
) -> None:
    readers.group("coders", ANN, BEN)
    readers.audit(ANN, 400, alpha=0.2, beta=0.05)
    readers.audit(BEN, 400, alpha=0.2, beta=0.05)
    report = readers.report
    found_report = report.groups["coders"]
    assert found_report.usable
    assert found_report.estimate is not None
    assert found_report.estimate.alpha.low < 0.2 < found_report.estimate.alpha.high
    assert found_report.estimate.beta.low < 0.05 < found_report.estimate.beta.high
    assert found_report.estimate.alpha.high - found_report.estimate.alpha.low < 0.12
    assert found_report.rates == found_report.estimate.rates
    alpha, beta = found_report.training_rates([0.3, 0.9])
    assert np.all(alpha <= found_report.estimate.alpha.estimate)
    assert beta.tolist() == [found_report.estimate.beta.estimate] * 2
    assert set(report.annotators) == {(ANN.id, "coders"), (BEN.id, "coders")}


def test_blind_gold_labels_say_nothing_of_answers_with_the_suggestion_in_view(
    readers: Readers,
) -> None:
    readers.audit(ANN, 400, alpha=0.2, beta=0.05)
    assert not readers.report.groups["default"].usable_with_suggestion
    with readers.database(read_only=True) as transaction:
        of = group_rates(transaction, Noise.ESTIMATED)
    assert of(PersonAnswer("default", agreed=True, shown=True), 0.5) == NO_RATES_WITH_SUGGESTION


@pytest.mark.parametrize("noise", [Noise.KNOWN, Noise.ESTIMATED])
def test_rates_set_by_hand_hold_for_the_kind_of_answer_that_they_were_set_for(
    readers: Readers, noise: Noise
) -> None:
    blind, rates = Rates(0.2, 0.05), Rates(0.05, 0.3)
    readers.group("both", fixed=blind, seen=rates)
    readers.group("blind", fixed=blind)
    readers.group("shown", seen=rates)
    readers.group("noisy", fixed=blind, seen=Rates(0.5, 0.3))
    with readers.database(read_only=True) as transaction:
        of = group_rates(transaction, noise)
    found = {
        (name, seen): of(PersonAnswer(name, agreed=True, shown=seen), 0.5)
        for name in ("both", "blind", "shown", "noisy")
        for seen in (False, True)
    }
    assert found == {
        ("both", False): blind, ("both", True): rates,
        ("blind", False): blind, ("blind", True): NO_RATES_WITH_SUGGESTION,
        ("shown", False): NO_RATES, ("shown", True): rates,
        ("noisy", False): blind, ("noisy", True): NO_RATES_WITH_SUGGESTION,
    }  # fmt: skip
    report = readers.report.groups["noisy"]
    assert report.usable
    assert [one.fault for one in report.findings] == [NoiseFault.TOO_NOISY]


def test_the_report_is_the_same_every_time(readers: Readers) -> None:
    readers.audit(ANN, 150, alpha=0.2, beta=0.1)
    assert readers.report == readers.report


@pytest.mark.parametrize(("undecided", "warned"), [(0.05, False), (0.4, True)])
def test_contradictions_that_wait_for_leads_are_said_to_bias_alpha(
    readers: Readers, undecided: float, warned: bool
) -> None:
    readers.audit(ANN, 500, alpha=0.2, beta=0.05, undecided=undecided)
    report = readers.report.groups["default"]
    assert (NoiseFault.UNDECIDED in _faults(report)) is warned
    assert report.usable
    assert report.estimate is not None
    assert (report.estimate.alpha.estimate < 0.18) is warned


def test_nothing_is_known_of_a_group_without_gold_labels(readers: Readers) -> None:
    readers.group("coders")
    report = readers.report.groups["coders"]
    assert (report.estimate, report.rates, report.usable) == (None, None, False)
    assert [finding.needed for finding in report.findings] == [50, 20]
    with pytest.raises(ValueError, match="no noise rates"):
        report.training_rates([0.5])


def test_the_owners_word_goes_before_what_gold_labels_tell(readers: Readers) -> None:
    readers.group("coders", ANN, fixed=Rates(0.1, 0.02))
    readers.audit(ANN, 30, alpha=0.2, beta=0.0)
    report = readers.report.groups["coders"]
    assert report.usable
    assert report.rates == NoiseRates(0.1, 0.02)
    assert [rate.tolist() for rate in report.training_rates([0.5, 0.6])] == [
        [0.1, 0.1],
        [0.02, 0.02],
    ]
    readers.group("students", fixed=Rates(0.5, 0.3))
    assert _faults(readers.report.groups["students"]) == [NoiseFault.TOO_NOISY]


def test_rates_that_gold_labels_contradict_are_refused_and_teach_nothing(
    readers: Readers,
) -> None:
    annotators = Annotators(readers.database, FakeClock(), new_id)
    readers.group("coders", ANN, BEN, fixed=Rates(0.45, 0.05))
    readers.audit(ANN, 300, alpha=0.2, beta=0.05)
    report = readers.report.groups["coders"]
    assert not report.usable
    assert _faults(report) == [NoiseFault.OUTSIDE_ESTIMATE]
    with pytest.raises(InvalidRequest) as error:
        annotators.change_group(ADMIN, "coders", GroupChange("coders", Rates(0.45, 0.05)), None)
    assert [fault.pointer for fault in error.value.faults] == ["/noise"]
    annotators.change_group(ADMIN, "coders", GroupChange("coders"), None)
    with (
        readers.database(read_only=True) as transaction,
        pytest.raises(InvalidRequest, match="contradict"),
    ):
        refuse_contradicted(transaction, Rates(0.45, 0.05))


def test_while_contradictions_wait_learning_takes_the_cautious_ends(readers: Readers) -> None:
    readers.audit(ANN, 300, alpha=0.2, beta=0.05, undecided=0.6)
    report = readers.report.groups["default"]
    assert report.estimate is not None
    alpha, beta = report.training_rates([0.5, 0.9])
    assert alpha.tolist() == [report.estimate.alpha.low] * 2
    assert beta.tolist() == [report.estimate.beta.high] * 2


def test_an_auditor_who_stops_looking_shows_in_the_agreements_that_leads_read_again(
    readers: Readers,
) -> None:
    readers.audit(ANN, 300, alpha=0.2, beta=0.05)
    readers.audit(CAT, 120, alpha=0.0, beta=1.0)
    annotators = Annotators(readers.database, FakeClock(), new_id)
    of = {report.id: report.agreements for report in annotators.page(LEAD)}
    ann, cat = of[ANN.id], of[CAT.id]
    assert ann is not None
    assert cat is not None
    assert ann.rate is not None
    assert cat.rate is not None
    assert ann.rate.high < 0.1 < 0.3 < cat.rate.low
    assert cat.rate.value == cat.contradicted / cat.read_again
    n, k = cat.read_again, cat.contradicted
    # Clopper and Pearson's: at each bound, what was found has a chance of one in twenty.
    assert binom.sf(k - 1, n, cat.rate.low) == pytest.approx(0.05)
    assert binom.cdf(k, n, cat.rate.high) == pytest.approx(0.05)
    withheld = replace(annotators, personal_figures="self")
    others = [report for report in withheld.page(LEAD) if report.id != LEAD.id]
    assert {report.agreements for report in others} == {None}
    assert withheld.own(CAT).agreements == cat


def test_the_interval_of_alpha_holds_whatever_leads_decide_on_what_waits(readers: Readers) -> None:
    readers.audit(ANN, 400, alpha=0.2, beta=0.05, undecided=0.6)
    report = readers.report.groups["default"]
    assert report.estimate is not None
    assert report.waiting > 50
    assert report.estimate.alpha.estimate < 0.15
    assert report.estimate.alpha.low < 0.2 < report.estimate.alpha.high
    assert report.blind is not None
    assert report.blind.waiting == report.waiting


def test_what_is_known_is_shown(readers: Readers) -> None:
    readers.audit(ANN, 400, alpha=0.2, beta=0.05)
    report = readers.report.groups["default"]
    assert report.blind is not None
    assert report.blind.pooled == ("default",)
    assert 0.0 < report.blind.alpha.low < report.blind.alpha.value < report.blind.alpha.high
    assert report.usable
