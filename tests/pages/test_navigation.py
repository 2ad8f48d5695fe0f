"""The header leads each role where it may go, and nowhere else; words are explained on demand."""

import re
from pathlib import Path

import pytest
from jinja2 import UndefinedError

from setwise.service.domain.accounts.callers import Caller, Permission, Role
from setwise.service.pages.rendering import GLOSSARY, PLACES, NavigationPlace, places_for, templates
from tests.browsing import Browser
from tests.kit.edge import Service

ROOT = Path(__file__).parents[2]
PAGES = ROOT / "service" / "pages"


def caller(role: Role) -> Caller:
    return Caller("1", role.value, role)


@pytest.mark.parametrize("place", PLACES, ids=lambda place: place.name)
def test_every_place_is_a_page_that_knows_where_it_is(
    service: Service, place: NavigationPlace
) -> None:
    service.person("ann", Role.ADMIN)
    browser = Browser(service)
    browser.sign_in()
    response = browser.get(place.address)
    assert response.status_code == 200
    assert f'<a href="{place.address}" aria-current="page">{place.name}</a>' in response.text


def test_who_is_not_signed_in_is_led_nowhere(service: Service) -> None:
    assert 'class="places"' not in Browser(service).get("/login").text


def test_a_key_without_the_scope_is_not_led_there() -> None:
    narrow = Caller("1", "narrow", Role.ADMIN, scopes=frozenset({Permission.PREDICT}))
    assert all(not place.needed for place in places_for(narrow))


def test_a_word_is_explained_in_markup_that_opens_without_a_script() -> None:
    source = '{% from "terms.html" import term %}{{ term("audit", "<Audits>") }}'
    made = templates().from_string(source).render()
    assert "<summary>&lt;Audits&gt;</summary>" in made
    assert GLOSSARY["audit"] in made
    assert made.strip().startswith("<details")


def test_a_word_that_has_no_explanation_is_a_mistake() -> None:
    with pytest.raises(UndefinedError):
        templates().from_string('{% from "terms.html" import term %}{{ term("zeal") }}').render()


def test_explanations_are_sentences() -> None:
    for name, meaning in GLOSSARY.items():
        assert name == name.lower()
        assert meaning.endswith(".")
        assert len(meaning) < 260


def test_pages_explain_only_the_twelve_words_that_the_concepts_list() -> None:
    used = {
        name
        for file in (*PAGES.rglob("*.py"), *PAGES.glob("templates/*.html"))
        for names in re.findall(r"\b(?:terms=|term|words)\(([^)]*)\)", file.read_text("utf-8"))
        for name in re.findall(r'"([a-z ]+)"', names)
    }
    assert used <= GLOSSARY.keys()
    assert len(GLOSSARY) == 12
    concepts = (ROOT / "docs" / "concepts.md").read_text("utf-8")
    assert "".join(f"| {name} | {said} |\n" for name, said in GLOSSARY.items()) in concepts


SYNONYMS = re.compile(
    r"\b(auto-?sen[dt]|settled?|automation|verified|certainty"
    r"|without a (person|review)|completed? (a|by a|this) \w+)\b",
    re.IGNORECASE,
)


@pytest.mark.parametrize("file", sorted(PAGES.glob("templates/*.html")), ids=lambda file: file.name)
def test_pages_have_one_word_for_each_thing(file: Path) -> None:
    text = re.sub(r"<[^>]*>|\{[{%#].*?[}%#]\}", " ", file.read_text("utf-8"), flags=re.DOTALL)
    assert not SYNONYMS.search(text)


@pytest.mark.parametrize("file", sorted(PAGES.rglob("*.py")), ids=lambda file: file.stem)
def test_messages_have_the_words_of_the_pages(file: Path) -> None:
    strings = re.findall(r'(?<!")"([^"\n]*)"(?!")', file.read_text("utf-8"))
    # A sentence, not the name of a key or an address.
    assert not SYNONYMS.search("\n".join(said for said in strings if " " in said))
