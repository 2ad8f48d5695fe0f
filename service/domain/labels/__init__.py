"""The catalogue of labels: those of the model, and those that people say it lacks."""

import unicodedata
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime
from enum import StrEnum
from functools import cached_property
from typing import NamedTuple

from setwise.service.domain.errors import FieldFault, InvalidRequest, SimilarLabels
from setwise.service.domain.predictions import size_faults
from setwise.service.domain.text import hints, name_faults
from setwise.shown import Shown
from setwise.spelling import spelled

UNNAMED = ""
"""Stands in a set for a label that applies, is in no list, and got no name.

Sets with it differ from each set of a model, so the prediction was wrong.
"""

FOLLOW_LABEL = "follow_label"
"""Kind of the job by which documents follow a renamed or merged label."""

FORGET_LABEL = "forget_label"
"""Kind of the job by which documents forget a label that is removed."""

LONGEST_LABEL = 500
MOST_SIMILAR = 5
MOST_LISTED = 3
"""Labels that a sentence names one by one."""


class LabelState(StrEnum):
    """State of a label in the catalogue."""

    ACCEPTED = "accepted"
    PROPOSED = "proposed"
    """A person gave it to a document; a lead has yet to accept it."""
    RETIRED = "retired"
    """It is no longer offered."""
    MERGED = "merged"
    """Another label stands for it."""


OFFERED = frozenset({LabelState.ACCEPTED, LabelState.PROPOSED})


@dataclass(frozen=True)
class CatalogueLabel(Shown):
    """A label of the catalogue."""

    label: str
    id: str | None = None
    """Names it in the audit trail, if a person or a program gave it."""
    name: str | None = None
    guideline: str | None = None
    """When the label applies."""
    parent: str | None = None
    """The label above it."""
    state: LabelState = LabelState.ACCEPTED
    """`proposed`: a lead has yet to decide; `retired`: no longer offered; `merged`: `merged_into`
    stands for it.
    """
    merged_into: str | None = None
    in_model: bool = False
    """The active model can predict it."""
    proposed_by: str | None = None
    """Id of the person or key that gave it first, if no file did."""
    proposed_at: datetime | None = None
    proposed_in: str | None = None
    """Id of the prediction that it was given to first."""
    version: int = 0
    """Grows with each change, and the `ETag` carries it; 0 while nothing is stored of it."""

    @property
    def offered(self) -> bool:
        """Whether people may choose it."""
        return self.state in OFFERED

    @property
    def subject(self) -> str:
        """What the audit trail and jobs call it: words of people can be removed everywhere else."""
        return self.id or self.label


@dataclass(frozen=True, slots=True)
class LabelMatch(Shown):
    """A label that a person may choose."""

    label: str
    name: str | None = None
    """Of labels that the model lacks."""
    state: LabelState = LabelState.ACCEPTED
    in_model: bool = True
    """The active model can predict it."""


@dataclass(frozen=True)
class LabelLookup(Shown):
    """What is known of a label that a person typed whole."""

    label: str
    listed: LabelMatch | None
    """The label, if it may be chosen."""
    retired: bool
    similar: tuple[LabelMatch, ...]
    """The label that stands for it, and those that differ in no more than their spelling."""


@dataclass(frozen=True)
class LabelMatches:
    """A slice of the matching labels, and the number of all matches."""

    items: tuple[LabelMatch, ...]
    total: int

    @property
    def labels(self) -> tuple[str, ...]:
        """The labels themselves."""
        return tuple(match.label for match in self.items)


@dataclass(frozen=True)
class LabelSet(Shown):
    """A label set that a person or the model gave."""

    labels: tuple[str, ...]
    label_missing: bool
    """A label applies besides that has no name."""


def shown_set(labels: Sequence[str]) -> LabelSet:
    """Return a label set as it is shown outside the service.

    >>> shown_set(["J18.9", UNNAMED])
    LabelSet(labels=('J18.9',), label_missing=True)
    """
    return LabelSet(tuple(label for label in labels if label != UNNAMED), UNNAMED in labels)


@dataclass(frozen=True)
class Additions:
    """What an answer says of labels that neither the model nor the catalogue has."""

    new_labels: Sequence[str] = ()
    """Labels of the set that are to be added to the catalogue."""
    insist: bool = False
    """Whether to add them although the catalogue has similar ones."""
    label_missing: bool = False
    """Whether a label applies besides that has no name."""

    def given(self, labels: Sequence[str]) -> tuple[str, ...]:
        """Return the set that an answer means; raises `InvalidRequest`.

        >>> Additions(label_missing=True).given(["J18.9 "])
        ('J18.9', '')
        """
        if too_many := size_faults(labels, "/labels"):
            raise InvalidRequest("The answer cannot be read like this.", too_many)
        names = tuple(map(spelled, labels))
        distinct = frozenset(names)
        faults = [
            FieldFault(f"/labels/{place}", "is empty; name a label, or set label_missing")
            for place, name in enumerate(names)
            if not name
        ]
        faults += [
            FieldFault(f"/new_labels/{place}", "is not one of the labels")
            for place, name in enumerate(map(spelled, self.new_labels))
            if name not in distinct
        ]
        if faults:
            raise InvalidRequest("The answer cannot be read like this.", faults)
        return (*names, UNNAMED) if self.label_missing else names

    def marks(self, label: str) -> bool:
        """Return whether a label is marked as new."""
        return label in self._new

    @cached_property
    def _new(self) -> frozenset[str]:
        return frozenset(map(spelled, self.new_labels))


NO_ADDITIONS = Additions()


class Resolved(NamedTuple):
    """The labels of an answer, as they are stored."""

    labels: tuple[str, ...]
    proposed: tuple[str, ...] = ()
    """Those to be added to the catalogue."""


class Catalogue:
    """Labels that people may give: those of a model, those of the catalogue, and new ones.

    ``vocabulary``: Labels that may be given whatever the catalogue says of them.
    """

    def __init__(self, vocabulary: Iterable[str], labels: Iterable[CatalogueLabel]) -> None:
        self._vocabulary = dict.fromkeys(vocabulary)
        self._labels = {each.label: each for each in labels}

    def resolve(
        self,
        labels: Sequence[str],
        additions: Additions = NO_ADDITIONS,
        besides: Sequence[FieldFault] = (),
        *,
        accepted: bool = False,
    ) -> Resolved:
        """Return an answer's labels, merged ones replaced, in the order of the vocabulary.

        Raises `InvalidRequest` if a label is unknown, retired or given twice; `SimilarLabels` if a
        new one has near-duplicates.

        ``besides``: Other faults of the answer.
        ``accepted``: Whether proposed labels are unknown as long as no lead has accepted them.
        """
        faults: list[FieldFault] = []
        names: list[str] = []
        proposed: list[str] = []
        proposals = {label for label in labels if accepted and self._is_proposed(label)}
        unknown = [
            label
            for label in labels
            if (label in proposals or not self._has(label)) and not additions.marks(label)
        ]
        names_known = [name for name in self._names() if name not in proposals] if unknown else []
        meant = hints(unknown, names_known)
        for place, label in enumerate(labels):
            name = self.current(label)
            pointer = f"/labels/{place}"
            if label in unknown:
                faults.append(FieldFault(pointer, _unknown(label, meant.get(label, ""))))
            elif self._is_retired(name):
                faults.append(FieldFault(pointer, f"{label!r} is retired; choose another label"))
            elif name in names:
                faults.append(FieldFault(pointer, f"{label!r} is given twice"))
            elif not self._has(name):
                faults += name_faults(name, pointer, longest=LONGEST_LABEL)
                proposed.append(name)
            names.append(name)
        if faults or besides:
            raise InvalidRequest("The answer cannot be stored like this.", [*faults, *besides])
        if not additions.insist:
            self.refuse_similar(proposed)
        places = {label: place for place, label in enumerate(self._vocabulary)}
        last = len(places)
        ordered = sorted(names, key=lambda name: (name == UNNAMED, places.get(name, last), name))
        return Resolved(tuple(ordered), tuple(proposed))

    def current_of(self, labels: Sequence[str]) -> Resolved:
        """Return labels whatever they are, merged ones replaced, and which of them are unknown."""
        names = tuple(dict.fromkeys(map(self.current, labels)))
        return Resolved(names, tuple(name for name in names if not self._has(name)))

    def current(self, label: str) -> str:
        """Return the label that stands for a label: itself, unless it was merged."""
        stored = self._labels.get(label)
        return label if stored is None else stored.merged_into or label

    def refuse_similar(self, labels: Sequence[str]) -> None:
        """Raise `SimilarLabels` if one of the labels has near-duplicates."""
        for label in labels:
            if similar := self.similar(label):
                raise SimilarLabels(label, similar)

    def similar(self, label: str) -> tuple[str, ...]:
        """Return the labels that differ from a label in no more than its spelling.

        >>> Catalogue(["long-covid", "J18.9"], []).similar("Long COVID")
        ('long-covid',)
        """
        names = (name for name in self._alike.get(folded(label), ()) if name != label)
        return tuple(dict.fromkeys(self.current(name) for name in names))[:MOST_SIMILAR]

    def by_folded(self) -> Mapping[str, Sequence[str]]:
        """Return the labels by what near-duplicates share."""
        alike: dict[str, list[str]] = {}
        for name in self._names():
            alike.setdefault(folded(name), []).append(name)
        return alike

    def look_up(self, label: str) -> LabelLookup:
        """Return what is known of a label.

        >>> Catalogue(["long-covid"], []).look_up("Long COVID").similar[0].label
        'long-covid'
        """
        match, current = self._match(label), self.current(label)
        offered = match is not None and match.state in OFFERED
        similar = ([] if current == label else [current]) + [*self.similar(label)]
        return LabelLookup(
            label,
            listed=match if offered else None,
            retired=match is not None and match.state is LabelState.RETIRED,
            similar=tuple(filter(None, map(self._match, dict.fromkeys(similar)))),
        )

    @cached_property
    def _alike(self) -> Mapping[str, Sequence[str]]:
        """The names by what near-duplicates share."""
        names: dict[str, list[str]] = {}
        for name in self._names():
            names.setdefault(folded(name), []).append(name)
        return names

    def _match(self, label: str) -> LabelMatch | None:
        in_model, stored = label in self._vocabulary, self._labels.get(label)
        if stored is not None:
            return LabelMatch(label, stored.name, stored.state, in_model)
        return LabelMatch(label) if in_model else None

    def _has(self, label: str) -> bool:
        return label == UNNAMED or label in self._vocabulary or label in self._labels

    def _is_retired(self, label: str) -> bool:
        stored = self._labels.get(label)
        retired = stored is not None and stored.state is LabelState.RETIRED
        return retired and label not in self._vocabulary

    def _is_proposed(self, label: str) -> bool:
        stored = self._labels.get(label)
        proposed = stored is not None and stored.state is LabelState.PROPOSED
        return proposed and label not in self._vocabulary

    def _names(self) -> Collection[str]:
        return dict.fromkeys([*self._vocabulary, *self._labels])


def _unknown(label: str, meant: str) -> str:
    if meant:
        return f"{label!r} is not a label of the model{meant}"
    return f"{label!r} is not a label of the model or the catalogue; to add it, name it new_labels"


_DASHES = frozenset({"Pd", "Mn", "Zs"})


def folded(label: str) -> str:
    r"""Return what near-duplicates of a label share: no case, spaces, hyphens or accents.

    >>> folded("Long-COVID"), folded("long covid"), folded("Fi\u00e8vre_Q")
    ('longcovid', 'longcovid', 'fievreq')
    """
    plain = unicodedata.normalize("NFKD", label).casefold()
    plain = unicodedata.normalize("NFKD", plain)
    return "".join(
        character
        for character in plain
        if not character.isspace()
        and character != "_"
        and unicodedata.category(character) not in _DASHES
    )


@dataclass(frozen=True)
class LabelChange:
    """What a lead decides on a label of the catalogue."""

    state: LabelState
    label: str | None = None
    """Its new name; None leaves it."""
    merged_into: str | None = None
    """The label that stands for it from now on, if the state is ``merged``."""
    insist: bool = False
    """Whether to rename it although the catalogue has similar labels."""


def check_change(
    stored: CatalogueLabel, change: LabelChange, *, target: CatalogueLabel | None, predicted: bool
) -> None:
    """Raise `InvalidRequest` if a lead may not change a label like this.

    ``target``: What the catalogue knows of the label to merge into, or of the new name.
    ``predicted``: A model has predicted the label.
    """
    faults = list(_change_faults(stored, change, target))
    moves = change.state is LabelState.MERGED or change.label not in {None, stored.label}
    if moves and (stored.in_model or predicted):
        detail = "is a label that a model predicts, so it keeps its name; retire it instead"
        faults.append(FieldFault("/merged_into" if change.label is None else "/label", detail))
    if faults:
        raise InvalidRequest("The label cannot be changed like this.", faults)


def check_removal(stored: CatalogueLabel, *, predicted: bool) -> None:
    """Raise `InvalidRequest` if a lead may not remove a label.

    ``predicted``: A model has predicted the label.
    """
    if stored.in_model or predicted:
        detail = "is a label that a model predicts; retire it instead"
        fault = FieldFault("/path/name", detail)
        raise InvalidRequest("The label cannot be removed.", [fault])


def _change_faults(
    stored: CatalogueLabel, change: LabelChange, target: CatalogueLabel | None
) -> Iterator[FieldFault]:
    if stored.state is LabelState.MERGED:
        yield FieldFault("/state", f"cannot change: {stored.merged_into!r} stands for the label")
    if change.state is LabelState.MERGED:
        yield from _merge_faults(stored, change, target)
        return
    if change.merged_into is not None:
        yield FieldFault("/merged_into", "has a meaning with the state 'merged' only")
    if change.label not in {None, stored.label}:
        yield from name_faults(change.label or "", "/label", longest=LONGEST_LABEL)
        if target is not None:
            yield FieldFault("/label", "exists already; merge the label into it")


def _merge_faults(
    stored: CatalogueLabel, change: LabelChange, target: CatalogueLabel | None
) -> Iterator[FieldFault]:
    if change.label is not None:
        yield FieldFault("/label", "has no meaning where the label is merged")
    if change.merged_into is None:
        yield FieldFault("/merged_into", "is missing; name the label that stands for it")
    elif change.merged_into == stored.label:
        yield FieldFault("/merged_into", "is the label itself; name another one")
    elif target is None:
        yield FieldFault("/merged_into", "is not a label of the model or the catalogue")
    elif not target.offered:
        yield FieldFault("/merged_into", f"is {target.state}; name a label that is in use")


def stands_for(labels: Collection[CatalogueLabel], old: str, new: str) -> Iterator[CatalogueLabel]:
    """Yield the labels that change once ``new`` stands for ``old``.

    A label below the one that it stands for moves up to its place.
    """
    parents = {each.label: each.parent for each in labels}
    above = parents.get(new)
    while above not in {None, old}:
        above = parents.get(above or "")
    for each in labels:
        later = replace(each, version=each.version + 1)
        if each.label == old:
            yield replace(later, state=LabelState.MERGED, merged_into=new)
        elif each.merged_into == old:
            yield replace(later, merged_into=new)
        elif each.label == new and above == old:
            yield replace(later, parent=parents[old])
        elif each.parent == old:
            yield replace(later, parent=new)


def replaced(labels: Sequence[str], old: str, new: str) -> tuple[str, ...]:
    """Return a set with one label in place of another; one without a name comes last.

    >>> replaced(["a", "b", "c"], "a", "c"), replaced(["a", "b"], "a", "")
    (('c', 'b'), ('b', ''))
    """
    names = dict.fromkeys(new if label == old else label for label in labels)
    return tuple(sorted(names, key=lambda name: name == UNNAMED))


@dataclass(frozen=True)
class MissingLabels:
    """Checked predictions with labels that the active model lacks."""

    documents: int = 0
    """Whose right set has such a label."""
    checked: int = 0
    """All whose right set is known."""
    labels: Mapping[str, int] = field(default_factory=dict)
    """How many documents have each of them, also those that came before there was a model;
    `UNNAMED` stands for those without a name.
    """

    def sentence(self) -> str:
        """Return what they cost, in one line; "" if there are none.

        >>> print(MissingLabels(31, 1450, {"J12.82": 17, "U09.9": 9}).sentence())
        31 checked documents (2.1 %) have labels that the model lacks: J12.82 (17), U09.9 (9); \
they can never be sent right. Retrain.
        """
        if not self.documents:
            return ""
        ranked = sorted(self.labels.items(), key=lambda pair: (-pair[1], pair[0]))
        named = ", ".join(
            f"{label or 'without a name'} ({n:,})" for label, n in ranked[:MOST_LISTED]
        )
        more = " …" if len(ranked) > MOST_LISTED else ""
        share = 100 * self.documents / max(self.checked, 1)
        single = self.documents == 1
        return (
            f"{self.documents:,} checked {'document' if single else 'documents'} ({share:.1f} %) "
            f"{'has' if single else 'have'} labels that the model lacks: {named}{more}; "
            f"{'it' if single else 'they'} can never be sent right. Retrain."
        )


def matching_labels(
    labels: Iterable[LabelMatch], query: str, *, offset: int, limit: int
) -> LabelMatches:
    """Return the labels that contain the words of ``query``, ignoring case.

    Labels of the model come before all others. Among each, a label that equals the query comes
    first, then labels that begin with it, that contain it, and that contain all its words. Ties
    keep their order.
    """
    text = spelled(query).casefold()
    words = text.split()
    ranked = [
        (not label.in_model, rank, label)
        for label in labels
        if (rank := _match_rank(label.label.casefold(), text, words)) is not None
    ]
    ranked.sort(key=lambda match: match[:2])  # stable, so it keeps the order of the labels
    chosen = ranked[offset : offset + limit]
    return LabelMatches(tuple(label for *_, label in chosen), len(ranked))


def _match_rank(label: str, text: str, words: Sequence[str]) -> int | None:
    if label == text:
        return 0
    if label.startswith(text):
        return 1
    if text in label:
        return 2
    return 3 if len(words) > 1 and all(word in label for word in words) else None
