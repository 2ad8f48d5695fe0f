"""The pages that explain the interface."""

import json
import re
import shlex
from base64 import b64encode
from hashlib import sha256
from html.parser import HTMLParser

from setwise.service.api.http.reference_calls import calls_of
from tests.kit.edge import Service


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
    assert "&lt;code&gt;" not in response.text
    assert "`" not in re.sub(r"(?s)<pre.*?</pre>", "", response.text)


def test_the_reference_is_searched_by_words_of_an_operation(service: Service) -> None:
    every = {call.path for call in calls_of(service.app.openapi())}
    text = service.get("/docs", params={"query": "Claim lease"}).text
    matches = {path for path in every if f"{path}</code>" in text}
    assert "/v1/reviews/claim" in matches
    assert "/v1/admin/keys" not in matches
    assert f"of {len([*calls_of(service.app.openapi())])} operations" in text
    none = service.get("/docs", params={"query": "<b>zzz"}).text
    assert ">0 of" in none
    assert "&lt;b&gt;zzz" in none


def test_the_reference_has_the_members_of_bodies_with_type_meaning_and_limits(
    service: Service,
) -> None:
    calls = {call.id: call for call in calls_of(service.app.openapi())}
    assert next(iter(calls)) == "predict"
    members = {member.name: member for member in calls["predict"].members}
    assert members["document"].required
    assert members["document.text"].type == "string or null"
    assert members["document.candidates[].labels"].limits == ["at most 1000 items", "each once"]
    assert "probability of each label" in members["document.scores"].meaning
    (limit,) = (one for one in calls["list_predictions"].parameters if one.name == "limit")
    assert limit.limits == ["at least 1", "at most 200", "`50` unless given"]
    names = {member.name for member in calls["predict"].answer_members}
    assert {"labels", "candidates[].confidence"} <= names


def test_the_commands_of_the_reference_are_sound(service: Service) -> None:
    """A shell reads each as one command whose body is the example."""
    for call in calls_of(service.app.openapi()):
        words = shlex.split(call.curl)
        assert words[:2] == ["curl", f"$API{call.path.replace('{', '${')}"]
        if "-d" in words:
            assert isinstance(json.loads(words[words.index("-d") + 1]), dict)
        names = {member.name for member in call.parameters if member.required}
        assert ("if-match" in names) <= any("If-Match" in word for word in words)


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
    assert all(address.startswith(("/", "#")) for address in links.leads_to)
    ids = set(re.findall(r' id="([^"]+)"', page.text))
    assert {address[1:] for address in links.leads_to if address.startswith("#")} <= ids


def test_every_problem_that_the_reference_links_to_is_explained(service: Service) -> None:
    links = Links()
    links.feed(service.get("/docs").text)
    problems = {address for address in links.leads_to if address.startswith("/problems/")}
    assert problems
    for address in problems:
        assert service.get(address).status_code == 200
