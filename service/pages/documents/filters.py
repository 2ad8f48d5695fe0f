"""The filters of a list of documents: a form, and an address that keeps them."""

from collections.abc import Iterator, Mapping, Sequence
from typing import NamedTuple, Self

from fastapi import Request
from markupsafe import Markup
from pydantic import ValidationError

from setwise.service.api.documents import DocumentQuery
from setwise.service.domain.accounts.callers import Caller
from setwise.service.domain.documents import LISTS, Audited, DocumentState, Order
from setwise.service.domain.labels import LabelMatch, matching_labels
from setwise.service.domain.text import nearest
from setwise.service.pages.board import parts as ui
from setwise.service.pages.documents import HERE, address
from setwise.service.pages.forms import Filled, select, utc
from setwise.service.requests import Input
from setwise.service.services.documents import ME

_STATES = (
    ("", "any"),
    (DocumentState.SENT.value, "sent automatically"),
    (DocumentState.WAITING.value, "waits for review"),
    (DocumentState.HELD.value, "is being reviewed"),
    (DocumentState.SKIPPED.value, "waits for a lead"),
    (DocumentState.REVIEWED.value, "reviewed"),
    (DocumentState.CONTRADICTED.value, "contradicted"),
    (DocumentState.FLAGGED.value, "flagged"),
)
_AUDITS = (
    ("", "any"),
    (Audited.DRAWN.value, "audited"),
    (Audited.AGREED.value, "audited, agreed"),
    (Audited.CONTRADICTED.value, "audited, contradicted"),
)
_ORDERS = (
    (Order.NEWEST.value, "newest first"),
    (Order.OLDEST.value, "oldest first"),
    (Order.LEAST_CONFIDENT.value, "least confident first"),
    (Order.MOST_CONFIDENT.value, "most confident first"),
)
_QUEUES = (("", "any"), ("true", "ahead"), ("false", "not ahead"))
_BEYOND_MODEL = (("", "any"), ("true", "some the model lacks"), ("false", "all in the model"))
_INPUTS: Mapping[str, Input] = {
    "text": Input(
        "Words in the text",
        "or parts of words; in quotes whole words; a second or two after a document came",
    ),
    "label": Input("With label", labels="known"),
    "without_label": Input("Without label", labels="known"),
    "state": select("State", _STATES),
    "audited": select("Audit", _AUDITS),
    "confidence_from": Input("Confidence from"),
    "confidence_to": Input("below"),
    "created_from": Input("From (UTC)", widget="datetime-local"),
    "created_before": Input("Until (UTC)", widget="datetime-local"),
    "order": select("Order", _ORDERS),
}
_MORE: Mapping[str, Input] = {
    "final_label": Input("Decided with label", labels="known"),
    "without_final_label": Input("Decided without label", labels="known"),
    "beyond_model": select("Decided labels", _BEYOND_MODEL),
    "document_id": Input("Document id"),
    "segment": Input("Segment"),
    "model_version": Input("Model"),
    "calibrator_version": Input("Calibrator"),
    "prioritized": select("Queue", _QUEUES),
}
_PEOPLE: Mapping[str, str] = {"reviewer": "Submitted by", "assigned_to": "Assigned to"}
# Links set these; the form keeps them.
_LINKED: Mapping[str, str] = {
    "id": "with certain ids",
    "reason": "routed for one reason",
    "decision": "with one decision",
    "client_id": "of one client",
    "group": "submitted by one group",
    "candidate": "compared with another model",
    "difference": "with one result of it",
    "undelivered_to": "that a webhook did not accept",
}
_INSTANTS = ("created_from", "created_before")
_LABELS = tuple(name for name, each in {**_INPUTS, **_MORE}.items() if each.labels)


FILTERS = (*_INPUTS, *_MORE, *_PEOPLE, *_LINKED)
"""Names in the address of a list; the address keeps every filter."""


class Search(NamedTuple):
    """The search that the address of a list stands for."""

    query: Mapping[str, Sequence[str]]
    form: Filled
    filters: DocumentQuery | None
    """None if something is wrong with the query."""
    after: str | None

    @property
    def here(self) -> str:
        """The address itself."""
        return address(**self.query, after=self.after)

    @classmethod
    def of(cls, request: Request) -> Self:
        """Return what a request asks for."""
        params = request.query_params
        typed = {name: [text.strip() for text in params.getlist(name)] for name in FILTERS}
        query = {name: texts for name, some in typed.items() if (texts := [x for x in some if x])}
        form = Filled(query)
        return cls(query, form, _read(query, form), params.get("after"))

    def inputs(self, reviewers: Mapping[str, str], caller: Caller) -> ui.Filters:
        """Return the form; ``reviewers`` are names by id."""
        hidden = {name: Input(widget="hidden") for name in _LINKED if name in self.query}
        more = {**_MORE, **_people(reviewers, caller, self.form)}
        return ui.Filters(HERE, {**_INPUTS, **hidden}, self.form, more=more)

    def meant(self, vocabulary: Sequence[str]) -> Iterator[Markup]:
        """Yield, for each label that the model does not know, links to labels that are like it."""
        for name in _LABELS:
            for label in self.query.get(name, ()):
                if label in vocabulary:
                    continue
                near = matching_labels(map(LabelMatch, vocabulary), label, offset=0, limit=3).labels
                links = [
                    ui.joined(" ", ui.link(self._with(name, label, other), other))
                    for other in near or nearest(label, vocabulary)
                ]
                words = f"The model has no label “{label}”." + (
                    " Is one of these meant?" * bool(links)
                )
                yield ui.text(ui.joined(words, *links))

    def _with(self, name: str, label: str, other: str) -> str:
        labels = [other if each == label else each for each in self.query[name]]
        return address(**{**self.query, name: labels})

    def linked(self) -> Sequence[Markup]:
        """Return what the filters of a link leave out, and the way back."""
        narrowed = [words for name, words in _LINKED.items() if name in self.query]
        if not narrowed:
            return ()
        rest = {name: values for name, values in self.query.items() if name not in _LINKED}
        everything = ui.link(address(**rest), "Show all")
        return (ui.text(ui.joined(f"Only documents {', '.join(narrowed)}. ", everything)),)


def _read(query: Mapping[str, Sequence[str]], form: Filled) -> DocumentQuery | None:
    fields: dict[str, object] = {
        name: values if name in LISTS else values[-1] for name, values in query.items()
    }
    for name in _INSTANTS:
        try:
            fields |= {name: utc(str(fields[name]))} if name in fields else {}
        except ValueError as error:
            form.blame(name, str(error))
    try:
        filters = DocumentQuery.model_validate(fields)
    except ValidationError as error:
        for fault in error.errors():
            form.blame(str(fault["loc"][0]), fault["msg"])
        return None
    return None if form.faults else filters


def _people(names: Mapping[str, str], caller: Caller, form: Filled) -> Mapping[str, Input]:
    """Return the lists to choose people from; a link may name someone who is not in them."""
    inputs = {}
    people = {ME: "me", **{id_: name for id_, name in names.items() if id_ != caller.id}}
    for field, label in _PEOPLE.items():
        chosen = form.text(field)
        others = [] if not chosen or chosen in people else [(chosen, chosen)]
        inputs[field] = select(label, [("", "anyone"), *people.items(), *others])
    return inputs
