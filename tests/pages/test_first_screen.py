"""How many words a page shows before the first click, and which question it answers."""

import sys
from html.parser import HTMLParser

import pytest

from setwise.service.domain.accounts.callers import Role
from setwise.service.domain.predictions import Document, Submission
from setwise.service.pages import cockpit, desk, sign_in, start
from setwise.service.pages.board.sections import PAGES
from setwise.service.pages.documents import document, listing, recent, trial
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


BOARD = ("policy", "breaker", "groups", "calibrators", "labels", "jobs")


@pytest.mark.parametrize(
    "address",
    ["/", "/board", "/cockpit", "/cockpit/details", *(f"/board/{name}" for name in BOARD)],
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
        task = service.services.queue.claim(reviewer)
        assert task is not None
        service.services.reviews.complete(reviewer, task.id, ["a"], None, task.version)
    service.person("lea", role)
    browser = Browser(service)
    browser.sign_in("lea")
    page = _FirstWords()
    page.feed(browser.get(address).text)
    assert 30 <= len(page.words) <= 250, " ".join(page.words)
    for term in ("alpha", "beta", "Brier", "half of the cases", "p ="):
        assert term not in " ".join(page.words), "what an expert reads is folded"


def test_each_module_of_pages_names_the_question_that_it_answers() -> None:
    modules = {page.show.__module__ for page in PAGES}
    modules |= {each.__name__ for each in (cockpit, desk, sign_in, start)}
    modules |= {each.__name__ for each in (document, listing, recent, trial)}
    silent = [name for name in modules if "\n\nQuestion: " not in (sys.modules[name].__doc__ or "")]
    assert silent == []
