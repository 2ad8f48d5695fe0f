"""What is read next while nothing is sent, on both databases, beside the order by definition."""

from dataclasses import replace
from datetime import timedelta
from random import Random

import pytest

from setwise.service.domain.predictions import Document
from setwise.service.domain.reviews import ReadingOrder, ReviewKind, ReviewTask
from setwise.service.domain.routing.audits import Selection
from setwise.service.stores.transaction import Transactions
from tests.fakes import START
from tests.samples import ANN, prediction, task
from tests.stores.test_reviews import QUARTER, read, save, store


def waiting(place: int, draw: Random) -> ReviewTask:
    """Return a task; some are urgent, due or audits, and of some contents there are copies."""
    came = START + timedelta(minutes=place)
    document = Document(
        id=f"d{place}",
        text="x",
        priority=draw.choice([0, 0, 0, 0, 1, 2]),
        due_at=draw.choice([None, None, None, None, came + timedelta(days=draw.randint(0, 9))]),
    )
    content = draw.choice([0.1, 0.2, draw.random(), draw.random()])
    of = prediction(document=document, confidence=draw.choice([0.2, 0.5, draw.random()]))
    of = of._replace(selection=Selection(cluster=content))
    # Copies are marked alike, as their content decides, and audits always.
    chance = Random(content).random()
    kind = ReviewKind.AUDIT if chance < 0.15 else ReviewKind.REVIEW
    return replace(task(of), kind=kind, created_at=came, marked=chance < 0.5)


def by_definition(
    tasks: list[ReviewTask], gone: list[ReviewTask], order: ReadingOrder
) -> ReviewTask:
    """Return the next one of what is left."""

    def clock(of: ReviewTask) -> tuple[object, ...]:
        return (of.place.tier, of.place.queued_at, of.id)

    contents = {each.prediction.selection.cluster for each in gone}
    if order is ReadingOrder.AS_THEY_CAME:
        return min(tasks, key=clock)
    hurried_tasks = [of for of in tasks if of.due_at is not None or of.prediction.document.priority]
    plain = [of for of in tasks if of not in hurried_tasks]
    fresh = [
        of
        for of in plain
        if of.kind is ReviewKind.AUDIT or of.prediction.selection.cluster not in contents
    ]
    marked_tasks = sorted(
        (of for of in fresh if of.marked),
        key=lambda of: (of.kind is not ReviewKind.AUDIT, clock(of)),
    )
    doubtful = sorted(
        (of for of in fresh if not of.marked), key=lambda of: (of.confidence, *clock(of))
    )
    streams = [marked_tasks, doubtful]
    if order is ReadingOrder.DOUBTFUL_FIRST:
        streams.reverse()
    copies = sorted((of for of in plain if of not in fresh), key=clock)
    return [*sorted(hurried_tasks, key=clock), *streams[0], *streams[1], *copies][0]


@pytest.mark.parametrize("seed", range(4))
def test_the_queue_is_read_in_the_order_of_its_definition(begin: Transactions, seed: int) -> None:
    draw = Random(seed)
    left = [waiting(place, draw) for place in range(24)]
    store(begin, *left)
    tasks: list[ReviewTask] = []
    while left:
        order = draw.choice([*ReadingOrder])
        expected = by_definition(left, tasks, order)
        with begin() as transaction:
            task = transaction.reviews.next_for(ANN.id, START, escalated=False, order=order)
        assert task is not None
        assert task.id == expected.id, order
        save(begin, task.claimed(ANN.id, START, QUARTER))
        left.remove(expected)
        tasks.append(expected)


def test_what_a_newer_model_says_decides_which_is_read_next(begin: Transactions) -> None:
    draws = [replace(task(_of(sure)), marked=False) for sure in (0.9, 0.2)]
    store(begin, *draws)
    sure, unsure = draws
    order = ReadingOrder.DOUBTFUL_FIRST
    assert _next(begin, order) == unsure.id
    candidate = replace(sure.candidates[0], confidence=0.1)
    with begin() as transaction:
        transaction.reviews.rescore([(sure, [candidate])])
    assert _next(begin, order) == sure.id
    stored_task = read(begin, sure.id)
    assert stored_task is not None
    assert stored_task.candidates == sure.candidates, "the prediction stays what is suggested"


def test_a_released_copy_is_read_again_first(begin: Transactions) -> None:
    first, copy = (replace(task(_of(0.5, content=0.3)), marked=True) for _ in range(2))
    other = replace(task(_of(0.5, content=0.6)), marked=False, created_at=START + QUARTER)
    store(begin, first, copy, other)
    held_task = save(begin, first.claimed(ANN.id, START, QUARTER))
    assert _next(begin, ReadingOrder.MARKED_FIRST) == other.id
    save(begin, held_task.released(ANN.id))
    assert _next(begin, ReadingOrder.MARKED_FIRST) == first.id


def _of(confidence: float, *, content: float | None = None) -> object:
    of = prediction(confidence=confidence)
    return of._replace(selection=Selection(cluster=confidence if content is None else content))


def _next(begin: Transactions, order: ReadingOrder) -> str | None:
    with begin() as transaction:
        task = transaction.reviews.next_for("reader", START, escalated=False, order=order)
    return task and task.id
