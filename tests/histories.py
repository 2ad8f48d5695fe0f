"""Random histories of predictions: what people and other programs answer, in any order."""

import random
from collections.abc import Callable, Iterator
from dataclasses import replace
from datetime import timedelta

from setwise.service.domain.certification import Score, Scorer
from setwise.service.domain.outcomes import ECHOES, Outcome, Sampling
from setwise.service.domain.predictions import Decision, Document, Prediction, Reason
from setwise.service.domain.reviews import (
    Annotation,
    ReviewKind,
    calls_for_adjudication,
    is_final,
)
from setwise.service.domain.routing.audits import AuditRole, Selection
from setwise.service.stores.transaction import Transaction
from tests.fakes import START, FakeIds, scored_set
from tests.samples import add_predictions, outcome, prediction, task

SCORERS = (
    Scorer("sha256:model", "sha256:calibrator"),
    Scorer("sha256:model", "sha256:learnt"),
    Scorer("sha256:other", "sha256:calibrator"),
)
SEGMENTS = (None, "site=north", "site=south")
LABELS = ("a", "b", "c", "d", "new")
PEOPLE = ("ann", "ben", "eve", "dan")
GROUPS = ("default", "coders")

Act = Callable[[Transaction], None]


class Histories:
    """Draws predictions, and what happens to each of them."""

    def __init__(self, seed: int) -> None:
        self._draw = random.Random(seed)
        self._ids = FakeIds(1 + (seed + 1) * 0x1_0000_0000)
        self._minute = 0

    def live(self, transaction: Transaction, documents: int) -> list[Prediction]:
        """Store predictions and random histories of them, mixed at random; return them."""
        made = [self._prediction(number) for number in range(documents)]
        add_predictions(transaction, *made)
        stories = [self._story(each) for each in made]
        while stories:
            story = self._draw.choice(stories)
            act = next(story, None)
            if act is None:
                stories.remove(story)
            else:
                self._minute += 1
                act(transaction)
        return made

    def _prediction(self, number: int) -> Prediction:
        draw = self._draw
        scorer, chosen = draw.choice(SCORERS), draw.random()
        name = draw.choice([None, f"note-{draw.randrange(10)}"])  # some documents come again
        role = draw.choice(list(AuditRole))
        sure = draw.random() < 0.6
        audited = role is AuditRole.CERTIFICATION or (sure and role is AuditRole.TRAINING)
        sends = sure and (not audited or draw.random() < 0.3)
        reason = Reason.BELOW_THRESHOLD
        if sure:
            reason = Reason.AUDIT if audited else Reason.ABOVE_THRESHOLD
        elif draw.random() < 0.2:
            reason = draw.choice([Reason.RULE, Reason.OUT_OF_DOMAIN, Reason.NO_THRESHOLD])
        if reason in {Reason.RULE, Reason.OUT_OF_DOMAIN}:
            role = AuditRole.NONE
        scored = scored_set(round(draw.random(), 2), labels=draw.sample(LABELS[:4], 2))
        return prediction(
            document=Document(id=name, text=f"word{number}", metadata={"ward": number % 3}),
            decision=Decision.AUTO if sends else Decision.REVIEW,
            reason=reason,
            created_at=START + timedelta(hours=number),
        )._replace(
            id=self._ids(),
            scored=scored._replace(**scorer._asdict()),
            selection=Selection(
                role, chosen, 0.1 if audited else 1.0, 0.1, in_rest=not sure and number % 3 == 0
            ),
            segment=draw.choice(SEGMENTS),
        )

    def _story(self, of: Prediction) -> Iterator[Act]:
        """Yield what happens to a prediction, in order; often nothing."""
        acts = [self._people(of), self._outcomes(of), self._others(of)]
        while acts:
            act = next(source := self._draw.choice(acts), None)
            if act is None:
                acts.remove(source)
            else:
                yield act

    def _people(self, of: Prediction) -> Iterator[Act]:
        draw, said = self._draw, list[Annotation]()
        audited = of.selection.role is not AuditRole.NONE
        if audited:
            kinds = [ReviewKind.AUDIT]
        elif of.decision is Decision.AUTO:
            kinds = []
        else:
            kinds = [ReviewKind.REVIEW, ReviewKind.OVERLAP][: draw.choice([1, 1, 2])]
            draw.shuffle(kinds)
        for kind in kinds:
            if draw.random() < 0.2:
                return  # nobody has read it yet
            answer = self._answer(of, kind, said)
            said.append(answer)
            yield self._stored(of, answer)
        if said and not said[-1].settles and draw.random() < 0.7 and self._differ(said):
            lead = self._answer(of, ReviewKind.ADJUDICATION, said)
            yield self._stored(of, lead)
        for round_ in range(1, 1 + draw.choice([0, 0, 1, 2])):
            yield self._stored(of, self._answer(of, ReviewKind.REOPENED, said, round_))

    def _differ(self, said: list[Annotation]) -> bool:
        return said[0].kind is ReviewKind.AUDIT or calls_for_adjudication(
            said[-1], said[:-1], reread=False
        )

    def _answer(
        self, of: Prediction, kind: ReviewKind, others: list[Annotation], round_: int = 0
    ) -> Annotation:
        draw, audit = self._draw, kind is ReviewKind.AUDIT
        labels = of.scored.labels if draw.random() < 0.5 else tuple(draw.sample(LABELS, 2))
        reviewer = draw.choice(PEOPLE)
        answer = Annotation(
            id="",
            task_id="",
            prediction_id=of.id,
            reviewer=reviewer,
            labels=labels,
            comment=draw.choice([None, "why"]),
            agreed=set(labels) == set(of.scored.labels),
            chosen_rank=None,
            suggestion_shown=not kind.blind,
            seconds=1.0,
            created_at=START,
            kind=kind,
            round=round_,
            group=GROUPS[PEOPLE.index(reviewer) % 2],
            reread_rate=draw.choice([0.1, 0.25, 1.0]) if audit else None,
            reread_draw=draw.random() if audit else None,
        )
        reread = audit and (answer.reread_draw or 0.0) < (answer.reread_rate or 0.0)
        adjudicated = calls_for_adjudication(answer, others, reread=reread)
        return replace(answer, settles=is_final(answer, adjudicated=adjudicated))

    def _stored(self, of: Prediction, answer: Annotation) -> Act:
        def act(transaction: Transaction) -> None:
            review = replace(task(of), id=self._ids(), kind=answer.kind, round=answer.round)
            transaction.reviews.add(review)
            at = of.created_at + timedelta(days=3, minutes=self._minute)
            transaction.reviews.annotate(
                replace(answer, id=self._ids(), task_id=review.id, created_at=at)
            )

        return act

    def _outcomes(self, of: Prediction) -> Iterator[Act]:
        for number in range(1, 1 + self._draw.choice([0, 0, 0, 1, 2])):
            right = self._draw.random() < 0.5
            labels = of.scored.labels if right else self._draw.sample(LABELS, 2)
            reported = replace(
                outcome(of, *labels, number=number),
                sampling=self._draw.choice(list(Sampling)),
                echoes=self._draw.choice([0, 0, 1, ECHOES]),
            )

            def act(transaction: Transaction, reported: Outcome = reported) -> None:
                at = of.created_at + timedelta(days=3, minutes=self._minute)
                transaction.outcomes.add(replace(reported, id=self._ids(), created_at=at))

            yield act

    def _others(self, of: Prediction) -> Iterator[Act]:
        draw = self._draw
        for scorer in SCORERS:
            if draw.random() < 0.3 and scorer[0] != of.scored.model_version:
                labels = of.scored.labels if draw.random() < 0.7 else tuple(draw.sample(LABELS, 2))
                score = Score(of.id, scorer, labels, draw.random(), START)
                yield lambda transaction, score=score: transaction.certifications.add_scores(
                    [score]
                )
        if draw.random() < 0.2:
            yield lambda transaction: transaction.texts.purge([of.id], START)
