"""Five weeks of work behind a fresh demo: documents, reviews, audits, a lead's decisions, outcomes.

Everything goes through the verbs that programs and people use, with a clock that is set to the time
at which it would have happened. Generated annotators answer as well as they can, which is known.
"""

# ruff: noqa: PLC0415 - the learning and serving libraries take seconds to import: only where needed

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from functools import partial
from operator import attrgetter
from random import Random
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from setwise.models.demo_notes import Note
    from setwise.service.cli.console import Report
    from setwise.service.domain.callers import Caller
    from setwise.service.domain.predictions import Prediction
    from setwise.service.domain.reviews import ReviewTask
    from setwise.service.services.verbs import Verbs

INCOMING_SEED = 3
"""The notes that come in are of another stream than those that were learnt."""

TARGET, RISK, THRESHOLD = 0.9, 0.1, 0.9
LEAST_PLAUSIBLE_S, MOST_PLAUSIBLE_S = 12, 75
"""Between claiming a document and being done with it."""

REPORTED_AFTER = timedelta(days=3)


class TravellingClock:
    """Tells the present time, or one in the past while it is there."""

    def __init__(self, now: Callable[[], datetime] = lambda: datetime.now(UTC)) -> None:
        self._now = now
        self._instant: datetime | None = None

    def __call__(self) -> datetime:
        """Return the time."""
        return self._now() if self._instant is None else self._instant

    def travel(self, instant: datetime) -> None:
        """Go to an instant; never back, and never beyond the present."""
        self._instant = max(min(instant, self._now()), self._instant or instant)

    def advance(self, seconds: float) -> None:
        """Let time pass."""
        self.travel(self() + timedelta(seconds=seconds))

    def come_back(self) -> None:
        """Tell the present time again."""
        self._instant = None


@dataclass(frozen=True)
class Plan:
    """How much happens.

    Attributes
    ----------
    days : int
        Of history, the last of them today.
    weekday, weekend : int
        Documents that come in.
    reviews : int
        That annotators get done on a weekday; nobody reviews at weekends. Today is a weekday on
        which they have done half by now.
    certified_on : tuple of int
        Days after which the audits are asked what they prove.
    """

    days: int = 36
    weekday: int = 40
    weekend: int = 10
    reviews: int = 33
    certified_on: tuple[int, ...] = (34,)

    def schedule(self, today: datetime) -> Iterator[tuple[datetime, int, int]]:
        """Yield for each day its morning, the documents that come in and the reviews done."""
        morning = today.replace(hour=8, minute=0, second=0, microsecond=0)
        for place in range(self.days):
            day = morning - timedelta(days=self.days - 1 - place)
            if place == self.days - 1:
                yield day, self.weekday, self.reviews // 2
            elif day.weekday() >= _SATURDAY:
                yield day, self.weekend, 0
            else:
                yield day, self.weekday, self.reviews

    def documents(self, today: datetime) -> int:
        """Return how many documents come in altogether."""
        return sum(n for _, n, _ in self.schedule(today))


PLAN = Plan()


@dataclass
class History:
    """Lets the past happen, day by day; what an earlier run has done is not done again.

    Attributes
    ----------
    client : Caller
        Sends the documents.
    reviewer : Caller
        Whoever tries the calls; the first task that they get shows what the model suggests.
    annotator : callable
        Gives a caller for a name and whether it is a lead.
    """

    verbs: "Verbs"
    clock: TravellingClock
    client: "Caller"
    reviewer: "Caller"
    annotator: "Callable[[str, bool], Caller]"
    plan: Plan = PLAN

    def __post_init__(self) -> None:
        self._today = self.clock()
        self._truth: dict[str, Note] = {}

    @property
    def total(self) -> int:
        """Documents that come in altogether."""
        return self.plan.documents(self._today)

    def begin(self) -> None:
        """Before the first document: put a policy into force, and annotators into their groups."""
        from setwise.models.demo_notes import ANNOTATORS
        from setwise.service.domain.annotators import GroupChange
        from setwise.service.domain.audits import AuditPlan
        from setwise.service.domain.callers import SYSTEM
        from setwise.service.domain.policy import FIRST_POLICY_VERSION, PolicyChange, ThresholdMode

        audits = AuditPlan(
            certification_rate=0.15, training_rate=0.03, overlap_rate=0.1, gold_reread_rate=1.0
        )
        change = PolicyChange(TARGET, RISK, True, ThresholdMode.FIXED, THRESHOLD, audits=audits)
        morning, _, _ = next(self.plan.schedule(self._today))
        self.clock.travel(morning)
        self.verbs.change_policy(SYSTEM, change, FIRST_POLICY_VERSION)
        for one in ANNOTATORS:
            group = one.group.replace(" ", "-")
            self.verbs.change_group(SYSTEM, group, GroupChange(one.group.capitalize()), None)
            self.verbs.place_annotator(SYSTEM, self.annotator(one.name, False).id, group, None)
        self.clock.come_back()

    def happen(self, posted: int, report: "Report") -> None:
        """Do all from the day on which the ``posted``-th document came in."""
        from setwise.models.demo_notes import generate_notes

        total = self.total
        self._truth = {one.id: one for one in generate_notes(total, seed=INCOMING_SEED)}
        notes = list(self._truth.values())
        sent: list[tuple[datetime, Prediction]] = []
        start = 0
        try:
            for place, (morning, n, reviews) in enumerate(self.plan.schedule(self._today)):
                end = start + n
                if end > posted:
                    self.clock.travel(morning)
                    arrived = notes[max(start, posted) : end]
                    sent += [(self.clock(), one) for one in self._post(arrived)]
                    self._work(reviews, last_days=place >= self.plan.days - 2)
                    self._report_outcomes(sent)
                    if place in self.plan.certified_on:
                        self.verbs.certify()
                report(end / total, "make five weeks of history")
                start = end
            while self._settle(self.reviewer, Random(0), attrgetter("labels"), only=_blind):  # noqa: S311 - as below
                pass
        finally:
            self.clock.come_back()

    def _post(self, notes: "list[Note]") -> "Iterator[Prediction]":
        """Let documents come in over a working day."""
        from setwise.service.domain.predictions import Decision, Document

        for part in range(0, len(notes), _AT_ONCE):
            documents = [
                Document(one.id, one.text, metadata=one.metadata)
                for one in notes[part : part + _AT_ONCE]
            ]
            for made in self.verbs.predict_batch(self.client, documents):
                if isinstance(made, Exception):
                    raise made
                if made.decision is Decision.AUTO:
                    yield made
            self.clock.advance(_BETWEEN_S)

    def _work(self, reviews: int, *, last_days: bool) -> None:
        """Let the annotators review, and a lead decide; towards the end some is left to do."""
        from setwise.models.demo_notes import ANNOTATORS, annotate

        # The experienced do more: the newcomers take their time.
        shifts = [ANNOTATORS[place] for place in (0, 1, 0, 1, 2)]
        for turn in range(reviews):
            annotator = shifts[turn % len(shifts)]
            reviewer = self.annotator(annotator.name, False)
            # As random as it looks, and the same in every run: it keeps no secret.
            draw = Random(f"{annotator.name} {turn} {self.clock().date()}")  # noqa: S311
            answer = partial(annotate, annotator=annotator, rng=draw)
            if not self._settle(reviewer, draw, answer):
                break
        lead = self.annotator(LEAD, True)
        draw = Random(f"{LEAD} {self.clock().date()}")  # noqa: S311 - as above
        if reviews and not last_days:
            while self._settle(lead, draw, attrgetter("labels"), only=_escalated):
                pass

    def _settle(
        self,
        reviewer: "Caller",
        draw: Random,
        answer: "Callable[[Note], tuple[str, ...]]",
        *,
        only: "Callable[[ReviewTask], bool]" = lambda _: True,
    ) -> bool:
        """Claim a task and complete it; returns whether there was one of those wanted."""
        task = self.verbs.claim_review(reviewer)
        if task is None:
            return False
        note = self._truth.get(task.prediction.document.id or "")
        # A document of somebody else's was posted between two runs.
        if note is None or not only(task):
            self.verbs.release_review(reviewer, task.id)
            return False
        self.clock.advance(draw.uniform(LEAST_PLAUSIBLE_S, MOST_PLAUSIBLE_S))
        self.verbs.complete_review(reviewer, task.id, answer(note), None, task.version)
        return True

    def _report_outcomes(self, sent: "list[tuple[datetime, Prediction]]") -> None:
        """Let the client report what became of every fifth document that was sent."""
        while sent and self.clock() - sent[0][0] >= REPORTED_AFTER:
            _, prediction = sent.pop(0)
            note = self._truth.get(prediction.document.id or "")
            if note is not None and Random(note.id).random() < _REPORTED:  # noqa: S311 - as above
                self.verbs.report_outcome(self.client, prediction.id, note.labels, "billing")


def _blind(task: "ReviewTask") -> bool:
    return task.kind.blind


def _escalated(task: "ReviewTask") -> bool:
    return task.escalated


_SATURDAY = 5
LEAD = "Lou"
_AT_ONCE = 11
_BETWEEN_S = 2 * 3600
_REPORTED = 0.2
