"""Rules: read with every fault named, and applied to sets and metadata."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from setwise.service.domain.routing.rules import (
    EARLIER_VERSIONS,
    constraints_broken,
    first_broken,
    held_back_alike,
    parents_beside,
    read_rules,
)

A_OR_B = {"kind": "exactly_one", "labels": ["A", "B"]}


def held(rule: dict[str, object], labels: str = "", **metadata: object) -> bool:
    rules, faults = read_rules([rule])
    assert not faults
    return first_broken(rules, tuple(labels), metadata) is not None


@pytest.mark.parametrize(
    ("rule", "labels", "expected"),
    [
        ({"kind": "label", "label": "X"}, "AX", True),
        ({"kind": "label", "label": "X"}, "A", False),
        ({"kind": "label", "label": " X\u00a0"}, "AX", True),
        ({"kind": "requires", "label": "X ", "labels": ["\u200bA"]}, "XA", False),
        (A_OR_B, "A", False),
        (A_OR_B, "AB", True),
        (A_OR_B, "C", True),
        ({"kind": "at_most", "n": 2}, "ABC", True),
        ({"kind": "at_most", "n": 2}, "AB", False),
        ({"kind": "at_most", "n": 0}, "A", True),
        ({"kind": "at_most", "n": 1, "labels": ["A", "B"]}, "AC", False),
        ({"kind": "at_most", "n": 1, "labels": ["A", "B"]}, "ABC", True),
        ({"kind": "requires", "label": "X", "labels": ["A", "B"]}, "XA", True),
        ({"kind": "requires", "label": "X", "labels": ["A", "B"]}, "XAB", False),
        ({"kind": "requires", "label": "X", "labels": ["A", "B"]}, "C", False),
        ({"kind": "parents", "parents": {"X": "A", "A": "R"}}, "XA", True),
        ({"kind": "parents", "parents": {"X": "A", "A": "R"}}, "XAR", False),
        ({"kind": "parents", "parents": {"X": "A", "A": "R"}}, "RC", False),
        ({"kind": "parents"}, "X", False),
    ],
)
def test_label_sets_are_held_back(rule: dict[str, object], labels: str, expected: bool) -> None:
    assert held(rule, labels) is expected


@pytest.mark.parametrize(
    ("value", "expected"),
    [("north", True), ("south", False), (7, True), (True, False), (None, False)],
)
def test_metadata_is_compared_with_values_of_its_own_type(value: object, expected: bool) -> None:
    rule = {"kind": "metadata", "field": "site", "values": ["north", 7, 1]}
    assert held(rule, site=value) is expected
    assert not held(rule, ward="north")


@pytest.mark.parametrize(("n", "expected"), [(0, True), (2, True), (3, False)])
def test_a_document_posted_again_too_often_is_held_back(n: int, expected: bool) -> None:
    rules, _ = read_rules([{"kind": "versions", "n": n}])
    rule = first_broken(rules, ("a",), {EARLIER_VERSIONS: 3})
    assert (rule is not None) is expected
    assert first_broken(rules, ("a",), {"earlier versions": 9}) is None


def test_the_first_rule_that_is_broken_is_named() -> None:
    rules, _ = read_rules([{"kind": "at_most", "n": 5}, {"kind": "label", "label": "X"}, A_OR_B])
    rule = first_broken(rules, ("X",), {})
    assert rule is not None
    assert rule.name == "label X"
    assert first_broken((), ("X",), {}) is None


def test_a_rule_is_written_as_it_was_read() -> None:
    declared = [
        {"kind": "label", "name": "neonates", "label": "P07.3"},
        {"kind": "metadata", "name": "n", "field": "site", "values": ["a", 1, True]},
        {"kind": "at_most", "name": "few", "n": 3},
        {"kind": "requires", "name": "r", "label": "X", "labels": ["Y"]},
        {"kind": "parents", "name": "tree"},
    ]
    rules, faults = read_rules(declared)
    assert not faults
    assert [rule.declared() for rule in rules] == declared
    assert read_rules([rule.declared() for rule in rules])[0] == rules


def test_parents_are_stored_and_decide_whether_rules_are_alike() -> None:
    (one,), _ = read_rules([{"kind": "parents", "parents": {"X": "A"}}])
    (other,), _ = read_rules([{"kind": "parents", "parents": {"X": "B"}}])
    assert read_rules([one.stored()])[0] == (one,)
    assert held_back_alike([one]) != held_back_alike([other])


@pytest.mark.parametrize(
    ("rule", "pointers"),
    [
        ("x", [""]),
        ({}, ["/kind"]),
        ({"kind": "whim"}, ["/kind"]),
        ({"kind": "label"}, ["/label"]),
        ({"kind": "label", "label": 5}, ["/label"]),
        ({"kind": "label", "label": "X", "n": 2, "labels": ["Y"]}, ["/labels", "/n"]),
        ({"kind": "label", "label": "X", "name": "n" * 101}, ["/name"]),
        ({"kind": "metadata", "field": " ", "values": []}, ["/values", "/field"]),
        ({"kind": "metadata", "field": "f", "values": ["a", None, {}]}, ["/values/1", "/values/2"]),
        ({"kind": "exactly_one", "labels": ["A"]}, ["/labels"]),
        ({"kind": "exactly_one", "labels": ["A", "A"]}, ["/labels"]),
        ({"kind": "exactly_one", "labels": "AB"}, ["/labels"]),
        ({"kind": "at_most", "n": -1}, ["/n"]),
        ({"kind": "at_most", "n": True}, ["/n"]),
        ({"kind": "requires", "label": "X", "labels": []}, ["/labels"]),
        ({"kind": "parents", "parents": {"X": 1}}, ["/parents"]),
        ({"kind": "parents", "label": "X"}, ["/label"]),
    ],
)
def test_every_fault_is_pointed_at(rule: object, pointers: list[str]) -> None:
    _, faults = read_rules([A_OR_B, rule])
    assert sorted(fault.pointer for fault in faults) == sorted(f"/rules/1{p}" for p in pointers)


def test_too_many_rules_are_refused() -> None:
    assert [fault.pointer for fault in read_rules([A_OR_B] * 101)[1]] == ["/rules"]


json = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(max_size=5),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner),
    max_leaves=5,
)
names = st.sampled_from(["kind", "name", "label", "labels", "field", "values", "n", "parents"])
kinds = st.sampled_from(["label", "metadata", "exactly_one", "at_most", "requires", "parents"])


@given(st.dictionaries(names, json | kinds, max_size=6))
def test_whatever_is_declared_is_a_rule_or_has_a_fault(declared: dict[str, object]) -> None:
    rules, faults = read_rules([declared])
    if not faults:
        (rule,) = rules
        assert rule.name
        rule.holds_back(frozenset("A"), {"site": 1})
        assert read_rules([rule.stored()]) == (rules, ())


def test_only_rules_on_which_labels_go_together_concern_a_person_who_chooses() -> None:
    declared = [
        {"kind": "label", "label": "A"},
        {"kind": "metadata", "field": "site", "values": ["north"]},
        {"kind": "exactly_one", "labels": ["A", "B"]},
        {"kind": "at_most", "n": 2},
        {"kind": "requires", "label": "A", "labels": ["C"]},
    ]
    rules, _ = read_rules(declared)

    def broken(*labels: str) -> list[str]:
        return [rule.kind for rule in constraints_broken(rules, labels, {"site": "north"})]

    assert broken("A", "C") == []
    assert broken("A") == ["requires"]
    assert broken("A", "B", "C") == ["exactly_one", "at_most"]
    assert broken() == ["exactly_one"]


def test_a_rule_on_parents_asks_a_person_for_the_parent_of_each_label() -> None:
    rules, _ = read_rules([{"kind": "parents", "parents": {"X": "A", "Y": "A", "A": "R"}}])
    broken_rules = constraints_broken(rules, ["Y", "X", "R"], {})
    assert [(each.name, each.label, each.labels) for each in broken_rules] == [
        ("parents", "X", ("A",)),
        ("parents", "Y", ("A",)),
    ]
    assert parents_beside(rules) == {"X": "A", "Y": "A", "A": "R"}
