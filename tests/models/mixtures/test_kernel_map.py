"""Kernel features: distances are the kernel's, on landmarks exactly, elsewhere nearly."""

import numpy as np
import pytest
import scipy.sparse as sp

from setwise.models.mixtures.kernel_map import KernelMap


def rows(n: int, seed: int, d: int = 6) -> sp.csr_array:
    return sp.csr_array(np.random.default_rng(seed).normal(size=(n, d)).astype(np.float32))


def gaussian(a: sp.csr_array, b: sp.csr_array, gamma: float) -> np.ndarray:
    """The kernel by its definition."""
    squares = ((a.toarray()[:, None, :] - b.toarray()[None, :, :]) ** 2).mean(axis=2)
    return np.exp(-gamma * squares)


def apart(a: np.ndarray, b: np.ndarray) -> np.ndarray:
    """Squared distances, which are 2 - 2 k(x, z) for the features of a kernel."""
    return ((a[:, None, :] - b[None, :, :]) ** 2).sum(axis=2)


@pytest.mark.parametrize("gamma", [0.1, 0.5, 2.0])
def test_distances_are_those_of_the_kernel_where_all_rows_are_landmarks(gamma: float) -> None:
    X = rows(80, 0)
    phi = KernelMap(gamma, 80).fit(X).transform(X).toarray()
    np.testing.assert_allclose(apart(phi, phi), 2.0 - 2.0 * gaussian(X, X, gamma), atol=4e-3)
    np.testing.assert_allclose(phi.mean(axis=0), 0.0, atol=1e-5)


def test_more_landmarks_come_nearer_to_the_kernel() -> None:
    X, new = rows(300, 2), rows(40, 3)
    exact = 2.0 - 2.0 * gaussian(new, new, 0.5)
    errors = []
    for n_landmarks in (10, 60, 300):
        phi = KernelMap(0.5, n_landmarks).fit(X).transform(new).toarray()
        errors.append(np.abs(apart(phi, phi) - exact).mean())
    assert errors[0] > errors[1] > errors[2]
    assert errors[2] < 0.04


def test_equal_rows_and_a_single_one_are_harmless() -> None:
    same = sp.csr_array(np.ones((5, 3), dtype=np.float32))
    phi = KernelMap(0.5, 5).fit(same).transform(same).toarray()
    np.testing.assert_allclose(phi, 0.0, atol=1e-5)
    alone = KernelMap(0.5, 9).fit(same[:1])
    assert alone.transform(rows(2, 0, 3)).shape == (2, 1)


def test_a_state_of_another_map_is_refused() -> None:
    kernel = KernelMap(0.3, 12, random_state=4).fit(rows(30, 5))
    arrays, settings = kernel.get_state()
    with pytest.raises(ValueError, match="landmarks"):
        KernelMap.from_state(arrays, settings, features=7)
    with pytest.raises(ValueError, match="turn"):
        KernelMap.from_state({**arrays, "turn": arrays["turn"][:-1]}, settings, features=6)
