"""Who may do what: the table by hand that both the API and the pages keep to.

A row names the roles that may, the scopes of which one is enough, the operations of the API and the
pages that read the same. Roles: client, reviewer, lead, admin, auditor.
"""

from dataclasses import dataclass

from setwise.service.domain.accounts.callers import Permission, Role


@dataclass(frozen=True)
class Right:
    """A right, and what it opens."""

    roles: str
    scopes: str
    operations: str
    pages: str = ""

    def opens(self, role: Role, scopes: frozenset[Permission] | None = None) -> bool:
        """Return whether a key or person of a role, narrowed to ``scopes``, has the right."""
        named = role.value in self.roles.split()
        return named and (scopes is None or not scopes.isdisjoint(self.scopes.split()))


RIGHTS = (
    Right(
        "client admin",
        "predict",
        """
        POST /v1/predictions
        POST /v1/predictions/batch
        POST /v1/predictions/{prediction_id}/outcome
        POST /v1/jobs/scoring
        GET /v1/outbox
        POST /v1/outbox/acknowledge
        """,
    ),
    Right(
        "client lead admin auditor",
        "predict read-predictions",
        """
        GET /v1/predictions
        GET /v1/predictions/{prediction_id}
        GET /v1/predictions/{prediction_id}/outcomes
        GET /v1/exports/predictions
        GET /v1/exports/outcomes
        """,
    ),
    Right(
        "lead admin auditor",
        "read-predictions",
        """
        GET /v1/documents
        GET /v1/documents/export
        GET /v1/documents/{prediction_id}
        GET /v1/admin/labels/{name}
        """,
        """
        /documents
        /documents/rows
        /documents/{prediction_id}
        /try
        """,
    ),
    Right(
        "reviewer lead admin auditor",
        "read-queue",
        """
        GET /v1/reviews
        GET /v1/reviews/{task_id}
        """,
    ),
    Right("client reviewer lead admin auditor", "predict read-queue", "GET /v1/labels"),
    Right(
        "reviewer lead admin auditor",
        "review read-predictions",
        "GET /v1/documents/{prediction_id}/comments",
    ),
    Right(
        "reviewer lead admin",
        "review",
        """
        GET /v1/reviews/recent
        GET /v1/documents/new-comments
        POST /v1/reviews/claim
        POST /v1/reviews/{task_id}/heartbeat
        POST /v1/reviews/{task_id}/release
        POST /v1/reviews/{task_id}/skip
        POST /v1/reviews/{task_id}/complete
        POST /v1/labels
        POST /v1/documents/{prediction_id}/reopen
        POST /v1/documents/{prediction_id}/comments
        """,
        "/desk /recent /recent/{prediction_id}",
    ),
    Right(
        "lead admin",
        "review",
        """
        POST /v1/documents/actions
        PUT /v1/admin/labels/{name} DELETE /v1/admin/labels/{name}
        """,
    ),
    Right(
        "lead admin auditor",
        "report",
        """
        GET /v1/reports/summary
        GET /v1/reports/learning
        GET /v1/reports/reliability
        GET /v1/reports/automation
        POST /v1/admin/policy/preview
        GET /v1/predictions/{prediction_id}/decision
        GET /v1/exports/annotations
        """,
        """
        /cockpit
        /cockpit/details
        /cockpit/labels
        /cockpit/labels/table.{form}
        /board/start
        /board/labels
        /board/labels/label
        /board/labels/template.{form}
        """,
    ),
    Right(
        "lead admin auditor",
        "report inspect",
        """
        GET /v1/admin/certifications
        GET /v1/admin/certifications/outlook
        GET /v1/admin/certifications/{certification_id}
        GET /v1/admin/breaker
        GET /v1/admin/policy
        GET /v1/admin/policy/segments
        GET /v1/admin/annotators
        GET /v1/admin/annotators/{annotator_id}
        GET /v1/admin/groups
        GET /v1/admin/groups/{group_id}
        GET /v1/admin/calibrations
        GET /v1/admin/calibrations/{calibration_id}
        """,
        """
        /board
        /board/policy
        /board/certifications
        /board/certifications/{certification_id}
        /board/breaker
        /board/groups
        /board/groups/{group_id}
        /board/calibrators
        /board/calibrators/{calibration_id}
        /board/calibrators/{calibration_id}/reliability.{form}
        """,
    ),
    Right(
        "admin auditor",
        "inspect",
        """
        GET /v1/admin/models
        GET /v1/admin/models/{model_id}/comparison
        GET /v1/admin/keys
        GET /v1/admin/people
        GET /v1/admin/webhooks
        GET /v1/admin/webhooks/{webhook_id}
        GET /v1/admin/deliveries
        GET /v1/admin/deliveries/{delivery_id}
        GET /metrics
        """,
        """
        /board/models
        /board/models/{model_id}
        /board/models/retrain
        /board/keys
        /board/people
        /board/people/{person_id}
        /board/webhooks
        /board/webhooks/{webhook_id}
        /board/deliveries
        /board/deliveries/{delivery_id}
        /board/settings
        """,
    ),
    Right(
        "client lead admin auditor",
        "inspect run-jobs",
        """
        GET /v1/jobs
        GET /v1/jobs/{job_id}
        GET /v1/jobs/{job_id}/result
        """,
        """
        /board/jobs
        /board/jobs/{job_id}
        """,
    ),
    Right(
        "client lead admin",
        "run-jobs",
        """
        POST /v1/jobs/{job_id}/cancel
        POST /v1/jobs/{job_id}/retry
        """,
    ),
    Right(
        "admin auditor",
        "read-audit-trail",
        """
        GET /v1/admin/audit
        GET /v1/exports/audit-events
        """,
        "/board/audit",
    ),
    Right(
        "admin",
        "administer",
        """
        PUT /v1/admin/policy
        POST /v1/admin/models
        POST /v1/admin/models/{model_id}/activate
        POST /v1/admin/models/retrain
        POST /v1/admin/models/rollback
        POST /v1/admin/models/{model_id}/verify
        POST /v1/admin/models/{model_id}/shadow
        DELETE /v1/admin/models/{model_id}/shadow
        POST /v1/admin/models/{model_id}/compare
        POST /v1/admin/certifications
        POST /v1/admin/breaker/reset
        PUT /v1/admin/annotators/{annotator_id}
        PUT /v1/admin/groups/{group_id}
        POST /v1/admin/calibrations
        POST /v1/admin/calibrations/rollback
        POST /v1/admin/calibrations/{calibration_id}/activate
        POST /v1/admin/webhooks
        PUT /v1/admin/webhooks/{webhook_id}
        DELETE /v1/admin/webhooks/{webhook_id}
        POST /v1/admin/webhooks/{webhook_id}/rotate-secret
        POST /v1/admin/webhooks/{webhook_id}/test
        POST /v1/admin/webhooks/{webhook_id}/replay
        POST /v1/admin/deliveries/{delivery_id}/replay
        POST /v1/admin/erasures
        POST /v1/admin/people
        PATCH /v1/admin/people/{person_id}
        POST /v1/admin/people/{person_id}/invite
        POST /v1/admin/keys
        POST /v1/admin/keys/{key_id}/rotate
        POST /v1/admin/keys/{key_id}/revoke
        """,
    ),
)

BY_BODY = "POST /v1/jobs/export"
"""What is exported decides; tests/services/test_jobs_rights.py has its table."""

OPEN = "GET /healthz GET /readyz GET /readyz/predictions"
"""Anybody may."""


def operations() -> dict[tuple[str, str], Right]:
    """Return the right that each operation needs, by method and path."""
    found = {}
    for right in RIGHTS:
        words = right.operations.split()
        for operation in zip(words[::2], words[1::2], strict=True):
            assert operation not in found
            found[operation] = right
    return found


def pages() -> dict[str, Right]:
    """Return the right that each page needs, by path."""
    return {page: right for right in RIGHTS for page in right.pages.split()}
