"""Run a plan by week: documents arrive, people review, the service certifies."""

from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import asdict, dataclass, field, replace
from datetime import timedelta
from random import Random

from setwise.service.domain.breaker import Position
from setwise.service.domain.callers import SYSTEM
from setwise.service.domain.certification import Scorer
from setwise.service.domain.errors import CertificateNeeded, NotEnoughReviews, RatesUnknown
from setwise.service.domain.policy import ThresholdMode
from setwise.service.domain.predictions import Decision, Prediction, Submission
from setwise.service.domain.recalibration import Activate, Options
from setwise.service.domain.reviews import ReviewKind
from setwise.service.domain.routing.segments import value_of
from setwise.service.services.predictions import MOST_DOCUMENTS, all_predicted
from setwise.service.simulation.office import START, Office, opened
from setwise.service.simulation.plan import BadPlan, Drift, Plan
from setwise.service.simulation.streams import Item, Labels, Stream, drifted

DAYS = 5
"""Working days of a week; the documents spread over them evenly."""


@dataclass(frozen=True)
class Week:
    """The results of a week."""

    week: int
    """From 1. Received documents, those sent automatically, and those of the latter that were
    right.
    """
    documents: int
    sent: int
    right: int
    threshold: float | None
    """Lowest confidence that is sent at the end of the week; None if nothing is sent."""
    certified: bool
    """Whether a certificate proves the threshold; False after the breaker has tripped."""
    lacking: str | None
    """Why the last certification failed."""
    further_audits: int | None
    """Estimated number of audits that a certificate still needs."""
    breaker: Position
    """State of the breaker at the end of the week."""
    trips: int
    """Number of trips in the week."""
    reviews: int
    audits: int
    overlaps: int
    adjudications: int
    """Documents read, by kind of task."""
    hours: float
    """Working time of all people."""
    bad_sent: int = 0
    bad_right: int = 0
    """Documents of the bad site that were sent, and those of them that were right."""
    recalibrated: bool = False
    """Whether a new calibrator was activated at the end of the week."""

    @property
    def coverage(self) -> float:
        """Share of the documents that were sent."""
        return self.sent / self.documents

    @property
    def accuracy(self) -> float | None:
        """Share of the sent sets that were right; None without any."""
        return self.right / self.sent if self.sent else None

    def to_json(self) -> dict[str, object]:
        """Return the fields with coverage and accuracy."""
        return {**asdict(self), "coverage": self.coverage, "accuracy": self.accuracy}


@dataclass
class _Run:
    """A running simulation."""

    plan: Plan
    stream: Stream
    office: Office
    truths: dict[str, Labels] = field(default_factory=dict)

    def weeks(self) -> Iterator[Week]:
        for week in range(1, self.plan.weeks + 1):
            made: list[Prediction] = []
            done: Counter[ReviewKind] = Counter()
            for day in range(DAYS):
                self.office.clock.reach(START + timedelta(weeks=week - 1, days=day))
                made += self._post(week, day)
                done += self._read(week)
                if self.plan.fixed_threshold is None:
                    self._govern()
            recalibrated = self._recalibrate(week)
            if self._due(week, self.plan.recertify_every) and self._certified():
                self.office.services.certification.certify(self.office.owner.id)
            yield replace(self._week(week, made, done), recalibrated=recalibrated)

    def _govern(self) -> None:
        """Run scheduled tasks; reset a tripped breaker if a certificate allows."""
        services = self.office.services
        services.breaker.watch()
        services.certification.certify_if_due()
        for part in services.policy.get(self.office.owner).units:
            if part.trip_id is not None:
                with suppress(CertificateNeeded):  # the breaker stays open
                    services.breaker.reset(self.office.owner, segment=value_of(part.unit))

    def _due(self, week: int, every: int) -> bool:
        return self.plan.fixed_threshold is None and every > 0 and week % every == 0

    def _recalibrate(self, week: int) -> bool:
        """Recalibrate if it is time; return whether a new calibrator is active."""
        forced = week in self.plan.new_calibrators
        due = self._due(week, self.plan.recalibrate_every) and not self._certified()
        if not forced and not due:
            return False
        source, owner = self.office.services.predictions.predictors, self.office.owner
        before = source.active().calibrator_version
        wanted = Options(self.plan.noise, Activate.NEVER if forced else Activate.IF_BETTER)
        with suppress(NotEnoughReviews, RatesUnknown):  # too early
            made, _ = self.office.services.recalibration.run(
                wanted, lambda _, __: None, requested_by=owner.id
            )
            if forced:
                self.office.services.recalibration.activate(owner, made.id)
        return source.active().calibrator_version != before

    def _certified(self) -> bool:
        """Return whether a certificate lets sets of the active model be sent."""
        policy = self.office.services.policy.get(self.office.owner)
        active = self.office.services.predictions.predictors.active()
        return (
            policy.threshold_mode is ThresholdMode.CERTIFIED
            and policy.trip_id is None
            and policy.least_of(Scorer(active.version, active.calibrator_version)) is not None
        )

    def _post(self, week: int, day: int) -> list[Prediction]:
        first = (week - 1) * self.plan.documents
        start, end = (first + self.plan.documents * part // DAYS for part in (day, day + 1))
        made: list[Prediction] = []
        for place in range(start, end, MOST_DOCUMENTS):
            items = [self._item(n) for n in range(place, min(place + MOST_DOCUMENTS, end))]
            outcomes = self.office.services.predictions.predict(
                [Submission(self.office.client, item.document) for item in items]
            )
            for item, prediction in zip(items, all_predicted(outcomes), strict=True):
                self.truths[prediction.name] = self._truth(item, week)
                made.append(prediction)
        return made

    def _item(self, number: int) -> Item:
        item, sites = self.stream.item(number), self.plan.sites
        if sites is None:
            return item
        site = sites.of(number)
        return item._replace(document=item.document._replace(metadata={"site": site}))

    def _truth(self, item: Item, week: int) -> Labels:
        draw = Random(f"{self.plan.seed}/drift/{item.document.id}")  # noqa: S311 -- no secret
        truth, sites = item.truth, self.plan.sites
        if sites is not None and item.document.metadata["site"] == sites.bad:
            truth = drifted(truth, Drift(1, sites.wrong), week, self.stream.labels, draw)
        return drifted(truth, self.plan.drift, week, self.stream.labels, draw)

    def _right(self, made: Sequence[Prediction]) -> int:
        return sum(set(one.scored.labels) == set(self.truths[one.name]) for one in made)

    def _read(self, week: int) -> Counter[ReviewKind]:
        """Let reviewers empty the queue in parallel, then let the lead adjudicate."""
        services, lead = self.office.services, self.office.lead
        done: Counter[ReviewKind] = Counter()
        while taken := [
            (annotator, task)
            for annotator in self.office.annotators
            if (task := services.reviews.claim(annotator.caller)) is not None
        ]:
            self.office.clock.advance(self.plan.minutes)
            for annotator, task in taken:
                truth = self.truths[task.prediction.name]
                labels = annotator.answer(task, truth, self.stream.labels, week)
                services.reviews.complete(annotator.caller, task.id, labels, None, task.version)
                done[task.kind] += 1
        while (task := services.reviews.claim(lead)) is not None:
            self.office.clock.advance(self.plan.minutes)
            truth = self.truths[task.prediction.name]
            services.reviews.complete(lead, task.id, truth, None, task.version)
            done[task.kind] += 1
        return done

    def _week(self, week: int, made: list[Prediction], done: Mapping[ReviewKind, int]) -> Week:
        sent = [one for one in made if one.decision is Decision.AUTO]
        policy = self.office.services.policy.get(SYSTEM)
        newest = self.office.services.certification.page(SYSTEM, limit=1).items
        active = self.office.services.predictions.predictors.active()
        certified = self._certified()
        lacking = newest[0] if newest and not certified else None
        state = self.office.services.breaker.get(SYSTEM)
        began = START + timedelta(weeks=week - 1)
        sites = self.plan.sites
        bad = [one for one in sent if sites and one.document.metadata["site"] == sites.bad]
        return Week(
            week=week,
            documents=len(made),
            sent=len(sent),
            right=self._right(sent),
            bad_sent=len(bad),
            bad_right=self._right(bad),
            threshold=policy.least_of(Scorer(active.version, active.calibrator_version)),
            certified=certified,
            lacking=lacking.reason if lacking else None,
            further_audits=lacking.further_audits if lacking else None,
            breaker=state.watch.position,
            trips=sum(trip.created_at >= began for trip, _ in state.trips),
            reviews=done.get(ReviewKind.REVIEW, 0),
            audits=done.get(ReviewKind.AUDIT, 0),
            overlaps=done.get(ReviewKind.OVERLAP, 0),
            adjudications=done.get(ReviewKind.ADJUDICATION, 0),
            hours=sum(done.values()) * self.plan.minutes / 60.0,
        )


def simulate(
    plan: Plan, stream: Stream, report: Callable[[Week], None] = lambda _: None
) -> list[Week]:
    """Run a plan on a stream; report each week, and return all.

    Equal plans and streams give equal weeks. Raises `BadPlan` if the plan does not fit the stream.
    """
    label = plan.drift.label if plan.drift is not None else None
    if label is not None and label not in stream.labels:
        raise BadPlan(f"drift-label: {label!r} is not a label of the model")
    weeks: list[Week] = []
    with opened(plan, stream) as office:
        for week in _Run(plan, stream, office).weeks():
            report(week)
            weeks.append(week)
    return weeks


def summary(weeks: Sequence[Week]) -> dict[str, object]:
    """Return the totals of all weeks."""
    sent, documents = sum(week.sent for week in weeks), sum(week.documents for week in weeks)
    return {
        "documents": documents,
        "sent": sent,
        "coverage": sent / documents,
        "accuracy": sum(week.right for week in weeks) / sent if sent else None,
        "first_certificate": next((week.week for week in weeks if week.certified), None),
        "hours": sum(week.hours for week in weeks),
        "bad_sent": sum(week.bad_sent for week in weeks),
        "bad_right": sum(week.bad_right for week in weeks),
    }
