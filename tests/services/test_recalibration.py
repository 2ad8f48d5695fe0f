"""From reviews to a calibrator that serves, or to what keeps one from being learnt."""

import random
import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

import numpy as np
import pytest
from pydantic import TypeAdapter

from setwise.models.calibration.calibration_rows import CalibrationRows
from setwise.models.calibration.recalibration import AnnouncedSets
from setwise.models.sets.candidates import RaggedSets
from setwise.service.domain import annotators
from setwise.service.domain.accounts.callers import Caller
from setwise.service.domain.errors import (
    InvalidRequest,
    ModelUnavailable,
    NotEnoughReviews,
    RatesUnknown,
)
from setwise.service.domain.predictions import (
    Candidate,
    Document,
    Prediction,
    ScoredSet,
    Submission,
)
from setwise.service.domain.recalibration import (
    BEFORE_THE_ALARM,
    EXACT,
    LEAST_ROWS,
    NO_RATES,
    TO_CERTIFY,
    WAITS_FOR_A_LEAD,
    Activate,
    Calibration,
    Noise,
    Options,
    Rates,
)
from setwise.service.domain.recalibration.report import (
    ErrorsCorrected,
    GroupErrorRates,
    OriginalRows,
)
from setwise.service.domain.routing.audits import AuditMode, AuditPlan, AuditRole
from setwise.service.services.predictions import all_predicted
from setwise.service.stores.transaction import Transactions
from tests.fakes import (
    FakePredictor,
    scored_set,
)
from tests.kit.clinic import Clinic
from tests.kit.databases import Database
from tests.kit.loop import settle_all
from tests.samples import (
    ADMIN,
    ANN,
    CLIENT,
    LEAD,
    annotate_all,
    annotation,
    change,
    model,
    outcome,
    trip,
)

RIGHT, WRONG = ["a", "b"], ["c"]


def overconfident(confidence: float) -> float:
    """Return how often a set with this confidence is right."""
    return 0.35 + 0.3 * confidence


@dataclass
class Loop(Clinic):
    """A clinic whose model answers RIGHT, too sure of itself."""

    documents: int = 0
    seed: int = 1

    def __post_init__(self) -> None:
        self.draw = random.Random(self.seed)
        self.reviewing = {"most_leases": 100_000}
        self.change_policy = self.policies.change
        self.model = model("sha256:model")
        self.told: list[tuple[float, str]] = []

    def register(self) -> None:
        with self.begin() as transaction:
            transaction.models.add(self.model)
            transaction.models.activate(self.model.id, self.now(), self.new_id())

    def predict(self, n: int, *, least: float = 0.05) -> list[Prediction]:
        texts = [f"{self.draw.uniform(least, 0.99):.6f}" for _ in range(n)]
        made = self.predictions.predict(
            [
                Submission(CLIENT, Document(id=f"note {self.documents + place}", text=text))
                for place, text in enumerate(texts)
            ]
        )
        self.documents += n
        return all_predicted(made)

    def settle(self, who: Caller, most: int | None = None) -> None:
        """Let ``who`` empty the queue, or answer the first so many."""
        settle_all(self.reviews, who, lambda made: self.answer(made, EXACT), most)
        self.now.advance(minutes=1)

    def review(
        self,
        made: Sequence[Prediction],
        who: Caller = ANN,
        rates: Rates = EXACT,
        group: str = annotators.DEFAULT_GROUP,
    ) -> None:
        """Let ``who`` review predictions, all at once."""
        ids = {one.id for one in made}
        with self.begin() as transaction:
            tasks = transaction.reviews.page(state=None, reason=None, after=None, limit=100_000)
            answers = [
                replace(
                    annotation(task, *self.answer(task.prediction, rates)),
                    id=self.new_id(),
                    reviewer=who.id,
                    group=group,
                    created_at=self.now(),
                )
                for task in tasks.items
                if task.prediction.id in ids
            ]
            annotate_all(transaction, answers)
        self.now.advance(minutes=1)

    def report(self, made: Sequence[Prediction], answer: Callable[[int], list[str]]) -> None:
        """Report an outcome of each."""
        with self.begin() as transaction:
            for place, one in enumerate(made):
                told = outcome(one, *answer(place))
                transaction.outcomes.add(replace(told, id=self.new_id(), created_at=self.now()))

    def answer(self, made: Prediction, rates: Rates = EXACT) -> list[str]:
        """Answer with errors; whether the set is right follows from the document alone."""
        right = random.Random(made.name).random() < overconfident(made.scored.confidence)
        wrong_answer = self.draw.random() < (rates.alpha if right else rates.beta)
        return RIGHT if right != wrong_answer else WRONG

    def run(self, **options: object) -> tuple[Calibration, str]:
        def report(progress: float, message: str) -> None:
            self.told.append((progress, message))

        return self.recalibration.run(Options(**options), report, requested_by=ADMIN.id)


@pytest.fixture
def loop(begin: Transactions) -> Loop:
    loop = Loop(begin)
    loop.register()
    return loop


def test_reviews_teach_how_sure_to_be(loop: Loop) -> None:
    loop.review(loop.predict(400), ANN)
    calibration, why = loop.run(activate=Activate.IF_BETTER)
    assert calibration.active
    assert why.startswith("it is better, so it serves now. No certificate holds")
    assert "No certificate holds" in calibration.report.sending
    before, after = calibration.report.before, calibration.report.after
    assert after.brier.value < before.brier.value
    assert after.alignment_error.value < before.alignment_error.value / 3
    assert calibration.report.comparison.p_value < 0.01
    judgements = [half.judgement for half in (before, after)]
    assert [judgement.ece.low > 0.0 for judgement in judgements] == [True, False]
    assert [judgement.calibrated_p < 0.05 for judgement in judgements] == [True, False]
    assert all("(AUROC 0." in judgement.sentence for judgement in judgements)
    assert calibration.report.rows.used == 400
    assert calibration.replaces == "sha256:calibrator"
    assert calibration.version != calibration.replaces
    assert [message for _, message in loop.told if message.startswith("fold")] == [
        f"fold {number} of 5" for number in range(1, 6)
    ]
    assert [progress for progress, _ in loop.told] == sorted(p for p, _ in loop.told)
    assert loop.loader.followed == 1
    with loop.begin(read_only=True) as transaction:
        assert transaction.calibrations.active(loop.model.id) == calibration
        actions = [one.action for one in transaction.audit_trail.page(after=None, limit=2).items]
    assert actions == ["calibration.activated", "calibration.made"]


def test_the_same_reviews_give_the_same_calibrator_once(loop: Loop) -> None:
    loop.review(loop.predict(LEAST_ROWS), ANN)
    first, why = loop.run()
    assert (first.active, why) == (False, "not asked to: activate it by hand")
    second, _ = loop.run()
    assert second == first
    third, _ = loop.run(activate=Activate.IF_BETTER)
    assert third == replace(first, active=True)
    again, why = loop.run(activate=Activate.IF_BETTER)
    assert again == third
    assert "serves already" in why
    with loop.begin(read_only=True) as transaction:
        assert transaction.calibrations.page(after=None, limit=9).items == (third,)


def test_what_proves_the_threshold_teaches_nothing(loop: Loop) -> None:
    loop.change_policy(ADMIN, change(threshold=0.0, audits=AuditPlan(0.1, 0.9)), None)
    predictions = loop.predict(240)
    to_certify = [one for one in predictions if one.selection.role is AuditRole.CERTIFICATION]
    loop.settle(ANN)
    loop.settle(LEAD)
    calibration, _ = loop.run()
    assert 0 < len(to_certify) < 40
    assert calibration.report.rows.excluded[TO_CERTIFY] == len(to_certify)
    assert calibration.report.rows.used == 240 - len(to_certify)
    assert calibration.report.rows.by_source == {"audit": 240 - len(to_certify)}


def test_audits_weigh_as_much_as_the_sets_that_were_sent(
    loop: Loop, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("tests.services.test_recalibration.overconfident", lambda c: c)
    plan = AuditPlan(training_rate=0.4, mode=AuditMode.SEND)
    loop.change_policy(ADMIN, change(threshold=0.5, audits=plan), None)
    predictions = loop.predict(360)
    loop.settle(ANN)
    loop.settle(LEAD)
    calibration, _ = loop.run()
    # Accuracy over the whole stream; over what was read it is that of the unsure half, nearly.
    expected = sum(one.scored.confidence for one in predictions) / len(predictions)
    assert calibration.report.before.accuracy == pytest.approx(expected, abs=0.07)


def test_contradictions_that_wait_for_a_lead_are_left_out_and_said(loop: Loop) -> None:
    loop.change_policy(ADMIN, change(threshold=0.0, audits=AuditPlan(0.0, 1.0)), None)
    loop.predict(330)
    loop.settle(ANN)
    with pytest.raises(NotEnoughReviews, match=r"contradicts the model, and no lead"):
        loop.run()
    loop.settle(LEAD, 70)
    calibration, _ = loop.run()
    (text,) = calibration.report.warnings
    assert "wait for a lead" in text
    loop.settle(LEAD)
    calibration, _ = loop.run()
    assert calibration.report.warnings == ()
    assert calibration.report.rows.used == 330
    assert calibration.report.rows.excluded[WAITS_FOR_A_LEAD] == 0


def test_a_model_without_history_learns_from_the_fiftieth_review_on() -> None:
    loop = Loop(Database())
    loop.model = replace(loop.model, summary={"method": "external"})
    loop.register()
    loop.review(loop.predict(49))
    with pytest.raises(NotEnoughReviews, match=r"it takes 50\. Complete 1 more"):
        loop.run()
    loop.review(loop.predict(1))
    calibration, _ = loop.run(activate=Activate.IF_BETTER)
    rows = calibration.report.rows
    assert (rows.used, rows.original.rows) == (50, 0)
    assert rows.original.reason == "the model was started without history"
    assert calibration.report.comparison.n == 50


def test_outcomes_teach_too(loop: Loop) -> None:
    loop.change_policy(ADMIN, change(threshold=0.0), None)
    loop.report(loop.predict(LEAST_ROWS), lambda place: RIGHT if place % 3 else WRONG)
    calibration, _ = loop.run()
    assert calibration.report.rows.by_source == {"outcome": LEAST_ROWS}


def test_known_noise_is_corrected_for(loop: Loop) -> None:
    rates = Rates(0.3, 0.05)
    loop.review(loop.predict(600), rates=rates)
    naive, _ = loop.run()
    aware, _ = loop.run(noise=Noise.KNOWN, rates=rates)
    expected = 0.35 + 0.3 * 0.52
    assert naive.report.before.accuracy < expected - 0.08
    assert aware.report.before.accuracy == pytest.approx(expected, abs=0.08)
    assert aware.version != naive.version
    groups = {"default": GroupErrorRates(600, pytest.approx(0.3), pytest.approx(0.05))}
    assert aware.report.noise == ErrorsCorrected("known", groups)


@pytest.mark.parametrize("training_rate", [0.0, 0.5])
def test_reviews_of_what_is_not_sent_do_not_vouch_for_what_is(
    loop: Loop, monkeypatch: pytest.MonkeyPatch, training_rate: float
) -> None:
    monkeypatch.setattr("tests.services.test_recalibration.overconfident", lambda c: 0.6)
    audits = AuditPlan(training_rate=training_rate, mode=AuditMode.SEND)
    loop.change_policy(ADMIN, change(threshold=0.6, audits=audits), None)
    loop.predict(370)
    loop.settle(ANN)
    loop.settle(LEAD)
    calibration, why = loop.run(activate=Activate.IF_BETTER)
    assert calibration.active is (training_rate > 0)
    warnings = calibration.report.warnings
    assert any("audit.training_rate" in each for each in warnings) is (training_rate == 0)
    assert ("training audits or outcomes" in why) is (training_rate == 0)


@pytest.mark.parametrize("seed", [1, *(pytest.param(n, marks=pytest.mark.verify) for n in (2, 3))])
def test_gold_labels_judge_what_was_fitted_with_wrong_rates(
    monkeypatch: pytest.MonkeyPatch, seed: int
) -> None:
    # The calibrator that serves is perfect. Reviewers see the suggestion and agree too often; the
    # rates are those of their blind answers.
    monkeypatch.setattr("tests.services.test_recalibration.overconfident", lambda c: c)
    loop = Loop(Database(), seed=seed)
    loop.register()
    loop.review(loop.predict(700), rates=Rates(0.05, 0.3))
    blind = {"noise": Noise.KNOWN, "rates": Rates(0.2, 0.05), "activate": Activate.IF_BETTER}
    # Judged by the same rates, such a calibrator would always be better.
    calibration, why = loop.run(**blind)
    assert not calibration.active
    assert calibration.report.comparison.better is True
    assert "set by hand" in why
    predictions = loop.predict(150)
    loop.report(predictions, lambda place: loop.answer(predictions[place]))
    calibration, _ = loop.run(**blind)
    assert not calibration.active
    assert calibration.report.comparison.judged_by == "gold labels"


def test_rates_that_nobody_keeps_are_asked_for(loop: Loop) -> None:
    loop.review(loop.predict(LEAST_ROWS), ANN)
    for noise in (Noise.KNOWN, Noise.ESTIMATED):
        with pytest.raises(RatesUnknown, match=r"no gold labels.*send `rates` with noise 'known'"):
            loop.run(noise=noise)


def test_each_answer_has_the_rates_of_its_group(loop: Loop) -> None:
    with loop.begin() as transaction:
        for name, fixed in (("coders", annotators.Rates(0.1, 0.0)), ("students", None)):
            transaction.annotators.save_group(
                annotators.AnnotatorGroup(name, name, fixed, 1, loop.now(), ADMIN.id, fixed)
            )
    loop.review(loop.predict(LEAST_ROWS), ANN, group="coders")
    loop.review(loop.predict(3), LEAD, group="students")
    for noise in (Noise.KNOWN, Noise.ESTIMATED):
        calibration, _ = loop.run(noise=noise)
        assert calibration.report.rows.used == LEAST_ROWS
        assert calibration.report.rows.excluded[NO_RATES] == 3
        assert calibration.report.noise.groups == {
            "coders": GroupErrorRates(LEAST_ROWS, pytest.approx(0.1), 0.0)
        }


def test_the_next_calibrator_is_compared_on_what_neither_has_seen(loop: Loop) -> None:
    loop.review(loop.predict(300), ANN)
    first, _ = loop.run(activate=Activate.IF_BETTER)
    loop.review(loop.predict(100), ANN)
    second, why = loop.run(activate=Activate.IF_BETTER)
    assert (second.active, why) == (False, second.report.comparison.sentence)
    assert why.startswith("not compared: 100 rows")
    assert second.replaces == first.version
    assert second.report.comparison.n == 100
    assert "takes 200" in second.report.comparison.reason
    with loop.begin(read_only=True) as transaction:
        active = transaction.calibrations.active(loop.model.id)
    assert active is not None
    assert active.id == first.id


class Recalibrated(FakePredictor):
    """The model behind a calibrator that halves its confidences."""

    @staticmethod
    def _score(text: str) -> ScoredSet:
        own = scored_set(float(text))
        candidates = tuple(Candidate(c.labels, c.confidence / 2, c.score) for c in own.candidates)
        said = tuple(c.confidence for c in own.candidates)
        return own._replace(
            candidates=candidates, calibrator_version="sha256:halved", replaced=said
        )


def test_what_the_model_said_by_itself_is_what_is_learnt_from(loop: Loop) -> None:
    def learnt(predictor: FakePredictor) -> str:
        loop.documents, loop.draw = 0, random.Random(3)
        loop.predictors.predictor = predictor
        predictions = loop.predict(LEAST_ROWS)
        loop.report(predictions, lambda place: RIGHT if place % 3 else WRONG)
        version = loop.run()[0].version
        with loop.begin(read_only=True) as transaction:
            stored = transaction.predictions.get(predictions[0].id)
        assert stored is not None
        assert stored.scored.own_confidences[0] == float(f"{stored.document.text}")
        return version

    assert learnt(FakePredictor()) == learnt(Recalibrated())


def test_the_rows_of_training_enter_and_are_counted(loop: Loop) -> None:
    loop.review(loop.predict(LEAST_ROWS))
    without, _ = loop.run()
    assert without.report.rows.original == OriginalRows(
        0, 0.0, "the artifact is from before they were kept"
    )
    n = 400
    labels = RaggedSets(np.arange(n + 1, dtype=np.int64), np.zeros(n, dtype=np.int32))
    half, none = np.full(n, 0.5), np.zeros(n)
    sets = AnnouncedSets(half, half, none, half, labels, n_labels=4)
    loop.calibrators.original = CalibrationRows(sets, np.ones(n, dtype=np.uint8))
    beside, _ = loop.run()
    assert beside.report.rows.original == OriginalRows(n, pytest.approx(100.0))
    assert beside.version != without.version


def test_routes_that_would_change_are_listed(loop: Loop) -> None:
    loop.change_policy(ADMIN, change(threshold=0.6), None)
    predictions = loop.predict(360)
    loop.report(predictions, lambda place: loop.answer(predictions[place]))
    calibration, _ = loop.run()
    routes = calibration.report.routes
    assert (routes.threshold, routes.threshold_from) == (0.6, "the policy")
    assert routes.to_review.count > 50
    assert len(routes.to_review.items) == min(200, routes.to_review.count)
    for one in routes.to_review.items:
        assert one.after < 0.6 <= one.before


def test_too_few_reviews_are_counted(loop: Loop) -> None:
    with pytest.raises(NotEnoughReviews, match="No prediction of this model"):
        loop.run()
    loop.review(loop.predict(40), ANN)
    with pytest.raises(NotEnoughReviews, match=r"^40 .* it takes 200\. Complete 160 more"):
        loop.run()


def test_after_a_drift_alarm_only_later_documents_teach(loop: Loop) -> None:
    loop.review(loop.predict(LEAST_ROWS), ANN)
    with loop.begin() as transaction:
        transaction.breakers.add(replace(trip(), id=loop.new_id()))
    with pytest.raises(NotEnoughReviews, match=f"{LEAST_ROWS} left out: {BEFORE_THE_ALARM}"):
        loop.run()
    loop.review(loop.predict(LEAST_ROWS), ANN)
    calibration, _ = loop.run()
    assert calibration.report.rows.used == LEAST_ROWS


def test_a_damaged_model_changes_nothing(loop: Loop) -> None:
    loop.review(loop.predict(LEAST_ROWS), ANN)
    loop.loader.damaged.add("sha256:model")
    with pytest.raises(Exception, match="cannot be loaded"):
        loop.run(activate=Activate.IF_BETTER)
    with loop.begin(read_only=True) as transaction:
        assert transaction.calibrations.active(loop.model.id) is None
        assert transaction.calibrations.page(after=None, limit=1).items == ()


def test_one_recalibration_is_asked_for_at_a_time(loop: Loop) -> None:
    first = loop.recalibration.request(
        ADMIN, Options(Noise.KNOWN, Activate.IF_BETTER, Rates(0.1, 0.2))
    )
    assert (first.kind, first.key) == ("calibration", "calibration")
    assert loop.recalibration.request(ADMIN, Options()).id == first.id
    with loop.begin(read_only=True) as transaction:
        job = transaction.jobs.get(first.id)
    assert job is not None
    assert TypeAdapter(Options).validate_python(job.payload) == Options(
        Noise.KNOWN, Activate.IF_BETTER, Rates(0.1, 0.2)
    )


@pytest.mark.parametrize(
    ("options", "pointer", "what"),
    [
        (Options(Noise.KNOWN, rates=Rates(0.6, 0.4)), "/rates", "has a sum of 1"),
        (Options(Noise.KNOWN, rates=Rates(-0.1, 0.4)), "/rates/alpha", r"lies in \[0, 1\)"),
        (Options(Noise.KNOWN, rates=Rates(0.1, 1.0)), "/rates/beta", r"lies in \[0, 1\)"),
        (Options(Noise.NONE, rates=Rates(0.1, 0.1)), "/rates", "has no effect with noise 'none'"),
    ],
)
def test_rates_that_cannot_be_are_refused(
    loop: Loop, options: Options, pointer: str, what: str
) -> None:
    with pytest.raises(InvalidRequest) as error:
        loop.recalibration.request(ADMIN, options)
    (fault,) = error.value.faults
    assert fault.pointer == pointer
    assert re.search(what, fault.detail)


def test_without_an_active_model_there_is_nothing_to_calibrate(begin: Transactions) -> None:
    loop = Loop(begin)
    with pytest.raises(ModelUnavailable):
        loop.recalibration.request(ADMIN, Options())
    with pytest.raises(ModelUnavailable):
        loop.run()
