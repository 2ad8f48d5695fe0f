"""All finished verbs in one place, for the edges that offer them to people and programs."""

from dataclasses import dataclass

from service.use_cases.administer import (
    ActivateModel,
    AddModel,
    Authenticate,
    ChangePolicy,
    CreateKey,
    GetPolicy,
    ListKeys,
    ListModels,
    RevokeKey,
)
from service.use_cases.labels import SearchLabels
from service.use_cases.predict import GetPrediction, ListPredictions, Predict
from service.use_cases.report import Summary
from service.use_cases.review import (
    ClaimReview,
    CompleteReview,
    ExpireLeases,
    ExtendLease,
    GetReview,
    ListReviews,
    ReleaseReview,
    SkipReview,
)


@dataclass(frozen=True)
class Verbs:
    """What the service can do, each verb with what it needs."""

    predict: Predict
    get_prediction: GetPrediction
    list_predictions: ListPredictions
    claim_review: ClaimReview
    extend_lease: ExtendLease
    release_review: ReleaseReview
    skip_review: SkipReview
    complete_review: CompleteReview
    get_review: GetReview
    list_reviews: ListReviews
    expire_leases: ExpireLeases
    search_labels: SearchLabels
    summary: Summary
    get_policy: GetPolicy
    change_policy: ChangePolicy
    add_model: AddModel
    list_models: ListModels
    activate_model: ActivateModel
    create_key: CreateKey
    list_keys: ListKeys
    revoke_key: RevokeKey
    authenticate: Authenticate
