"""Stored API keys."""

from datetime import datetime

from sqlalchemy import ColumnElement, Connection, RowMapping, insert, select, update

from setwise.service.domain.callers import ApiKey, Permission, Role
from setwise.service.domain.identity import is_id
from setwise.service.stores.tables import api_keys

_KNOWN = frozenset(Permission)


class KeyStore:
    """Stored API keys."""

    def __init__(self, connection: Connection) -> None:
        self._connection = connection

    def add(self, key: ApiKey) -> None:
        self._connection.execute(
            insert(api_keys),
            {
                "id": key.id,
                "name": key.name,
                "role": key.role.value,
                "prefix": key.prefix,
                "digest": key.digest,
                "created_at": key.created_at,
                "revoked_at": key.revoked_at,
                "scopes": None if key.scopes is None else sorted(key.scopes),
                "expires_at": key.expires_at,
                "per_minute": key.per_minute,
            },
        )

    def get(self, key_id: str) -> ApiKey | None:
        return self._one(api_keys.c.id == key_id) if is_id(key_id) else None

    def by_digest(self, digest: bytes) -> ApiKey | None:
        return self._one(api_keys.c.digest == digest)

    def all(self, *, for_update: bool = False) -> list[ApiKey]:
        """List newest first; ``for_update`` keeps others from changing them until the commit."""
        query = select(api_keys).order_by(api_keys.c.id.desc())
        if for_update:
            query = query.with_for_update()
        return [_to_key(row) for row in self._connection.execute(query).mappings()]

    def revoke(self, key_id: str, now: datetime) -> None:
        self._connection.execute(
            update(api_keys)
            .where(api_keys.c.id == key_id, api_keys.c.revoked_at.is_(None))
            .values(revoked_at=now)
        )

    def _one(self, condition: ColumnElement[bool]) -> ApiKey | None:
        row = self._connection.execute(select(api_keys).where(condition)).mappings().one_or_none()
        return None if row is None else _to_key(row)


def _to_key(row: RowMapping) -> ApiKey:
    scopes = row["scopes"]
    return ApiKey(
        **{
            **row,
            "role": Role(row["role"]),
            # A scope that only a newer release knows opens nothing here.
            "scopes": None if scopes is None else frozenset(_KNOWN.intersection(scopes)),
        }
    )
