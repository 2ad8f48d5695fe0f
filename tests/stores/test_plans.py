"""The queries of every request find their rows by index, however long the history is."""

import re
from collections.abc import Callable
from datetime import timedelta

import pytest
from sqlalchemy import Engine, event, inspect, text

from setwise.service.domain.certification import Scorer
from setwise.service.domain.documents import Audited, DocumentFilter, DocumentState, Order
from setwise.service.domain.jobs import JobFilter
from setwise.service.domain.policy import FIRST_POLICY_VERSION
from setwise.service.domain.predictions import Decision, Document, PredictionFilter
from setwise.service.domain.routing.segments import OTHER, Segment
from setwise.service.stores.tables import predictions
from setwise.service.stores.transaction import Transaction, Transactions
from tests.fakes import START
from tests.samples import ANN, CLIENT, add_predictions, calibration, job, model, prediction, task

A_CLIENTS_DOCUMENT = PredictionFilter(client_id="x", document_id="x")
PAGE = {"after": None, "limit": 50}
QUERIES: dict[str, Callable[[Transaction], object]] = {
    "claim": lambda it: it.reviews.next_for(ANN.id, START, escalated=False),
    "claim as lead": lambda it: it.reviews.next_for(ANN.id, START, escalated=True),
    "held": lambda it: it.reviews.held_by(ANN.id, START),
    "expire": lambda it: it.reviews.expire_leases(START, limit=100),
    "task": lambda it: it.reviews.get(prediction().id, for_update=True),
    "tasks": lambda it: it.reviews.page(state=None, reason=None, **PAGE),
    "prediction": lambda it: it.predictions.get(prediction().id),
    "replay": lambda it: it.predictions.replayed([(CLIENT.id, "k")]),
    "predictions": lambda it: it.predictions.page(PredictionFilter(), **PAGE),
    "a client's": lambda it: it.predictions.page(PredictionFilter(client_id="x"), **PAGE),
    "a document's": lambda it: it.predictions.page(PredictionFilter(document_id="x"), **PAGE),
    "a client's document": lambda it: it.predictions.page(A_CLIENTS_DOCUMENT, **PAGE),
    "the next of them": lambda it: it.predictions.page(
        A_CLIENTS_DOCUMENT, after=prediction().id, limit=50
    ),
    "decided so": lambda it: it.predictions.page(PredictionFilter(decision=Decision.AUTO), **PAGE),
    "policies": lambda it: it.policies.of([FIRST_POLICY_VERSION]),
    "key": lambda it: it.keys.by_digest(bytes(32)),
    "job": lambda it: it.jobs.claim(["fit"], START, timedelta(0)),
    "evidence": lambda it: it.evidence.recent(50, with_content=True),
    "comparison": lambda it: it.comparisons.tally(prediction().id),
    "differences": lambda it: it.comparisons.differing(prediction().id, routes_only=False, **PAGE),
    "shadow": lambda it: it.comparisons.shadow(),
    "jobs": lambda it: it.jobs.page(JobFilter(), **PAGE),
    "an owner's jobs": lambda it: it.jobs.page(JobFilter(owner_id="x"), **PAGE),
    "a request": lambda it: it.jobs.requested("x", "k"),
    "outcomes": lambda it: it.outcomes.of(prediction().id),
    "annotations": lambda it: it.reviews.annotations_of(prediction().id),
    "lock of a prediction": lambda it: it.reviews.lock(prediction().id),
    "group": lambda it: it.annotators.group_of(ANN.id),
    "events": lambda it: it.audit_trail.page(**PAGE),
}


NORTH = Segment("site", "north")
OTHERS = Segment("site", OTHER, listed=frozenset({"north"}))
REPORTS: dict[str, Callable[[Transaction], object]] = {
    "tally": lambda it: it.reports().tally(START.date()),
    "steps": lambda it: it.reports().steps(START.date()),
    "tally of a segment": lambda it: it.reports(NORTH).tally(START.date()),
    "tally of others": lambda it: it.reports(OTHERS).tally(START.date()),
    "review days of a segment": lambda it: it.reports(NORTH).review_days(START.date()),
    "checked of a segment": lambda it: it.evidence.checked(START, 50, segment=NORTH),
    "review days": lambda it: it.reports().review_days(START.date()),
    "checked": lambda it: it.evidence.checked(START, 50),
    "overdue": lambda it: it.backlog.overdue(START),
}

COUNTED = [query for name, query in REPORTS.items() if re.search("tally|steps|days", name)]
"""Reports from counts, however many predictions there are."""

SCORER = Scorer("m", "c")
MODEL = model()
LEARNT = calibration(MODEL)
FROM_INDEXES: dict[str, tuple[Callable[[Transaction], object], str]] = {
    "audits that the breaker watches": (
        lambda it: it.evidence.watched(SCORER, after=None, limit=50),
        "ix_predictions_audits",
    ),
    "those since a reset": (
        lambda it: it.evidence.watched(SCORER, after=prediction().id, limit=50),
        "ix_predictions_audits",
    ),
    "what was sent since an audit": (
        lambda it: it.breakers.unvouched(SCORER, since=START, most=50),
        "ix_predictions_reports",
    ),
    "what was ever sent": (
        lambda it: it.breakers.unvouched(SCORER, since=None, most=50),
        "ix_predictions_reports",
    ),
    "gold labels": (lambda it: it.evidence.contradicted_or_read_again(), "ix_checks_audits"),
    "what a model can be taught": (
        lambda it: it.evidence.of_model(MODEL.version, limit=50),
        "ix_checks_model_version_prediction_id",
    ),
    "contradicted documents": (
        lambda it: it.documents.count(DocumentFilter(state=DocumentState.CONTRADICTED), most=50),
        "ix_checks_contradicted",
    ),
}
"""Queries of the cockpit and of each finished audit, each with the index that they start from."""


def versions(it: Transaction) -> object:
    """Read which documents came before in other words: a form may have come thousands of times."""
    return it.predictions.unsent_versions(["n"], [0.5], START)


NEEDED: dict[str, Callable[[Transaction], object]] = {
    "ix_predictions_client_id_id": QUERIES["a client's"],
    "ix_predictions_document_id": QUERIES["a document's"],
    "ix_predictions_decision_id": QUERIES["decided so"],
    "ix_predictions_cluster": versions,
    "ix_predictions_reports": FROM_INDEXES["what was ever sent"][0],
    "ix_predictions_segment_id": lambda it: it.certifications.values(NORTH),
    "ix_predictions_audits": FROM_INDEXES["audits that the breaker watches"][0],
    "ix_predictions_confidence_id": lambda it: it.documents.page(
        DocumentFilter(), Order.LEAST_CONFIDENT, **PAGE
    ),
}
"""A query for each index of predictions that would read a long history without it."""


SINCE_ACTIVATION: dict[str, Callable[[Transaction], object]] = {
    "predictions of a model": lambda it: it.calibrations.recent(MODEL.version, limit=50),
    "those of a calibrator": lambda it: it.certifications.unaudited(
        Scorer(MODEL.version, LEARNT.version), limit=50
    ),
}


@pytest.fixture(scope="module")
def planner(module_engine: Engine) -> Engine:
    """Return an engine on a database whose planner believes that its tables are long."""
    engine = module_engine
    begin = Transactions(engine)
    if engine.dialect.name == "postgresql":
        with engine.begin() as connection:
            # Let nobody count, now or in mid-test, that there are sixty rows.
            for table in inspect(connection).get_table_names():
                connection.execute(text(f'ALTER TABLE "{table}" SET (autovacuum_enabled = off)'))
    with begin() as transaction:
        transaction.models.add(MODEL)
        transaction.models.activate(MODEL.id, START, MODEL.id)
        transaction.calibrations.add(LEARNT)
        transaction.calibrations.activate(MODEL.id, LEARNT.id, START, LEARNT.id)
        for number in range(60):
            document = Document(id=f"note {number}", text="fever")
            new_prediction = prediction(client_id=f"client {number}", document=document)
            new_prediction = new_prediction._replace(
                selection=new_prediction.selection._replace(draw=number / 60, cluster=number / 60)
            )
            one = task(new_prediction._replace(segment=f"site={('north', 'south')[number % 2]}"))
            add_predictions(transaction, one.prediction)
            transaction.reviews.add(one)
            transaction.jobs.enqueue(job("fit", due_at=START + timedelta(days=1)))
    if engine.dialect.name == "postgresql":
        with engine.begin() as connection:
            # In place of a million rows: make reading a whole table the last resort.
            name = connection.execute(text("SELECT current_database()")).scalar_one()
            connection.execute(text(f'ALTER DATABASE "{name}" SET enable_seqscan = off'))
            connection.execute(text(f'ALTER DATABASE "{name}" SET enable_sort = off'))
        engine.dispose()
    else:
        with engine.begin() as connection:
            connection.execute(text("ANALYZE"))
    return engine


def plans(planner: Engine, query: Callable[[Transaction], object]) -> list[tuple[str, str]]:
    """Return each SELECT that a query sends, with its plan."""
    seen: list[tuple[str, object]] = []

    def note(_connection, _cursor, statement, parameters, _context, _many) -> None:
        seen.append((statement, parameters))

    event.listen(planner, "before_cursor_execute", note)
    with Transactions(planner)() as transaction:
        query(transaction)
    event.remove(planner, "before_cursor_execute", note)
    assert seen
    return [
        (statement, plan(planner, statement, parameters))
        for statement, parameters in seen
        if statement.startswith(("SELECT", "WITH"))
    ]


def plan(planner: Engine, statement: str, parameters=()) -> str:
    explain = "EXPLAIN" if planner.dialect.name == "postgresql" else "EXPLAIN QUERY PLAN"
    with planner.connect() as connection:
        rows = connection.exec_driver_sql(f"{explain} {statement}", parameters).all()
    return "\n".join(str(row[-1]) for row in rows)


def reads_a_whole_table(planner: Engine, plan: str) -> list[str]:
    """Return the steps of a plan that read all rows of a stored table."""
    if planner.dialect.name == "postgresql":
        return [line for line in plan.splitlines() if "Seq Scan" in line]
    # What the query itself has made or was given.
    inside = ("chosen", "fine", "named", "anon", "CONSTANT")
    # An automatic index is made of all rows, for this query alone.
    whole = re.compile(r"SCAN (\w+)(?!.*USING)|SEARCH (\w+) USING AUTOMATIC")
    return [
        line
        for line in plan.splitlines()
        if (found := whole.search(line)) and not (found[1] or found[2]).startswith(inside)
    ]


@pytest.mark.parametrize("query", QUERIES.values(), ids=QUERIES)
def test_no_request_reads_a_whole_table(planner: Engine, query) -> None:
    for statement, plan in plans(planner, query):
        assert not reads_a_whole_table(planner, plan), f"{statement}\n{plan}"
        assert "TEMP B-TREE" not in plan
        assert "Sort " not in plan, f"{statement}\n{plan}"


def test_the_policy_in_force_is_found_in_an_index(planner: Engine) -> None:
    (_, found), *_ = plans(planner, lambda it: it.policies.current())
    assert "uq_policies_ordinal" in found or "autoindex_policies" in found
    assert not reads_a_whole_table(planner, found)
    assert "TEMP B-TREE" not in found
    assert "Sort " not in found


@pytest.mark.parametrize("name", ["a document's", "a client's document", "the next of them"])
def test_a_documents_predictions_are_found_by_its_name(planner: Engine, name: str) -> None:
    ((statement, plan),) = plans(planner, QUERIES[name])
    if planner.dialect.name == "postgresql":
        assert "ix_predictions_document_id" in plan, f"{statement}\n{plan}"
    else:
        assert "predictions USING INDEX ix_predictions_document_id (document_id=?)" in plan, (
            f"{statement}\n{plan}"
        )
        # The others of a client are not looked through for them.
        assert re.search(r"SEARCH predictions USING INDEX \w+ \((client_id=\? AND )?id=\?\)", plan)


@pytest.mark.parametrize("query", REPORTS.values(), ids=REPORTS)
def test_reports_read_what_they_count_from_indexes(planner: Engine, query) -> None:
    for statement, plan in plans(planner, query):
        assert not reads_a_whole_table(planner, plan), f"{statement}\n{plan}"
        assert query not in COUNTED or " predictions" not in statement


@pytest.mark.parametrize(("query", "index"), FROM_INDEXES.values(), ids=FROM_INDEXES)
def test_audits_are_found_among_all_predictions_by_index(
    planner: Engine, query: Callable[[Transaction], object], index: str
) -> None:
    for statement, plan in plans(planner, query):
        whole = reads_a_whole_table(planner, plan)
        # There are few policies.
        assert not [step for step in whole if "policies" not in step], f"{statement}\n{plan}"
        assert index in plan, f"{statement}\n{plan}"


def test_versions_of_a_document_are_read_from_indexes_alone(planner: Engine) -> None:
    only = "Index Only Scan" if planner.dialect.name == "postgresql" else "USING COVERING INDEX"
    found = plans(planner, versions)
    assert len(found) == 2
    for statement, plan in found:
        assert only in plan, f"{statement}\n{plan}"


@pytest.mark.parametrize(("index", "query"), NEEDED.items(), ids=NEEDED)
def test_each_index_of_predictions_has_a_query(
    planner: Engine, index: str, query: Callable[[Transaction], object]
) -> None:
    assert {each.name for each in predictions.indexes} == set(NEEDED)
    assert any(index in plan for _, plan in plans(planner, query))


@pytest.mark.parametrize("query", SINCE_ACTIVATION.values(), ids=SINCE_ACTIVATION)
def test_what_a_new_model_made_is_not_looked_for_among_older_predictions(
    planner: Engine, query: Callable[[Transaction], object]
) -> None:
    ranges = {
        "postgresql": r"pk_predictions on predictions.*\n *Index Cond: \(+id >= ",
        "sqlite": r"predictions USING INDEX sqlite_autoindex_predictions_1 \(id>\?\)",
    }
    found = [
        (statement, plan)
        for statement, plan in plans(planner, query)
        if "predictions.confidence" in statement
    ]
    assert found
    for statement, plan in found:
        assert re.search(ranges[planner.dialect.name], plan), f"{statement}\n{plan}"
        assert "TEMP B-TREE" not in plan
        assert "Sort " not in plan


def test_what_a_reviewer_answered_is_looked_up_once_not_for_each_document(planner: Engine) -> None:
    filters = DocumentFilter(reviewer=ANN.id, audited=Audited.CONTRADICTED, confidence_to=0.9)
    ((statement, plan),) = plans(planner, lambda it: it.documents.count(filters, most=50))
    assert "CORRELATED" not in plan, f"{statement}\n{plan}"
    assert "SubPlan" not in plan or "hashed" in plan, f"{statement}\n{plan}"


# PostgreSQL has its statistics from autovacuum; nothing gathers SQLite's.
@pytest.mark.parametrize("database_kind", ["sqlite"], scope="module")
@pytest.mark.parametrize("known", [True, False], ids=["analyzed", "never analyzed"])
def test_sqlite_needs_no_statistics_for_it(planner: Engine, known: bool) -> None:
    covered = {
        "audits that the breaker watches": "predictions USING COVERING INDEX ix_predictions_audits",
        "what was sent since an audit": "predictions USING INDEX ix_predictions_reports",
        "gold labels": "checks USING COVERING INDEX ix_checks_audits",
        "a document's": "ix_predictions_document_id (document_id=?)",
    }
    queries = QUERIES | REPORTS | {name: query for name, (query, _) in FROM_INDEXES.items()}
    with planner.begin() as connection:
        rows = connection.execute(text("SELECT tbl, idx, stat FROM sqlite_stat1")).all()
        if not known:
            connection.execute(text("DELETE FROM sqlite_stat1"))
    planner.dispose()
    try:
        for name, step in covered.items():
            ((_, plan),) = plans(planner, queries[name])
            assert step in plan, f"{name}\n{plan}"
    finally:
        with planner.begin() as connection:
            connection.execute(text("DELETE FROM sqlite_stat1"))
            for row in rows:
                connection.execute(
                    text("INSERT INTO sqlite_stat1 VALUES (:tbl, :idx, :stat)"), row._mapping
                )
        planner.dispose()
