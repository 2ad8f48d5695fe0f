"""Webhook endpoints."""

from datetime import UTC, datetime

from sqlalchemy import Connection, RowMapping, insert, select, update

from setwise.service.domain.errors import StaleVersion
from setwise.service.domain.identity import is_id
from setwise.service.domain.webhooks import Endpoint, MessageType, SigningSecret
from setwise.service.stores.tables import webhook_endpoints


class EndpointStore:
    """Webhook endpoints that are not deleted."""

    def __init__(self, connection: Connection) -> None:
        self._connection = connection

    def add(self, endpoint: Endpoint) -> None:
        self._connection.execute(
            insert(webhook_endpoints),
            {"id": endpoint.id, "created_at": endpoint.created_at, **_changing(endpoint)},
        )

    def get(self, endpoint_id: str, *, for_update: bool = False) -> Endpoint | None:
        if not is_id(endpoint_id):
            return None
        query = select(webhook_endpoints).where(
            webhook_endpoints.c.id == endpoint_id, webhook_endpoints.c.deleted_at.is_(None)
        )
        if for_update:
            query = query.with_for_update()
        row = self._connection.execute(query).mappings().one_or_none()
        return None if row is None else _to_endpoint(row)

    def all(self) -> list[Endpoint]:
        """List oldest first."""
        rows = self._connection.execute(
            select(webhook_endpoints)
            .where(webhook_endpoints.c.deleted_at.is_(None))
            .order_by(webhook_endpoints.c.id)
        )
        return [_to_endpoint(row) for row in rows.mappings()]

    def save(self, endpoint: Endpoint) -> None:
        """Store a changed endpoint; raises `StaleVersion` unless it is the next version."""
        saved = self._connection.execute(
            update(webhook_endpoints)
            .where(
                webhook_endpoints.c.id == endpoint.id,
                webhook_endpoints.c.version == endpoint.version - 1,
                webhook_endpoints.c.deleted_at.is_(None),
            )
            .values(_changing(endpoint))
        )
        if saved.rowcount != 1:
            raise StaleVersion(f"Webhook {endpoint.id} has changed since it was read.")

    def delete(self, endpoint_id: str, now: datetime) -> None:
        """Forget the endpoint and its secrets; its deliveries stay for the log."""
        self._connection.execute(
            update(webhook_endpoints)
            .where(webhook_endpoints.c.id == endpoint_id)
            .values(deleted_at=now, secrets=[])
        )


def _changing(endpoint: Endpoint) -> dict[str, object]:
    return {
        "url": endpoint.url,
        "description": endpoint.description,
        "events": [kind.value for kind in endpoint.events],
        "secrets": [
            {
                "value": secret.value,
                "expires_at": secret.expires_at and secret.expires_at.isoformat(),
            }
            for secret in endpoint.secrets
        ],
        "version": endpoint.version,
        "disabled_because": endpoint.disabled_because,
    }


def _to_endpoint(row: RowMapping) -> Endpoint:
    return Endpoint(
        id=row["id"],
        url=row["url"],
        description=row["description"],
        events=tuple(MessageType(kind) for kind in row["events"]),
        secrets=tuple(
            SigningSecret(
                secret["value"],
                secret["expires_at"]
                and datetime.fromisoformat(secret["expires_at"]).astimezone(UTC),
            )
            for secret in row["secrets"]
        ),
        version=row["version"],
        created_at=row["created_at"],
        disabled_because=row["disabled_because"],
    )
