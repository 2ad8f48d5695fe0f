"""The loop from predictions through audits to certificates and the breaker, in one process."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

from setwise.service.domain.accounts.callers import Caller, Permission
from setwise.service.domain.breaker import BreakerRule
from setwise.service.domain.certification import Certification
from setwise.service.domain.policy import PolicyChange, ThresholdMode
from setwise.service.domain.predictions import Document, Prediction, Submission
from setwise.service.domain.reviews import ReviewState
from setwise.service.domain.routing.audits import AuditPlan
from setwise.service.domain.routing.segments import GateState
from setwise.service.services.analysis.proofs import Schedule
from setwise.service.services.breaker import Breaker
from setwise.service.services.certification.attempts import Certifications
from setwise.service.services.predictions import all_predicted
from setwise.service.services.reviews.decisions import Reviews
from tests import building
from tests.kit.clinic import Clinic
from tests.kit.databases import Database
from tests.samples import ADMIN, ANN, CLIENT, LEAD, change

RIGHT, WRONG = ["a", "b"], ["c"]
EARLY = Schedule(room=3.0)
HALF = AuditPlan(certification_rate=0.5, gold_reread_rate=1.0)


def wanted(audits: AuditPlan = HALF, target: float = 0.8, **rest: object) -> PolicyChange:
    """Return a policy whose threshold audits are to prove."""
    return change(
        target_accuracy=target,
        risk=0.2,
        threshold_mode=ThresholdMode.CERTIFIED,
        threshold=None,
        audits=audits,
        **rest,
    )


def unlike(text: str, place: int) -> str:
    """Return the number, or the word, as a text of which no other place has a near copy."""
    bits = f"{place:b}"
    if text[0].isdigit():
        return "0" + bits.replace("1", "_0") + text
    return text + bits.replace("0", "a").replace("1", "b")


def settle_all(
    reviews: Reviews,
    who: Caller,
    answer: Callable[[Prediction], Sequence[str]],
    most: int | None = None,
) -> int:
    """Let ``who`` empty the queue, in its order; return how many tasks that were.

    All in one transaction: to claim thousands of tasks one by one takes minutes and proves nothing.
    """
    leads, now = who.may(Permission.REPORT), reviews.now()
    with reviews.begin() as transaction:
        waiting = transaction.reviews.page(
            state=ReviewState.WAITING, reason=None, after=None, limit=1_000_000
        ).items
        tasks = [
            task
            for task in waiting
            if task.claimable_by(who.id, now, escalated=leads)
            and who.id
            not in {one.reviewer for one in transaction.reviews.annotations_of(task.prediction.id)}
        ]
        tasks = sorted(tasks, key=lambda task: (not task.escalated, task.created_at, task.id))[
            :most
        ]
        for task in tasks:
            labels = answer(task.prediction)
            leased = task.claimed(who.id, now, reviews.queue.lease)
            reviews.complete_in(transaction, leased, who, labels, None)
    return len(tasks)


@dataclass
class Loop(Clinic):
    """A clinic whose model answers RIGHT, and that certifies early; its queue has no end."""

    documents: int = 0
    rule: BreakerRule = field(default_factory=BreakerRule)

    def __post_init__(self) -> None:
        self.reviewing = {"most_leases": 10_000, "annotated": self.breakers.annotated}
        self.change_policy = self.policies.change
        self.watch, self.breaker = self.breakers.watch, self.breakers.get
        self.reset, self.delays = self.breakers.reset, self.breakers.delays

    @cached_property
    def breakers(self) -> Breaker:
        return building.breaker(*self.parts, rule=self.rule)

    @cached_property
    def certifications(self) -> Certifications:
        return building.certifications(*self.parts, loader=self.loader).by(EARLY)

    def resume(self, other: "Loop") -> None:
        """Go on where another one, on SQLite too, has come to."""
        self.begin.become(other.begin)
        self.now.instant, self.new_id._next = other.now.instant, other.new_id._next
        self.documents = other.documents

    def certify_if_due(self) -> Certification | None:
        made = self.certifications.certify_if_due()
        return made[-1] if made else None

    def plan(self, audits: AuditPlan = HALF, target: float = 0.8, **rest: object) -> None:
        self.change_policy(ADMIN, wanted(audits, target, **rest), None)

    def predict(self, *texts: str) -> list[Prediction]:
        made = self.predictions.predict(
            [
                Submission(
                    CLIENT,
                    Document(
                        id=f"note {self.documents + place}",
                        text=unlike(text, self.documents + place),
                    ),
                )
                for place, text in enumerate(texts)
            ]
        )
        self.documents += len(texts)
        return all_predicted(made)

    def settle(self, who: Caller, *, wrong_below: float = 0.0) -> int:
        """Let ``who`` empty the queue, calling what is less confident wrong."""

        def answer(made: Prediction) -> list[str]:
            return WRONG if made.scored.confidence < wrong_below else RIGHT

        return settle_all(self.reviews, who, answer)

    def read(self, *, wrong_below: float = 0.0) -> None:
        """Let an auditor read all, and a lead what is to be read again."""
        self.settle(ANN, wrong_below=wrong_below)
        self.settle(LEAD, wrong_below=wrong_below)

    @property
    def gate(self) -> GateState:
        """What is stored of the gate of all documents."""
        return self.policy.states[-1]


def remembered(history: Callable[[Any], None]) -> Callable[[Any], None]:
    """Let the first loop of a kind live through a history; others on SQLite copy its database."""
    lived: dict[object, Loop] = {}

    def live(loop: Loop) -> None:
        if not isinstance(loop.begin, Database):
            history(loop)
            return
        kind = type(loop), loop.rule
        if kind not in lived:
            first = type(loop)(Database(), rule=loop.rule)
            history(first)
            lived[kind] = first
        loop.resume(lived[kind])

    return live


@remembered
def audited(loop: Loop) -> None:
    """Have forty documents of one confidence audited and found right."""
    loop.plan()
    loop.predict(*["0.9"] * 40)
    loop.read()


@remembered
def certified(loop: Loop) -> None:
    """Bring a certified threshold of 0.9 into force."""
    audited(loop)
    assert loop.certify(ADMIN.id).threshold == 0.9
