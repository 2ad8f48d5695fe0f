"""Pages below a path, in a browser behind the nginx of the guide for operators.

The small twin without a proxy is tests/pages/test_prefix.py.
"""

import re
import shutil
import socket
import subprocess
from collections.abc import Iterator
from pathlib import Path

import httpx
import pytest
from playwright.sync_api import Page, expect

from setwise.service.domain.predictions import Document
from tests.browser.watching import settle
from tests.docs.pages import EVERY_BLOCK
from tests.kit.browser import PASSWORD, PATIENCE_S, Site

pytestmark = [
    pytest.mark.verify,
    pytest.mark.usefixtures("standing"),
    pytest.mark.skipif(shutil.which("nginx") is None, reason="nginx is not installed"),
]
PREFIX = "/setwise"


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port: int = probe.getsockname()[1]
    return port


def configuration(folder: Path, port: int, upstream: str) -> str:
    """Return the configuration of the guide, on a port and without TLS."""
    (text,) = (one.content for one in EVERY_BLOCK if one.marker == "proxy: nginx")
    plain = re.sub(r" +ssl_certificate.*;\n", "", text)
    server = plain.replace("listen 443 ssl", f"listen 127.0.0.1:{port}")
    server = server.replace("http://127.0.0.1:8000", upstream).replace("$host;", "$http_host;")
    places = "".join(
        f"{kind}_temp_path {folder}/{kind};"
        for kind in ("client_body", "proxy", "fastcgi", "uwsgi", "scgi")
    )
    return (
        f"daemon off; pid {folder}/pid; error_log stderr; events {{}}\n"
        f"http {{ access_log off; {places}\n{server}}}\n"
    )


@pytest.fixture
def site(served: Path, tmp_path: Path) -> Iterator[Site]:
    """Serve below a path, behind nginx, on the address that the proxy has."""
    folder, port = tmp_path, free_port()
    public_url = f"http://127.0.0.1:{port}{PREFIX}"
    site = Site(served, public_url=public_url)
    site.come_in(Document("below", "gale"))
    (folder / "nginx.conf").write_text(configuration(folder, port, site.url))
    command = ["nginx", "-p", str(folder), "-c", str(folder / "nginx.conf")]
    with subprocess.Popen(command) as proxy:
        try:
            transport = httpx.HTTPTransport(retries=8)
            with httpx.Client(transport=transport, timeout=PATIENCE_S, trust_env=False) as client:
                assert client.get(f"{public_url}/readyz").status_code == 200
                assert client.get(f"{public_url}/metrics").status_code == 404
            site.url = public_url
            yield site
        finally:
            proxy.terminate()
    site.stop()


def test_a_reviewer_works_below_a_path(site: Site, page: Page) -> None:
    page.goto(f"{site.url}/desk")
    expect(page).to_have_url(f"{site.url}/login?next=%2Fdesk")
    page.get_by_label("Login name").fill("reviewer")
    page.get_by_label("Password", exact=True).fill(PASSWORD)
    page.get_by_role("button", name="Sign in").click()
    expect(page).to_have_url(f"{site.url}/desk")
    expect(page.locator("#work")).to_have_attribute("data-task", re.compile("-"))
    settle(page)
    with page.expect_response(f"{site.url}/desk/tasks/*/release") as postponed:
        page.keyboard.press("l")
    assert postponed.value.ok
    for place in ("Overview", "Review"):
        page.get_by_role("link", name=place, exact=True).click()
        expect(page.get_by_role("heading", level=1)).to_be_visible()
        assert page.url.startswith(f"{site.url}/")
