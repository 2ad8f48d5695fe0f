"""Find documents, and tell all that happened to one."""

import math
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import NamedTuple

from setwise.service.domain import errors
from setwise.service.domain.accounts.callers import PERMISSIONS, Caller, Permission
from setwise.service.domain.documents import DocumentFilter, Life, ListedDocument, Order
from setwise.service.domain.errors import FieldFault, InvalidRequest
from setwise.service.domain.predictions import Document, Prediction, Refused, TermWeight
from setwise.service.domain.routing.audits import Draws
from setwise.service.domain.text import Page, check_page
from setwise.service.services.ports import PredictorSource
from setwise.service.services.predictions import disclose, disclose_all, disclose_one
from setwise.service.stores.database import LeaseClock
from setwise.service.stores.transaction import Transaction, Transactions

NO_AUDIT = Draws(*(math.nextafter(1, 0),) * 3)
"""The largest draws: only a rate of 1 draws such a document."""

ME = "me"
"""Stands for the caller among the people of a filter."""

MOST_COUNTED = 1_000
"""Matches are counted up to here, which bounds what a search costs."""


class Matches(NamedTuple):
    """A page of documents, and how many match."""

    page: Page[ListedDocument]
    number: int
    """At most `MOST_COUNTED`; there may be more then."""


@dataclass(frozen=True)
class Documents:
    """Documents with what became of them, for those who may read all predictions."""

    begin: Transactions
    now: LeaseClock
    predictors: PredictorSource

    def find(
        self,
        caller: Caller,
        filters: DocumentFilter | None = None,
        order: Order = Order.NEWEST,
        *,
        after: str | None = None,
        limit: int = 50,
    ) -> Matches:
        """Return a page of matching documents.

        Documents of which the caller holds a blind review are left out. The reader of a page is
        never given a blind review of its documents.

        Raises `InvalidRequest` if nothing can match, or words are searched for in encrypted texts.
        """
        caller.require(Permission.READ_ALL_PREDICTIONS)
        check_page(after, limit)
        with self.begin(read_only=True) as transaction:
            filters = checked(transaction, filters or DocumentFilter(), caller)
            hidden = held_by(transaction, caller)
            page = transaction.documents.page(filters, order, hidden, after=after, limit=limit)
            number = transaction.documents.count(filters, hidden, most=MOST_COUNTED)
        disclose(self.begin, self.now, caller, [each.prediction.id for each in page.items])
        return Matches(page, number)

    def unlisted(
        self,
        caller: Caller,
        filters: DocumentFilter,
        order: Order,
        shown: Collection[str],
        *,
        limit: int = 50,
    ) -> int:
        """Return how many documents the first page lists beside those shown.

        The caller has read nothing then: a page that asks by itself must not take blind reviews
        from whoever left it open.
        """
        caller.require(Permission.READ_ALL_PREDICTIONS)
        with self.begin(read_only=True) as transaction:
            filters = checked(transaction, filters, caller)
            hidden = held_by(transaction, caller)
            page = transaction.documents.page(filters, order, hidden, after=None, limit=limit)
        return len({each.prediction.id for each in page.items}.difference(shown))

    def reviewers(self, caller: Caller) -> Mapping[str, str]:
        """Return the names of the people and keys that may review, by id."""
        caller.require(Permission.READ_ALL_PREDICTIONS)
        with self.begin(read_only=True) as transaction:
            callers = [(each.name, each.id, each.role) for each in transaction.people.all()]
            callers += [(each.name, each.id, each.role) for each in transaction.keys.all()]
        able = Permission.REVIEW
        return {id_: name for name, id_, role in sorted(callers) if able in PERMISSIONS[role]}

    def get(self, caller: Caller, prediction_id: str) -> Life:
        """Return all that happened to a document.

        Raises `PredictionNotFound` if it does not exist; `BlindReviewHeld` if the caller holds a
        blind review of it.
        """
        caller.require(Permission.READ_ALL_PREDICTIONS)
        with self.begin(read_only=True, snapshot=True) as transaction:
            prediction = transaction.predictions.get(prediction_id)
            life = None if prediction is None else transaction.documents.life(prediction)
        if life is None:
            raise errors.PredictionNotFound(f"No prediction has the id {prediction_id!r}.")
        disclose_one(self.begin, self.now, caller, life.prediction.id)
        return life

    def try_out(self, caller: Caller, text: str) -> Prediction:
        """Return the prediction of a text under the policy in force, without storing anything.

        It is not drawn for an audit. The caller is given no blind review that is open now, because
        the text may be that of any document.

        Raises `BlindReviewHeld` if the caller holds one; `ModelUnavailable` if no model is active;
        `InvalidRequest` if the model cannot read the text.
        """
        caller.require(Permission.READ_ALL_PREDICTIONS)
        document = Document(text=text)
        faults = document.faults("")
        if faults:
            raise InvalidRequest("The text cannot be predicted as it stands.", faults)
        with self.begin() as transaction:
            disclose_all(transaction, self.now, caller)
            policy = transaction.policies.current()
        (scored,) = self.predictors.active().score([document])
        if isinstance(scored, Refused):
            raise scored.error
        gate = policy.gate_of(policy.segment_by.of(document).key)
        route = gate.route(scored, NO_AUDIT)
        return Prediction(
            id="",
            client_id=caller.id,
            document=document,
            scored=scored,
            decision=route.decision,
            reason=route.reason,
            threshold=route.threshold,
            policy_version=policy.version,
            created_at=self.now(),
            rule=route.rule,
        )

    def explain(self, caller: Caller, prediction: Prediction) -> Sequence[Sequence[TermWeight]]:
        """Return the active model's words for and against each predicted label.

        Empty if there is no active model, or it cannot explain the document.
        """
        caller.require(Permission.READ_ALL_PREDICTIONS)
        labels = prediction.scored.labels
        if labels is None:
            return ()
        try:
            return self.predictors.active().explain(prediction.document, labels)
        except (errors.ModelUnavailable, errors.InvalidRequest):
            return ()


def checked(transaction: Transaction, filters: DocumentFilter, caller: Caller) -> DocumentFilter:
    """Return a filter with the caller's id for `ME` and with its segment's documents.

    Raises `InvalidRequest` if nothing can match.
    """
    faults = list(filters.faults())
    if filters.text is not None and not transaction.documents.searchable:
        faults = [FieldFault("/text", "cannot be searched: texts are encrypted")]
    if faults:
        raise InvalidRequest("No document can match.", faults)
    policy = transaction.policies.current()
    return replace(
        filters,
        of_segment=None if filters.segment is None else policy.segment_of(filters.segment),
        reviewer=caller.id if filters.reviewer == ME else filters.reviewer,
        assigned_to=caller.id if filters.assigned_to == ME else filters.assigned_to,
    )


def held_by(transaction: Transaction, caller: Caller) -> frozenset[str]:
    """Return the predictions that the caller must answer blindly before seeing them."""
    if not caller.may(Permission.REVIEW):
        return frozenset()
    return transaction.reviews.held_blind(caller.id)
