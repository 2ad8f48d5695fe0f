r"""Explicit features of a Gaussian kernel, for non-linear effects.

.. math:: k(x, z) = \exp\big(-\gamma \lVert x - z \rVert^2 / d\big)

A document is described by its kernel with some training documents, the landmarks, transformed so
that dot products approximate the kernel (Nyström) up to a shift: the training documents' features
have mean zero, so that none duplicates an intercept. With every document a
landmark, :math:`\lVert \phi(x) - \phi(z) \rVert^2 = 2 - 2 k(x, z)` on the training documents.
"""

from typing import Self

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray

from setwise.models.estimator import Estimator
from setwise.models.parameters import check_parameters
from setwise.models.storage.fields import StoredArray, StoredParameters
from setwise.models.storage.state import StoredPart

# Directions of the landmarks' kernel matrix with less than this share of its largest eigenvalue
# carry rounding only.
_LEAST_EIGENVALUE = 1e-6


class KernelMap(StoredPart, Estimator):
    r"""Kernel features.

    Parameters
    ----------
    gamma : float, default 0.5
        Width :math:`\gamma`, positive, relative to the mean squared difference of the features,
        which should be in units of their deviation.
    n_landmarks : int, default 1000
        Maximum number of landmarks.
    random_state : int
        Seed of the landmarks.

    References
    ----------
    .. [1] C. Williams and M. Seeger, "Using the Nyström Method to Speed Up Kernel Machines",
       NIPS 2000.

    Examples
    --------
    >>> X = sp.csr_array(np.array([[0.0, 0.0], [1.0, 0.0], [1.0, 2.0]], dtype=np.float32))
    >>> phi = KernelMap(gamma=0.5).fit(X).transform(X).toarray()
    >>> apart = ((phi[:, None] - phi) ** 2).sum(axis=2)
    >>> squares = np.array([[0, 1, 5], [1, 0, 4], [5, 4, 0]])
    >>> np.allclose(apart, 2 - 2 * np.exp(-0.5 / 2 * squares), atol=1e-6)
    True
    """

    landmarks_: NDArray[np.float32]  # (n_landmarks, n_features)
    turn_: NDArray[np.float32]  # (n_landmarks, n_kernel_features)
    mean_: NDArray[np.float32]  # (n_kernel_features,)
    stored = (
        StoredParameters("", {"gamma": (0.0, 1e9)}),
        StoredArray("landmarks", "landmarks_", np.float32, ("landmarks", "features")),
        StoredArray("turn", "turn_", np.float32, ("landmarks", "described")),
        StoredArray("mean", "mean_", np.float32, ("described",)),
    )

    def __init__(self, gamma: float = 0.5, n_landmarks: int = 1000, random_state: int = 0) -> None:
        self.gamma = gamma
        self.n_landmarks = n_landmarks
        self.random_state = random_state

    def fit(self, X: sp.csr_array) -> Self:
        """Draw landmarks from X (n, n_features) and factorise their kernel."""
        check_parameters(self)
        n = X.shape[0]
        rows = np.random.default_rng(self.random_state).permutation(n)[: self.n_landmarks]
        self.landmarks_ = X[np.sort(rows)].toarray().astype(np.float32)
        values, vectors = np.linalg.eigh(self._kernel(self.landmarks_))
        informative = values > _LEAST_EIGENVALUE * values[-1]
        # Fix the signs, which eigenvectors leave open.
        signs = np.sign(vectors[np.abs(vectors).argmax(axis=0), np.arange(len(values))])
        self.turn_ = (vectors * signs / np.sqrt(np.maximum(values, values[-1] * 1e-12)))[
            :, informative
        ].astype(np.float32)
        self.mean_ = np.asarray((self._kernel(X.toarray()) @ self.turn_).mean(axis=0), np.float32)
        return self

    def transform(self, X: sp.csr_array) -> sp.csr_array:
        """Return the kernel features of rows.

        A float32 csr_array (n, n_kernel_features) that stores every entry, including zeros.
        """
        described = (self._kernel(X.toarray()) @ self.turn_ - self.mean_).astype(np.float32)
        n, d = described.shape
        columns = np.tile(np.arange(d, dtype=np.int32), n)
        indptr = np.arange(0, n * d + 1, d, dtype=np.int32)
        return sp.csr_array((described.ravel(), columns, indptr), shape=(n, d))

    def _kernel(self, rows: NDArray[np.float32]) -> NDArray[np.float64]:
        a, b = rows.astype(np.float64), self.landmarks_.astype(np.float64)
        squares = (a**2).sum(axis=1)[:, None] + (b**2).sum(axis=1) - 2.0 * (a @ b.T)
        kernel: NDArray[np.float64] = np.exp(-self.gamma / a.shape[1] * np.maximum(squares, 0.0))
        return kernel
