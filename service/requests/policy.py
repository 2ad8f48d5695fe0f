"""Requests for the routing policy."""

from functools import partial
from typing import Annotated, Literal, Self

from pydantic import ConfigDict, Field

from setwise.service.domain import policy as routing
from setwise.service.domain.policy import PolicyChange, RetrainMode, ThresholdMode
from setwise.service.domain.routing.audits import AuditMode, AuditPlan
from setwise.service.domain.routing.segments import (
    MOST_SEGMENTS,
    TEXT_LENGTH,
    GateState,
    SegmentBy,
)
from setwise.service.requests import Body, FewFaults, Input, Number, RequestBody

_rate = partial(Input, percent="any", required=True)
_inner_rate = partial(Input, percent="inner", required=True)
_SOURCES = (
    (
        "certified",
        "Certified by audits",
        "The lowest threshold that audits prove. Nothing is sent until there is a certificate.",
    ),
    (
        "fixed",
        "Fixed by hand",
        "Takes effect at once, and is shown as not certified everywhere.",
    ),
)
_AUDITED = (
    ("hold", "Hold it until the audit is done", ""),
    ("send", "Send it, and correct it if the audit finds it wrong", ""),
)

_RETRAINED = (
    (
        "automatic",
        "Train a model, and activate it while nothing is sent",
        "Once there is a threshold, a new model is only proposed.",
    ),
    ("propose", "Train a model, and propose it", ""),
    ("never", "Nothing", ""),
)


class Threshold(RequestBody):
    """The least confidence that is sent."""

    mode: Annotated[Literal["certified", "fixed"], Input("Source", "", "radio", _SOURCES)] = Field(
        description="`certified`: audits choose the value; `fixed`: you do, and nothing proves it."
    )
    value: Annotated[
        Number | None,
        Input(
            "Fixed threshold, from 0 to 1",
            "Only used when the threshold is fixed by hand.",
            when=("threshold.mode", "fixed"),
        ),
    ] = Field(
        None, description="The least confidence that is sent; null while nothing is certified."
    )
    certificate_id: str | None = Field(
        None,
        max_length=100,
        description="What proves the value. Sent back beside it, the value is not taken for yours.",
    )

    @classmethod
    def of(cls, gate: routing.Gate) -> Self:
        """Return the body for the threshold of a gate."""
        return cls(
            mode=gate.policy.threshold_mode.value,
            value=gate.threshold,
            certificate_id=gate.state.certificate_id,
        )


class Audit(RequestBody):
    """How often people check documents without seeing the model's answer."""

    certification_rate: Annotated[
        Number, _rate("Read blind of what could be sent, in %", "These audits prove the threshold.")
    ] = Field(
        0.0,
        description="Share of the documents that could be sent, read blind to prove the threshold; "
        "of all documents without a `rest_rate`.",
    )
    rest_rate: Annotated[
        Number | None,
        Input(
            "Read blind of the rest, in %",
            "What can hardly be sent proves little: a tenth to a third of the first is enough. "
            "Empty: the same rate.",
            percent="any",
        ),
    ] = Field(
        None,
        description="Share of the documents that can hardly be sent: above 0 and at most "
        "`certification_rate`, or null for that.",
    )
    ramp_up_rate: Annotated[
        Number | None,
        Input(
            "While nothing is sent, in %",
            "Everything is reviewed then, so more audits cost only the hidden suggestion and prove "
            "a threshold sooner. Empty: the same rate.",
            percent="any",
        ),
    ] = Field(
        None,
        description="`certification_rate` while no threshold is certified or the breaker has "
        "tripped: at least as high, or null for the same.",
    )
    training_rate: Annotated[Number, _rate("Training audits, in % of what would be sent")] = Field(
        0.0,
        description="Share of the documents that would be sent, read to teach the calibrator.",
    )
    mode: Annotated[
        Literal["hold", "send"],
        Input("When a confident document is audited", "", "radio", _AUDITED),
    ] = Field(
        "hold",
        description="`hold`: an audited document waits; `send`: it is sent at once, and corrected "
        "if it was wrong.",
    )

    def as_plan(self, overlap_rate: float = 0.0, gold_reread_rate: float = 0.0) -> AuditPlan:
        """Return the plan for the service."""
        return AuditPlan(
            certification_rate=self.certification_rate,
            training_rate=self.training_rate,
            mode=AuditMode(self.mode),
            overlap_rate=overlap_rate,
            gold_reread_rate=gold_reread_rate,
            ramp_up_rate=self.ramp_up_rate,
            rest_rate=self.rest_rate,
        )

    @classmethod
    def of(cls, plan: AuditPlan) -> Self:
        """Return the body for a plan."""
        return cls(
            certification_rate=plan.certification_rate,
            rest_rate=plan.rest_rate,
            ramp_up_rate=plan.ramp_up_rate,
            training_rate=plan.training_rate,
            mode=plan.mode.value,
        )


class RuleBody(RequestBody):
    """A rule that holds documents back, however confident the model is.

    - `label`: holds back a set that contains `label`.
    - `metadata`: holds back a document whose metadata has one of `values` in `field`.
    - `exactly_one`: holds back a set that does not contain exactly one of `labels`.
    - `at_most`: holds back a set with more than `n` labels, or more than `n` of `labels` if given.
    - `requires`: holds back a set that contains `label` without all of `labels`.
    - `parents`: holds back a set that contains a label without its parent in the catalogue.
    - `versions`: holds back a document of which its client posted more than `n` other versions
      within 30 days before, none of them sent.
    """

    kind: Literal["label", "metadata", "exactly_one", "at_most", "requires", "parents", "versions"]
    name: str | None = Field(None, description="What people call it; generated if left out.")
    label: str | None = None
    labels: Annotated[list[str], FewFaults] | None = None
    field: str | None = None
    values: Annotated[list[bool | int | float | str], FewFaults] | None = None
    n: int | None = None


class SegmentRequest(RequestBody):
    """What the policy says of one segment."""

    value: str = Field(
        description="Of the field, as text; of `text_length`, a band like `0-499`. `other` are the "
        "documents without a value, or with one that is not listed."
    )
    threshold: Threshold | None = Field(
        None, description="Of mode `fixed`, its own value; null for the policy's."
    )
    audit: Audit | None = Field(None, description="Its own rates; null for the policy's.")
    tripped: bool | None = Field(None, description="Ignored.")

    def as_state(self) -> GateState:
        """Return what is listed of the gate for the service."""
        threshold = self.threshold
        return GateState(
            self.value,
            # A certified value may be sent back; the service looks it up again.
            threshold=None if threshold is None or threshold.certificate_id else threshold.value,
            audits=None if self.audit is None else self.audit.as_plan(),
        )


class PolicyMembers(RequestBody):
    """What is asked of a policy and shown of it alike."""

    target_accuracy: Annotated[
        Number,
        _inner_rate(
            "Right among what is sent, in %",
            "The share of automatically sent label sets that must be right as a whole.",
        ),
    ] = Field(
        routing.DEFAULT_TARGET_ACCURACY,
        description="Share of sent sets that must be right, in (0, 1).",
    )
    risk: Annotated[
        Number,
        _inner_rate(
            "Risk of a certificate, in %", "How often it may be wrong: 10 % means once in ten."
        ),
    ] = Field(
        routing.DEFAULT_RISK,
        description="Chance that a certificate may be wrong, in (0, 1).",
    )
    auto_send: Annotated[
        bool,
        Input(
            "Send automatically",
            "If off, every document is reviewed, whatever its confidence.",
            "tick",
        ),
    ] = True
    threshold: Threshold
    audit: Audit = Field(default_factory=Audit)
    overlap_rate: Annotated[Number, _rate("Overlap, in % of reviews")] = Field(
        0.0,
        description="Share of reviews that a second person does without seeing the first.",
    )
    gold_reread_rate: Annotated[Number, _rate("Audits read again, in %")] = Field(
        0.0,
        description="Share of audits that a lead reads again although they agree with the model; "
        "most of them where sets may be sent.",
    )
    confidence_floor: Annotated[Number | None, Input("Minimum confidence, from 0 to 1")] = Field(
        None, description="Nothing below it is sent, whatever the threshold."
    )
    rules: Annotated[list[RuleBody], FewFaults] = Field(
        default_factory=list,
        description="What is never sent; the first rule that a document breaks is named.",
    )
    segment_by: Annotated[
        str | None,
        Input("Segments by", "A field of the metadata, such as site, or text_length."),
    ] = Field(
        None,
        description="Field of the metadata, or `text_length`, whose values divide the documents "
        "into segments, each with a threshold, certificate and breaker; null: all together.",
    )
    segment_bounds: Annotated[
        list[int],
        Input(
            "Lengths at which bands begin",
            "For text_length, in characters: 500, 2000.",
            when=("segment_by", TEXT_LENGTH),
        ),
    ] = Field(
        default_factory=list,
        max_length=MOST_SEGMENTS,
        description="Of `text_length`: characters at which the bands after the first one begin.",
    )
    retrain: Annotated[
        Literal["never", "propose", "automatic"],
        Input("When there are enough new answers", "", "radio", _RETRAINED),
    ] = Field(
        "automatic",
        description="At 60 answers, and at 1.4 times as many again, if no model serves or one "
        "that learnt from answers alone: `propose` trains and registers a model; `automatic` also "
        "activates it while there is no threshold, if it ranks better than the most frequent sets; "
        "`never` does nothing.",
    )
    most_segments: Annotated[int, Input("Segments, at most", required=True)] = Field(
        10,
        description="Number of segments, with `other`, that share the risk equally, in the order "
        "of appearance; values without room are `other`. With 1, one certificate is for all "
        "documents, and values that first appear after it wait.",
    )


class PolicyRequest(PolicyMembers):
    """The whole routing policy; members with a default may be omitted."""

    tripped: bool | None = Field(None, description="Ignored, as is `version`.")
    version: str | None = Field(
        None, description="Ignored, so that what was read can be sent back; use `If-Match`."
    )
    segments: list[SegmentRequest] = Field(
        default_factory=list,
        max_length=MOST_SEGMENTS,
        description="If empty, those that are known stay; otherwise these and what appears later.",
    )
    reason: Annotated[str | None, Input("Reason", widget="textarea")] = Field(
        None,
        max_length=1000,
        description="Why the policy changes, for the audit trail; required if checks contradict "
        "its target.",
    )

    def as_change(self) -> PolicyChange:
        """Return the change for the service."""
        return PolicyChange(
            target_accuracy=self.target_accuracy,
            risk=self.risk,
            auto_send=self.auto_send,
            threshold_mode=ThresholdMode(self.threshold.mode),
            # Clients may send back a certified value; the service looks it up again.
            threshold=None
            if self.threshold.mode == "certified" and self.threshold.certificate_id
            else self.threshold.value,
            confidence_floor=self.confidence_floor,
            audits=self.audit.as_plan(self.overlap_rate, self.gold_reread_rate),
            rules=[rule.model_dump(exclude_none=True) for rule in self.rules],
            reason=self.reason,
            retrain=RetrainMode(self.retrain),
            segment_by=SegmentBy()
            if self.segment_by is None
            else SegmentBy(self.segment_by, tuple(self.segment_bounds), self.most_segments),
            segments=tuple(segment.as_state() for segment in self.segments),
        )


class SegmentBody(Body):
    """One segment, and what is in force for it."""

    value: str
    threshold: Threshold | None = Field(description="null for the policy's, if that is `fixed`.")
    audit: Audit | None = Field(description="null for the policy's.")
    tripped: bool

    @classmethod
    def of(cls, gate: routing.Gate) -> Self:
        """Return the body for the segment of a gate."""
        state, certified = gate.state, gate.policy.certified
        return cls(
            value=state.value,
            threshold=Threshold.of(gate) if certified or state.threshold is not None else None,
            audit=None if state.audits is None else Audit.of(state.audits),
            tripped=gate.tripped,
        )


class PolicyBody(PolicyMembers):
    """The routing policy in force."""

    model_config = ConfigDict(json_schema_serialization_defaults_required=True)

    version: str
    tripped: bool = Field(
        description="The breaker keeps everything, or a segment, from being sent: see "
        "`/v1/admin/breaker`."
    )
    segments: list[SegmentBody] = Field(description="In the order of appearance, `other` last.")

    @classmethod
    def of(cls, policy: routing.Policy) -> Self:
        """Return the body for a policy."""
        by = policy.segment_by
        return cls(
            version=policy.version,
            tripped=any(gate.tripped for gate in policy.gates),
            target_accuracy=policy.target_accuracy,
            risk=policy.risk,
            auto_send=policy.auto_send,
            threshold=Threshold.of(policy.whole)
            if policy.whole
            else Threshold(mode=policy.threshold_mode.value, value=policy.fixed_threshold),
            audit=Audit.of(policy.audits),
            overlap_rate=policy.audits.overlap_rate,
            gold_reread_rate=policy.audits.gold_reread_rate,
            confidence_floor=policy.confidence_floor,
            rules=[RuleBody.model_validate(rule.declared()) for rule in policy.rules],
            segment_by=by.field,
            segment_bounds=[*by.bounds],
            retrain=policy.retrain.value,
            most_segments=by.most,
            segments=[SegmentBody.of(policy.gate_named(value)) for value in policy.values],
        )
