"""Five weeks of history for a new demo: documents, reviews, audits, adjudications and outcomes.

Everything goes through the services that programs and people use, with a clock set to the past.
Generated annotators with known error rates review.
"""

# ruff: noqa: PLC0415 - the learning and serving libraries import slowly: only where needed

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from functools import partial
from operator import attrgetter
from random import Random
from typing import TYPE_CHECKING

from setwise.service.domain.accounts.callers import SYSTEM, Caller

if TYPE_CHECKING:
    from setwise.models.demo_notes import Note
    from setwise.service.cli.console import Report
    from setwise.service.domain.predictions import Prediction
    from setwise.service.domain.reviews import ReviewTask
    from setwise.service.services.all import Services

TRAINING_NOTES = 4_000
"""The model is trained on the first notes of the file; the others come in later."""

TARGET, RISK, THRESHOLD = 0.9, 0.1, 0.9
LEAST_PLAUSIBLE_S, MOST_PLAUSIBLE_S = 12, 75
"""Time between claiming and completing a review."""

REPORTED_AFTER = timedelta(days=3)
"""Time from sending a document to its outcome."""

LEAD = "Lou"
_SATURDAY = 5
_AT_ONCE = 11  # documents posted together
_BETWEEN_S = 2 * 3600
_REPORTED = 0.2  # share of sent documents with a reported outcome


class TravellingClock:
    """A clock that shows the present, or a past instant after `travel`."""

    def __init__(self, now: Callable[[], datetime] = lambda: datetime.now(UTC)) -> None:
        self._now = now
        self._instant: datetime | None = None

    def __call__(self) -> datetime:
        """Return the clock's time."""
        return self._now() if self._instant is None else self._instant

    def travel(self, instant: datetime) -> None:
        """Set the clock to an instant, never backwards or beyond the present."""
        self._instant = max(min(instant, self._now()), self._instant or instant)

    def advance(self, seconds: float) -> None:
        """Move the clock forward."""
        self.travel(self() + timedelta(seconds=seconds))

    def come_back(self) -> None:
        """Show the present again."""
        self._instant = None


@dataclass(frozen=True)
class HistoryPlan:
    """The size of the history."""

    days: int = 36
    """Days of history, the last of them today."""
    weekday: int = 40
    weekend: int = 10
    """Documents per day."""
    reviews: int = 33
    """Reviews per weekday. Today counts as a weekday with half of the reviews."""
    certified_on: tuple[int, ...] = (34,)
    """Days that end with a certification."""

    def schedule(self, today: datetime) -> Iterator[tuple[datetime, int, int]]:
        """Yield each day's morning, number of documents and number of reviews."""
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
        """Return the total number of documents."""
        return sum(n for _, n, _ in self.schedule(today))


PLAN = HistoryPlan()


def incoming_notes() -> "tuple[Note, ...]":
    """Return the notes that the model was not trained on."""
    from setwise.models.demo_notes import read_notes

    return read_notes()[TRAINING_NOTES:]


def _answer_of(annotator: str, note: "Note") -> tuple[str, ...]:
    return note.answers[annotator]


@dataclass
class History:
    """Creates the history day by day; continues an interrupted one."""

    services: "Services"
    clock: TravellingClock
    client: "Caller"
    """Posts the documents."""
    reviewer: "Caller"
    """The user's reviewer. Their first task shows the model's suggestions."""
    annotator: "Callable[[str, bool], Caller]"
    """Returns the caller for a name and whether it is a lead."""
    plan: HistoryPlan = PLAN

    def __post_init__(self) -> None:
        self._today = self.clock()
        self._truth = {note.id: note for note in incoming_notes()[: self.total]}

    @property
    def total(self) -> int:
        """The total number of documents."""
        return self.plan.documents(self._today)

    def begin(self) -> None:
        """Set the policy and the annotators' groups before the first document."""
        from setwise.models.demo_notes import ANNOTATORS
        from setwise.service.domain.annotators import GroupChange
        from setwise.service.domain.policy import FIRST_POLICY_VERSION, PolicyChange, ThresholdMode
        from setwise.service.domain.routing.audits import AuditPlan

        audits = AuditPlan(
            certification_rate=0.15, training_rate=0.03, overlap_rate=0.1, gold_reread_rate=1.0
        )
        change = PolicyChange(TARGET, RISK, True, ThresholdMode.FIXED, THRESHOLD, audits=audits)
        morning, _, _ = next(self.plan.schedule(self._today))
        self.clock.travel(morning)
        self.services.policy.change(SYSTEM, change, FIRST_POLICY_VERSION)
        for name, title in ANNOTATORS.items():
            group = title.replace(" ", "-")
            self.services.annotators.change_group(
                SYSTEM, group, GroupChange(title.capitalize()), None
            )
            self.services.annotators.place(SYSTEM, self.annotator(name, False).id, group, None)
        self.clock.come_back()

    def happen(self, posted: int, report: "Report") -> None:
        """Create everything after the first `posted` documents."""
        total = self.total
        notes = list(self._truth.values())
        sent: list[tuple[datetime, Prediction]] = []
        start = 0
        schedule = list(self.plan.schedule(self._today))
        *_, last_but_one, _ = (place for place, (_, _, reviews) in enumerate(schedule) if reviews)
        try:
            for place, (morning, n, reviews) in enumerate(schedule):
                end = start + n
                if end > posted:
                    self.clock.travel(morning)
                    arrived = notes[max(start, posted) : end]
                    sent += [(self.clock(), prediction) for prediction in self._post(arrived)]
                    # What differed since stands open, so that a new lead finds something.
                    self._review(reviews, last_days=place >= last_but_one)
                    self._report_outcomes(sent)
                    if place in self.plan.certified_on:
                        self._certify()
                report(end / total, "make five weeks of history")
                start = end
            blind = attrgetter("blind")
            while self._complete_next(self.reviewer, Random(0), attrgetter("labels"), only=blind):  # noqa: S311 - as below
                pass
        finally:
            self.clock.come_back()

    def _certify(self) -> None:
        """Look at the audits so far, sooner than the schedule would."""
        from setwise.service.services.analysis.proofs import Schedule

        self.services.certification.by(Schedule(room=0.0)).certify()

    def _post(self, notes: "list[Note]") -> "Iterator[Prediction]":
        """Post documents over a working day; yield the sent ones."""
        from setwise.service.domain.predictions import Decision, Document, Submission
        from setwise.service.services.predictions import all_predicted

        for part in range(0, len(notes), _AT_ONCE):
            submissions = [
                Submission(self.client, Document(note.id, note.text, metadata=note.metadata))
                for note in notes[part : part + _AT_ONCE]
            ]
            for prediction in all_predicted(self.services.predictions.predict(submissions)):
                if prediction.decision is Decision.AUTO:
                    yield prediction
            self.clock.advance(_BETWEEN_S)

    def _review(self, reviews: int, *, last_days: bool) -> None:
        """Let annotators review and, except on the last two days of work, a lead adjudicate."""
        from setwise.models.demo_notes import ANNOTATORS

        # Experienced annotators review more than trainees.
        senior, coder, trainee = ANNOTATORS
        shifts = [senior, coder, senior, coder, trainee]
        for turn in range(reviews):
            name = shifts[turn % len(shifts)]
            # Equal in every run, and not a secret.
            draw = Random(f"{name} {turn} {self.clock().date()}")  # noqa: S311
            answer = partial(_answer_of, name)
            if not self._complete_next(self.annotator(name, False), draw, answer):
                break
        lead = self.annotator(LEAD, True)
        draw = Random(f"{LEAD} {self.clock().date()}")  # noqa: S311 - as above
        if reviews and not last_days:
            escalated = attrgetter("escalated")
            while self._complete_next(lead, draw, attrgetter("labels"), only=escalated):
                pass

    def _complete_next(
        self,
        reviewer: "Caller",
        draw: Random,
        answer: "Callable[[Note], tuple[str, ...]]",
        *,
        only: "Callable[[ReviewTask], bool]" = lambda _: True,
    ) -> bool:
        """Claim and complete a task; return whether there was one."""
        task = self.services.queue.claim(reviewer)
        if task is None:
            return False
        note = self._truth.get(task.prediction.document.id or "")
        # A user may have posted other documents between two runs.
        if note is None or not only(task):
            self.services.queue.release(reviewer, task.id)
            return False
        self.clock.advance(draw.uniform(LEAST_PLAUSIBLE_S, MOST_PLAUSIBLE_S))
        self.services.reviews.complete(reviewer, task.id, answer(note), None, task.version)
        return True

    def _report_outcomes(self, sent: "list[tuple[datetime, Prediction]]") -> None:
        """Report outcomes of about a fifth of the sent documents."""
        while sent and self.clock() - sent[0][0] >= REPORTED_AFTER:
            _, prediction = sent.pop(0)
            note = self._truth.get(prediction.document.id or "")
            if note is not None and Random(note.id).random() < _REPORTED:  # noqa: S311 - as above
                self.services.outcomes.report(self.client, prediction.id, note.labels, "billing")
