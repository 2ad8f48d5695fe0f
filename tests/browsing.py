"""A browser without a screen, for pages over fakes: it keeps cookies and fills in forms."""

import re
from collections.abc import Mapping

import httpx

from tests.kit.edge import PASSWORD, Service, loop


class Browser:
    """A browser that keeps cookies and follows forms, one origin."""

    def __init__(self, service: Service, base: str = "http://test") -> None:
        self._service, self.base = service, base
        self.cookies = httpx.Cookies()

    def send(
        self, method: str, path: str, headers: Mapping[str, str] | None = None, **content: object
    ) -> httpx.Response:
        async def call() -> httpx.Response:
            transport = httpx.ASGITransport(app=self._service.app, client=("192.0.2.7", 5))
            async with httpx.AsyncClient(
                transport=transport, base_url=self.base, cookies=self.cookies
            ) as client:
                response = await client.request(method, path, headers=headers, **content)
                self.cookies = client.cookies
                return response

        return loop.run(call())

    def get(self, path: str, **headers: str) -> httpx.Response:
        return self.send("GET", path, headers)

    def submit(
        self, path: str, fields: dict[str, str], headers: Mapping[str, str] | None = None
    ) -> httpx.Response:
        return self.send("POST", path, headers, data=fields)

    def token(self, path: str) -> str:
        return re.search(r'name="csrf" value="([^"]+)"', self.get(path).text)[1]

    def sign_in(
        self, login: str = "ann", password: str = PASSWORD, back: str = "/", **headers: str
    ) -> httpx.Response:
        fields = {"csrf": self.token("/login"), "login": login, "password": password, "back": back}
        return self.submit("/login", fields, headers)
