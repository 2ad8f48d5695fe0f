"""Readers are served while strangers sign in by the hundred."""

import asyncio
import threading

import httpx
import pytest

from setwise.service.domain.accounts.callers import Role
from setwise.service.settings import Settings
from setwise.service.sign_in.passwords import MOST_AT_ONCE, MOST_WAITING, Argon2Passwords
from tests.kit.edge import Service, build_service


class Slow(Argon2Passwords):
    """Hashes that take until they are let go."""

    def __init__(self) -> None:
        super().__init__(time_cost=1, memory_kib=64)
        self.go = threading.Event()
        self.go.set()

    def verify(self, stored: str | None, password: str) -> bool:
        with self._turn():
            self.go.wait()
        return super().verify(stored, password)


@pytest.fixture
def passwords() -> Slow:
    return Slow()


@pytest.fixture
def service(passwords: Slow) -> Service:
    service = build_service(Settings(), passwords)
    service.person("ann", Role.LEAD)
    return service


async def flood(service: Service, passwords: Slow, strangers: int) -> tuple[int, list[int]]:
    """Return a reader's status while strangers wait, and then those of the strangers."""
    transport = httpx.ASGITransport(app=service.app, client=("192.0.2.7", 5))
    async with httpx.AsyncClient(transport=transport, base_url="http://test") as client:
        form = await client.get("/login")
        csrf = form.text.partition('name="csrf" value="')[2].partition('"')[0]
        fields = {"csrf": csrf, "login": "ann", "password": "wrong"}
        passwords.go.clear()
        try:
            sent = [
                asyncio.create_task(client.post("/login", data={**fields, "login": f"s{number}"}))
                for number in range(strangers)
            ]
            finished = asyncio.as_completed(sent)
            for _ in range(strangers - MOST_AT_ONCE - MOST_WAITING):
                await next(finished)
            key = {"Authorization": f"Bearer {service.secrets['client']}"}
            reader = await client.get("/v1/predictions", headers=key)
        finally:
            passwords.go.set()
        answers = [await task for task in sent]
    assert all(int(one.headers["retry-after"]) > 0 for one in answers if one.status_code == 429)
    return reader.status_code, [one.status_code for one in answers]


def test_a_flood_of_sign_ins_holds_no_reader_up(service: Service, passwords: Slow) -> None:
    strangers = 120
    reader, answers = asyncio.run(
        asyncio.wait_for(flood(service, passwords, strangers), timeout=20)
    )
    assert reader == 200
    assert answers.count(403) == MOST_AT_ONCE + MOST_WAITING
    assert answers.count(429) == strangers - MOST_AT_ONCE - MOST_WAITING
