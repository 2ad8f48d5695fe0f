"""Binary relevance in two steps: clusters of labels, then the labels of the likeliest clusters.

A label's classifier learns only from the documents of its cluster, so that training costs less with
many labels. A prediction costs no less than with binary relevance: the coefficients are read by
feature, all labels at once, and each label gets a score.
"""

import math
import warnings
from dataclasses import replace
from typing import Any, Self

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray
from scipy.special import expit, log_expit, logit
from threadpoolctl import threadpool_limits

from setwise.models.compilation import njit
from setwise.models.data.rows import SparseRows
from setwise.models.estimator import draws_of
from setwise.models.labels.binary_relevance import BinaryRelevance, Penalty, score_rows
from setwise.models.labels.label_calibrator import LOGIT_LIMIT
from setwise.models.labels.linear import LinearFit, Start
from setwise.models.labels.ranking import rank_largest
from setwise.models.labels.scaling import Scheme
from setwise.models.parallel import engine_for
from setwise.models.storage.fields import StoredArray, StoredParameters, StoredPiece
from setwise.models.storage.state import Lengths

# Labels are clustered by this many dimensions of this many documents: with half or twice as many
# dimensions fewer labels are found.
_DIMENSIONS = 128
_DOCUMENTS = 20_000
_ROUNDS = 20  # of k-means; few labels still move after ten
# Power of a cluster's probability in a label's. The product of both has 1, but two shrunken factors
# rank the labels of less likely clusters too low.
CLUSTER_POWER = 0.5
_BY_LABEL = ("intercept", "alpha", "objective", "n_iter", "converged")


class ClusteredRelevance(BinaryRelevance):
    """One logistic regression per cluster of labels, and one per label within its cluster.

    A label's probability is its own among the documents of its cluster, which have a label of it,
    times the root of its cluster's. Beyond the likeliest clusters of a document, the labels of a
    cluster share one probability.

    Parameters
    ----------
    clusters : int or array-like of shape (n_labels,), optional
        How many clusters of similar labels to make, by default the square root of the number of
        labels; or each label's cluster, numbered from 0 without gaps.
    n_searched : int
        Clusters of each document whose labels are told apart.
    alpha : "auto", float or array-like of shape (n_labels,)
        Penalty of a label's classifier among the documents of its cluster, see `BinaryRelevance`.
    cluster_alpha : "auto", float or array-like of shape (n_clusters,), optional
        Penalty of the clusters' classifiers: ``alpha`` by default, ``"auto"`` if that is an array.
    l1_ratio, weighting, tol, max_iter, validation_fraction, n_jobs, random_state
        As for `BinaryRelevance`; ``random_state`` also seeds the clusters.

    References
    ----------
    .. [1] Y. Prabhu, A. Kag, S. Harsola, R. Agrawal and M. Varma, "Parabel: Partitioned Label
       Trees for Extreme Classification with Application to Dynamic Search Advertising", WWW 2018,
       section 3: clusters of labels by mean features. The tree here has two levels.

    Examples
    --------
    >>> X = np.repeat(np.eye(4), 20, axis=0)
    >>> model = ClusteredRelevance(alpha=1e-4).fit(X, X)
    >>> model.predict(np.eye(4)).diagonal().tolist(), np.unique(model.cluster_).tolist()
    ([1, 1, 1, 1], [0, 1])
    """

    cluster_: NDArray[np.int32]  # (n_labels,) cluster of each label
    clusters_: BinaryRelevance  # scores clusters from weighted features
    members_: NDArray[np.int64]  # (n_labels,) the labels, cluster by cluster
    bounds_: NDArray[np.int64]  # (n_clusters + 1,) where the clusters begin in `members_`
    # (n_clusters,) logit of the mean probability of a label among the documents of its cluster.
    usual_: NDArray[np.float64]
    cluster_start: Start | None = None
    stored = (
        StoredParameters("params", {"n_searched": (1, math.inf)}),
        *(entry for entry in BinaryRelevance.stored if not isinstance(entry, StoredParameters)),
        StoredPiece(
            "clusters_",
            BinaryRelevance,
            "clusters.",
            "clusters",
            {"features": "features", "labels": "clusters"},
        ),
        StoredArray("cluster", "cluster_", np.int32, ("labels",), picks="clusters"),
    )

    def __init__(
        self,
        *,
        clusters: int | NDArray[np.int32] | None = None,
        n_searched: int = 10,
        alpha: Penalty = "auto",
        cluster_alpha: Penalty | None = None,
        l1_ratio: float = 0.7,
        weighting: Scheme = "auto",
        tol: float = 1e-4,
        max_iter: int = 50,
        validation_fraction: float = 0.2,
        n_jobs: int | None = None,
        random_state: int | np.random.RandomState | None = 0,
    ) -> None:
        super().__init__(
            alpha=alpha,
            l1_ratio=l1_ratio,
            weighting=weighting,
            tol=tol,
            max_iter=max_iter,
            validation_fraction=validation_fraction,
            n_jobs=n_jobs,
            random_state=random_state,
        )
        self.clusters = clusters
        self.n_searched = n_searched
        self.cluster_alpha = cluster_alpha

    def _fit_labels(
        self, X: sp.csr_array, Y: sp.csr_array, weight: NDArray[np.float64] | None
    ) -> LinearFit:
        """Fit the clusters, then each one's labels on its documents."""
        n_labels = Y.shape[1]
        self.cluster_ = self._clusters(X, Y)
        count = int(self.cluster_.max()) + 1
        members = [np.flatnonzero(self.cluster_ == cluster) for cluster in range(count)]
        membership = np.ones(n_labels), self.cluster_, np.arange(n_labels + 1)
        held = sp.csc_array(Y @ sp.csr_array(membership, shape=(n_labels, count)))
        held.data[:] = 1.0
        held.sort_indices()
        inherited = "auto" if np.ndim(self.alpha) else self.alpha
        clusters = BinaryRelevance(
            alpha=inherited if self.cluster_alpha is None else self.cluster_alpha,
            l1_ratio=self.l1_ratio,
            weighting="none",
            tol=self.tol,
            max_iter=self.max_iter,
            validation_fraction=self.validation_fraction,
            n_jobs=self.n_jobs,
            random_state=self.random_state,
        )
        clusters.start = self.cluster_start
        self.clusters_ = clusters.fit(X, held, weight)
        rows = np.split(held.indices, held.indptr[1:-1])
        seed = draws_of(self.random_state).randint(np.iinfo(np.int32).max)
        model = self.unfitted().set_params(n_jobs=1, random_state=seed)
        model.start = self.start
        shared = (model, X, Y, weight)
        fits = engine_for(self.n_jobs).run(
            _fit_cluster, shared, list(zip(members, rows, strict=True))
        )
        back = np.argsort(np.concatenate(members))
        coef = sp.csr_array(sp.vstack([fit.coef for fit in fits], format="csr")[back])
        return LinearFit(
            coef,
            *(np.concatenate([getattr(fit, name) for fit in fits])[back] for name in _BY_LABEL),
        )

    def fit_within(
        self,
        X: sp.csr_array,
        Y: sp.csr_array,
        weight: NDArray[np.float64] | None,
        labels: NDArray[np.int64],
    ) -> LinearFit:
        """Fit some labels on the documents of their cluster, without the features that these lack.

        Weighted features (n, d), all label sets (n, L) and weights (n,) of these documents.
        """
        alpha = np.asarray(self.alpha)[labels] if np.ndim(self.alpha) else self.alpha
        used, columns = np.unique(X.indices, return_inverse=True)
        narrow = sp.csr_array((X.data, columns, X.indptr), shape=(X.shape[0], len(used)))
        start = self.start
        if start is not None:
            start = Start(start.coef[labels][:, used], start.intercept[labels])
        fit = self._solve(narrow, Y[:, labels], weight, alpha, start)
        wide = sp.csr_array(
            (fit.coef.data, used[fit.coef.indices], fit.coef.indptr),
            shape=(len(labels), X.shape[1]),
        )
        return replace(fit, coef=wide)

    def _clusters(self, X: sp.csr_array, Y: sp.csr_array) -> NDArray[np.int32]:
        n_labels = Y.shape[1]
        count = round(n_labels**0.5) if self.clusters is None else self.clusters
        if isinstance(count, int):
            if not 1 <= count <= n_labels:
                raise ValueError(f"clusters must be 1 to {n_labels}, the labels; it is {count}")
            return label_clusters(X, Y, count, self.random_state)
        clusters = np.asarray(count, dtype=np.int32)
        numbers = np.unique(clusters)
        if clusters.shape != (n_labels,) or not np.array_equal(numbers, np.arange(len(numbers))):
            raise ValueError("clusters must number a cluster for each label, without gaps")
        return clusters

    def for_folds(self) -> Self:
        """Return an unfitted copy with the penalties and the clusters of this one."""
        copy = super().for_folds()
        copy.clusters, copy.cluster_alpha = self.cluster_, self.clusters_.alpha_
        copy.cluster_start = self.clusters_.for_folds().start
        return copy

    def _keep(self, fit: LinearFit) -> None:
        super()._keep(fit)
        self.n_iter_ = fit.n_iter + self.clusters_.n_iter_[self.cluster_]  # those of both steps
        self.arrange()

    def arrange(self) -> None:
        """Set what follows from the clusters and the intercepts."""
        sizes = np.bincount(self.cluster_, minlength=self.clusters_.intercept_.size)
        self.bounds_ = np.concatenate([[0], np.cumsum(sizes)])
        self.members_ = np.argsort(self.cluster_, kind="stable")
        usual = np.bincount(self.cluster_, expit(self.intercept_), len(sizes))
        mean = logit(usual / np.maximum(sizes, 1))
        self.usual_ = np.clip(mean, -LOGIT_LIMIT, LOGIT_LIMIT)

    def added_by_features(self) -> sp.csr_array:
        """Return what each feature adds to log-odds: the label's, and a share of its cluster's."""
        of_clusters = sp.csr_array(self.clusters_.coef_)[self.cluster_]
        return sp.csr_array(self.coef_ + CLUSTER_POWER * of_clusters)

    def score_rows(self, rows: SparseRows) -> NDArray[np.float64]:
        """Return what `decision_function` does, without checking the columns."""
        weighted = self.weighting_.weigh(rows)
        logits = score_rows(weighted, self.weights_)
        of_clusters = score_rows(weighted, self.clusters_.weights_)
        _multiply(
            logits,
            of_clusters,
            self._tempered(of_clusters),
            self.cluster_,
            self.members_,
            self.bounds_,
            self.usual_,
            min(self.n_searched, len(self.usual_)),
        )
        return logits

    def _tempered(self, logits: NDArray[np.float64]) -> NDArray[np.float64]:
        """Return the logits of the powers of the clusters' probabilities."""
        log = CLUSTER_POWER * log_expit(np.clip(logits, -LOGIT_LIMIT, LOGIT_LIMIT))
        return np.asarray(log - np.log(-np.expm1(log)))

    @classmethod
    def restored(cls, fields: dict[str, Any], lengths: Lengths) -> Self:
        """Rebuild the fitted classifiers."""
        model = super().restored(fields, lengths)
        model.cluster_, model.clusters_ = fields["cluster"], fields["clusters_"]
        model.arrange()
        return model


def _fit_cluster(
    shared: tuple[ClusteredRelevance, sp.csr_array, sp.csr_array, NDArray[np.float64] | None],
    part: tuple[NDArray[np.int64], NDArray[np.int32]],
) -> LinearFit:
    """Fit the labels of a cluster on its documents, or on all if it has none."""
    model, X, Y, weight = shared
    labels, rows = part
    # In cross-fitting all documents of a cluster may be held out.
    used: NDArray[np.integer[Any]] = rows if len(rows) else np.arange(X.shape[0])
    return model.fit_within(X[used], Y[used], None if weight is None else weight[used], labels)


def label_clusters(
    X: sp.csr_array,
    Y: sp.csr_array,
    count: int,
    random_state: int | np.random.RandomState | None = 0,
) -> NDArray[np.int32]:
    """Return a cluster for each label, numbered from 0 without gaps.

    Labels with similar mean features share a cluster: k-means on the directions of the means, in
    the space of the documents' largest singular vectors.

    Parameters
    ----------
    X : csr_array of shape (n_samples, n_features)
    Y : csr_array of shape (n_samples, n_labels)
    count : int
        Clusters of labels that occur; fewer are found if labels do not differ. The other labels
        make the first cluster, which no search for likely ones wastes a place on.
    random_state : int, RandomState or None
    """
    # Imported here, because they load slowly and a model that predicts needs none of them.
    from sklearn.cluster import KMeans  # noqa: PLC0415
    from sklearn.decomposition import TruncatedSVD  # noqa: PLC0415
    from sklearn.exceptions import ConvergenceWarning  # noqa: PLC0415
    from sklearn.preprocessing import normalize  # noqa: PLC0415

    random = draws_of(random_state)
    used = np.flatnonzero(np.bincount(Y.indices, minlength=Y.shape[1]))
    cluster = np.zeros(Y.shape[1], dtype=np.int32)
    if len(used) < Y.shape[1]:
        cluster[used] = 1
    if len(used) == 0:
        return cluster
    means = sp.csr_array(Y[:, used].T.astype(np.float32) @ X)
    # Sums in another order could move a label: one thread gives equal clusters on all machines.
    with threadpool_limits(1):
        if X.shape[1] > _DIMENSIONS:
            sample = random.permutation(X.shape[0])[:_DOCUMENTS]
            projection = TruncatedSVD(_DIMENSIONS, random_state=random).fit(X[sample])
            points = normalize(projection.transform(means))
        else:
            points = normalize(means.toarray())
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", ConvergenceWarning)  # labels that do not differ
            fitted = KMeans(
                min(count, len(used)), n_init=1, max_iter=_ROUNDS, random_state=random
            ).fit(points)
    _, numbers = np.unique(fitted.labels_, return_inverse=True)
    cluster[used] += numbers.astype(np.int32)
    return cluster


@njit(cache=True, nogil=True)
def _multiply(  # noqa: PLR0917  # compiled functions take arrays by position
    logits: NDArray[np.float64],
    of_clusters: NDArray[np.float64],
    tempered: NDArray[np.float64],
    cluster: NDArray[np.int32],
    members: NDArray[np.int64],
    bounds: NDArray[np.int64],
    usual: NDArray[np.float64],
    n_searched: int,
) -> None:  # pragma: no cover - compiled
    """Turn the logits (n, L) of labels within their clusters into logits of labels, in place."""
    place = np.empty(n_searched, dtype=np.int64)
    tempered_logits = np.empty(len(cluster))
    shared = np.empty(len(usual))
    for i in range(len(logits)):
        rank_largest(of_clusters[i], place)
        for likely in place:
            for m in range(bounds[likely], bounds[likely + 1]):
                tempered_logits[m] = _both(tempered[i, likely], logits[i, members[m]])
        for k in range(len(usual)):
            shared[k] = _both(of_clusters[i, k], usual[k])
        for label in range(len(cluster)):
            logits[i, label] = shared[cluster[label]]
        for likely in place:
            for m in range(bounds[likely], bounds[likely + 1]):
                logits[i, members[m]] = tempered_logits[m]


@njit(cache=True, nogil=True)
def _both(a: float, b: float) -> float:  # pragma: no cover - compiled
    """Return the logit of the product of two probabilities, from their logits."""
    # The odds against both: e^-a + e^-b + e^-(a + b).
    largest = max(-a, -b, -a - b)
    odds = np.exp(-a - largest) + np.exp(-b - largest) + np.exp(-a - b - largest)
    return float(-largest - np.log(odds))
