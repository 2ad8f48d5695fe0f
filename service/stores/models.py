"""Registered artifacts, and which of them serves."""

from datetime import datetime

from sqlalchemy import Connection, RowMapping, Select, insert, select
from sqlalchemy.exc import IntegrityError

from setwise.service.domain.errors import DuplicateModel
from setwise.service.domain.identity import is_id
from setwise.service.domain.models import ModelVersion
from setwise.service.stores.tables import model_activations, models

_ACTIVE = (
    select(model_activations.c.model_id)
    .order_by(model_activations.c.ordinal.desc())
    .limit(1)
    .scalar_subquery()
)


class ModelStore:
    """Registered artifacts."""

    def __init__(self, connection: Connection) -> None:
        self._connection = connection

    def add(self, model: ModelVersion) -> None:
        """Record one; raises `DuplicateModel` for content that is registered already."""
        known = self._connection.execute(
            select(models.c.id).where(models.c.version == model.version)
        ).scalar_one_or_none()
        if known is not None:
            raise DuplicateModel(f"The artifact is registered already, as model {known}.")
        try:
            self._connection.execute(
                insert(models),
                {
                    "id": model.id,
                    "version": model.version,
                    "location": model.location,
                    "summary": dict(model.summary),
                    "created_at": model.created_at,
                },
            )
        except IntegrityError as error:
            if "version" in str(error.orig):  # added by somebody else since we looked
                raise DuplicateModel("The artifact is registered already.") from error
            raise

    def get(self, model_id: str) -> ModelVersion | None:
        if not is_id(model_id):
            return None
        return self._one(_query().where(models.c.id == model_id))

    def active(self) -> ModelVersion | None:
        return self._one(_query().where(models.c.id == _ACTIVE))

    def previous(self) -> ModelVersion | None:
        """Return the model that was active before the present one became so."""
        column = model_activations.c
        before = (
            select(column.model_id)
            .where(column.model_id != _ACTIVE)
            .order_by(column.ordinal.desc())
            .limit(1)
            .scalar_subquery()
        )
        return self._one(_query().where(models.c.id == before))

    def all(self) -> list[ModelVersion]:
        """List newest first."""
        rows = self._connection.execute(_query().order_by(models.c.id.desc())).mappings()
        return [_to_model(row) for row in rows]

    def activate(self, model_id: str, now: datetime, activation_id: str) -> None:
        self._connection.execute(
            insert(model_activations),
            {"id": activation_id, "model_id": model_id, "activated_at": now},
        )

    def _one(self, query: Select[tuple[object, ...]]) -> ModelVersion | None:
        row = self._connection.execute(query).mappings().one_or_none()
        return None if row is None else _to_model(row)


def _query() -> Select[tuple[object, ...]]:
    return select(models, (models.c.id == _ACTIVE).label("active"))


def _to_model(row: RowMapping) -> ModelVersion:
    return ModelVersion(
        id=row["id"],
        version=row["version"],
        location=row["location"],
        summary=row["summary"],
        active=bool(row["active"]),  # NULL before the first activation
        created_at=row["created_at"],
    )
