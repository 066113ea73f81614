"""Code that others wrote for the array API, on tensors: the values it gives NumPy, and gradients through it."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import array_api_extra as xpx
import einops
import einops.array_api as rearranging
import numpy as np
import pytest
import sklearn
from scipy import special, stats
from sklearn import metrics, preprocessing

import micrograd_core as mg
from micrograd_core import Tensor, gradcheck, gradgradcheck, vmap

RNG = np.random.default_rng(0)
X, Y = RNG.uniform(0.2, 2, (3, 4)), RNG.uniform(0.2, 2, (3, 4))

Function = Callable[..., Any]

# On tensors and on arrays alike: what is called, and on how many operands.
BOTH: dict[str, tuple[Function, int]] = {
    "scipy.special.logsumexp": (lambda x: special.logsumexp(x, axis=1), 1),
    "scipy.special.logsumexp, weighted": (lambda x, b: special.logsumexp(x, axis=1, b=b), 2),
    "scipy.special.softmax": (lambda x: special.softmax(x, axis=1), 1),
    "scipy.special.log_softmax": (lambda x: special.log_softmax(x, axis=1), 1),
    "scipy.special.xlogy": (special.xlogy, 2),
    "scipy.stats.zscore": (lambda x: stats.zscore(x, axis=1), 1),
    "scipy.stats.zmap": (stats.zmap, 2),
    "scipy.stats.moment": (lambda x: stats.moment(x, 3, axis=0), 1),
    "scipy.stats.skew": (lambda x: stats.skew(x, axis=1), 1),
    "scipy.stats.kurtosis": (lambda x: stats.kurtosis(x, axis=1), 1),
    "scipy.stats.gmean": (lambda x: stats.gmean(x, axis=1), 1),
    "scipy.stats.hmean": (lambda x: stats.hmean(x, axis=1), 1),
    "scipy.stats.pmean": (lambda x: stats.pmean(x, 3, axis=1), 1),
    "scipy.stats.sem": (lambda x: stats.sem(x, axis=1), 1),
    "scipy.stats.circmean": (lambda x: stats.circmean(x, axis=1), 1),
    "scipy.stats.directional_stats": (lambda x: stats.directional_stats(x).mean_direction, 1),
    "sklearn mean_squared_error": (lambda x, y: metrics.mean_squared_error(x, y, multioutput="raw_values"), 2),
    "sklearn mean_absolute_error": (lambda x, y: metrics.mean_absolute_error(x, y, multioutput="raw_values"), 2),
    "sklearn mean_pinball_loss": (lambda x, y: metrics.mean_pinball_loss(x, y, multioutput="raw_values"), 2),
    "sklearn r2_score": (lambda x, y: metrics.r2_score(x, y, multioutput="raw_values"), 2),
    "sklearn euclidean_distances": (metrics.pairwise.euclidean_distances, 2),
    "sklearn cosine_similarity": (metrics.pairwise.cosine_similarity, 2),
    "sklearn linear_kernel": (metrics.pairwise.linear_kernel, 2),
    "sklearn polynomial_kernel": (metrics.pairwise.polynomial_kernel, 2),
    "sklearn rbf_kernel": (metrics.pairwise.rbf_kernel, 2),
    "sklearn sigmoid_kernel": (metrics.pairwise.sigmoid_kernel, 2),
    "sklearn additive_chi2_kernel": (metrics.pairwise.additive_chi2_kernel, 2),
    "sklearn paired_euclidean_distances": (metrics.pairwise.paired_euclidean_distances, 2),
    "sklearn MinMaxScaler": (lambda x: preprocessing.MinMaxScaler().fit_transform(x), 1),
    "sklearn MaxAbsScaler": (lambda x: preprocessing.MaxAbsScaler().fit_transform(x), 1),
    "sklearn Normalizer": (lambda x: preprocessing.Normalizer().fit_transform(x), 1),
    "sklearn KernelCenterer": (lambda x: preprocessing.KernelCenterer().fit_transform(x[:, :3]), 1),
    "sklearn PolynomialFeatures": (lambda x: preprocessing.PolynomialFeatures().fit_transform(x), 1),
    "xpx.cov": (xpx.cov, 1),
    "xpx.kron": (xpx.kron, 2),
    "xpx.sinc": (xpx.sinc, 1),
    "xpx.nan_to_num": (xpx.nan_to_num, 1),
    "xpx.pad": (lambda x: xpx.pad(x, 1), 1),
    "xpx.create_diagonal": (lambda x: xpx.create_diagonal(x[0, ...]), 1),
    "xpx.atleast_nd": (lambda x: xpx.atleast_nd(x, ndim=3), 1),
    "xpx.at, set": (lambda x: xpx.at(x * 1)[0, ...].set(x[1, ...]), 1),
    "xpx.at, add": (lambda x: xpx.at(x * 1)[0, ...].add(x[1, ...]), 1),
}

# Where NumPy arrays take another function: on tensors; on arrays; on how many operands.
APART: dict[str, tuple[Function, Function, int]] = {
    "einops.rearrange": (
        lambda x: rearranging.rearrange(x, "a (b c) -> b (a c)", b=2),
        lambda x: einops.rearrange(x, "a (b c) -> b (a c)", b=2),
        1,
    ),
    "einops.reduce, mean": (
        lambda x: rearranging.reduce(x, "a (b c) -> b", "mean", b=2),
        lambda x: einops.reduce(x, "a (b c) -> b", "mean", b=2),
        1,
    ),
    "einops.reduce, max": (
        lambda x: rearranging.reduce(x, "a b -> b", "max"),
        lambda x: einops.reduce(x, "a b -> b", "max"),
        1,
    ),
    "einops.repeat": (
        lambda x: rearranging.repeat(x, "a b -> a r b", r=2),
        lambda x: einops.repeat(x, "a b -> a r b", r=2),
        1,
    ),
    "einops.pack": (lambda x, y: rearranging.pack([x, y], "* b")[0], lambda x, y: einops.pack([x, y], "* b")[0], 2),
    "einops.unpack": (
        lambda x: rearranging.unpack(x, [[1], [3]], "a *")[1],
        lambda x: einops.unpack(x, [[1], [3]], "a *")[1],
        1,
    ),
}

CASES = {**{name: (f, f, count) for name, (f, count) in BOTH.items()}, **APART}


@pytest.fixture(autouse=True)
def _dispatch() -> Iterator[None]:
    with sklearn.config_context(array_api_dispatch=True):
        yield


@pytest.mark.parametrize("name", CASES)
def test_values_and_gradients(name: str) -> None:
    ours, theirs, count = CASES[name]
    arrays = [X, Y][:count]
    value = ours(*(Tensor(each) for each in arrays))
    assert isinstance(value, Tensor)
    assert value.requires_grad
    np.testing.assert_allclose(value.detach().numpy(), theirs(*arrays), rtol=1e-9)
    assert gradcheck(ours, [Tensor(each) for each in arrays])


@pytest.mark.parametrize("name", ["scipy.special.logsumexp", "scipy.stats.skew", "sklearn rbf_kernel", "xpx.cov"])
def test_second_derivatives(name: str) -> None:
    ours, _, count = CASES[name]
    assert gradgradcheck(ours, [Tensor(each) for each in (X, Y)[:count]])


def test_a_batch_of_somebody_elses_function() -> None:
    found = vmap(lambda row: rearranging.reduce(row, "(a b) -> a", "mean", a=2))(mg.asarray(X))
    np.testing.assert_allclose(found.numpy(), X.reshape(3, 2, 2).mean(2))


def test_what_is_written_in_c_says_what_to_do() -> None:
    with pytest.raises(TypeError, match=r"x\.detach\(\)"):
        special.expit(Tensor(X))
    np.testing.assert_allclose(np.asarray(special.expit(mg.asarray(X))), special.expit(X))
