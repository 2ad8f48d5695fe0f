"""Stored things as plain members, for files and exports."""

from setwise.service.domain.audit_trail import Event
from setwise.service.domain.lines import instant
from setwise.service.domain.outcomes import Outcome
from setwise.service.domain.predictions import Prediction
from setwise.service.domain.reviews import Annotation


def prediction_row(prediction: Prediction) -> dict[str, object]:
    """Return what the contract shows of a prediction; never its text."""
    scored = prediction.scored
    return {
        "id": prediction.id,
        "document_id": prediction.document.id,
        "labels": list(scored.labels),
        "confidence": scored.confidence,
        "decision": prediction.decision.value,
        "reason": prediction.reason.value,
        "threshold": prediction.threshold,
        "candidates": [
            {"labels": list(c.labels), "confidence": c.confidence, "score": c.score}
            for c in scored.candidates
        ],
        "marginals": [{"label": m.label, "probability": m.probability} for m in scored.marginals],
        "model_version": scored.model_version,
        "calibrator_version": scored.calibrator_version,
        "policy_version": prediction.policy_version,
        "created_at": instant(prediction.created_at),
    }


def annotation_row(annotation: Annotation, of: Prediction) -> dict[str, object]:
    """Return what a person said, beside what was predicted."""
    return {
        "id": annotation.id,
        **_predicted(of),
        "review_id": annotation.task_id,
        "reviewer": annotation.reviewer,
        "labels": list(annotation.labels),
        "comment": annotation.comment,
        "agreed": annotation.agreed,
        "chosen_rank": annotation.chosen_rank,
        "suggestion_shown": annotation.suggestion_shown,
        "kind": annotation.kind.value,
        "settles": annotation.settles,
        "group": annotation.group,
        "version": annotation.version,
        "audit_role": of.selection.role.value,
        "inclusion_probability": of.selection.inclusion_probability,
        "seconds": annotation.seconds,
        "created_at": instant(annotation.created_at),
    }


def outcome_row(outcome: Outcome, of: Prediction) -> dict[str, object]:
    """Return what turned out to be right, beside what was predicted."""
    return {
        "id": outcome.id,
        **_predicted(of),
        "number": outcome.number,
        "labels": list(outcome.labels),
        "source": outcome.source,
        "agreed": outcome.agreed,
        "reported_by": outcome.reported_by,
        "created_at": instant(outcome.created_at),
    }


def event_row(event: Event) -> dict[str, object]:
    """Return a line of the audit trail."""
    return {**vars(event), "at": instant(event.at), "detail": dict(event.detail)}


def content_row(of: Prediction) -> dict[str, object]:
    """Return what is left of the document itself."""
    document = of.document
    return {
        "text": document.text,
        "features": None if document.features is None else dict(document.features),
        "metadata": dict(document.metadata),
    }


def _predicted(of: Prediction) -> dict[str, object]:
    return {
        "prediction_id": of.id,
        "document_id": of.document.id,
        "client_id": of.client_id,
        "predicted_labels": list(of.scored.labels),
        "confidence": of.scored.confidence,
        "decision": of.decision.value,
        "model_version": of.scored.model_version,
    }
