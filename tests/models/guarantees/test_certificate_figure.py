"""The picture of a certificate: every test at its place, and what the bounds rest on."""

from xml.etree import ElementTree as ET

import numpy as np
import pytest

from setwise.models.guarantees.certificates import Certificate, CertificateRefusal
from setwise.models.guarantees.certify import certify
from setwise.models.guarantees.joint import accuracy_bound, p_value
from setwise.models.guarantees.strata import accuracy_of, counts_of

TARGET, RISK = 0.9, 0.1
SVG = "{http://www.w3.org/2000/svg}"


def proof(n=600, *, reread_rate=1.0, seed=1, **more):
    draw = np.random.default_rng(seed)
    confidence = draw.beta(6, 1, n)
    right = draw.random(n) < confidence
    if reread_rate < 1.0:
        agreed = right | (draw.random(n) < 0.3)
        reread = draw.random(n) < reread_rate
        more |= {"agreed": agreed, "reread": reread, "reread_rate": reread_rate}
    return certify(confidence, right, target=TARGET, risk=RISK, **more)


@pytest.mark.parametrize("reread_rate", [1.0, 0.6])
def test_each_test_can_be_made_again_from_its_counts(reread_rate):
    certificate = proof(reread_rate=reread_rate)
    assert isinstance(certificate, Certificate)
    for step in certificate.steps[::6]:
        again = p_value(counts_of(step), 1.0 - TARGET, RISK)
        assert again == pytest.approx(step.p_value)
        bound = accuracy_bound(counts_of(step), RISK)
        assert (bound >= TARGET - 1e-4) == (step.p_value <= RISK)
        assert p_value(counts_of(step), 1.0 - bound + 1e-4, RISK) <= RISK
        assert p_value(counts_of(step), 1.0 - bound - 1e-4, RISK) > RISK
    lowest = [step for step in certificate.steps if step.threshold == certificate.threshold]
    assert [step.coverage for step in lowest] == [certificate.coverage]
    assert [accuracy_of(step) for step in lowest] == [certificate.accuracy]


def drawn(evidence):
    root = ET.fromstring(evidence.picture().svg)
    words = ["".join(each.itertext()) for each in root.iter(f"{SVG}text")]
    dots = [each.get("class").split()[-1] for each in root.iter(f"{SVG}circle")]
    return root, words, dots


def test_a_certificate_shows_its_tests_target_and_threshold():
    certificate = proof()
    root, words, dots = drawn(certificate)
    assert len(certificate.steps) > len(dots) == 30
    assert dots.count("skipped") == 1
    assert set(dots) == {"sent", "skipped"}
    assert "target 90 %" in words
    assert (
        f"from {certificate.threshold:.3g} up: {certificate.coverage:.1%}".replace("%", " %")
        in words
    )
    assert [word for word in words if word in str(certificate)] == str(certificate).split("\n")
    said = [each.text for each in root.iter(f"{SVG}title")]
    last = certificate.steps[-1]
    assert any(f"{last.n_good} of {last.n_audits} checked ones" in each for each in said)


def test_a_refusal_shows_the_test_that_failed():
    refusal = proof(20)
    assert isinstance(refusal, CertificateRefusal)
    _, words, dots = drawn(refusal)
    assert dots == ["skipped"]
    assert not [word for word in words if word.startswith("from ")]
    assert "not proved: the sequence ends" in words


def test_a_refusal_without_a_test_shows_the_target():
    _, words, dots = drawn(certify([], [], target=TARGET))
    assert dots == []
    assert "target 90 %" in words


def test_a_threshold_that_newer_checks_contradict_is_not_shown_as_proved():
    certificate = proof()
    object.__setattr__(certificate.steps[-2], "recent_accuracy", 0.0)
    assert "proved, but newer checks speak against it" in drawn(certificate)[1]


def test_notebooks_show_the_picture_with_its_words():
    certificate = proof()
    image = ET.fromstring(certificate._repr_html_())
    assert image.tag == "img"
    assert image.get("src").startswith("data:image/svg+xml;base64,")
    assert image.get("alt") == str(certificate).replace("\n", " ")
