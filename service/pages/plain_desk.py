"""The desk without a script: what its form offers, and what it sends.

Question: which labels apply to this document?
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Annotated, NamedTuple

from fastapi import Form

from setwise.service.domain.accounts.callers import Caller
from setwise.service.domain.errors import InvalidRequest
from setwise.service.domain.labels import UNNAMED, Additions
from setwise.service.domain.reviews import ReviewTask
from setwise.service.pages.forms import lines
from setwise.service.pages.typed_labels import UnlistedLabel, unlisted
from setwise.service.services.all import Services
from setwise.spelling import spelled

WRITTEN, NO_LABELS, NONE_FITS = -1, -2, -3
"""What the form has chosen: written labels, no labels, or one in no list."""


class OfferedSet(NamedTuple):
    """A set to choose."""

    labels: Sequence[str]
    apart: Sequence[str]
    """Its labels without those that all answers have."""
    title: str = ""
    """What it is, if it is no answer and no suggestion."""


@dataclass
class Submitted:
    """What the form of a document sends."""

    task: Annotated[str, Form()]
    version: Annotated[int, Form()]
    chosen: Annotated[int, Form()] = WRITTEN
    """Place of an offered set, or `WRITTEN`, `NO_LABELS` or `NONE_FITS`."""
    labels: Annotated[str, Form()] = ""
    """One a line."""
    new: Annotated[Sequence[str], Form()] = ()
    """Labels to add, which no list has."""
    brought: Annotated[Sequence[str], Form()] = ()
    """Parents that were written beside labels once; they can be removed."""
    missing: Annotated[bool, Form()] = False
    """Whether a label applies besides that is in no list."""
    comment: Annotated[str, Form()] = ""
    fault: str = field(init=False, default="")
    """Why it could not be submitted."""
    unlisted: Sequence[UnlistedLabel] = field(init=False, default=())
    """Labels that are in no list."""

    def decided(self, task: ReviewTask) -> list[str] | None:
        """Return the labels that are meant; None if the form says none or two answers."""
        written, offered = lines(self.labels), offers(task)
        if self.chosen == WRITTEN:
            return written if written or self.missing else None
        if written or self.missing or self.chosen >= len(offered):
            return None
        if self.chosen < 0:
            return [UNNAMED] if self.chosen == NONE_FITS else []
        return list(offered[self.chosen].labels)

    def bring(self, beside: Mapping[str, str]) -> Sequence[str]:
        """Write the parents that the policy requires beside labels, and return them.

        ``beside``: The parent of each label that must have one.
        """
        written = [spelled(label) for label in lines(self.labels)]
        parents: list[str] = []
        for label in written:
            parent = beside.get(label)
            while parent is not None and parent not in {*written, *parents, *self.brought}:
                parents.append(parent)
                parent = beside.get(parent)
        self.labels = "\n".join([*lines(self.labels), *parents])
        self.brought = [*self.brought, *parents]
        return parents


def offers(task: ReviewTask) -> list[OfferedSet]:
    """Return the sets to choose from: answers and all together, or the suggestions."""
    if not task.answers:
        return (
            [] if task.blind else [OfferedSet(each.labels, each.labels) for each in task.candidates]
        )
    common = shared(task)
    every = list(dict.fromkeys(label for labels in task.answers for label in labels))
    given = any(len(labels) == len(every) for labels in task.answers)
    union = [] if given else [(every, both_or_all(task))]
    return [
        OfferedSet(labels, [label for label in labels if label not in common], title)
        for labels, title in [*((labels, "") for labels in task.answers), *union]
    ]


def shared(task: ReviewTask) -> Sequence[str]:
    """Return the labels that all answers have; those of a single answer are its own."""
    first, *others = task.answers or ((),)
    if not others:
        return ()
    return [label for label in first if all(label in labels for labels in others)]


def both_or_all(task: ReviewTask) -> str:
    """Return what the answers are together."""
    return "Both" if len(task.answers) == 2 else "All"


def store(
    services: Services, caller: Caller, task: ReviewTask, labels: Sequence[str], form: Submitted
) -> bool:
    """Store a decision; return whether it could be stored, and note why not.

    Labels that no list has are shown once more, with known ones much like them, and parents that
    the policy requires are shown once before they are stored.
    """
    if form.chosen == WRITTEN:
        form.unlisted = list(unlisted(services, caller, task.prediction, labels))
        form.fault = _brought(form.bring(services.queue.parents(caller)))
    new = [each.label for each in form.unlisted if each.label in form.new]
    if len(new) < len(form.unlisted):
        form.fault += " Some labels are in no list. Correct them, or tick those to add."
    if form.fault:
        return False
    missing = form.missing or UNNAMED in labels
    named = [label for label in labels if label != UNNAMED]
    additions = Additions(new, insist=True, label_missing=missing)
    comment = form.comment.strip() or None
    try:
        services.reviews.decide(
            caller, task.id, named, comment, form.version, additions=additions, then_claim=True
        )
    except InvalidRequest as refusal:
        form.fault = " ".join(
            [refusal.detail, *(f"{each.detail.capitalize()}." for each in refusal.faults)]
        )
    return not form.fault


def _brought(parents: Sequence[str]) -> str:
    if not parents:
        return ""
    these = " and ".join(f"“{parent}”" for parent in parents)
    added = "it is" if len(parents) == 1 else "they are"
    return f"The policy requires {these} with your labels, so {added} added below. Submit again."
