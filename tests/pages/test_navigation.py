"""The header leads each role where it may go, and nowhere else; words are explained on demand."""

import pytest

from setwise.service.domain.callers import Caller, Permission, Role
from setwise.service.pages.rendering import GLOSSARY, PLACES, Place, places_for, templates
from tests.browsing import Browser
from tests.edge import Service


def caller(role: Role) -> Caller:
    return Caller("1", role.value, role)


@pytest.mark.parametrize("place", PLACES, ids=lambda place: place.name)
def test_every_place_is_a_page_that_knows_where_it_is(service: Service, place: Place) -> None:
    service.person("ann", Role.ADMIN)
    browser = Browser(service)
    browser.sign_in()
    shown = browser.get(place.address)
    assert shown.status_code == 200
    assert f'<a href="{place.address}" aria-current="page">{place.name}</a>' in shown.text


def test_who_is_not_signed_in_is_led_nowhere(service: Service) -> None:
    assert 'class="places"' not in Browser(service).get("/login").text


@pytest.mark.parametrize("role", Role)
def test_everybody_is_led_only_where_they_may_go(role: Role) -> None:
    shown = places_for(caller(role))
    assert Place("Overview", "/") in shown
    for place in PLACES:
        assert (place in shown) == (not place.needed or caller(role).may_one(place.needed))


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
    with pytest.raises(KeyError):
        templates().from_string('{% from "terms.html" import term %}{{ term("zeal") }}').render()


def test_explanations_are_sentences() -> None:
    for name, meaning in GLOSSARY.items():
        assert name == name.lower()
        assert meaning.endswith(".")
        assert len(meaning) < 260
