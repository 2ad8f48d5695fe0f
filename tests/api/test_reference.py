"""The pages that explain the interface."""

from base64 import b64encode
from hashlib import sha256
from html.parser import HTMLParser

from tests.edge import Service


class Links(HTMLParser):
    """Collects what a page loads and where it leads."""

    def __init__(self) -> None:
        super().__init__()
        self.loads: list[str] = []
        self.leads_to: list[str] = []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        for name, value in attrs:
            if name == "src" or (tag == "link" and name == "href"):
                self.loads.append(value or "")
            elif name == "href":
                self.leads_to.append(value or "")


def test_the_reference_describes_every_call(service: Service) -> None:
    response = service.get("/docs")
    assert response.headers["content-type"].startswith("text/html")
    for path, operations in service.app.openapi()["paths"].items():
        for method in operations:
            assert f"{method.upper()} {path}</code>" in response.text
    assert "&#34;document_id&#34;: &#34;note-17&#34;" in response.text  # an example, escaped


def test_the_reference_works_without_the_internet(service: Service) -> None:
    links = Links()
    links.feed(service.get("/docs").text)
    assert links.loads == []
    page = service.get("/docs")
    style = page.text.partition("<style>")[2].partition("</style>")[0]
    digest = b64encode(sha256(style.encode()).digest()).decode()
    policy = page.headers["content-security-policy"]
    assert f"default-src 'none'; style-src 'sha256-{digest}'" in policy
    assert " style=" not in page.text
    assert "<script" not in page.text
    assert all(address.startswith("/") for address in links.leads_to)


def test_every_problem_that_the_reference_links_to_is_explained(service: Service) -> None:
    links = Links()
    links.feed(service.get("/docs").text)
    problems = {address for address in links.leads_to if address.startswith("/problems/")}
    assert problems
    for address in problems:
        assert service.get(address).status_code == 200
