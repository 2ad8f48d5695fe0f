"""Starts predictors of another model's answers without any history."""

from collections.abc import Sequence
from dataclasses import replace
from datetime import UTC, datetime

import numpy as np
from scipy.sparse import csr_array, eye_array

from setwise.models.calibration.calibrators import AgreementSets
from setwise.models.data.answers import ModelAnswers
from setwise.models.data.support import Support
from setwise.models.labels.given_scores import GivenScores
from setwise.models.labels.label_calibrator import LOGIT_LIMIT, LabelCalibrator
from setwise.models.labels.scaling import no_features
from setwise.models.predictor import SetPredictor
from setwise.models.sets.features import SetFeatures
from setwise.models.sets.reranker import SetReranker
from setwise.models.sets.sources import GivenCandidates
from setwise.models.storage.artifacts import content_versions
from setwise.models.storage.checks import checked_labels
from setwise.models.training import installed, libraries

N_CANDIDATES = 10


def start_external(label_names: Sequence[str]) -> SetPredictor:
    """Return an external predictor that has learnt nothing yet.

    It announces the set that most answers give, or else the most probable set of independent
    labels with the given scores. Its confidence is never above one half until recalibration has
    learnt from reviews; see `setwise.models.calibration.calibrators.AgreementSets`.

    Parameters
    ----------
    label_names : sequence of str
        All labels that the other model may give.

    Raises
    ------
    ValueError
        If there is no label, a name is blank, or a label is named twice.
    """
    if isinstance(label_names, str):
        raise TypeError(f"label_names is a text; give a list of names: [{label_names!r}]")
    names = checked_labels(list(label_names))
    n_labels = len(names)
    nothing, unlabelled = no_features(1), csr_array(np.zeros((1, n_labels), dtype=np.uint8))
    base = GivenScores().fit(ModelAnswers.none(1, n_labels), csr_array(eye_array(n_labels)))
    base.reads_scores_ = base.reads_sets_ = True
    predictor = SetPredictor(
        kind="external",
        label_names=tuple(names),
        feature_names=(),
        vectorizer=None,
        trained_features=np.zeros(0, dtype=bool),
        support=Support.of([1]),
        base=base,
        label_calibrator=_unchanged(n_labels),
        source=GivenCandidates(N_CANDIDATES).fit(nothing, unlabelled),
        reranker=SetReranker(
            SetFeatures(("score", "answers")).fit(nothing, unlabelled), AgreementSets()
        ),
        manifest={
            "created_at": datetime.now(UTC).isoformat(timespec="seconds"),
            "setwise_version": installed("setwise"),
            "method": "external",
            "libraries": libraries(),
            "data": {"kind": "external", "n_documents": 0, "n_labels": n_labels, "n_features": 0},
        },
    )
    version, calibrator_version = content_versions(predictor)
    return replace(predictor, version=version, calibrator_version=calibrator_version)


def _unchanged(n_labels: int) -> LabelCalibrator:
    """Return a label calibrator that leaves every probability as it is."""
    calibrator = LabelCalibrator()
    calibrator.knot_indptr_ = np.arange(n_labels + 1, dtype=np.int64) * 2
    calibrator.knot_logits_ = np.tile([-LOGIT_LIMIT, LOGIT_LIMIT], n_labels)
    calibrator.knot_values_ = calibrator.knot_logits_.copy()
    return calibrator
