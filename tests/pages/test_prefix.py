"""A service below a path of a host: every address that it gives out lies below that path."""

import re

import pytest

from setwise.service.domain.accounts.callers import Role
from setwise.service.settings import Settings
from tests.browsing import Browser
from tests.kit.edge import Service, build_service

BASE = "/tools/setwise"
ADDRESS = re.compile(r'(?:href|src|action)="([^"#]*)')


@pytest.fixture
def service() -> Service:
    service = build_service(Settings(public_url=f"https://host.example{BASE}/"))
    for role in Role:
        if role is not Role.CLIENT:
            service.person(role.value, role)
    service.predict("0.4")
    return service


def crawled(browser: Browser) -> dict[str, int]:
    """Follow every address, and return the status of each."""
    seen: dict[str, int] = {}
    paths: set[str] = set()
    waiting = [f"{BASE}/", f"{BASE}/docs", f"{BASE}/problems", f"{BASE}/nowhere"]
    while waiting:
        address = waiting.pop()
        path = address.partition("?")[0]
        if path in paths:
            continue
        paths.add(path)
        response = browser.get(address, Accept="text/html")
        seen[address] = response.status_code
        if response.status_code == 303:
            waiting.append(response.headers["location"])
        if response.headers.get("content-type", "").startswith("text/html"):
            found = (text.replace("&amp;", "&") for text in ADDRESS.findall(response.text))
            waiting += [one for one in found if one.startswith("/")]
    return seen


def test_every_page_leads_only_below_the_prefix(service: Service) -> None:
    browser = Browser(service, "https://host.example")
    fields = {"csrf": browser.token(f"{BASE}/login"), "login": "admin", "back": "/recent"}
    response = browser.submit(f"{BASE}/login", {**fields, "password": "correct horse battery"})
    assert (response.status_code, response.headers["location"]) == (303, f"{BASE}/recent")
    cookies = response.headers.get_list("set-cookie")
    assert cookies
    assert all(f"Path={BASE}" in one and one.startswith("__Secure-") for one in cookies)
    statuses = crawled(browser)
    outside = [address for address in statuses if not address.startswith(f"{BASE}/")]
    assert not outside
    # 405 is the address of a form.
    broken = {address for address, status in statuses.items() if status not in {200, 303, 405}}
    assert broken == {f"{BASE}/nowhere"}
    assert len(statuses) > 25


def test_programs_find_their_way_below_the_prefix(service: Service) -> None:
    service.app.openapi_schema = None
    document = service.get(f"{BASE}/openapi.json").json()
    assert document["servers"] == [{"url": f"https://host.example{BASE}"}]
    job = service.post(f"{BASE}/v1/jobs/export", by="client", json={"what": "predictions"})
    assert job.headers["location"].startswith(f"{BASE}/v1/jobs/")
    assert service.get(job.headers["location"], by="client").status_code == 200
    # A proxy may have removed the prefix, and probes call the process itself.
    assert service.get("/healthz").status_code == 200
    assert service.get(f"{BASE}wrong/healthz").status_code == 404
