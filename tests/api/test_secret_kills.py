"""A server that is killed between a secret and its response: the same key gets the same secret."""

import asyncio
import json
import multiprocessing
import random
import time
from collections.abc import Iterator
from itertools import count
from pathlib import Path

import httpx
import pytest
from pydantic import SecretStr
from sqlalchemy import func, select

from setwise.service.app import create_app
from setwise.service.build import Application, build
from setwise.service.domain.accounts.callers import SYSTEM, Role
from setwise.service.settings import Settings
from setwise.service.stores import tables
from tests.kit.databases import ON_BOTH

PATIENCE_S = 10.0
"""PostgreSQL may commit what a killed server asked for a little later."""

Posted = tuple[str, str, dict[str, object]]
"""The idempotency key, the address and the body of a request."""


def posts(life: int, place: dict[str, str]) -> Iterator[Posted]:
    """Yield requests that each show a secret, under keys that no other life of a server uses."""
    for number in count():
        for path, body in (
            ("keys", {"name": f"{life}-{number}", "role": "client"}),
            (f"keys/{place['key']}/rotate", {}),
            (f"people/{place['person']}/invite", {}),
            ("webhooks", {"url": f"https://example.com/{life}/{number}"}),
            (f"webhooks/{place['webhook']}/rotate-secret", {}),
        ):
            yield f"{life}-{number}-{path}", f"/v1/admin/{path}", body


class Caller:
    """Sends keyed requests of an administrator to an application in this process."""

    def __init__(self, application: Application, secret: str) -> None:
        self._app, self._secret = create_app(application.edge), secret

    def __call__(self, posted: Posted) -> tuple[int, str]:
        key, path, body = posted
        headers = {"Authorization": f"Bearer {self._secret}", "Idempotency-Key": key}

        async def sent() -> httpx.Response:
            transport = httpx.ASGITransport(app=self._app)
            async with httpx.AsyncClient(transport=transport, base_url="http://test") as client:
                json_body = None if path.endswith(("rotate", "rotate-secret")) else body
                return await client.post(path, headers=headers, json=json_body)

        response = asyncio.run(sent())
        return response.status_code, response.text


def serve_until_killed(settings: Settings, secret: str, life: int, place: dict[str, str]) -> None:
    """Answer requests one after the other, and write down each response."""
    call = Caller(build(settings), secret)
    with (settings.data_dir / f"{life}.jsonl").open("a") as sent:
        for posted in posts(life, place):
            print(json.dumps([posted[0], *call(posted)]), file=sent, flush=True)


@ON_BOTH
@pytest.mark.slow
@pytest.mark.parametrize("kills", [2, pytest.param(20, marks=pytest.mark.verify)])
def test_no_kill_loses_a_secret_that_was_made_or_makes_it_twice(
    database_url: str, tmp_path: Path, kills: int
) -> None:
    draw = random.Random(kills)
    settings = Settings(
        data_dir=tmp_path, database_url=database_url, pepper=SecretStr("pepper " * 6)
    )
    application = build(settings)
    services = application.services
    _, admin = services.keys.create(SYSTEM, "admin", Role.ADMIN)
    call = Caller(application, admin)
    key, _ = services.keys.create(SYSTEM, "rotated", Role.CLIENT)
    person = services.people.create(SYSTEM, login="ann", name="Ann", role=Role.LEAD, password=None)
    place = {"key": key.id, "person": person.id}
    processes = multiprocessing.get_context("forkserver")
    processes.set_forkserver_preload([__name__])
    count = 0
    for life in range(kills):
        # A new webhook, because a secret can be rotated at most nine times a day.
        hook = f"{life}-webhook", "/v1/admin/webhooks", {"url": f"https://a.example/{life}"}
        place["webhook"] = json.loads(call(hook)[1])["id"]
        server = processes.Process(target=serve_until_killed, args=(settings, admin, life, place))
        server.start()
        file = tmp_path / f"{life}.jsonl"
        while server.is_alive() and not (file.exists() and file.stat().st_size):
            time.sleep(0.005)
        assert server.is_alive()
        time.sleep(draw.uniform(0, 0.1))
        server.kill()
        server.join()
        items = [json.loads(line) for line in file.read_text().splitlines()]
        for posted, response in zip(posts(life, place), [*items, None], strict=False):
            status, text = call(posted)
            patience = time.monotonic() + PATIENCE_S
            while status == 409 and time.monotonic() < patience:
                status, text = call(posted)
            assert status in {200, 201}, text
            assert response is None or response == [posted[0], status, text]
            count += posted[1] == "/v1/admin/keys"
    with application.engine.connect() as connection:
        keys = select(func.count()).select_from(tables.api_keys)
        assert connection.execute(keys).scalar_one() == count + 2
    application.close()
