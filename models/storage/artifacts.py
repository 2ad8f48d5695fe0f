"""Saves and loads predictors as folders of arrays and JSON.

Each part of a predictor has its own files, written by `storage.sealed_folder`, and one manifest
covers them all; boosted trees are stored in a file that XGBoost can open. Types, shapes and indices
of arrays are checked before compiled code uses them.
"""

import os
from collections.abc import Mapping
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple, TypeVar

import numpy as np
from numpy.typing import NDArray

from setwise.models.calibration.announced_curve import AnnouncedCurve
from setwise.models.calibration.calibration_rows import CalibrationRows
from setwise.models.calibration.calibrators import (
    AgreementSets,
    BoostedSets,
    CardinalityIsotonicSets,
    IsotonicSets,
    SetCalibrator,
    TreeSets,
    UncalibratedSets,
)
from setwise.models.calibration.conditional_logit import ConditionalLogitSets
from setwise.models.calibration.group_softmax import SoftmaxSets
from setwise.models.calibration.robust_calibrators import RobustBoostedSets, RobustLogisticSets
from setwise.models.data.datasets import Kind
from setwise.models.data.scaler import FeatureScaler
from setwise.models.data.support import Support
from setwise.models.data.text import TextVectorizer
from setwise.models.labels.binary_relevance import BinaryRelevance
from setwise.models.labels.clustered_relevance import ClusteredRelevance
from setwise.models.labels.given_scores import GivenScores
from setwise.models.labels.label_calibrator import LabelCalibrator
from setwise.models.mixtures.mixture_candidates import MixtureCandidates
from setwise.models.mixtures.support.support_decider import SupportDecider, support_pairs
from setwise.models.predictor import SetPredictor
from setwise.models.sets.decider import Decider, SetDecider
from setwise.models.sets.evidence import CandidateSource
from setwise.models.sets.features import Arrays, SetFeatures
from setwise.models.sets.reranker import SetReranker
from setwise.models.sets.sources import GivenCandidates, MarginalCandidates, VotedCandidates
from setwise.models.storage.checks import (
    checked_array,
    checked_labels,
    checked_names,
    checked_value,
    is_plain,
)
from setwise.models.storage.sealed_folder import (
    MANIFEST,
    ArtifactError,
    ArtifactPart,
    Parts,
    digest_of,
    listing,
    read_files,
    read_manifest,
    sealed,
    serialize,
    sha256,
    write_folder,
)
from setwise.models.storage.state import Lengths, Storable
from setwise.models.voters.voters import SetVoters

Read = TypeVar("Read", bound=Storable)

FORMAT = "setwise-artifact"
FORMAT_VERSION = 1

# Entries of the manifest about training, which loading does not interpret.
_INFORMATION = (
    "created_at",
    "setwise_version",
    "method",
    "libraries",
    "training",
    "data",
    "metrics",
)

_CALIBRATOR_PART = "set_calibrator"
_CURVE_PART = "announced_curve"
_ROWS_PART = "calibration_rows"
_SET_CALIBRATORS: dict[str, type[SetCalibrator]] = {
    "uncalibrated": UncalibratedSets,
    "isotonic": IsotonicSets,
    "cardinality-isotonic": CardinalityIsotonicSets,
    "tree": TreeSets,
    "boosted": BoostedSets,
    "softmax": SoftmaxSets,
    "conditional-logit": ConditionalLogitSets,
    "agreement": AgreementSets,
    "robust-logistic": RobustLogisticSets,
    "robust-boosted": RobustBoostedSets,
}

_SOURCES: dict[str, type[CandidateSource]] = {
    "marginals": MarginalCandidates,
    "mixture": MixtureCandidates,
    "voted": VotedCandidates,
    "given": GivenCandidates,
}

_DECIDERS: dict[str, type[Decider]] = {"support": SupportDecider, "candidates": SetDecider}


def save(predictor: SetPredictor, folder: str | Path, *, overwrite: bool = False) -> None:
    """Write a predictor to a folder atomically.

    The files are written beside the folder, flushed to disk and moved into place by a rename, so
    that a crash leaves the previous content.

    Parameters
    ----------
    predictor : SetPredictor
    folder : str or Path
        Must not exist, or be empty, unless ``overwrite``.
    overwrite : bool, default False
        Whether to replace an artifact; other folders are never replaced.

    Raises
    ------
    ArtifactError
        If the folder is in use, or its parent does not exist.
    """
    if not isinstance(predictor, SetPredictor):
        kind = type(predictor).__name__
        raise TypeError(f"give a model that setwise.train returned, and then a folder, not {kind}")
    target = Path(folder)
    target = target.parent.resolve() / target.name
    if not target.name or not target.parent.is_dir():
        raise ArtifactError(f"{folder}: its parent is no folder; create {target.parent} first")
    replaced = _check_target(target, overwrite=overwrite)
    files = _serialize(predictor)
    files[MANIFEST] = _manifest_bytes(predictor, files)
    write_folder(target, files, replaced=replaced)


def load(folder: str | Path) -> SetPredictor:
    """Load a predictor.

    Parameters
    ----------
    folder : str or Path
        Written by `save`.

    Returns
    -------
    SetPredictor
        Its predictions equal those of the saved one bit for bit.

    Raises
    ------
    ArtifactError
        If a file is missing, unexpected, damaged, a link, or does not fit the others; the message
        names it.
    """
    root = Path(folder)
    manifest, files = _read(root)
    return _assemble(manifest, Parts(root, files))


def verify_artifact(folder: str | Path) -> dict[str, Any]:
    """Check all files of an artifact against its manifest.

    Returns
    -------
    dict
        The manifest.

    Raises
    ------
    ArtifactError
        As `load`, for faults that checksums detect.
    """
    return _read(Path(folder))[0]


def read_calibration_rows(folder: str | Path) -> CalibrationRows | None:
    """Return only the calibration rows of an artifact.

    Returns
    -------
    CalibrationRows or None
        None for older artifacts without them.

    Raises
    ------
    ArtifactError
        As `load`, for faults that checksums detect and for faults of the rows.
    """
    root = Path(folder)
    manifest, files = _read(root)
    if f"{_ROWS_PART}.json" not in files:
        return None
    n_labels = len(manifest["label_names"])
    return Parts(root, files).build(
        _ROWS_PART, partial(CalibrationRows.from_state, labels=n_labels)
    )


def content_versions(predictor: SetPredictor) -> tuple[str, str]:
    """Return the digests of the model without calibrator and of the calibrator.

    Returns
    -------
    tuple of two str
        12 hexadecimal digits each; equal content gives equal digests.
    """
    return _versions({name: sha256(content) for name, content in _serialize(predictor).items()})


# Writing


def _serialize(predictor: SetPredictor) -> dict[str, bytes]:
    """Return the content of every file but the manifest."""
    return serialize(_parts(predictor))


def _parts(predictor: SetPredictor) -> dict[str, ArtifactPart]:
    pieces: dict[str, Storable | None] = {
        "base": predictor.base,
        "label_calibrator": predictor.label_calibrator,
        "set_features": predictor.features,
        "vectorizer": predictor.vectorizer,
        "scaler": predictor.scaler,
        "voters": predictor.voters,
        "support": predictor.support,
        _CURVE_PART: predictor.curve,
        _ROWS_PART: predictor.calibration_rows,
    }
    parts = {
        name: ArtifactPart(*piece.get_state())
        for name, piece in pieces.items()
        if piece is not None
    }
    parts["source"] = _part_of_kind(predictor.source, _SOURCES)
    parts[_CALIBRATOR_PART] = _part_of_kind(predictor.calibrator, _SET_CALIBRATORS)
    if predictor.decider is not None:
        parts["decider"] = _part_of_kind(predictor.decider, _DECIDERS)
    model: dict[str, Any] = {
        "kind": predictor.kind,
        "label_names": list(predictor.label_names),
        "by_confidence": predictor.reranker.by_confidence,
        "has_voters": predictor.voters is not None,
        "has_decider": predictor.decider is not None,
    }
    if predictor.vectorizer is None:
        model["feature_names"] = list(predictor.feature_names)
    parts["model"] = ArtifactPart(
        {"trained_features": predictor.trained_features.astype(np.uint8)}, model
    )
    return parts


def _part_of_kind(piece: Storable, kinds: Mapping[str, type[Storable]]) -> ArtifactPart:
    """Return a part that names its class."""
    named = [name for name, kind in kinds.items() if type(piece) is kind]
    if not named:
        raise ArtifactError(f"a predictor with a {type(piece).__name__} has no file format")
    arrays, settings = piece.get_state()
    return ArtifactPart(arrays, {"kind": named[0], **settings})


def _manifest_bytes(predictor: SetPredictor, files: Mapping[str, bytes]) -> bytes:
    listed = listing(files)
    version, calibrator_version = _versions(
        {name: str(entry["sha256"]) for name, entry in listed.items()}
    )
    document = {
        **{key: predictor.manifest[key] for key in _INFORMATION if key in predictor.manifest},
        "format": FORMAT,
        "format_version": FORMAT_VERSION,
        "kind": predictor.kind,
        "label_names": list(predictor.label_names),
        "version": version,
        "calibrator_version": calibrator_version,
        "files": listed,
    }
    return sealed(document)


def _versions(digests: Mapping[str, str]) -> tuple[str, str]:
    calibrating = f"{_CALIBRATOR_PART}.", f"{_CURVE_PART}."
    of_calibrator = {name for name in digests if name.startswith(calibrating)}

    # Calibration rows do not affect predictions.
    of_rows = {name for name in digests if name.startswith(f"{_ROWS_PART}.")}

    def combined(names: set[str]) -> str:
        return digest_of({name: digests[name] for name in names})

    return combined(set(digests) - of_calibrator - of_rows), combined(of_calibrator)


def _check_target(target: Path, *, overwrite: bool) -> bool:
    """Return whether the target already holds an artifact."""
    if not os.path.lexists(target):
        return False
    if target.is_symlink() or not target.is_dir():
        raise ArtifactError(f"{target}: is a file or a link; choose another folder")
    if not any(target.iterdir()):
        return False
    if not overwrite:
        raise ArtifactError(f"{target}: is not empty; choose another folder")
    try:
        read_manifest(target, FORMAT, FORMAT_VERSION)
    except ArtifactError as fault:
        raise ArtifactError(
            f"{target}: is neither empty nor an artifact; choose another folder"
        ) from fault
    return True


# Reading


def _read(root: Path) -> tuple[dict[str, Any], dict[str, bytes]]:
    """Return the checked manifest and the checked content of every file."""
    manifest = read_manifest(root, FORMAT, FORMAT_VERSION)
    for key in _INFORMATION:
        if not is_plain(manifest.get(key)):
            raise ArtifactError(f"{root / MANIFEST}: {key!r} holds a value that no database keeps")
    try:
        checked_labels(manifest.get("label_names"))
    except ValueError as fault:
        raise ArtifactError(f"{root / MANIFEST}: {fault}") from fault
    files = read_files(root, manifest)
    digests = {name: entry["sha256"] for name, entry in manifest["files"].items()}
    if _versions(digests) != (manifest.get("version"), manifest.get("calibrator_version")):
        raise ArtifactError(f"{root / MANIFEST}: its versions are not those of its files")
    return manifest, files


_FLAGS = ("by_confidence", "has_voters", "has_decider")


class _Outline(NamedTuple):
    """Dimensions and names that the parts must agree on."""

    kind: Kind
    label_names: tuple[str, ...]
    feature_names: tuple[str, ...] | None
    trained_features: NDArray[np.uint8]
    by_confidence: bool
    has_voters: bool
    has_decider: bool


def _assemble(manifest: Mapping[str, Any], parts: Parts) -> SetPredictor:
    outline = parts.build("model", partial(_outline, manifest))
    lengths = {"labels": len(outline.label_names), "features": len(outline.trained_features)}

    def read(name: str, kind: type[Read]) -> Read:
        return parts.build(name, partial(kind.from_state, **lengths))

    vectorizer: TextVectorizer | None = None
    feature_names = outline.feature_names
    if feature_names is None:
        vectorizer = read("vectorizer", TextVectorizer)
        feature_names = tuple(vectorizer.get_feature_names_out())
    features = read("set_features", SetFeatures)
    voters = read("voters", SetVoters) if outline.has_voters else None
    source = parts.build("source", partial(_source, lengths))
    predictor = SetPredictor(
        kind=outline.kind,
        label_names=outline.label_names,
        feature_names=feature_names,
        vectorizer=vectorizer,
        trained_features=outline.trained_features.astype(bool),
        support=read("support", Support) if parts.has("support") else Support.of([1]),
        base=(
            read("base", GivenScores)
            if outline.kind == "external"
            else parts.build("base", partial(_label_scores, lengths))
        ),
        label_calibrator=read("label_calibrator", LabelCalibrator),
        source=source,
        reranker=SetReranker(
            features,
            parts.build(_CALIBRATOR_PART, partial(_set_calibrator, features)),
            by_confidence=outline.by_confidence,
        ),
        # Texts, counts and older artifacts have no scaler, older artifacts no rows and no curve.
        scaler=read("scaler", FeatureScaler) if parts.has("scaler") else None,
        voters=voters,
        curve=read(_CURVE_PART, AnnouncedCurve) if parts.has(_CURVE_PART) else None,
        decider=(
            parts.build("decider", partial(_decider, voters, source, lengths))
            if outline.has_decider
            else None
        ),
        calibration_rows=read(_ROWS_PART, CalibrationRows) if parts.has(_ROWS_PART) else None,
        manifest={key: manifest[key] for key in _INFORMATION if key in manifest},
        version=manifest["version"],
        calibrator_version=manifest["calibrator_version"],
    )
    parts.finish()
    _check_votes(parts.root, predictor)
    return predictor


def _check_votes(root: Path, predictor: SetPredictor) -> None:
    """Raise an error if a part needs votes that no voter casts."""
    needed = set(predictor.features.voters)
    if isinstance(predictor.decider, SetDecider) and predictor.decider.voter is not None:
        needed.add(predictor.decider.voter)
    absent = needed - set(predictor.voters.names if predictor.voters else ())
    if absent or (type(predictor.source) is VotedCandidates and predictor.voters is None):
        raise ArtifactError(f"{root}: a part needs votes that no voter of this model casts")
    reads_sets = isinstance(predictor.source, GivenCandidates)
    reads = bool(predictor.numbers) or "answers" in predictor.features.groups
    if reads_sets is not (predictor.kind == "external") or (reads and not reads_sets):
        raise ArtifactError(f"{root}: another model's answers are for external models")


def _outline(manifest: Mapping[str, Any], arrays: Arrays, settings: dict[str, Any]) -> _Outline:
    kind = checked_value("kind", settings["kind"], str, choices=("text", "vectors", "external"))
    if kind != manifest["kind"]:
        raise ValueError(f"kind {kind!r} is not the manifest's")
    if settings["label_names"] != manifest["label_names"]:
        raise ValueError("its labels are not the manifest's")
    names = None
    if kind == "vectors" or (kind == "external" and "feature_names" in settings):
        least = 1 if kind == "vectors" else 0
        names = tuple(checked_names("feature_names", settings["feature_names"], least=least))
    n_features = None if names is None else len(names)
    trained_features = checked_array(arrays, "trained_features", np.uint8, (n_features,))
    # An artifact without a decider need not say so.
    flags = {"has_decider": False, **settings}
    return _Outline(
        kind,
        tuple(checked_labels(settings["label_names"])),
        names,
        trained_features,
        *(checked_value(name, flags[name], bool) for name in _FLAGS),
    )


def _label_scores(lengths: Lengths, arrays: Arrays, settings: dict[str, Any]) -> BinaryRelevance:
    kind = ClusteredRelevance if "clusters" in settings else BinaryRelevance
    return kind.from_state(arrays, settings, **lengths)


def _source(lengths: Lengths, arrays: Arrays, settings: dict[str, Any]) -> CandidateSource:
    kind = checked_value("kind", settings["kind"], str, choices=tuple(_SOURCES))
    return _SOURCES[kind].from_state(arrays, settings, **lengths)


def _decider(
    voters: SetVoters | None,
    source: CandidateSource,
    lengths: Lengths,
    arrays: Arrays,
    settings: dict[str, Any],
) -> Decider:
    kind = checked_value("kind", settings["kind"], str, choices=tuple(_DECIDERS))
    if kind == "support":
        return SupportDecider.from_state(arrays, settings, pairs=len(support_pairs(source)))
    decider = SetDecider.from_state(arrays, settings, **lengths)
    names = () if voters is None else voters.names
    if decider.voter is not None and decider.voter not in names:
        raise ValueError(f"it listens to {decider.voter!r}, which is no voter of this model")
    return decider


def _set_calibrator(
    features: SetFeatures, arrays: Arrays, settings: dict[str, Any]
) -> SetCalibrator:
    kind = checked_value("kind", settings["kind"], str, choices=tuple(_SET_CALIBRATORS))
    calibrator = _SET_CALIBRATORS[kind].from_state(arrays, settings, labels=features.n_labels_)
    if isinstance(calibrator, BoostedSets | RobustLogisticSets) and calibrator.shape_ != (
        len(features.names),
        features.n_labels_,
    ):
        raise ValueError(
            f"it reads {calibrator.shape_[0]} columns and {calibrator.shape_[1]} labels, not "
            f"{len(features.names)} and {features.n_labels_}"
        )
    if isinstance(calibrator, ConditionalLogitSets) and len(calibrator.weights_) != len(
        features.names
    ):
        raise ValueError(f"it reads {len(calibrator.weights_)} columns, not {len(features.names)}")
    if not isinstance(calibrator, BoostedSets) and "score" not in features.names:
        raise ValueError("it reads the score, which is no feature of this model")
    if isinstance(calibrator, AgreementSets) and "answers" not in features.groups:
        raise ValueError("it reads the agreement of answers, which is no feature of this model")
    return calibrator
