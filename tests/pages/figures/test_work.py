"""What the figures of the cockpit say."""

from dataclasses import replace
from types import SimpleNamespace
from typing import Any

import pytest

from setwise.service.pages.figures import work
from setwise.service.services.analysis.reliability import Curve


@pytest.mark.parametrize("p_value", [0.01, 0.7])
@pytest.mark.parametrize("calibrator", [None, "better (p = 0.2)"])
def test_a_p_value_stands_in_the_sentence_of_its_test(p_value: float, calibrator: Any) -> None:
    curve = Curve(
        confidence=(0.5, 0.9),
        accuracy=(0.4, 0.9),
        low=(0.4, 0.8),
        high=(0.6, 1.0),
        level=0.9,
        p_value=p_value,
        miscalibration=0.0,
        debiased_miscalibration=0.0,
        discrimination=0.0,
        uncertainty=0.0,
        checked=300,
        judgement="",
    )
    seen: Any = SimpleNamespace(reliability=curve, checked=300, calibrator=calibrator)
    says = work.reliability(seen).says
    (own,) = (part for part in says.split(". ") if part.startswith("It "))
    assert f"(p = {p_value})" in own
    assert not says.endswith(f"(p = {p_value})")
    seen.reliability = replace(curve, judgement="Routes: it ranks.")
    assert work.reliability(seen).says == f"Routes: it ranks. {says}"
