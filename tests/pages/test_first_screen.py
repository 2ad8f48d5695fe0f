"""How many words a page shows before the first click."""

from html.parser import HTMLParser

import pytest

from setwise.service.domain.accounts.callers import Role
from setwise.service.domain.predictions import Document, Submission
from tests.browsing import Browser
from tests.kit.edge import Service

VOID = {"br", "hr", "img", "input", "link", "meta", "source"}


class _FirstWords(HTMLParser):
    """The words of the main part, without what a disclosure, a chart or a screen reader holds."""

    def __init__(self) -> None:
        super().__init__()
        self.words: list[str] = []
        self._open: list[tuple[str, bool]] = []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        if tag in VOID:
            return
        given = dict(attrs)
        inner, hidden = self._open[-1] if self._open else ("", False)
        hidden = (
            hidden
            or (inner == "details" and tag != "summary")
            or tag in {"svg", "script", "style", "noscript"}
            or "unseen" in (given.get("class") or "")
            or "hidden" in given
        )
        self._open.append(("disclosed" if tag == "details" and "open" in given else tag, hidden))

    def handle_endtag(self, tag: str) -> None:
        if tag not in VOID:
            self._open.pop()

    def handle_data(self, data: str) -> None:
        if any(tag == "main" for tag, _ in self._open) and not self._open[-1][1]:
            self.words += data.split()


@pytest.mark.parametrize(
    "address", ["/", "/board", "/board/policy", "/cockpit", "/cockpit/details"]
)
@pytest.mark.parametrize("role", [Role.LEAD, Role.ADMIN])
def test_a_page_shows_at_most_250_words_at_first(
    service: Service, address: str, role: Role
) -> None:
    service.fix_threshold(0.8)
    client, reviewer = (
        service.services.keys.authenticate(service.secrets[name]) for name in ("client", "reviewer")
    )
    documents = [Document(id=f"note {n}", text=f"{n / 100:g}") for n in range(70, 90)]
    service.services.predictions.predict([Submission(client, one) for one in documents])
    for _ in range(5):
        task = service.services.reviews.claim(reviewer)
        assert task is not None
        service.services.reviews.complete(reviewer, task.id, ["a"], None, task.version)
    service.person("lea", role)
    browser = Browser(service)
    browser.sign_in("lea")
    page = _FirstWords()
    page.feed(browser.get(address).text)
    assert 30 <= len(page.words) <= 250, " ".join(page.words)
