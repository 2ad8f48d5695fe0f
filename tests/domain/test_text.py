"""What can be kept as text and as JSON."""

import json

from hypothesis import given
from hypothesis import strategies as st

from setwise.service.domain.text import json_faults, text_faults
from setwise.spelling import escaped

json_values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(), inner, max_size=4),
    max_leaves=12,
)


@given(json_values)
def test_json_without_faults_is_json_that_a_strict_parser_reads_back(value: object) -> None:
    if list(json_faults(value, "")):
        return
    text = json.dumps(value, allow_nan=False)
    assert "\\u0000" not in text
    assert json.loads(text) == value


@given(json_values)
def test_json_with_faults_names_places_that_exist(value: object) -> None:
    for fault in json_faults(value, ""):
        place = value
        for step in fault.pointer.split("/")[1:]:
            name = step.replace("~1", "/").replace("~0", "~")
            place = place[int(name)] if isinstance(place, list) else place[name]


@given(st.text())
def test_an_escaped_name_is_one_step_of_a_pointer(name: str) -> None:
    assert "/" not in escaped(name)
    assert escaped(name).replace("~1", "/").replace("~0", "~") == name


def test_short_texts_have_a_length() -> None:
    assert list(text_faults("x" * 5, "/name", longest=5)) == []
    (fault,) = text_faults("x" * 6, "/name", longest=5)
    assert fault.detail == "has 6 characters; at most 5 are kept"


def test_blank_text_is_refused_unless_it_is_optional() -> None:
    assert [f.pointer for f in text_faults(" ", "/reason", longest=5)] == ["/reason"]
    assert list(text_faults("", "/comment", longest=5, blank_allowed=True)) == []
