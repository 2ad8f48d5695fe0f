"""What travels compressed, and what a compressed page does not give away."""

import gzip

import pytest
from fastapi import Request, Response

from setwise.service.domain.accounts.callers import Role
from setwise.service.pages.rendering import LEAST_BYTES, compressed
from tests.browsing import Browser
from tests.kit.edge import Service

LONG = "all the same " * 200


def asking(accepted: str) -> Request:
    headers = [(b"accept-encoding", accepted.encode())]
    return Request({"type": "http", "method": "GET", "path": "/", "headers": headers})


def test_a_long_page_travels_compressed_to_who_reads_that() -> None:
    answer = compressed(asking("br, gzip"), Response(LONG, media_type="text/html"))
    assert gzip.decompress(answer.body) == LONG.encode()
    assert answer.headers["Content-Encoding"] == "gzip"
    assert answer.headers["Content-Length"] == str(len(answer.body))
    assert answer.headers["Vary"] == "Accept-Encoding"


def test_others_get_it_plain_and_caches_know_that_there_are_two() -> None:
    answer = compressed(asking("br, gzip;q=0"), Response(LONG, media_type="text/html"))
    assert answer.body == LONG.encode()
    assert "Content-Encoding" not in answer.headers
    assert answer.headers["Vary"] == "Accept-Encoding"


@pytest.mark.parametrize(
    ("body", "media_type"), [("a" * (LEAST_BYTES - 1), "text/html"), (LONG, "image/png")]
)
def test_what_gains_nothing_stays_as_it_is(body: str, media_type: str) -> None:
    answer = compressed(asking("gzip"), Response(body, media_type=media_type))
    assert answer.body == body.encode()
    assert "Vary" not in answer.headers


def test_pages_styles_and_scripts_come_compressed(service: Service) -> None:
    service.person("ann", Role.REVIEWER)
    browser = Browser(service)
    browser.sign_in()
    for address in ("/", "/account", "/desk", "/static/setwise.css", "/static/desk.js"):
        assert browser.get(address).headers["Content-Encoding"] == "gzip", address


def test_the_token_of_forms_looks_different_in_each_page(service: Service) -> None:
    service.person("ann", Role.REVIEWER)
    browser = Browser(service)
    browser.sign_in()
    tokens = {browser.token("/account") for _ in range(3)}
    assert len(tokens) == 3
    for token in tokens:  # and each of them opens the door
        assert browser.submit("/desk/claim", {"csrf": token}).status_code == 303
    assert browser.submit("/desk/claim", {"csrf": token[:-2] + "AA"}).status_code == 403
