"""Registered models, the one that serves, and candidates compared with it."""

import csv
import io
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime
from graphlib import CycleError, TopologicalSorter
from typing import NamedTuple

from setwise.service.domain.errors import FieldFault, InvalidRequest
from setwise.service.domain.files import unguarded
from setwise.service.domain.policy import RoutingPolicy
from setwise.service.domain.predictions import Decision, Prediction, Reason, ScoredSet
from setwise.service.domain.text import unstorable
from setwise.spelling import spelled


@dataclass(frozen=True)
class ModelVersion:
    """A registered artifact."""

    id: str
    version: str
    """Digest of the artifact's content; predictions carry it."""
    location: str
    """Path of the artifact, relative to the artifact store."""
    summary: Mapping[str, object]
    """Method, number of labels and validation metrics, from the artifact's manifest."""
    active: bool
    """Whether the model serves."""
    created_at: datetime

    @property
    def without_history(self) -> bool:
        """Whether it was started without training documents, so that only reviews teach it."""
        return self.summary.get("method") == "external"

    @property
    def made_at(self) -> datetime | None:
        """When the artifact was made; None if it does not say."""
        created_at = self.summary.get("created_at")
        try:
            instant = datetime.fromisoformat(created_at) if isinstance(created_at, str) else None
        except ValueError:
            return None
        return instant if instant is not None and instant.tzinfo is not None else None


@dataclass(frozen=True)
class CertificationCandidate:
    """A model to certify although another one may serve."""

    model_id: str
    trained_on_audits: bool = True
    """Whether audits may have taught it; False is an administrator's statement."""

    def since(self, model: ModelVersion) -> datetime | None:
        """Return when documents must have arrived to count; None for any time.

        Raises `InvalidRequest` if the artifact does not say when it was made.
        """
        if not self.trained_on_audits:
            return None
        made_at = model.made_at
        if made_at is None:
            detail = "has to be stated: the artifact does not say when it was made"
            raise InvalidRequest(
                "The artifact does not say when it was made, so nothing shows which documents it "
                "was trained on. If no audit taught the model, state so.",
                [FieldFault("/trained_on_audits", detail)],
            )
        return made_at


@dataclass(frozen=True)
class ComparedAnswer:
    """A candidate's answer compared with the stored prediction."""

    id: str
    model_id: str
    """The candidate."""
    prediction_id: str
    labels: tuple[str, ...]
    confidence: float
    decision: Decision
    reason: Reason
    """The candidate's answer, routed by the policy that routed the prediction."""
    same_labels: bool
    same_decision: bool
    """Whether the stored prediction is the same."""
    created_at: datetime


def compared(
    prediction: Prediction,
    scored: ScoredSet,
    policy: RoutingPolicy,
    *,
    model_id: str,
    comparison_id: str,
    now: datetime,
) -> ComparedAnswer:
    """Return a candidate's score compared with a prediction that ``policy`` decided."""
    decision, reason = policy.decide(scored, prediction.document.metadata)
    # A document that an audit holds back would have been sent.
    sent = Decision.AUTO if prediction.reason is Reason.AUDIT else prediction.decision
    return ComparedAnswer(
        id=comparison_id,
        model_id=model_id,
        prediction_id=prediction.id,
        labels=scored.labels,
        confidence=scored.confidence,
        decision=decision,
        reason=reason,
        same_labels=set(scored.labels) == set(prediction.scored.labels),
        same_decision=decision is sent,
        created_at=now,
    )


@dataclass(frozen=True)
class Shadow:
    """A period in which a candidate scores live traffic without deciding."""

    id: str
    model_id: str
    started_at: datetime
    started_by: str
    ended_at: datetime | None = None


@dataclass(frozen=True)
class Tally:
    """Counts of a candidate's comparisons."""

    compared: int = 0
    """Documents that both models scored."""
    same_labels: int = 0
    """Those with the same label set."""
    auto_both: int = 0
    auto_serving: int = 0
    auto_candidate: int = 0
    review_both: int = 0
    """Documents that both models would send, only one would, or neither would."""


MOST_LABEL_NOTES = 50_000
LONGEST_LABEL_NOTE = 4_000


class LabelNote(NamedTuple):
    """What people read of a label."""

    label: str
    name: str | None
    guideline: str | None
    """When the label applies."""
    parent: str | None
    """The label above it; one of the notes, though perhaps no label of the model."""


def read_label_notes(text: str) -> list[LabelNote]:
    r"""Return the notes of a CSV file with a header; raises `InvalidRequest`.

    >>> [note.parent for note in read_label_notes("label,parent,name\nJ,,Lungs\nJ18,J,")]
    [None, 'J']
    """
    reader = csv.DictReader(io.StringIO(text.strip().lstrip("\N{BYTE ORDER MARK}")))
    try:
        notes = {place: _label_note(row) for place, row in enumerate(reader, 2)}
    except csv.Error as error:
        raise _bad_file(str(error)) from error
    unknown = {name for name in reader.fieldnames or () if name not in LabelNote._fields}
    if text.strip() and (unknown or "label" not in (reader.fieldnames or ())):
        raise _bad_file("the first line must name label, and may name name, guideline and parent")
    if len(notes) > MOST_LABEL_NOTES:
        raise _bad_file(f"at most {MOST_LABEL_NOTES:,} labels can be described")
    parents = {note.label: note.parent for note in notes.values()}
    if len(parents) < len(notes):
        raise _bad_file("a label is described twice")
    for place, note in notes.items():
        if reason := _label_fault(note, parents):
            raise _bad_file(f"record {place} {reason}")
    try:
        TopologicalSorter({label: [above] for label, above in parents.items() if above}).prepare()
    except CycleError as error:
        raise _bad_file(f"label {error.args[1][0]} is below itself") from error
    return list(notes.values())


def _label_fault(note: LabelNote, parents: Mapping[str, str | None]) -> str | None:
    if not note.label:
        return "has no label"
    if any(unstorable(part) or len(part) > LONGEST_LABEL_NOTE for part in note if part):
        return "holds text that is too long or cannot be stored"
    if note.parent is not None and note.parent not in parents:
        return "names a parent that the file does not describe"
    return None


def _label_note(row: Mapping[str, str | None]) -> LabelNote:
    cells = (unguarded(row.get(part) or "").strip() for part in LabelNote._fields)
    label, name, guideline, parent = cells
    return LabelNote(spelled(label), name or None, guideline or None, spelled(parent) or None)


def _bad_file(reason: str) -> InvalidRequest:
    return InvalidRequest("The label file cannot be read.", [FieldFault("/file", reason)])
