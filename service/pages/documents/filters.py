"""The filters of a list of documents: one search box, the others behind it, and an address."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
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
_USUAL = "order", [Order.NEWEST.value]
"""What is sent when no order is chosen."""
_QUEUES = (("", "any"), ("true", "ahead"), ("false", "not ahead"))
_BEYOND_MODEL = (("", "any"), ("true", "some the model lacks"), ("false", "all in the model"))
_TEXT: Mapping[str, Input] = {"text": Input("Search the texts")}
_INPUTS: Mapping[str, Input] = {
    "state": select("State", _STATES),
    "label": Input("With label", labels="known"),
    "without_label": Input("Without label", labels="known"),
    "audited": select("Audit", _AUDITS),
    "confidence_from": Input("Confidence from"),
    "confidence_to": Input("Confidence below"),
    "created_from": Input("From (UTC)", widget="datetime-local"),
    "created_before": Input("Until (UTC)", widget="datetime-local"),
    "order": select("Order", _ORDERS),
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
_LABELS = tuple(name for name, each in _INPUTS.items() if each.labels)


FILTERS = (*_TEXT, *_INPUTS, *_PEOPLE, *_LINKED)
"""Names in the address of a list; the address keeps every filter."""


class Chip(NamedTuple):
    """A filter in use, and the address of the list without it."""

    words: str
    without: str


@dataclass(frozen=True)
class SearchBar(ui.Filters):
    """The heading of the list with its number of documents, the search box and the filters."""

    macro = "search"
    number: str = ""
    """How many documents match, in words."""
    chips: Sequence[Chip] = ()

    def opened(self) -> bool:
        """Whether one of the inputs that unfold has a fault."""
        return any(name in self.filled.faults for name in self.more)


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

    def bar(self, reviewers: Mapping[str, str], caller: Caller, number: str) -> SearchBar:
        """Return the form; ``reviewers`` are names by id."""
        hidden = {name: Input(widget="hidden") for name in _LINKED if name in self.query}
        more = {**_INPUTS, **_people(reviewers, caller, self.form)}
        chips = list(self._chips(more))
        return SearchBar(
            HERE, {**_TEXT, **hidden}, self.form, more=more, number=number, chips=chips
        )

    def _chips(self, inputs: Mapping[str, Input]) -> Iterator[Chip]:
        for name, values in self.query.items():
            rest = {other: texts for other, texts in self.query.items() if other != name}
            if name in _LINKED:
                yield Chip(f"only {_LINKED[name]}", address(**rest))
                continue
            for value in values if name in inputs and (name, values) != _USUAL else ():
                others = [text for text in values if text != value]
                shown = {key: label for key, label, *_ in inputs[name].choices}.get(value, value)
                yield Chip(
                    f"{inputs[name].label}: {shown}",
                    address(**rest, **({name: others} if others else {})),
                )

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
