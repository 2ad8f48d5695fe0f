"""Stored things as plain members, for files and exports."""

from datetime import datetime

from service.domain.predictions import Prediction


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


def instant(at: datetime) -> str:
    """Write a time as RFC 3339 does.

    >>> from datetime import UTC
    >>> instant(datetime(2026, 11, 21, 9, tzinfo=UTC))
    '2026-11-21T09:00:00Z'
    """
    return at.isoformat().replace("+00:00", "Z")
