"""What people do with many documents at once."""

import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

from setwise.service.domain import errors
from setwise.service.domain.accounts import Person
from setwise.service.domain.accounts.callers import PERMISSIONS, Caller, Permission
from setwise.service.domain.documents import DocumentFilter, DocumentRow, Order, check_comment
from setwise.service.domain.files import (
    CONTENT,
    DOCUMENT,
    LONGEST_EXPORT_S,
    Format,
    content_row,
    header,
    lines,
)
from setwise.service.domain.reviews import ReviewState, ReviewTask
from setwise.service.domain.text import is_id
from setwise.service.services.audit_trail import Recorded
from setwise.service.services.documents import checked, held_by
from setwise.service.services.predictions import disclose
from setwise.service.services.reviews.answers import Answers
from setwise.service.stores.database import LeaseClock
from setwise.service.stores.transaction import Transaction
from setwise.shown import Shown, members

MOST_EXPORTED = 100_000
"""Most documents in one file; exports of all predictions have no limit."""

MOST_CHANGED = 100
"""Most documents that one action changes."""

MOST_FOUND = 1_000
"""Most documents that a search finds for an action."""

PAGE, PAGE_WITH_CONTENT = 500, 50
"""Documents of an export that are in memory together; their texts may be large."""


@dataclass(frozen=True)
class Refusal(Shown):
    """A document that stays as it was."""

    id: str
    detail: str


@dataclass(frozen=True)
class SelectionOutcome(Shown):
    """What was done."""

    changed: list[str]
    """Ids of predictions."""
    refused: list[Refusal]


class _ActionRefused(Exception):
    """An action leaves a document as it is."""


@dataclass(frozen=True)
class Selections(Recorded):
    """Documents that a person selected, or found."""

    now: LeaseClock
    answers: Answers
    stopwatch: Callable[[], float] = time.monotonic
    """Returns monotonic time in seconds."""

    def export(
        self,
        caller: Caller,
        filters: DocumentFilter,
        order: Order = Order.NEWEST,
        *,
        written: Format,
        content: bool = False,
    ) -> Iterator[bytes]:
        """Return the parts of a file of matching documents; errors come first.

        Documents of which the caller holds a blind review are left out, and the caller is never
        given a blind review of the others.

        Raises `InvalidRequest` if nothing can match, or too much does.
        """
        caller.require(Permission.READ_ALL_PREDICTIONS)
        with self.begin() as transaction:
            filters = checked(transaction, filters, caller)
            number = transaction.documents.count(filters, most=MOST_EXPORTED + 1)
            if number > MOST_EXPORTED:
                raise errors.InvalidRequest(
                    f"More than {MOST_EXPORTED:,} documents match. Narrow the filter, or export "
                    "all predictions with GET /v1/exports/predictions."
                )
            self._note(
                transaction, caller, "export.read", "documents", format=written.value, rows=number
            )
        return self._parts(caller, filters, order, written, content=content)

    def matching(self, caller: Caller, filters: DocumentFilter) -> Sequence[str]:
        """Return the ids of all matching predictions, to be changed.

        Raises `InvalidRequest` if nothing can match, or more than `MOST_FOUND` do.
        """
        caller.require(Permission.READ_ALL_PREDICTIONS)
        with self.begin(read_only=True) as transaction:
            filters, hidden = checked(transaction, filters, caller), held_by(transaction, caller)
            ids = transaction.documents.ids(filters, hidden, most=MOST_FOUND + 1)
        if len(ids) > MOST_FOUND:
            raise errors.InvalidRequest(
                f"More than {MOST_FOUND:,} documents match. Narrow the filters."
            )
        return ids

    def people(self, caller: Caller) -> Mapping[str, str]:
        """Return the people who can be assigned documents, as names by id.

        Empty unless the caller decides who reviews what.
        """
        if not _leads(caller):
            return {}
        with self.begin(read_only=True) as transaction:
            able = [person for person in transaction.people.all() if _able(person)]
        return {
            person.id: person.name
            for person in sorted(able, key=lambda person: (person.name, person.id))
        }

    def assign(self, caller: Caller, ids: Sequence[str], assignee: str | None) -> SelectionOutcome:
        """Assign the open reviews of documents to a person only; None to any reviewer.

        Raises `InvalidRequest` if the assignee may not review.
        """
        person: Person | None = None

        def assign(transaction: Transaction, document: str) -> None:
            tasks = [each for each in _open(transaction, document) if not each.busy(self.now())]
            if not tasks:
                raise _ActionRefused("it is being reviewed")
            for task in tasks:
                freed = replace(task, assigned_to=None)
                transaction.reviews.save(freed)
                if person is None:
                    continue
                leads = Permission.REPORT in PERMISSIONS[person.role]
                if transaction.reviews.next_for(
                    person.id, self.now(), escalated=leads, only=task.id
                ):
                    transaction.reviews.save(replace(freed, assigned_to=person.id))
                    return
                transaction.reviews.save(task)
            if person is not None:
                raise _ActionRefused(
                    f"{person.name} may not review it: they have answered, skipped or seen it, or "
                    "it waits for a lead"
                )

        _check(caller, ids)
        with self.begin() as transaction:
            if assignee is not None:
                person = _reviewer(transaction, assignee)
                transaction.reviews.held_by(person.id, self.now())  # blocks claims and readings
            action = "documents.assigned"
            return self._each(transaction, caller, ids, action, assign, assignee=assignee)

    def prioritize(self, caller: Caller, ids: Sequence[str], *, first: bool) -> SelectionOutcome:
        """Put the reviews of documents first in the queue, or back."""

        def move(transaction: Transaction, document: str) -> None:
            for task in _open(transaction, document):
                transaction.reviews.save(task.prioritized(first=first))

        _check(caller, ids)
        with self.begin() as transaction:
            action = "documents.prioritized"
            return self._each(transaction, caller, ids, action, move, first=first)

    def reopen(self, caller: Caller, ids: Sequence[str], reason: str) -> SelectionOutcome:
        """Have documents decided again; see `Reviews.reopen`."""
        _check(caller, ids)
        check_comment(reason, "/reason")

        def reopen(transaction: Transaction, document: str) -> None:
            try:
                self.answers.reopen_in(transaction, caller, document, reason)
            except (errors.Conflict, errors.PredictionNotFound) as refusal:
                raise _ActionRefused(refusal.detail) from refusal

        with self.begin() as transaction:
            return self._each(transaction, caller, ids, "documents.reopened", reopen)

    def _each(
        self,
        transaction: Transaction,
        caller: Caller,
        ids: Sequence[str],
        action: str,
        change: Callable[[Transaction, str], None],
        **detail: object,
    ) -> SelectionOutcome:
        changed, refused = list[str](), list[Refusal]()
        # In one order, so that two actions at once do not wait for each other.
        for id_ in sorted(set(ids)):
            try:
                change(transaction, id_)
            except _ActionRefused as refusal:
                refused.append(Refusal(id_, str(refusal)))
            else:
                changed.append(id_)
        self._note(
            transaction,
            caller,
            action,
            "documents",
            documents=changed,
            refused=len(refused),
            **detail,
        )
        return SelectionOutcome(changed, refused)

    def _parts(
        self,
        caller: Caller,
        filters: DocumentFilter,
        order: Order,
        written: Format,
        *,
        content: bool,
    ) -> Iterator[bytes]:
        started, after = self.stopwatch(), None
        yield header(written, (*DOCUMENT, *CONTENT) if content else DOCUMENT)
        while True:
            # No transaction is open between two pages: the reader decides how long that takes.
            with self.begin(read_only=True, snapshot=True) as transaction:
                page = transaction.documents.page(
                    filters, order, after=after, limit=PAGE_WITH_CONTENT if content else PAGE
                )
            documents = {each.prediction.id: each for each in page.items}
            hidden = disclose(self.begin, self.now, caller, documents)
            rows = [
                members(DocumentRow.of(each)) | (content_row(each.prediction) if content else {})
                for id_, each in documents.items()
                if id_ not in hidden
            ]
            yield lines(written, rows)
            after = page.next_after
            if after is None:
                return
            if self.stopwatch() - started > LONGEST_EXPORT_S:
                raise errors.StorageSlow(
                    f"The export took longer than {LONGEST_EXPORT_S:.0f} s and was cut off; "
                    "narrow the filter."
                )


def _check(caller: Caller, ids: Sequence[str]) -> None:
    """Raise `Forbidden` unless the caller leads reviewers; `InvalidRequest` for wrong ids."""
    caller.require(Permission.REVIEW)
    if not _leads(caller):
        raise errors.Forbidden("Only leads and administrators decide who reviews what.")
    if not 0 < len(ids) <= MOST_CHANGED or not all(map(is_id, ids)):
        fault = errors.FieldFault("/ids", f"must be 1 to {MOST_CHANGED} ids of predictions")
        raise errors.InvalidRequest("Nothing can be done with this selection.", [fault])


def _leads(caller: Caller) -> bool:
    return caller.may(Permission.REVIEW) and Permission.REPORT in PERMISSIONS[caller.role]


def _able(person: Person) -> bool:
    return not person.disabled and Permission.REVIEW in PERMISSIONS[person.role]


def _open(transaction: Transaction, document: str) -> list[ReviewTask]:
    """Return the unfinished reviews of a document, locked."""
    transaction.reviews.lock(document)
    tasks = [
        task
        for task in transaction.reviews.tasks_of(document)
        if task.state is not ReviewState.COMPLETED
    ]
    if not tasks:
        raise _ActionRefused("no review of it is open")
    return tasks


def _reviewer(transaction: Transaction, person_id: str) -> Person:
    person = transaction.people.get(person_id, for_update=True)
    if person is None or not _able(person):
        fault = errors.FieldFault("/assignee", "is not a person who may review")
        raise errors.InvalidRequest("The documents cannot be assigned.", [fault])
    return person
