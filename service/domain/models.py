"""Registered model artifacts and the one that serves."""

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime


@dataclass(frozen=True)
class ModelVersion:
    """An artifact in the registry.

    Attributes
    ----------
    version : str
        Content digest of the artifact; predictions carry it.
    location : str
        Where the artifact lies, relative to the artifact store.
    summary : mapping
        Method, number of labels and validation metrics, from the artifact's manifest.
    active : bool
        This is the version that serves.
    """

    id: str
    version: str
    location: str
    summary: Mapping[str, object]
    active: bool
    created_at: datetime
