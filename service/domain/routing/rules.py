"""Rules that hold documents back for a person, regardless of the confidence.

A rule is declared as a small object with a ``kind``. The policy keeps its rules in order, and a
decision names the first one that the document breaks.
"""

import json
from abc import ABC, abstractmethod
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from typing import ClassVar

from setwise.service.domain.errors import FieldFault
from setwise.service.domain.text import name_faults, unnameable
from setwise.spelling import spelled

MOST_RULES = 100
MOST_LABELS = 1_000
LONGEST_NAME = 100
LONGEST_LABEL = 500

Metadata = Mapping[str, object]
"""The client's fields and, under names that no client can use, what else rules look at."""

EARLIER_VERSIONS = "\0earlier versions"
"""Number of other versions of the document that were posted before, and not sent."""

Declared = Mapping[str, object]
"""A rule as an administrator wrote it."""


@dataclass(frozen=True)
class Rule(ABC):
    """A condition on labels and metadata that holds a document back."""

    name: str
    kind: ClassVar[str]

    @abstractmethod
    def holds_back(self, labels: frozenset[str], metadata: Metadata) -> bool:
        """Return whether the document must not be sent."""

    def declared(self) -> dict[str, object]:
        """Return the rule as it was written."""
        plain = {k: list(v) if isinstance(v, tuple) else v for k, v in asdict(self).items()}
        return {"kind": self.kind, **{k: v for k, v in plain.items() if v is not None}}

    def stored(self) -> dict[str, object]:
        """Return all that decides what it holds back."""
        return self.declared()


@dataclass(frozen=True)
class LabelRule(Rule):
    """Never send a set that contains the label."""

    label: str
    kind: ClassVar[str] = "label"

    def holds_back(self, labels: frozenset[str], metadata: Metadata) -> bool:  # noqa: ARG002
        """Return whether the set contains the label."""
        return self.label in labels


@dataclass(frozen=True)
class MetadataRule(Rule):
    """Never send a document whose metadata field has a listed value."""

    field: str
    values: tuple[object, ...]
    kind: ClassVar[str] = "metadata"

    def holds_back(self, labels: frozenset[str], metadata: Metadata) -> bool:  # noqa: ARG002
        """Return whether the field exists and has one of the values."""
        if self.field not in metadata:
            return False
        stated = metadata[self.field]
        # In JSON, true is not a number; in Python it is.
        return any(
            stated == value and isinstance(stated, bool) == isinstance(value, bool)
            for value in self.values
        )


@dataclass(frozen=True)
class ExactlyOneRule(Rule):
    """A set must contain exactly one of the labels."""

    labels: tuple[str, ...]
    kind: ClassVar[str] = "exactly_one"

    def holds_back(self, labels: frozenset[str], metadata: Metadata) -> bool:  # noqa: ARG002
        """Return whether the set contains none or several of them."""
        return sum(label in labels for label in self.labels) != 1


@dataclass(frozen=True)
class AtMostRule(Rule):
    """A set may contain at most ``n`` of the labels (None: any)."""

    n: int
    labels: tuple[str, ...] | None = None
    kind: ClassVar[str] = "at_most"

    def holds_back(self, labels: frozenset[str], metadata: Metadata) -> bool:  # noqa: ARG002
        """Return whether the set contains more than ``n``."""
        counted = labels if self.labels is None else labels & set(self.labels)
        return len(counted) > self.n


@dataclass(frozen=True)
class RequiresRule(Rule):
    """A set that contains the label must contain the others too."""

    label: str
    labels: tuple[str, ...]
    kind: ClassVar[str] = "requires"

    def holds_back(self, labels: frozenset[str], metadata: Metadata) -> bool:  # noqa: ARG002
        """Return whether the set contains the label without all the others."""
        return self.label in labels and not labels >= set(self.labels)


@dataclass(frozen=True)
class ParentsRule(Rule):
    """A set that contains a label must contain its parent too."""

    parents: Mapping[str, str] = field(default_factory=dict, hash=False)
    """The parent of each label that needs one, as the catalogue had it."""
    kind: ClassVar[str] = "parents"

    def holds_back(self, labels: frozenset[str], metadata: Metadata) -> bool:  # noqa: ARG002
        """Return whether the set contains a label without its parent."""
        return any(self.parents.get(label, label) not in labels for label in labels)

    def required(self, labels: frozenset[str]) -> Iterator[RequiresRule]:
        """Yield what the labels of a set require."""
        for label in sorted(labels & self.parents.keys()):
            yield RequiresRule(self.name, label, (self.parents[label],))

    def declared(self) -> dict[str, object]:
        """Return the rule without the parents, which the catalogue has."""
        return {"kind": self.kind, "name": self.name}

    def stored(self) -> dict[str, object]:
        """Return the rule with the parents."""
        return {**self.declared(), "parents": dict(self.parents)}


@dataclass(frozen=True)
class VersionsRule(Rule):
    """Never send a document of which more than ``n`` other versions were posted before."""

    n: int
    kind: ClassVar[str] = "versions"

    def holds_back(self, labels: frozenset[str], metadata: Metadata) -> bool:  # noqa: ARG002
        """Return whether more versions were posted before, and not sent."""
        earlier = metadata.get(EARLIER_VERSIONS, 0)
        return isinstance(earlier, int) and earlier > self.n


KINDS = ("label", "metadata", "exactly_one", "at_most", "requires", "parents", "versions")


@dataclass
class _Reader:
    """Reads one declared rule and collects its faults."""

    declared: Declared
    pointer: str
    faults: list[FieldFault] = field(default_factory=list)

    def fault(self, name: str, detail: str) -> None:
        self.faults.append(FieldFault(f"{self.pointer}{name}", detail))

    def text(self, name: str, longest: int) -> str:
        value = self.declared.get(name)
        if not isinstance(value, str):
            self.fault(f"/{name}", "is missing; name it" if value is None else "must be a string")
            return ""
        self.faults += name_faults(value, f"{self.pointer}/{name}", longest=longest)
        return value

    def labels(self, least: int) -> tuple[str, ...]:
        value = self.declared.get("labels")
        if not isinstance(value, list | tuple) or not all(isinstance(item, str) for item in value):
            self.fault("/labels", "must be an array of labels")
            return ()
        value = tuple(map(spelled, value))
        if not least <= len(value) <= MOST_LABELS or len(set(value)) != len(value):
            self.fault("/labels", f"must name {least} to {MOST_LABELS} different labels")
        for place, label in enumerate(value):
            self.faults += name_faults(
                label, f"{self.pointer}/labels/{place}", longest=LONGEST_LABEL
            )
        return value

    def values(self) -> tuple[object, ...]:
        value = self.declared.get("values")
        if not isinstance(value, list | tuple) or not value or len(value) > MOST_LABELS:
            self.fault("/values", f"must be an array of 1 to {MOST_LABELS} values")
            return ()
        for place, item in enumerate(value):
            if not isinstance(item, str | bool | int | float):
                self.fault(f"/values/{place}", "must be a string, a number, true or false")
            elif isinstance(item, str) and (why := unnameable(item)):
                self.fault(f"/values/{place}", why)
        return tuple(value)

    def count(self) -> int:
        value = self.declared.get("n")
        if isinstance(value, bool) or not isinstance(value, int) or not 0 <= value <= MOST_LABELS:
            self.fault("/n", f"must be a whole number from 0 to {MOST_LABELS}")
            return 0
        return value

    def parents(self) -> Mapping[str, str]:
        value = self.declared.get("parents")
        if value is None:
            return {}
        if not isinstance(value, Mapping) or not all(
            isinstance(each, str) for each in value.values()
        ):
            self.fault("/parents", "must name the parent of each label")
            return {}
        return dict(value)

    def rule(self) -> Rule | None:
        kind = self.declared.get("kind")
        title = self.declared.get("name")
        name = self.text("name", LONGEST_NAME) if title is not None else None
        allowed = {"kind", "name"}
        rule: Rule
        match kind:
            case "label":
                allowed |= {"label"}
                label = spelled(self.text("label", LONGEST_LABEL))
                rule = LabelRule(name or f"label {label}"[:LONGEST_NAME], label)
            case "metadata":
                allowed |= {"field", "values"}
                where = self.text("field", LONGEST_LABEL)
                rule = MetadataRule(
                    name or f"metadata {where}"[:LONGEST_NAME], where, self.values()
                )
            case "exactly_one":
                allowed |= {"labels"}
                rule = ExactlyOneRule(name or "exactly one", self.labels(2))
            case "at_most":
                allowed |= {"n", "labels"}
                some = self.labels(1) if self.declared.get("labels") is not None else None
                rule = AtMostRule(name or "at most", self.count(), some)
            case "requires":
                allowed |= {"label", "labels"}
                label = spelled(self.text("label", LONGEST_LABEL))
                rule = RequiresRule(
                    name or f"{label} requires"[:LONGEST_NAME], label, self.labels(1)
                )
            case "parents":
                allowed |= {"parents"}
                rule = ParentsRule(name or "parents", self.parents())
            case "versions":
                allowed |= {"n"}
                rule = VersionsRule(name or "posted again", self.count())
            case _:
                self.fault("/kind", f"must be one of {', '.join(KINDS)}")
                return None
        for extra in sorted(set(self.declared) - allowed):
            if self.declared[extra] is not None:
                self.fault(f"/{extra}", f"has no meaning in a rule of kind {kind!r}")
        return rule


def read_rules(declared: Sequence[object]) -> tuple[tuple[Rule, ...], tuple[FieldFault, ...]]:
    """Return the declared rules and their faults.

    >>> rules, faults = read_rules([{"kind": "label", "label": "J18.9"}, {"kind": "at_most"}])
    >>> rules[0].name, [fault.pointer for fault in faults]
    ('label J18.9', ['/rules/1/n'])
    """
    if len(declared) > MOST_RULES:
        return (), (FieldFault("/rules", f"has {len(declared)} rules; at most {MOST_RULES}"),)
    rules: list[Rule] = []
    faults: list[FieldFault] = []
    for place, entry in enumerate(declared):
        if not isinstance(entry, Mapping):
            faults.append(FieldFault(f"/rules/{place}", "must be an object with a kind"))
            continue
        reader = _Reader(entry, f"/rules/{place}")
        rule = reader.rule()
        faults += reader.faults
        if rule is not None:
            rules.append(rule)
    return tuple(rules), tuple(faults)


def held_back_alike(rules: Sequence[Rule]) -> frozenset[str]:
    """Return what rules hold back, whatever their names and order.

    >>> one, two = LabelRule("a", "J18.9"), LabelRule("b", "J18.9")
    >>> held_back_alike([one]) == held_back_alike([two, one])
    True
    """
    return frozenset(json.dumps({**rule.stored(), "name": None}, sort_keys=True) for rule in rules)


def constraints_broken(
    rules: Sequence[Rule], labels: Sequence[str], metadata: Metadata
) -> tuple[Rule, ...]:
    """Return the rules about combinations of labels that a set breaks.

    These apply to sets that people choose, too. The other rules only ask for a person, and a
    person is already there. Of a rule on parents, it is what each label requires.
    """
    present = frozenset(labels)
    each_alone = (
        part
        for rule in rules
        for part in (rule.required(present) if isinstance(rule, ParentsRule) else [rule])
    )
    return tuple(
        rule
        for rule in each_alone
        if isinstance(rule, ExactlyOneRule | AtMostRule | RequiresRule)
        and rule.holds_back(present, metadata)
    )


def parents_beside(rules: Sequence[Rule]) -> Mapping[str, str]:
    """Return the parent that rules require beside each label."""
    return {
        label: parent
        for rule in rules
        if isinstance(rule, ParentsRule)
        for label, parent in rule.parents.items()
    }


def first_broken(rules: Sequence[Rule], labels: Sequence[str], metadata: Metadata) -> Rule | None:
    """Return the first rule that holds a document back, or None."""
    if not rules:
        return None
    present = frozenset(labels)
    return next((rule for rule in rules if rule.holds_back(present, metadata)), None)
