"""Play a scenario by week: documents arrive, people review, the service certifies."""

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from datetime import timedelta
from random import Random

from setwise.service.domain.accounts.callers import SYSTEM
from setwise.service.domain.breaker import Position
from setwise.service.domain.certification import Scorer
from setwise.service.domain.errors import CertificateNeeded, NotEnoughReviews, RatesUnknown
from setwise.service.domain.predictions import Decision, Prediction, Submission
from setwise.service.domain.recalibration import Activate, Options
from setwise.service.domain.reviews import ReviewKind
from setwise.service.services.predictions import MOST_DOCUMENTS, all_predicted
from tests.simulation.office import START, Office, Scenario, open_office
from tests.simulation.streams import Labels, Stream

DAYS = 5
"""Working days of a week; the documents spread over them evenly."""

MINUTES = 2.0
"""Working time per document."""


@dataclass(frozen=True)
class Week:
    """The results of a week."""

    week: int
    """From 1."""
    documents: int
    sent: int
    """Documents that were sent automatically."""
    right: int
    """Those of them that were right."""
    threshold: float | None
    """Lowest confidence that is sent at the end of the week; None if nothing is sent."""
    certified: bool
    """Whether a certificate proves the threshold; False after the breaker has tripped."""
    lacking: str | None
    """Why the last certification failed."""
    breaker: Position
    """State of the breaker at the end of the week."""
    trips: int
    """Number of trips in the week."""
    reviews: int
    audits: int
    adjudications: int
    """Documents read, by kind of task."""
    recalibrated: bool
    """Whether a new calibrator was activated at the end of the week."""

    @property
    def coverage(self) -> float:
        """Share of the documents that were sent."""
        return self.sent / self.documents

    @property
    def accuracy(self) -> float | None:
        """Share of the sent sets that were right; None without any."""
        return self.right / self.sent if self.sent else None

    @property
    def hours(self) -> float:
        """Working time of all people."""
        return (self.reviews + self.audits + self.adjudications) * MINUTES / 60.0


def simulate(scenario: Scenario, stream: Stream) -> list[Week]:
    """Play a scenario on a stream; equal scenarios and streams give equal weeks."""
    with open_office(scenario, stream) as office:
        return list(_Run(scenario, stream, office).weeks())


@dataclass
class _Run:
    """A running simulation."""

    scenario: Scenario
    stream: Stream
    office: Office
    truths: dict[str, Labels] = field(default_factory=dict)

    def weeks(self) -> Iterator[Week]:
        certifies = self.scenario.fixed_threshold is None
        for week in range(1, self.scenario.weeks + 1):
            predictions: list[Prediction] = []
            readings: Counter[ReviewKind] = Counter()
            for day in range(DAYS):
                morning = START + timedelta(weeks=week - 1, days=day)
                self.office.clock.instant = max(self.office.clock.instant, morning)
                predictions += self._post(week, day)
                readings += self._read()
                if certifies:
                    self._govern()
            recalibrated = self._recalibrate(week)
            every = self.scenario.recertify_every
            if certifies and every and week % every == 0 and self._certified():
                self.office.services.certification.certify(self.office.owner.id)
            yield self._week(week, predictions, readings, recalibrated=recalibrated)

    def _govern(self) -> None:
        """Run scheduled tasks; reset a tripped breaker if a certificate allows."""
        services = self.office.services
        services.breaker.watch()
        services.certification.certify_if_due()
        if services.policy.get(self.office.owner).gates[0].tripped:
            with suppress(CertificateNeeded):  # the breaker stays open
                services.breaker.reset(self.office.owner)

    def _recalibrate(self, week: int) -> bool:
        """Recalibrate if it is time; return whether a new calibrator is active."""
        forced = week in self.scenario.new_calibrators
        every = self.scenario.recalibrate_every
        if not forced and (not every or week % every or self._certified()):
            return False
        before, owner = self._scorer(), self.office.owner
        recalibration = self.office.services.recalibration
        options = Options(self.scenario.noise, Activate.NEVER if forced else Activate.IF_BETTER)
        with suppress(NotEnoughReviews, RatesUnknown):  # too early
            calibration, _ = recalibration.run(options, lambda _, __: None, requested_by=owner.id)
            if forced:
                recalibration.activate(owner, calibration.id)
        return self._scorer() != before

    def _scorer(self) -> Scorer:
        active = self.office.services.predictions.predictors.active()
        return Scorer(active.version, active.calibrator_version)

    def _certified(self) -> bool:
        """Return whether a certificate lets sets of the active model be sent."""
        policy = self.office.services.policy.get(self.office.owner)
        certifies = policy.certified and not policy.gates[0].tripped
        return certifies and policy.least_of(self._scorer()) is not None

    def _post(self, week: int, day: int) -> list[Prediction]:
        per_week = self.scenario.documents
        first = (week - 1) * per_week
        start, end = (first + per_week * part // DAYS for part in (day, day + 1))
        predictions: list[Prediction] = []
        for place in range(start, end, MOST_DOCUMENTS):
            numbers = range(place, min(place + MOST_DOCUMENTS, end))
            items = [self.stream.item(number) for number in numbers]
            outcomes = self.office.services.predictions.predict(
                [Submission(self.office.client, item.document) for item in items]
            )
            for item, prediction in zip(items, all_predicted(outcomes), strict=True):
                truth, drift = item.truth, self.scenario.drift
                if drift is not None:
                    draw = Random(f"{self.scenario.seed}/drift/{item.document.id}")
                    truth = drift.truth(truth, week, self.stream.labels, draw)
                self.truths[prediction.name] = truth
                predictions.append(prediction)
        return predictions

    def _read(self) -> Counter[ReviewKind]:
        """Let reviewers empty the queue in parallel, then let the lead adjudicate."""
        reviews, lead = self.office.services.reviews, self.office.lead
        readings: Counter[ReviewKind] = Counter()
        while tasks := [
            (reviewer, task)
            for reviewer in self.office.reviewers
            if (task := reviews.queue.claim(reviewer.caller)) is not None
        ]:
            self.office.clock.advance(minutes=MINUTES)
            for reviewer, task in tasks:
                truth = self.truths[task.prediction.name]
                labels = reviewer.answer(task, truth, self.stream.labels)
                reviews.complete(reviewer.caller, task.id, labels, None, task.version)
                readings[task.kind] += 1
        while (task := reviews.queue.claim(lead)) is not None:
            self.office.clock.advance(minutes=MINUTES)
            truth = self.truths[task.prediction.name]
            reviews.complete(lead, task.id, truth, None, task.version)
            readings[task.kind] += 1
        return readings

    def _week(
        self,
        week: int,
        predictions: Sequence[Prediction],
        readings: Mapping[ReviewKind, int],
        *,
        recalibrated: bool,
    ) -> Week:
        services = self.office.services
        sent_predictions = [each for each in predictions if each.decision is Decision.AUTO]
        newest = services.certification.page(SYSTEM, limit=1).items
        certified = self._certified()
        breaker = services.breaker.get(SYSTEM)
        began = START + timedelta(weeks=week - 1)
        return Week(
            week=week,
            documents=len(predictions),
            sent=len(sent_predictions),
            right=sum(
                set(each.scored.labels) == set(self.truths[each.name]) for each in sent_predictions
            ),
            threshold=services.policy.get(SYSTEM).least_of(self._scorer()),
            certified=certified,
            lacking=newest[0].reason if newest and not certified else None,
            breaker=breaker.watch.position,
            trips=sum(trip.created_at >= began for trip, _ in breaker.trips),
            reviews=readings.get(ReviewKind.REVIEW, 0),
            audits=readings.get(ReviewKind.AUDIT, 0),
            adjudications=readings.get(ReviewKind.ADJUDICATION, 0),
            recalibrated=recalibrated,
        )
