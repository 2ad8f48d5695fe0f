"""The review queue."""

from collections import defaultdict
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, replace
from datetime import datetime
from functools import lru_cache
from typing import Any, NamedTuple

from sqlalchemy import (
    ColumnElement,
    Connection,
    Insert,
    RowMapping,
    Select,
    Text,
    and_,
    bindparam,
    delete,
    exists,
    func,
    insert,
    literal,
    or_,
    select,
    update,
)

from setwise.service.domain.documents import OwnAnswer
from setwise.service.domain.errors import StaleVersion
from setwise.service.domain.predictions import Candidate, Prediction, Reason
from setwise.service.domain.reviews import (
    EVERYTHING,
    Annotation,
    HeldDecision,
    Lease,
    QueueFilter,
    QueuePlace,
    QueueTier,
    ReadingOrder,
    ReviewKind,
    ReviewState,
    ReviewTask,
    Skip,
    rival_answers,
)
from setwise.service.domain.routing.segments import ALL_DOCUMENTS, Segment
from setwise.service.domain.text import UNREADABLE, Page, is_id
from setwise.service.domain.truth import AnswerFacts
from setwise.service.stores.columns.rows import Store, in_segment, page_of, row_of
from setwise.service.stores.columns.types import InRow, opened
from setwise.service.stores.predictions import to_candidates, to_prediction
from setwise.service.stores.tables import (
    ASSIGNED,
    DECIDED,
    LEASED,
    OPEN,
    annotations,
    comments,
    prediction_labels,
    predictions,
    review_skips,
    review_tasks,
    suggestion_readers,
)
from setwise.service.stores.truth import TruthStore, kind_of, to_annotation
from setwise.spelling import spelled

_audit = annotations.alias("audit")
_AGREED = (
    select(_audit.c.id)
    .where(
        _audit.c.prediction_id == review_tasks.c.prediction_id,
        _audit.c.kind == ReviewKind.AUDIT.value,
        _audit.c.agreed,
    )
    .correlate(review_tasks)
    .exists()
)
_BLIND = or_(
    review_tasks.c.kind.in_([kind.value for kind in ReviewKind if kind.blind]),
    # A lead's second reading of an audit that agreed: see `ReviewTask.blind`.
    and_(review_tasks.c.kind == ReviewKind.ADJUDICATION.value, _AGREED),
)
_SIBLINGS = review_tasks.alias()

# Statements that each claim or answer sends are composed once: that takes longer than to run them.
# Their parameters are these, by name.
_READER = bindparam("reviewer", type_=Text())
_NOW = bindparam("now", type_=review_tasks.c.lease_expires_at.type)
_ABOUT = bindparam("about", type_=review_tasks.c.id.type)
_AMONG = bindparam("among", type_=review_tasks.c.id.type, expanding=True)

_EXPIRED = review_tasks.c.lease_expires_at <= _NOW
_HELD = and_(LEASED, review_tasks.c.lease_holder == _READER)
_LIVE = and_(_HELD, review_tasks.c.lease_expires_at > _NOW, review_tasks.c.decided_at.is_(None))
# The reader has read the suggestion of the task's document.
_READ = exists().where(
    suggestion_readers.c.prediction_id == review_tasks.c.prediction_id,
    suggestion_readers.c.reader == _READER,
)
_UNREAD = select(review_tasks.c.prediction_id).where(OPEN, _BLIND, ~_READ)
_UNREAD_AMONG = _UNREAD.where(review_tasks.c.prediction_id.in_(_AMONG))

_INSERT = insert(review_tasks)
_WITH_PREDICTION = select(review_tasks, predictions).join(
    predictions, predictions.c.id == review_tasks.c.prediction_id
)
_TASK = _WITH_PREDICTION.where(review_tasks.c.id == _ABOUT)
_COUNT_LIVE = select(func.count()).select_from(review_tasks).where(_LIVE)
_SAVE = update(review_tasks).where(
    review_tasks.c.id == _ABOUT,
    review_tasks.c.version <= bindparam("known"),
    review_tasks.c.state != ReviewState.COMPLETED.value,
)
_UNASSIGN = (
    update(review_tasks)
    .where(ASSIGNED, review_tasks.c.assigned_to == _READER)
    .values(assigned_to=None)
)
_UNASSIGN_ANSWERED = _UNASSIGN.where(review_tasks.c.prediction_id == _ABOUT)
_UNASSIGN_READ = _UNASSIGN.where(_BLIND, _READ, ~_HELD)
_OPENED_BY = select(
    comments.c.task_id, comments.c.text, comments.c.id, comments.c.prediction_id
).where(comments.c.task_id.in_(_AMONG))
_SKIPS = (
    select(
        review_skips.c.task_id,
        review_skips.c.reviewer,
        review_skips.c.reason,
        review_skips.c.skipped_at,
    )
    .where(review_skips.c.task_id.in_(_AMONG))
    .order_by(review_skips.c.task_id, review_skips.c.place)
)


def _locking(prediction_id: ColumnElement[str]) -> Select[str]:
    """Return the query that locks a prediction's tasks.

    It locks them in one order: completing two of them cannot overlap.
    """
    tasks = select(review_tasks.c.id).where(review_tasks.c.prediction_id == prediction_id)
    return tasks.order_by(review_tasks.c.kind).with_for_update()


_LOCK = _locking(_ABOUT)
_LOCK_OF_TASK = _locking(
    select(_SIBLINGS.c.prediction_id).where(_SIBLINGS.c.id == _ABOUT).scalar_subquery()
)


def _noting(unread: Select[str]) -> Insert:
    """Return the insert that keeps unread tasks from their reader, except those that they hold."""
    rows = unread.where(~_HELD).add_columns(_READER, _NOW)
    columns = ["prediction_id", "reader", "read_at"]
    return insert(suggestion_readers).from_select(columns, rows.distinct())


_NOTE, _NOTE_AMONG = _noting(_UNREAD), _noting(_UNREAD_AMONG)


_Part = tuple[Sequence[ColumnElement[bool]], Sequence[ColumnElement[Any]]]
"""Some of the tasks, and by what they are ordered."""


def _reading_orders() -> Mapping[ReadingOrder, Sequence[_Part]]:
    """Return the parts of the queue in each order; the first one that has a task gives it."""
    task = review_tasks.c
    normal = task.tier == literal(QueueTier.NORMAL.value)
    hurried = or_(task.tier < QueueTier.NORMAL.value, task.due_at.is_not(None))
    first, copy = predictions.alias("first"), predictions.alias("copy")
    read = _SIBLINGS.c.state.in_([ReviewState.COMPLETED.value, ReviewState.LEASED.value])
    # A copy of a document that is read or leased teaches little.
    copied = exists().where(
        first.c.id == task.prediction_id,
        copy.c.cluster == first.c.cluster,
        copy.c.id != first.c.id,
        _SIBLINGS.c.prediction_id == copy.c.id,
        read,
    )
    clock = (task.tier, task.queued_at, task.id)
    # An audit counts as wrong if it is not read in time, so none waits behind other marked ones.
    plain = (normal, task.due_at.is_(None))
    audits: _Part = (*plain, task.kind == ReviewKind.AUDIT.value), (task.queued_at, task.id)
    unread = (*plain, ~copied)
    marked: _Part = (*unread, task.marked), (task.queued_at, task.id)
    doubtful: _Part = (*unread, ~task.marked), (task.confidence, task.queued_at, task.id)
    before: _Part = (hurried,), clock
    after: _Part = (), clock
    return {
        ReadingOrder.AS_THEY_CAME: (after,),
        ReadingOrder.MARKED_FIRST: (before, audits, marked, doubtful, after),
        ReadingOrder.DOUBTFUL_FIRST: (before, doubtful, audits, marked, after),
    }


_PARTS = _reading_orders()


class _Search(NamedTuple):
    """Where a claim looks for a task: whose, at which level, which documents, and in what order."""

    assigned: bool
    """Whether tasks are assigned to the one who claims, or to nobody."""
    escalated: bool
    filters: QueueFilter
    segment: Segment
    order: ReadingOrder
    part: int
    """Which of the order's parts."""


@lru_cache(maxsize=500)  # labels and segments to look for are open-ended
def _first(search: _Search) -> Select[str]:
    """Return the query for the first task that a ``reviewer`` may claim ``now``."""
    column = review_tasks.c
    part, by = _PARTS[search.order][search.part]
    mine = and_(ASSIGNED, column.assigned_to == _READER)
    return (
        select(column.id)
        .where(
            OPEN,
            or_(
                column.state != ReviewState.LEASED.value,
                and_(_EXPIRED, column.decided_at.is_(None)),
            ),
            ~exists().where(
                review_skips.c.task_id == column.id, review_skips.c.reviewer == _READER
            ),
            or_(~_BLIND, ~_READ),
            or_(
                column.round > 0,
                ~exists().where(
                    annotations.c.prediction_id == column.prediction_id,
                    annotations.c.reviewer == _READER,
                ),
            ),
            ~exists().where(
                _SIBLINGS.c.prediction_id == column.prediction_id,
                _SIBLINGS.c.lease_holder == _READER,
                or_(_SIBLINGS.c.lease_expires_at > _NOW, _SIBLINGS.c.decided_at.is_not(None)),
            ),
            mine if search.assigned else column.assigned_to.is_(None),
            column.escalated.is_(search.escalated),
            *_conditions(search.filters, search.segment),
            *part,
        )
        .order_by(*by)
        .limit(1)
        .with_for_update(skip_locked=True)
    )


class ReviewStore(Store):
    """The review queue."""

    def __init__(self, connection: Connection, truth: TruthStore) -> None:
        super().__init__(connection)
        self._truth = truth

    def add(self, task: ReviewTask) -> None:
        self.add_all([task])

    def add_all(self, tasks: Sequence[ReviewTask]) -> None:
        if not tasks:
            return
        rows = [
            {
                "id": task.id,
                "prediction_id": task.prediction.id,
                **_kind(task),
                "created_at": task.created_at,
                **_changing(task),
                "due_at": task.due_at,
                "marked": task.marked,
                "confidence": task.confidence,
                "proposed": None,
            }
            for task in tasks
        ]
        self._connection.execute(_INSERT, rows)
        self._truth.counts.arrived(tasks)
        for task in tasks:
            if task.skips:
                self._add_skips(task)

    def get(self, task_id: str, *, for_update: bool = False) -> ReviewTask | None:
        """Return a task; ``for_update`` locks it and the prediction's other tasks."""
        if not is_id(task_id):
            return None
        if for_update:
            self._connection.execute(_LOCK_OF_TASK, {"about": task_id}).all()
        tasks = self._load(_TASK, about=task_id)
        return tasks[0] if tasks else None

    def tasks_of(self, prediction_id: str) -> list[ReviewTask]:
        """Return the tasks of a prediction in the order of their creation."""
        query = _WITH_PREDICTION.where(review_tasks.c.prediction_id == prediction_id)
        return self._load(query.order_by(review_tasks.c.id))

    def lock(self, prediction_id: str) -> None:
        """Lock the prediction's tasks until this transaction ends, and keep others from reopening.

        A prediction may have no tasks to lock.
        """
        self._block(prediction_id)
        self._connection.execute(_LOCK, {"about": prediction_id}).all()

    def next_for(
        self,
        reviewer: str,
        now: datetime,
        *,
        escalated: bool,
        only: str | None = None,
        filters: QueueFilter = EVERYTHING,
        segment: Segment = ALL_DOCUMENTS,
        order: ReadingOrder = ReadingOrder.AS_THEY_CAME,
    ) -> ReviewTask | None:
        """Lock and return the first task in the queue that ``reviewer`` may claim now.

        The task waits or its lease has expired, ``reviewer`` has not skipped it, and ``reviewer``
        neither holds nor answered another task of the same prediction, unless it was reopened. A
        reader of the suggestion gets no blind task of it. Tasks assigned to ``reviewer`` come
        before all others, and tasks assigned to another reviewer are left out. With ``escalated``,
        tasks for leads come first. Tasks locked by a concurrent claim are skipped, so no task is
        claimed twice. With ``only``, an id, no other task is returned.

        ``order`` applies to documents that are neither due nor given priority.
        """
        if only is not None and not is_id(only):
            return None
        for assigned in (True, False):
            for among_escalated in (True, False) if escalated else (False,):
                in_order = ReadingOrder.AS_THEY_CAME if among_escalated else order
                for part in range(len(_PARTS[in_order])):
                    search = _Search(assigned, among_escalated, filters, segment, in_order, part)
                    task = self._next(reviewer, now, _first(search), only=only)
                    if task is not None:
                        return task
        return None

    def segments(self, *, most: int) -> list[str]:
        """Return the first segments by name of which documents are in the queue."""
        segment = predictions.c.segment
        query = select(segment).join(review_tasks, review_tasks.c.prediction_id == predictions.c.id)
        query = query.where(OPEN, segment.is_not(None)).distinct().order_by(segment).limit(most)
        return list(self._connection.execute(query).scalars())

    def _next(
        self, reviewer: str, now: datetime, first: Select[str], *, only: str | None
    ) -> ReviewTask | None:
        column = review_tasks.c
        query = first if only is None else first.where(column.id == only)
        while True:
            given = {"reviewer": reviewer, "now": now}
            task_id = self._connection.execute(query, given).scalar_one_or_none()
            if task_id is None:
                return None
            # PostgreSQL finds the row in a snapshot and locks its newest version. It rechecks the
            # row but not the skips, so read them again.
            task = self.get(task_id)
            if task is not None and task.claimable_by(reviewer, now, escalated=True):
                return task
            query = query.where(column.id != task_id)

    def save(self, task: ReviewTask) -> None:
        """Store a changed task; raises `StaleVersion` if the stored one is newer or completed."""
        saved = self._connection.execute(
            _SAVE, {**_changing(task), "about": task.id, "known": task.version}
        )
        if saved.rowcount != 1:
            raise StaleVersion(f"Review task {task.id} has changed since it was read.")
        self._add_skips(task)

    def withdraw_skip(self, task_id: str, reviewer: str) -> None:
        """Delete the skip of a task by ``reviewer``."""
        mine = and_(review_skips.c.task_id == task_id, review_skips.c.reviewer == reviewer)
        self._connection.execute(delete(review_skips).where(mine))

    def unassign(self, reviewer: str) -> None:
        """Unassign the tasks of ``reviewer``."""
        self._connection.execute(_UNASSIGN, {"reviewer": reviewer})

    def held_by(self, reviewer: str, now: datetime) -> int:
        """Count the live leases of ``reviewer`` and block the reviewer's other claims."""
        self._block(reviewer)
        given = {"reviewer": reviewer, "now": now}
        return self._connection.execute(_COUNT_LIVE, given).scalar_one()

    def _block(self, name: str) -> None:
        """Let others that block the same name wait until this transaction ends."""
        if self._connection.dialect.name == "postgresql":
            # Without the lock, two concurrent claims by one reviewer would miss each other.
            self._connection.execute(
                select(func.pg_advisory_xact_lock(func.hashtextextended(name, 0)))
            )

    def held_blind(self, reviewer: str) -> frozenset[str]:
        """Return the predictions of which ``reviewer`` holds an unfinished blind task."""
        query = select(review_tasks.c.prediction_id).where(
            LEASED, _BLIND, review_tasks.c.lease_holder == reviewer
        )
        return frozenset(self._connection.execute(query).scalars())

    def open_blind(self, reader: str, among: Collection[str] | None) -> bool:
        """Return whether a blind task is open whose suggestion ``reader`` has not read yet.

        ``among`` limits this to the tasks of some predictions.
        """
        unread = _UNREAD if among is None else _UNREAD_AMONG
        given = _given(among, reviewer=reader)
        return bool(self._connection.execute(select(unread.exists()), given).scalar_one())

    def undecided(self, among: Sequence[Prediction]) -> frozenset[str]:
        """Return predictions that somebody still reads, or blindly reads a copy of.

        Copies are as in `without_copies`: what was decided on one would tell what is right for all.
        """
        task, row = review_tasks.c, predictions.c
        ids = [prediction.id for prediction in among]
        waiting = self._connection.scalars(
            select(task.prediction_id).where(OPEN, task.prediction_id.in_(ids))
        )
        names = {prediction.document.id for prediction in among} - {None}
        clusters = {prediction.selection.cluster for prediction in among} - {None}
        copies = self._connection.execute(
            select(row.client_id, row.document_id, row.cluster)
            .join(review_tasks, task.prediction_id == row.id)
            .where(OPEN, _BLIND, or_(row.document_id.in_(names), row.cluster.in_(clusters)))
        ).all()
        blind_names = {(copy.client_id, copy.document_id) for copy in copies}
        blind_clusters = {copy.cluster for copy in copies} - {None}
        return frozenset(waiting).union(
            prediction.id
            for prediction in among
            if (prediction.client_id, prediction.document.id) in blind_names
            or prediction.selection.cluster in blind_clusters
        )

    def note_reader(self, reader: str, among: Collection[str] | None, at: datetime) -> None:
        """Keep open blind tasks of predictions, None for all, from their reader.

        Blocks the reader's claims. Tasks that the reader holds are left out. Those assigned to the
        reader are unassigned.
        """
        self._block(reader)
        given = _given(among, reviewer=reader, now=at)
        self._connection.execute(_NOTE if among is None else _NOTE_AMONG, given)
        self._connection.execute(_UNASSIGN_READ, {"reviewer": reader})

    def page(
        self,
        *,
        state: ReviewState | None,
        reason: Reason | None,
        after: str | None,
        limit: int,
    ) -> Page[ReviewTask]:
        """Return a page of tasks, oldest first; ``reason`` excludes blind tasks."""
        query = _WITH_PREDICTION.order_by(review_tasks.c.id).limit(limit + 1)
        if state is not None:
            query = query.where(review_tasks.c.state == state.value)
        if reason is not None:
            query = query.where(predictions.c.reason == reason.value, ~_BLIND)
        if after is not None:
            query = query.where(review_tasks.c.id > after)
        return page_of(self._load(query), limit)

    def open_counts(self) -> Mapping[ReviewState, int]:
        """Return how many tasks are not completed, by state."""
        state = review_tasks.c.state
        rows = self._connection.execute(select(state, func.count()).where(OPEN).group_by(state))
        return {ReviewState(name): count for name, count in rows}

    def count_escalated(self) -> int:
        """Return how many open tasks only a lead may claim."""
        query = select(func.count()).where(OPEN, review_tasks.c.escalated)
        return int(self._connection.execute(query.select_from(review_tasks)).scalar_one())

    def annotate(self, annotation: Annotation, before: AnswerFacts | None = None) -> None:
        """Store an annotation, and unassign its reviewer's other tasks of the document.

        ``before``: The facts without it, if they are known.
        """
        comment = InRow(annotation.comment, (annotation.id, annotation.prediction_id))
        row = {**row_of(annotation, annotations), **_kind(annotation), "comment": comment}
        self._connection.execute(insert(annotations), row)
        facts = before and before.with_annotation(annotation)
        self._truth.write(facts or self._truth.facts(annotation.prediction_id), annotation)
        given = {"reviewer": annotation.reviewer, "about": annotation.prediction_id}
        self._connection.execute(_UNASSIGN_ANSWERED, given)

    def count_answered(self) -> int:
        """Return how many documents people have answered."""
        query = select(func.count(annotations.c.prediction_id.distinct()))
        return self._connection.execute(query).scalar_one()

    def marked(self, prediction_ids: Collection[str]) -> frozenset[str]:
        """Return those of the predictions that were marked on arrival."""
        column = review_tasks.c
        query = select(column.prediction_id).where(
            column.prediction_id.in_(prediction_ids), column.marked
        )
        return frozenset(self._connection.execute(query).scalars())

    def unread(self, *, after: str | None, limit: int) -> list[ReviewTask]:
        """Return open tasks without a lease, in the order of their ids."""
        column = review_tasks.c
        query = _WITH_PREDICTION.where(OPEN, column.lease_holder.is_(None)).order_by(column.id)
        if after is not None:
            query = query.where(column.id > after)
        return self._load(query.limit(limit))

    def rescore(self, scores: Iterable[tuple[ReviewTask, Sequence[Candidate]]]) -> None:
        """Store what the newest model says of tasks that still have no lease.

        It is suggested where no model answered before.
        """
        column = review_tasks.c
        for task, candidates in scores:
            suggests = task.kind is ReviewKind.REVIEW and not task.prediction.scored.candidates
            self._connection.execute(
                update(review_tasks)
                .where(column.id == task.id, OPEN, column.lease_holder.is_(None))
                .values(
                    confidence=candidates[0].confidence,
                    proposed=[asdict(each) for each in candidates] if suggests else None,
                )
            )

    def annotation_of(self, task_id: str) -> Annotation | None:
        return self._named(select(annotations), annotations.c.task_id, task_id, to_annotation)

    def annotations_of(self, prediction_id: str) -> list[Annotation]:
        """Return the annotations of a prediction, oldest first."""
        query = select(annotations).where(annotations.c.prediction_id == prediction_id)
        return sorted(self._every(query, to_annotation), key=lambda annotation: annotation.id)

    def answers_by(self, reviewer: str, *, after: str | None, limit: int) -> Page[OwnAnswer]:
        """Return a page of what ``reviewer`` answered, newest first."""
        query = (
            select(annotations, predictions)
            .join(predictions, predictions.c.id == annotations.c.prediction_id)
            .where(annotations.c.reviewer == reviewer)
        )
        return self._page(query, annotations.c.id, _to_own, after=after, limit=limit)

    def expire_leases(self, now: datetime, *, limit: int) -> list[ReviewTask]:
        """Return up to ``limit`` tasks with expired leases to the queue.

        Decided tasks stay. Returns the changed tasks, oldest first.
        """
        query = (
            _WITH_PREDICTION.where(LEASED, _EXPIRED, review_tasks.c.decided_at.is_(None))
            .order_by(review_tasks.c.id)
            .limit(limit)
            .with_for_update(of=review_tasks, skip_locked=True)
        )
        expired = [task.expired() for task in self._load(query, now=now)]
        for task in expired:
            self.save(task)
        return expired

    def leased_to(self, reviewer: str, now: datetime) -> list[ReviewTask]:
        """Return the tasks that ``reviewer`` holds undecided, earliest claim first."""
        query = _WITH_PREDICTION.where(_LIVE)
        query = query.order_by(review_tasks.c.lease_claimed_at, review_tasks.c.id)
        return self._load(query, reviewer=reviewer, now=now)

    def decided(
        self, *, reviewer: str | None = None, before: datetime | None = None, limit: int
    ) -> list[str]:
        """Return decided tasks that settle by ``before``, if given; earliest first."""
        column = review_tasks.c
        query = select(column.id).where(DECIDED).order_by(column.settles_at, column.id).limit(limit)
        if reviewer is not None:
            query = query.where(column.lease_holder == reviewer)
        if before is not None:
            query = query.where(column.settles_at <= before)
        return list(self._connection.execute(query).scalars())

    def count_answers(self, reviewer: str, since: datetime) -> int:
        """Return how many annotations ``reviewer`` has made since ``since``."""
        query = select(func.count()).where(
            annotations.c.reviewer == reviewer, annotations.c.created_at >= since
        )
        return self._connection.execute(query.select_from(annotations)).scalar_one()

    def _add_skips(self, task: ReviewTask) -> None:
        if not task.skips:
            return
        self._connection.execute(
            self._missing(review_skips),
            [
                {
                    "task_id": task.id,
                    "reviewer": skip.reviewer,
                    "place": place,
                    "reason": InRow(skip.reason, (task.id, skip.reviewer)),
                    "skipped_at": skip.skipped_at,
                }
                for place, skip in enumerate(task.skips)
            ],
        )

    def _load(self, query: Select[Any], **given: object) -> list[ReviewTask]:  # Any: all columns
        rows = self._connection.execute(query, given).mappings().all()
        ids = [row[review_tasks.c.id] for row in rows]
        skips, opened_by = self.skips_of(ids), self._opened_by(ids)
        tasks = [_to_task(row, skips[row[review_tasks.c.id]], opened_by) for row in rows]
        return [
            replace(task, answers=self._answers(task.prediction))
            if task.kind is ReviewKind.ADJUDICATION
            else task
            for task in tasks
        ]

    def _answers(self, prediction: Prediction) -> tuple[tuple[str, ...], ...]:
        return rival_answers(prediction.scored.labels, self.annotations_of(prediction.id))

    def _opened_by(self, task_ids: Sequence[str]) -> Mapping[str, str]:
        """Return why tasks were reopened, by id."""
        if not task_ids:
            return {}
        rows = self._connection.execute(_OPENED_BY, {"among": task_ids})
        return {
            task: opened(text, *bound, otherwise=UNREADABLE) or "" for task, text, *bound in rows
        }

    def skips_of(self, task_ids: Sequence[str]) -> Mapping[str, Sequence[Skip]]:
        """Return who skipped tasks and why, by the task's id, oldest first."""
        skips: dict[str, list[Skip]] = defaultdict(list)
        if task_ids:
            rows = self._connection.execute(_SKIPS, {"among": task_ids})
            for task_id, reviewer, reason, skipped_at in rows:
                text = opened(reason, task_id, reviewer, otherwise=UNREADABLE)
                skips[task_id].append(Skip(reviewer, text, skipped_at))
        return skips


def _conditions(filters: QueueFilter, segment: Segment) -> Iterator[ColumnElement[bool]]:
    task, named = review_tasks.c, prediction_labels.c
    if segment != ALL_DOCUMENTS:
        same = predictions.c.id == task.prediction_id
        yield exists().where(same, in_segment(predictions.c.segment, segment))
    if filters.label is not None:
        same = named.prediction_id == task.prediction_id
        labelled = exists().where(same, named.label == spelled(filters.label))
        yield or_(task.kind != ReviewKind.REVIEW.value, labelled)
    if filters.prioritized:
        yield task.tier < QueueTier.NORMAL.value


def _given(among: Collection[str] | None, **given: object) -> dict[str, object]:
    return given if among is None else {**given, "among": list(among)}


def _changing(task: ReviewTask) -> dict[str, object]:
    lease, decision, place = task.lease, task.decision, task.place
    return {
        "state": task.state.value,
        "version": task.version,
        "escalated": task.escalated,
        "assigned_to": task.assigned_to,
        "tier": place.tier.value,
        "queued_at": place.queued_at,
        "lease_holder": lease.holder if lease else None,
        "lease_claimed_at": lease.claimed_at if lease else None,
        "lease_expires_at": lease.expires_at if lease else None,
        "decided_labels": list(decision.labels) if decision else None,
        "decided_comment": InRow(decision.comment, (task.id, task.prediction.id))
        if decision
        else None,
        "decided_by": decision.by if decision else None,
        "decided_at": decision.decided_at if decision else None,
        "settles_at": decision.settles_at if decision else None,
    }


def _kind(of: ReviewTask | Annotation) -> dict[str, object]:
    """Return the columns of a kind; those of reopened documents have a round instead."""
    kind = ReviewKind.REVIEW if of.kind is ReviewKind.REOPENED else of.kind
    return {"kind": kind.value, "round": of.round}


def _to_own(row: RowMapping) -> OwnAnswer:
    return OwnAnswer(to_annotation(row), to_prediction(row))


def _to_task(row: RowMapping, skips: Iterable[Skip], opened_by: Mapping[str, str]) -> ReviewTask:
    column = review_tasks.c
    holder = row[column.lease_holder]
    task = ReviewTask(
        id=row[column.id],
        prediction=to_prediction(row),
        kind=kind_of(row[column.kind], round_=row[column.round]),
        round=row[column.round],
        because=opened_by.get(row[column.id]),
        state=row[column.state],
        version=row[column.version],
        created_at=row[column.created_at],
        lease=None
        if holder is None
        else Lease(holder, row[column.lease_expires_at], row[column.lease_claimed_at]),
        skips=tuple(skips),
        decision=_decision(row),
        assigned_to=row[column.assigned_to],
        marked=row[column.marked],
        proposed=to_candidates(row[column.proposed] or ()),
    )
    place = QueuePlace(QueueTier(row[column.tier]), row[column.queued_at])
    return task if place == task.place else replace(task, moved=place)


def _decision(row: RowMapping) -> HeldDecision | None:
    column = review_tasks.c
    if row[column.decided_at] is None:
        return None
    bound_to = row[column.id], row[column.prediction_id]
    return HeldDecision(
        labels=tuple(row[column.decided_labels]),
        comment=opened(row[column.decided_comment], *bound_to, otherwise=UNREADABLE),
        by=row[column.decided_by],
        decided_at=row[column.decided_at],
        settles_at=row[column.settles_at],
    )
