"""Week after week: documents come, people read, the service certifies; and what came of it."""

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
from setwise.service.domain.policy import RoutingPolicy, ThresholdMode
from setwise.service.domain.predictions import Decision, Prediction
from setwise.service.domain.recalibration import Activate
from setwise.service.domain.reviews import ReviewKind, ReviewTask
from setwise.service.services.predictions import MOST_DOCUMENTS
from setwise.service.services.recalibration import Options
from setwise.service.simulation.annotators import Annotator
from setwise.service.simulation.office import START, Office, opened
from setwise.service.simulation.plan import BadPlan, Plan
from setwise.service.simulation.streams import Item, Labels, Stream, drifted

DAYS = 5
"""Working days of a week; each has its share of the documents."""


@dataclass(frozen=True)
class Week:
    """What a week came to.

    Attributes
    ----------
    week : int
        From 1.
    documents, sent, right : int
        Documents that came; those whose set left without anybody having read it first, and those
        of them whose set was right.
    threshold : float or None
        Least confidence that is sent at the end of the week; None while nothing is.
    certified : bool
        Whether a certificate proves it; none does any more once the breaker has tripped.
    lacking : str or None
        Why nothing is proved, if so.
    further_audits : int or None
        About how many audits are missing to prove a threshold, where that can be told.
    breaker : Position
        Of the breaker at the end of the week.
    trips : int
        How often it has tripped in the week.
    reviews, audits, overlaps, adjudications : int
        What people read, by kind.
    hours : float
        What that took them all together.
    recalibrated : bool
        Whether another calibrator serves since the end of the week.
    """

    week: int
    documents: int
    sent: int
    right: int
    threshold: float | None
    certified: bool
    lacking: str | None
    further_audits: int | None
    breaker: Position
    trips: int
    reviews: int
    audits: int
    overlaps: int
    adjudications: int
    hours: float
    recalibrated: bool = False

    @property
    def coverage(self) -> float:
        """Share of the documents that were sent."""
        return self.sent / self.documents

    @property
    def accuracy(self) -> float | None:
        """Share of the sent sets that were right; None where none was sent."""
        return self.right / self.sent if self.sent else None

    def to_json(self) -> dict[str, object]:
        """Return it with its shares."""
        return {**asdict(self), "coverage": self.coverage, "accuracy": self.accuracy}


@dataclass
class _Run:
    """One simulation under way."""

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
                done += self._read()
                if self.plan.fixed_threshold is None:
                    self._govern()
            learnt = self._learns(week) and self._recalibrated()
            if self._asks(week):
                self.office.verbs.certify(self.office.owner.id)
            yield replace(self._week(week, made, done), recalibrated=learnt)

    def _govern(self) -> None:
        """Do what the schedule does, and let the owner start again what a certificate vouches for.

        A trip by the audits themselves comes with the answer that raises the alarm.
        """
        verbs = self.office.verbs
        verbs.watch_audits()
        verbs.certify.if_due()
        if verbs.get_policy(self.office.owner).trip_id is not None:
            with suppress(CertificateNeeded):  # the breaker stays open until there is one
                verbs.reset_breaker(self.office.owner)

    def _learns(self, week: int) -> bool:
        """Tell whether the owner asks for a recalibration, which would cost a certificate."""
        every = self.plan.recalibrate_every
        if self.plan.fixed_threshold is not None or every == 0 or week % every:
            return False
        return not self._certified(self.office.verbs.get_policy(self.office.owner))

    def _recalibrated(self) -> bool:
        """Recalibrate from what people said; tell whether another calibrator serves now."""
        source = self.office.verbs.predict.predictors
        before = source.active().calibrator_version
        wanted = Options(self.plan.noise, Activate.IF_BETTER)
        with suppress(NotEnoughReviews, RatesUnknown):  # the owner waits
            self.office.verbs.recalibrate(
                wanted, lambda _, __: None, requested_by=self.office.owner.id
            )
        return source.active().calibrator_version != before

    def _certified(self, policy: RoutingPolicy) -> bool:
        """Tell whether a certificate lets confident sets of what serves be sent."""
        active = self.office.verbs.predict.predictors.active()
        return (
            policy.threshold_mode is ThresholdMode.CERTIFIED
            and policy.trip_id is None
            and policy.least_of(Scorer(active.version, active.calibrator_version)) is not None
        )

    def _asks(self, week: int) -> bool:
        """Tell whether the owner hopes for a lower threshold; the first one comes by itself."""
        every = self.plan.recertify_every
        if self.plan.fixed_threshold is not None or every == 0 or week % every:
            return False
        return self._certified(self.office.verbs.get_policy(self.office.owner))

    def _post(self, week: int, day: int) -> list[Prediction]:
        first = (week - 1) * self.plan.documents
        start, end = (first + self.plan.documents * part // DAYS for part in (day, day + 1))
        made: list[Prediction] = []
        for place in range(start, end, MOST_DOCUMENTS):
            items = [self.stream.item(n) for n in range(place, min(place + MOST_DOCUMENTS, end))]
            outcomes = self.office.verbs.predict_batch(
                self.office.client, [item.document for item in items]
            )
            for item, outcome in zip(items, outcomes, strict=True):
                if isinstance(outcome, Exception):
                    raise outcome
                self.truths[outcome.name] = self._truth(item, week)
                made.append(outcome)
        return made

    def _truth(self, item: Item, week: int) -> Labels:
        draw = Random(f"{self.plan.seed}/drift/{item.document.id}")  # noqa: S311 -- no secret
        return drifted(item.truth, self.plan.drift, week, self.stream.labels, draw)

    def _read(self) -> Counter[ReviewKind]:
        """Let people empty the queue, all at once, then the lead what only leads may decide."""
        done: Counter[ReviewKind] = Counter()
        while taken := self._claimed():
            self.office.clock.advance(self.plan.minutes)
            for annotator, task in taken:
                self._complete(annotator, task)
                done[task.kind] += 1
        return done + self._decide()

    def _claimed(self) -> list[tuple[Annotator, ReviewTask]]:
        claims = (
            (annotator, self.office.verbs.claim_review(annotator.caller))
            for annotator in self.office.annotators
        )
        return [(annotator, task) for annotator, task in claims if task is not None]

    def _complete(self, annotator: Annotator, task: ReviewTask) -> None:
        truth = self.truths[task.prediction.name]
        labels = annotator.answer(task, truth, self.stream.labels)
        self.office.verbs.complete_review(annotator.caller, task.id, labels, None, task.version)

    def _decide(self) -> Counter[ReviewKind]:
        done: Counter[ReviewKind] = Counter()
        while (task := self.office.verbs.claim_review(self.office.lead)) is not None:
            self.office.clock.advance(self.plan.minutes)
            truth = self.truths[task.prediction.name]
            self.office.verbs.complete_review(self.office.lead, task.id, truth, None, task.version)
            done[task.kind] += 1
        return done

    def _week(self, week: int, made: list[Prediction], done: Mapping[ReviewKind, int]) -> Week:
        sent = [one for one in made if one.decision is Decision.AUTO]
        policy = self.office.verbs.get_policy(SYSTEM)
        newest = self.office.verbs.list_certifications(SYSTEM, limit=1).items
        active = self.office.verbs.predict.predictors.active()
        certified = self._certified(policy)
        lacking = newest[0] if newest and not certified else None
        state = self.office.verbs.get_breaker(SYSTEM)
        began = START + timedelta(weeks=week - 1)
        return Week(
            week=week,
            documents=len(made),
            sent=len(sent),
            right=sum(set(one.scored.labels) == set(self.truths[one.name]) for one in sent),
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


def nothing(_: Week) -> None:
    """Tell nobody."""


def simulate(plan: Plan, stream: Stream, told: Callable[[Week], None] = nothing) -> list[Week]:
    """Run a plan on a stream.

    Parameters
    ----------
    told : callable
        Given each week as it ends.

    Returns
    -------
    list of Week
        The same one for equal plans and streams.

    Raises
    ------
    BadPlan
        If the plan does not fit the stream.
    """
    label = plan.drift.label if plan.drift is not None else None
    if label is not None and label not in stream.labels:
        raise BadPlan(f"drift-label: {label!r} is not a label of the model")
    weeks: list[Week] = []
    with opened(plan, stream) as office:
        for week in _Run(plan, stream, office).weeks():
            told(week)
            weeks.append(week)
    return weeks


def summary(weeks: Sequence[Week]) -> dict[str, object]:
    """Return what all weeks together came to."""
    sent, documents = sum(week.sent for week in weeks), sum(week.documents for week in weeks)
    return {
        "documents": documents,
        "sent": sent,
        "coverage": sent / documents,
        "accuracy": sum(week.right for week in weeks) / sent if sent else None,
        "first_certificate": next((week.week for week in weeks if week.certified), None),
        "hours": sum(week.hours for week in weeks),
    }
