"""A stored value that cannot be read is shown as such, and everything beside it is read."""

import json
from collections.abc import Iterator

import pytest
from sqlalchemy import select, text

from setwise.service.domain.accounts.callers import Role
from setwise.service.settings import Settings
from setwise.service.stores.columns.ciphers import TextCipher
from setwise.service.stores.columns.types import CIPHER
from setwise.service.stores.upkeep import encryption
from setwise.service.stores.upkeep.encryption import SealedColumn, sealed_columns
from tests.browsing import Browser
from tests.fakes import START
from tests.kit.databases import Database
from tests.kit.edge import Service, build_service
from tests.rights import operations, pages
from tests.samples import ADMIN
from tests.stores.test_encryption import ONE, TWO, fill, silent
from tests.stores.upkeep.test_reencryption import unguarded

PLANTED = {
    "webhook_endpoints.secrets": '[{"value": "whsec_AAAA", "expires_at": null}]',
    "predictions.metadata": '{"site": "planted"}',
    "predictions.features": '{"planted": 1.0}',
    "predictions.answer": '{"scores": {"planted": 0.5}}',
}
HOW = ("moved", "damaged", "plain", "of a lost key")


@pytest.fixture
def service() -> Iterator[Service]:
    """Return a service that encrypts, with two rows of everything."""
    database = Database()
    setattr(database.engine.dialect, CIPHER, TextCipher([ONE]))
    encryption.note_key(database.engine, START)
    service = build_service(Settings(max_text_bytes=1_000), begin=database)
    fill(database.engine)
    fill(database.engine)
    return service


def plant(service: Service, how: str, place: SealedColumn) -> str:
    """Make a column's newest value unreadable, as somebody could who owns the file."""
    engine = service.database.engine
    (key, *_) = place.table.primary_key.columns
    with engine.connect() as connection:
        values = connection.execute(
            select(key, place.raw).where(place.column.is_not(None)).order_by(key)
        ).all()
    (_, donor), (row, value) = values[0], values[-1]
    _write(service, place, row, _unreadable(how, place, donor=donor, value=value))
    return str(row)


def _unreadable(how: str, place: SealedColumn, *, donor: str, value: str) -> str:
    sealing = TextCipher([ONE]).sealing_id
    return {
        "moved": donor,
        "damaged": value[:-7],
        "plain": PLANTED.get(place.name, "planted"),
        "of a lost key": value.replace(sealing, "0a1b2c3d"),
    }[how]


def _write(service: Service, place: SealedColumn, row: str, value: str) -> None:
    (key, *_) = place.table.primary_key.columns
    unguarded(
        service.database.engine,
        f"UPDATE {place.table.name} SET {place.column.name} = '{value}' WHERE {key.name} = '{row}'",
    )


def ids(service: Service, table: str) -> list[str]:
    with service.database.engine.connect() as connection:
        return list(connection.execute(text(f"SELECT id FROM {table} ORDER BY id")).scalars())


@pytest.mark.parametrize(
    "how",
    [how if how == "damaged" else pytest.param(how, marks=pytest.mark.verify) for how in HOW],
)
def test_everything_beside_an_unreadable_row_of_each_column_is_read(
    service: Service, how: str
) -> None:
    bad = {place.name: plant(service, how, place) for place in sealed_columns()}
    named = {
        "prediction_id": ids(service, "predictions"),
        "task_id": ids(service, "review_tasks"),
        "webhook_id": ids(service, "webhook_endpoints"),
    }
    service.person("ann", Role.ADMIN)
    browser = Browser(service)
    browser.sign_in()
    addresses = [path for method, path in operations() if method == "GET"]
    for path in [*addresses, *pages()]:
        name = path.partition("{")[2].partition("}")[0]
        if name and name not in named:
            continue
        for value in named.get(name, [""]):
            address = path.replace(f"{{{name}}}", value)
            api = path.startswith(("/v1", "/metrics"))
            response = service.get(address, by="admin") if api else browser.get(address)
            assert response.status_code in {200, 403, 404}, (address, response.text)
            assert "planted" not in response.text

    content = service.get("/v1/exports/predictions?content=true", by="admin").text.splitlines()
    assert [json.loads(line)["text"] for line in content] == ["marker-text", None, None, None]
    comments = service.get("/v1/exports/annotations", by="admin").text
    assert [json.loads(line)["comment"] for line in comments.splitlines()] == [
        "marker-comment",
        "(cannot be read)",
    ]
    document = service.get(f"/v1/documents/{bad['predictions.text']}", by="admin").json()
    assert document["unreadable"] is True
    assert document["text"] is None


def _erase(service: Service) -> None:
    for prediction in ids(service, "predictions"):
        body = {"prediction_id": prediction}
        assert service.post("/v1/admin/erasures", by="admin", json=body).status_code == 200


@pytest.mark.parametrize("how", HOW)
def test_an_unreadable_row_is_repaired(service: Service, how: str) -> None:
    bad = {place.name: plant(service, how, place) for place in sealed_columns()}
    _erase(service)
    webhook = f"/v1/admin/webhooks/{bad['webhook_endpoints.secrets']}"
    assert service.post(f"{webhook}/rotate-secret", by="admin").status_code == 200
    setattr(service.database.engine.dialect, CIPHER, TextCipher([TWO, ONE]))
    assert encryption.reseal(service.database.engine, silent) > 0


@pytest.mark.parametrize("how", HOW)
def test_what_is_planted_where_something_was_erased_or_deleted_is_repaired_in_the_same_way(
    service: Service, how: str
) -> None:
    """Of each sealed column whose row stays, which those of comments do not."""
    engine, webhooks = service.database.engine, ids(service, "webhook_endpoints")
    keep = [place for place in sealed_columns() if place.table.name != "comments"]
    with engine.connect() as connection:
        values = {
            place: connection.execute(
                select(place.table.primary_key.columns[0], place.raw)
                .where(place.column.is_not(None))
                .order_by(place.table.primary_key.columns[0])
            ).all()
            for place in keep
        }
    repairs = (
        lambda: _erase(service),
        lambda: [
            service.send("DELETE", f"/v1/admin/webhooks/{webhook}", by="admin")
            for webhook in webhooks
        ],
    )
    for repair in repairs:
        repair()
    for place, rows in values.items():
        (_, donor), (row, value) = rows[0], rows[-1]
        _write(service, place, row, _unreadable(how, place, donor=donor, value=value))
    setattr(engine.dialect, CIPHER, TextCipher([TWO, ONE]))
    encryption.note_key(engine, START)
    with pytest.raises(encryption.NotDone, match=f"{len(keep)} stored values cannot be opened"):
        encryption.reseal(engine, silent)
    for repair in repairs:
        repair()
    encryption.reseal(engine, silent)
    again = service.send("DELETE", f"/v1/admin/webhooks/{webhooks[0]}", by="admin")
    assert again.status_code == 404


def test_a_webhook_whose_secret_is_unreadable_waits_alone(service: Service) -> None:
    webhooks = service.services.webhooks
    lost = plant(service, "moved", next(p for p in sealed_columns() if p.column.name == "secrets"))
    sound, _ = ids(service, "webhook_endpoints")
    for endpoint in (sound, lost):
        webhooks.try_out(ADMIN, endpoint)

    def claimed() -> list[str]:
        return [parcel.endpoint.id for parcel in webhooks.claim({}, otherwise=9)]

    assert claimed() == [sound]
    body = service.get(f"/v1/admin/webhooks/{lost}", by="admin").json()
    assert body["enabled"] is False
    assert body["disabled_because"] == "its signing secret cannot be read; rotate it"
    change = {"url": body["url"], "description": "renamed", "enabled": True}
    response = service.send("PUT", f"/v1/admin/webhooks/{lost}", by="admin", json=change)
    assert response.json()["enabled"] is False
    service.post(f"/v1/admin/webhooks/{lost}/rotate-secret", by="admin")
    assert claimed() == [lost]
    plant(service, "moved", next(p for p in sealed_columns() if p.column.name == "secrets"))
    assert service.send("DELETE", f"/v1/admin/webhooks/{lost}", by="admin").status_code == 204
