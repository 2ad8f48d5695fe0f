"""What a model said: rows of this version and of earlier ones say the same, in less room."""

from collections.abc import Callable

import pytest
from sqlalchemy import Engine, func, insert, select

from setwise.service.domain.audits import AuditRole, Selection
from setwise.service.domain.certification import Scorer
from setwise.service.domain.predictions import (
    Candidate,
    Marginal,
    Prediction,
    PredictionFilter,
    ScoredSet,
)
from setwise.service.stores.tables import predictions
from setwise.service.stores.transaction import Transactions
from tests.fakes import START
from tests.samples import add_predictions, outcome, prediction

SAID = {
    "ordinary": (
        [Candidate(("a", "b"), 0.1 + 0.2, 0.5), Candidate(("b", "rare"), 5e-324, 1e-12)],
        [Marginal("b", 0.98), Marginal("a", 1 / 3)],
    ),
    "unlike a name": (
        [Candidate(('say "a"\\', "0"), 1.0, 0.0), Candidate(("0", "é\u2028\x07"), 0.0, 1.0)],
        [Marginal("é\u2028\x07", 0.5), Marginal("0", 0.25)],
    ),
    "empty set first": (
        [Candidate((), 0.9, 0.8), Candidate(("a",), 0.1, 0.2)],
        [Marginal("a", 0.1)],
    ),
    "no marginals": ([Candidate(("a",), 0.9, 0.8), Candidate((), 0.1, 0.2)], []),
}


@pytest.fixture(params=SAID)
def made(request: pytest.FixtureRequest) -> Prediction:
    """Return a prediction that was drawn for an audit."""
    candidates, marginals = SAID[request.param]
    scored = ScoredSet(tuple(candidates), tuple(marginals), False, "m", "c")
    selection = Selection(AuditRole.CERTIFICATION, 0.25, 0.5)
    return prediction()._replace(scored=scored, selection=selection)


def _add(engine: Engine, made: Prediction) -> None:
    with Transactions(engine)() as transaction:
        add_predictions(transaction, made)
        transaction.commit()


def _add_as_before(engine: Engine, made: Prediction) -> None:
    """Store a prediction as earlier versions did: with the objects that callers are told."""
    row = {
        "id": made.id,
        "client_id": made.client_id,
        "document_id": made.document.id,
        "text": made.document.text,
        "metadata": made.document.metadata,
        "candidates": [one._asdict() for one in made.scored.candidates],
        "marginals": [one._asdict() for one in made.scored.marginals],
        "confidence": made.scored.confidence,
        "out_of_domain": made.scored.out_of_domain,
        "decision": made.decision.value,
        "reason": made.reason.value,
        "threshold": made.threshold,
        "model_version": made.scored.model_version,
        "calibrator_version": made.scored.calibrator_version,
        "policy_version": made.policy_version,
        "created_at": made.created_at,
        "audit_role": made.selection.role.value,
        "draw": made.selection.draw,
        "inclusion_probability": made.selection.inclusion_probability,
    }
    with engine.begin() as connection:
        connection.execute(insert(predictions).values(row))


@pytest.mark.parametrize("add", [_add, _add_as_before])
def test_every_reader_finds_what_the_model_said(
    engine: Engine, made: Prediction, add: Callable[[Engine, Prediction], None]
) -> None:
    add(engine, made)
    with Transactions(engine)() as transaction:
        transaction.outcomes.add(outcome(made, "a"))
        transaction.commit()
    with Transactions(engine)(read_only=True) as transaction:
        (listed,) = transaction.predictions.page(PredictionFilter(), after=None, limit=5).items
        assert [transaction.predictions.get(made.id), listed] == [made, made]
        of_first = [
            *transaction.history.evidence(5, with_labels=True),
            *transaction.reports.checked(START, 5),
            *transaction.certifications.audited(Scorer("m", "c")),
        ]
        assert [one.labels for one in of_first] == [made.scored.labels] * 3


def test_names_are_stored_once_and_the_rest_takes_half_the_room(engine: Engine) -> None:
    names = [f"diagnosis number {n}" for n in range(12)]
    scored = ScoredSet(
        tuple(Candidate(tuple(names[n : n + 3]), 0.1 / (n + 1), 0.2 / (n + 3)) for n in range(10)),
        tuple(Marginal(name, 1 / (n + 3)) for n, name in enumerate(names)),
        False,
        "m",
        "c",
    )
    now, before = (prediction()._replace(scored=scored) for _ in range(2))
    _add(engine, now)
    _add_as_before(engine, before)
    size = func.length(
        predictions.c.candidates.cast(predictions.c.client_id.type)
        + predictions.c.marginals.cast(predictions.c.client_id.type)
    )
    with engine.connect() as connection:
        sizes = dict(map(tuple, connection.execute(select(predictions.c.id, size))))
    assert sizes[now.id] < 0.55 * sizes[before.id]
