"""Find documents, and tell all that happened to one."""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import NamedTuple

from setwise.service.domain import errors
from setwise.service.domain.callers import PERMISSIONS, Caller, Permission
from setwise.service.domain.documents import (
    MOST_SEARCHES,
    DocumentFilter,
    Life,
    ListedDocument,
    Order,
    SavedSearch,
)
from setwise.service.domain.errors import FieldFault, InvalidRequest
from setwise.service.domain.predictions import Document, Prediction, TermWeight
from setwise.service.domain.routing.audits import Draws
from setwise.service.domain.text import Page, check_page
from setwise.service.services.ports import PredictorSource
from setwise.service.services.predictions import disclose, disclose_all, disclose_one
from setwise.service.stores.database import Clock
from setwise.service.stores.transaction import Transaction, Transactions

NO_AUDIT = Draws(*(math.nextafter(1, 0),) * 3)
"""The largest draws: only a rate of 1 draws such a document."""

ME = "me"
"""Stands for the caller among the people of a filter."""

MOST_COUNTED = 1_000
"""Matches are counted up to here, which bounds what a search costs."""


class Found(NamedTuple):
    """A page of documents, and how many match."""

    page: Page[ListedDocument]
    matches: int
    """At most `MOST_COUNTED`; there may be more then."""


@dataclass(frozen=True)
class Documents:
    """Documents with what became of them, for those who may read all predictions."""

    begin: Transactions
    now: Clock
    predictors: PredictorSource

    def find(
        self,
        caller: Caller,
        wanted: DocumentFilter | None = None,
        order: Order = Order.NEWEST,
        *,
        after: str | None = None,
        limit: int = 50,
    ) -> Found:
        """Return a page of matching documents.

        Documents of which the caller holds a blind review are left out. The reader of a page is
        never given a blind review of its documents.

        Raises `InvalidRequest` if nothing can match, or words are searched for in encrypted texts.
        """
        caller.require(Permission.READ_ALL_PREDICTIONS)
        check_page(after, limit)
        with self.begin(read_only=True) as transaction:
            wanted = checked(transaction, wanted or DocumentFilter(), caller)
            hidden = held_by(transaction, caller)
            page = transaction.documents.page(wanted, order, hidden, after=after, limit=limit)
            matches = transaction.documents.count(wanted, hidden, most=MOST_COUNTED)
        disclose(self.begin, self.now, caller, [one.prediction.id for one in page.items])
        return Found(page, matches)

    def reviewers(self, caller: Caller) -> Mapping[str, str]:
        """Return the names of the people and keys that may review, by id."""
        caller.require(Permission.READ_ALL_PREDICTIONS)
        with self.begin(read_only=True) as transaction:
            everybody = [(one.name, one.id, one.role) for one in transaction.people.all()]
            everybody += [(one.name, one.id, one.role) for one in transaction.keys.all()]
        able = Permission.REVIEW
        return {one: name for name, one, role in sorted(everybody) if able in PERMISSIONS[role]}

    def searches(self, caller: Caller) -> Sequence[SavedSearch]:
        """Return the searches that the caller saved, by name."""
        caller.require(Permission.READ_ALL_PREDICTIONS)
        with self.begin(read_only=True) as transaction:
            return transaction.documents.searches(caller.id)

    def save_search(self, caller: Caller, search: SavedSearch) -> None:
        """Save a search for the caller, in place of one of the same name."""
        caller.require(Permission.READ_ALL_PREDICTIONS)
        faults = search.faults()
        with self.begin() as transaction:
            others = {one.name for one in transaction.documents.searches(caller.id)}
            if len(others - {search.name}) >= MOST_SEARCHES:
                faults.append(FieldFault("/name", f"is one too many; {MOST_SEARCHES} are kept"))
            if faults:
                raise InvalidRequest("The search cannot be saved.", faults)
            transaction.documents.save_search(caller.id, search)

    def forget_search(self, caller: Caller, name: str) -> None:
        """Delete a search of the caller."""
        caller.require(Permission.READ_ALL_PREDICTIONS)
        with self.begin() as transaction:
            transaction.documents.forget_search(caller.id, name)

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
        route = policy.route(scored, NO_AUDIT)
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

    def explain(self, caller: Caller, made: Prediction) -> Sequence[Sequence[TermWeight]]:
        """Return the active model's words for and against each predicted label.

        Empty if there is no active model, or it cannot explain the document.
        """
        caller.require(Permission.READ_ALL_PREDICTIONS)
        try:
            return self.predictors.active().explain(made.document, made.scored.labels)
        except (errors.ModelUnavailable, errors.InvalidRequest):
            return ()


def checked(transaction: Transaction, wanted: DocumentFilter, caller: Caller) -> DocumentFilter:
    """Return a filter with the caller's id for `ME` and with its scope.

    Raises `InvalidRequest` if nothing can match.
    """
    faults = list(wanted.faults())
    if wanted.text is not None and not transaction.documents.searchable:
        faults = [FieldFault("/text", "cannot be searched: texts are encrypted")]
    if faults:
        raise InvalidRequest("No document can match.", faults)
    whole = transaction.policies.current()
    return replace(
        wanted,
        scope=None if wanted.segment is None else whole.among(wanted.segment),
        reviewer=caller.id if wanted.reviewer == ME else wanted.reviewer,
        assigned_to=caller.id if wanted.assigned_to == ME else wanted.assigned_to,
    )


def held_by(transaction: Transaction, caller: Caller) -> frozenset[str]:
    """Return the predictions that the caller must answer blindly before seeing them."""
    if not caller.may(Permission.REVIEW):
        return frozenset()
    return transaction.reviews.held_blind(caller.id)
