"""Linear algebra and Fourier transforms: what the samples of the op table do not say."""

from __future__ import annotations

from contextlib import suppress
from typing import Any

import numpy as np
import pytest

from micrograd_core import Device, Tensor, asarray, fft, grad, gradcheck, gradgradcheck, linalg, real, value_and_grad
from micrograd_core.errors import DTypeError, GraphError, LinAlgError, ShapeError, UnsupportedOp


def symmetric(n: int = 3, dtype: str = "float64") -> Tensor:
    x = np.random.default_rng(0).normal(size=(n, n))
    return Tensor((x + x.T) / 2 + n * np.eye(n), dtype=dtype)


# ── several results ──────────────────────────────────────────────────────────────────────────────────────────


def test_results_have_the_names_of_the_standard() -> None:
    x = symmetric()
    assert linalg.eigh(x)._fields == ("eigenvalues", "eigenvectors")
    assert linalg.qr(x)._fields == ("Q", "R")
    assert linalg.slogdet(x)._fields == ("sign", "logabsdet")
    assert linalg.svd(x)._fields == ("U", "S", "Vh")
    values, vectors = linalg.eigh(x)
    np.testing.assert_allclose(((vectors * values) @ vectors.mT).detach().numpy(), x.detach().numpy(), atol=1e-12)


@pytest.mark.parametrize("used", ["U", "S", "Vh", "U S", "S Vh", "U Vh", "U S Vh"])
def test_any_results_may_be_used_or_not(used: str) -> None:
    def f(x: Tensor) -> Any:
        u, s, vh = linalg.svd(x, full_matrices=False)
        parts = {"U": u * u, "S": s, "Vh": vh * vh}
        return sum((parts[name].exp().sum() for name in used.split()), Tensor(0.0, dtype="float64") * x.sum())

    x = Tensor(np.random.default_rng(1).normal(size=(4, 3)), dtype="float64")
    assert gradcheck(f, x)
    assert gradgradcheck(f, x)


def test_results_used_several_times_add_up() -> None:
    x = symmetric()
    values, vectors = linalg.eigh(x)
    ((vectors * values) @ vectors.mT + (vectors * values * 2) @ vectors.mT).sum().backward()
    assert x.grad is not None
    np.testing.assert_allclose(x.grad.numpy(), np.full((3, 3), 3.0), atol=1e-10)


def test_results_are_swept_one_after_the_other_if_the_graph_is_retained() -> None:
    x = symmetric()
    values, vectors = linalg.eigh(x)
    values.sum().backward(retain_graph=True)
    np.testing.assert_allclose(x.grad.numpy(), np.eye(3), atol=1e-12)
    (vectors * vectors).sum().backward()
    np.testing.assert_allclose(x.grad.numpy(), np.eye(3), atol=1e-12)
    with pytest.raises(GraphError, match="already swept"):
        values.sum().backward()


def test_third_derivatives_go_through_results() -> None:
    def f(t: Tensor) -> Any:  # the eigenvalues of [[t, 1], [1, -t]] are ±sqrt(t² + 1)
        x = t * asarray([[1.0, 0.0], [0.0, -1.0]], dtype="float64") + asarray([[0.0, 1.0], [1.0, 0.0]], dtype="float64")
        return linalg.eigh(x).eigenvalues[1]

    t = 0.7
    expected = -3 * t * (t * t + 1) ** -2.5
    third = grad(grad(grad(f)))(Tensor(t, dtype="float64"))
    assert third.item() == pytest.approx(expected, rel=1e-9)


def test_a_write_to_the_matrix_is_noticed_after_the_fact() -> None:
    a, b = asarray(np.eye(2) * 2), Tensor([[1.0, 0.0], [0.0, 3.0]], dtype="float64")
    r = linalg.qr(a @ b).R
    a[0, 0] = 5.0
    with pytest.raises(GraphError, match=r"operand of matmul .* was written in place"):
        r.sum().backward()


def test_nothing_is_recorded_of_what_records_nothing() -> None:
    values, vectors = linalg.eigh(symmetric().detach())
    assert not values.requires_grad
    assert not vectors.requires_grad


# ── where derivatives end ────────────────────────────────────────────────────────────────────────────────────


@pytest.mark.filterwarnings("ignore:divide by zero", "ignore:invalid value")
def test_repeated_eigenvalues_have_a_gradient_but_their_vectors_do_not() -> None:
    x = Tensor(np.eye(3), dtype="float64")
    linalg.eigh(x).eigenvalues.sum().backward()
    assert x.grad.tolist() == np.eye(3).tolist()
    np.testing.assert_array_equal(grad(lambda x: linalg.svdvals(x).sum())(x).detach().numpy(), np.eye(3))
    assert grad(lambda x: linalg.eigh(x).eigenvectors[0, 0])(x).isnan().any()


def test_the_gradient_of_a_symmetric_matrix_is_symmetric() -> None:
    for f in (
        lambda x: linalg.cholesky(x)[2, 0],
        lambda x: linalg.eigh(x).eigenvectors[0, 1],
        lambda x: linalg.eigvalsh(x)[0],
    ):
        g = grad(f)(symmetric()).detach().numpy()
        np.testing.assert_allclose(g, g.T, atol=1e-12)


@pytest.mark.parametrize("name", ["U", "Vh"])
def test_vectors_that_complete_a_matrix_have_no_gradient(name: str) -> None:
    x = Tensor(np.random.default_rng(0).normal(size=(3, 2)), dtype="float64")
    with pytest.raises(GraphError, match=r"svd: .* shape \(3, 2\) .* full_matrices=False"):
        getattr(linalg.svd(x), name).sum().backward()
    linalg.svd(x).S.sum().backward()
    with pytest.raises(GraphError, match=r"qr: .* shape \(3, 2\) .* mode='reduced'"):
        linalg.qr(x, mode="complete").R.sum().backward()


@pytest.mark.parametrize("rank", [1, 2, 3])
def test_the_determinant_of_any_matrix_has_its_cofactors_as_gradient(rank: int) -> None:
    rng = np.random.default_rng(rank)
    x = Tensor(rng.normal(size=(3, rank)) @ rng.normal(size=(rank, 3)), dtype="float64")
    assert gradcheck(linalg.det, x)
    minors = [[np.linalg.det(np.delete(np.delete(x.detach().numpy(), i, 0), j, 1)) for j in range(3)] for i in range(3)]
    signs = (-1.0) ** np.add.outer(np.arange(3), np.arange(3))
    np.testing.assert_allclose(grad(linalg.det)(x).detach().numpy(), signs * minors, atol=1e-12)


def test_the_pseudo_inverse_of_a_matrix_without_full_rank_has_a_gradient() -> None:
    rng = np.random.default_rng(0)
    left, right = (Tensor(rng.normal(size=shape), dtype="float64") for shape in ((4, 2), (2, 3)))

    def f(left: Tensor, right: Tensor) -> Tensor:  # the rank stays 2
        return linalg.pinv(left @ right, rtol=1e-8)

    assert gradcheck(f, [left, right])
    assert gradgradcheck(f, [left, right], rtol=1e-3)


# ── eigenvalues of any matrix ────────────────────────────────────────────────────────────────────────────────

ROTATION = [[0.6, -0.9, 0.2], [0.8, 0.5, -0.3], [0.1, 0.4, 2.0]]  # a complex pair and a real eigenvalue


def spread_of(x: Tensor) -> Any:
    """The sum of ``|λ|²``, which is no function of traces."""
    return (abs(linalg.eigvals(x)) ** 2).sum()


@pytest.mark.parametrize("dtype", ["float32", "float64", "complex64", "complex128"])
def test_any_square_matrix_has_complex_eigenvalues(dtype: str) -> None:
    x = asarray(ROTATION, dtype=dtype)
    values, vectors = linalg.eig(x)
    assert linalg.eig(x)._fields == ("eigenvalues", "eigenvectors")
    single = dtype in ("float32", "complex64")
    assert {str(part.dtype) for part in (values, vectors)} == {"complex64" if single else "complex128"}
    rtol = 1e-5 if single else 1e-12
    np.testing.assert_allclose((x @ vectors).numpy(), (vectors * values).numpy(), rtol, rtol)
    np.testing.assert_allclose((abs(vectors) ** 2).sum(axis=0).numpy(), np.ones(3), rtol)
    np.testing.assert_allclose(linalg.eigvals(x).numpy(), values.numpy(), rtol, rtol)


@pytest.mark.parametrize(
    "f",
    [
        spread_of,
        lambda x: linalg.eigvals(x).exp().sum(),
        lambda x: (abs(linalg.eig(x).eigenvectors) ** 3).sum(),
        lambda x: (abs(linalg.eig(x).eigenvectors[0]) ** 2 * linalg.eig(x).eigenvalues).sum(),
    ],
    ids=["values", "holomorphic", "vectors", "both"],
)
@pytest.mark.parametrize("imaginary", [0, 0.3j], ids=["real", "complex"])
def test_losses_that_no_phase_changes_have_gradients_to_second_order(f: Any, imaginary: complex) -> None:
    x = np.array(ROTATION) + (imaginary * np.arange(9).reshape(3, 3) if imaginary else 0)
    assert gradcheck(f, Tensor(x))
    assert gradgradcheck(f, Tensor(x))


def test_the_gradient_of_a_trace_is_the_identity_however_it_is_found() -> None:
    x = Tensor(ROTATION, dtype="float64")
    real(linalg.eigvals(x).sum()).backward()
    assert str(x.grad.dtype) == "float64"
    np.testing.assert_allclose(x.grad.numpy(), np.eye(3), atol=1e-14)


def test_a_spectral_radius_descends_below_one() -> None:
    x = Tensor(np.random.default_rng(2).normal(size=(5, 5)), dtype="float64")
    for _ in range(100):
        radius, g = value_and_grad(lambda x: abs(linalg.eigvals(x)).max())(x)
        x = Tensor(x.detach() - 0.05 * g) if radius.item() > 0.9 else x
    assert np.abs(np.linalg.eigvals(x.detach().numpy())).max() < 1


@pytest.mark.filterwarnings("ignore:divide by zero", "ignore:invalid value")
def test_vectors_of_repeated_eigenvalues_have_no_gradient_and_values_of_defective_matrices_neither() -> None:
    identity = Tensor(np.eye(3), dtype="float64")
    np.testing.assert_array_equal(grad(lambda x: abs(linalg.eigvals(x)).sum())(identity).detach().numpy(), np.eye(3))
    assert grad(lambda x: abs(linalg.eig(x).eigenvectors).sum())(identity).isnan().any()
    jordan = Tensor([[1.0, 1.0], [0.0, 1.0]], dtype="float64")
    with suppress(LinAlgError):  # where rounding leaves the two vectors exactly parallel
        assert abs(grad(lambda x: abs(linalg.eigvals(x)[0]))(jordan)).max().item() > 1e12


def test_gradients_of_eigenvalues_equal_torchs() -> None:
    torch = pytest.importorskip("torch")
    for x in (np.array(ROTATION), np.array(ROTATION) + 0.2j * np.arange(9).reshape(3, 3)):
        ours, theirs = Tensor(x), torch.tensor(x, requires_grad=True)
        for xp, each in ((linalg, ours), (torch.linalg, theirs)):
            values, vectors = xp.eig(each)
            (abs(values) ** 2 * abs(vectors[0]) + abs(vectors[1]) ** 3).sum().backward()
        np.testing.assert_allclose(ours.grad.numpy(), theirs.grad.numpy(), rtol=1e-10, atol=1e-12)


def test_a_device_may_have_linear_algebra_without_eig() -> None:
    import array_api_compat.numpy as xp

    from micrograd_core.adapters.array_api import ArrayAPIBackend
    from micrograd_core.interpreters.raw import Kernels
    from micrograd_core.ops import TABLE

    class Older(ArrayAPIBackend):
        capabilities = frozenset({"complex", "linalg"})

    kernels = Kernels(Older(xp, "older:0"))
    assert kernels.eigh(np.eye(2))[0].tolist() == [1.0, 1.0]
    for name in ("eig", "eigvals"):
        assert not kernels.provides(TABLE[name])
        with pytest.raises(UnsupportedOp, match=rf"{name} is not supported on older:0: .* capability 'eig'"):
            getattr(kernels, name)(np.eye(2))


# ── norms ────────────────────────────────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize("scale", [1e200, 1e-200])
def test_norms_neither_overflow_nor_vanish(scale: float, device: Device) -> None:
    x = Tensor(np.array([3.0, -4.0]) * scale, dtype="float64", device=device)
    with np.errstate(over="ignore"):
        assert np.sqrt(np.sum(x.detach().numpy() ** 2)) in (0.0, np.inf)  # the naive form
    assert linalg.vector_norm(x).item() == pytest.approx(5 * scale, rel=1e-15)
    np.testing.assert_allclose(grad(linalg.vector_norm)(x).detach().numpy(), [0.6, -0.8], rtol=1e-14)


@pytest.mark.parametrize("ord", [1, 2, 3, 1.5, 0.5, float("inf")])
def test_the_gradient_of_the_norm_of_nothing_but_zeros_is_zero(ord: float, device: Device) -> None:
    x = Tensor([0.0, 0.0], dtype="float64", device=device)
    g = grad(lambda x: linalg.vector_norm(x, ord=ord))(x)
    assert [abs(value) for value in g.tolist()] == [0.0, 0.0]


def test_norms_of_infinite_and_nan_elements() -> None:
    inf, nan = float("inf"), float("nan")
    assert linalg.vector_norm(asarray([1.0, -inf])).item() == inf
    assert np.isnan(linalg.vector_norm(asarray([1.0, nan])).item())


def test_elements_tied_for_the_largest_share_the_gradient_of_the_norm() -> None:
    x = Tensor([2.0, -2.0, 1.0], dtype="float64")
    assert grad(lambda x: linalg.vector_norm(x, ord=float("inf")))(x).tolist() == [0.5, -0.5, 0.0]


# ── devices, dtypes, errors ──────────────────────────────────────────────────────────────────────────────────


def test_half_precision_is_factorised_as_float32() -> None:
    x = symmetric(dtype="float16")
    inverse = linalg.inv(x)
    assert str(inverse.dtype) == "float32"
    inverse.sum().backward()
    assert str(x.grad.dtype) == "float16"


def test_a_device_without_the_capability_says_so() -> None:
    x = Tensor(np.eye(2), device="rawbuffer")
    advice = r"is not supported on rawbuffer:0: it needs the capability 'linalg'.*\.to\('cpu'\)"
    for function in (linalg.inv, linalg.svdvals, linalg.eigh, linalg.det):
        with pytest.raises(UnsupportedOp, match=f"{function.__name__} {advice}"):
            function(x)
    with pytest.raises(UnsupportedOp, match="rfft .*'fft'"):
        fft.rfft(x)
    linalg.inv(x.to("cpu")).sum().backward()
    assert x.grad.device is x.device


def test_the_rest_works_on_every_device() -> None:
    x = Tensor(np.arange(6.0).reshape(2, 3), dtype="float64", device="rawbuffer")
    assert linalg.trace(x, offset=1).item() == 6.0
    assert linalg.diagonal(x).tolist() == [0.0, 4.0]
    assert linalg.cross(x[0], x[1]).tolist() == np.cross([0, 1, 2], [3, 4, 5]).tolist()
    assert linalg.outer(x[0], x[1]).shape == (3, 3)
    assert fft.fftshift(x[0]).tolist() == [2.0, 0.0, 1.0]
    assert fft.fftfreq(5, device="rawbuffer").tolist() == pytest.approx(np.fft.fftfreq(5).tolist())


SINGULAR = [[1.0, 2.0], [2.0, 4.0]]


@pytest.mark.parametrize(
    ("call", "words"),
    [
        (lambda x: linalg.inv(x), r"inv: the matrix is singular.*got shape \(2, 2\)"),
        (lambda x: linalg.solve(x, asarray([1.0, 1.0])), r"solve: the matrix is singular.*pinv.*\(2, 2\) and \(2,\)"),
        (lambda x: linalg.cholesky(x - 3.0), r"cholesky: the matrix is not positive definite; got shape \(2, 2\)"),
        (lambda x: linalg.matrix_power(x, -1), r"matrix_power: the matrix is singular"),
        (lambda x: linalg.eig(x * float("nan")), r"eig: the iteration did not converge"),
        (lambda x: linalg.svd(x * float("nan")), r"svd: the iteration did not converge"),
    ],
)
def test_numbers_without_an_answer_get_a_sentence(call: Any, words: str) -> None:
    with pytest.raises(LinAlgError, match=words):
        call(asarray(SINGULAR))
    with pytest.raises(ValueError, match=words):
        call(asarray(SINGULAR))


@pytest.mark.parametrize(
    ("call", "error", "words"),
    [
        (lambda x: linalg.inv(x), ShapeError, r"inv: the matrix must be square; got shape \(2, 3\)"),
        (lambda x: linalg.eig(x), ShapeError, r"eig: the matrix must be square; got shape \(2, 3\)"),
        (lambda x: linalg.svd(x[0]), ShapeError, r"svd: a matrix has two axes.*got shape \(3,\)"),
        (lambda x: linalg.solve(x[:, :2], x.mT), ShapeError, r"solve: shapes \(2, 2\) and \(3, 2\) do not fit"),
        (lambda x: linalg.qr(x, mode="full"), ValueError, r"qr: mode is 'reduced' or 'complete'; got 'full'"),
        (lambda x: linalg.cross(x, x[:, :2]), ShapeError, r"cross: vectors have 3 elements; got shapes"),
        (lambda x: linalg.outer(x, x), ShapeError, r"outer: operands are 1-d; got shapes \(2, 3\)"),
        (lambda x: linalg.matrix_norm(x, ord=3), ValueError, r"matrix_norm: ord is one of 'fro', 'nuc'.*got 3"),
        (lambda x: linalg.vector_norm(x, ord="fro"), TypeError, r"vector_norm: ord is a number.*got 'fro'"),
        (lambda x: linalg.vector_norm(x[:0], ord=-1), ShapeError, r"vector_norm: no result exists for zero elements"),
        (lambda x: linalg.matrix_power(x[:, :2], 0.5), TypeError, r"matrix_power: the exponent is an integer; got 0.5"),
        (lambda x: linalg.eigvalsh(x > 0), ShapeError, r"eigvalsh: .*square"),
        (lambda x: fft.fft(x, norm="half"), ValueError, r"fft: norm is 'backward', 'ortho' or 'forward'; got 'half'"),
        (lambda x: fft.fft(x, n=0), ShapeError, r"fft: a transform is over at least one element; got \(0,\)"),
        (lambda x: fft.fftn(x, s=(2,), axes=(0, 1)), ShapeError, r"fftn: s \(2,\) must give one length"),
        (lambda x: fft.rfft(x.astype("complex64")), DTypeError, r"rfft takes real floating dtypes; got complex64"),
        (lambda x: fft.fftfreq(0), ShapeError, r"fftfreq: there are no frequencies of 0 elements"),
    ],
)
def test_mistakes_get_a_sentence(call: Any, error: type[Exception], words: str) -> None:
    with pytest.raises(error, match=words):
        call(asarray(np.arange(6.0).reshape(2, 3)))


def test_lengths_without_axes_are_those_of_the_last_ones() -> None:
    x = asarray(np.arange(24.0).reshape(2, 3, 4))
    for name in ("fftn", "ifftn", "rfftn", "irfftn"):
        function = getattr(fft, name)
        np.testing.assert_array_equal(function(x, s=(4, 6)).numpy(), function(x, s=(4, 6), axes=(1, 2)).numpy())


# ── against torch ────────────────────────────────────────────────────────────────────────────────────────────

TORCH = {
    "cholesky": lambda xp, x: xp.linalg.cholesky(x @ x.mT),
    "eigh": lambda xp, x: abs(xp.linalg.eigh(x + x.mT)[1]) * xp.linalg.eigh(x + x.mT)[0],
    "svd": lambda xp, x: abs(xp.linalg.svd(x, full_matrices=False)[0]) * xp.linalg.svd(x, full_matrices=False)[1],
    "qr": lambda xp, x: xp.linalg.qr(x)[1],
    "inv": lambda xp, x: xp.linalg.inv(x),
    "pinv": lambda xp, x: xp.linalg.pinv(x[:, :2]),
    "det": lambda xp, x: xp.linalg.det(x),
    "slogdet": lambda xp, x: xp.linalg.slogdet(x)[1],
    "nuclear norm": lambda xp, x: xp.linalg.matrix_norm(x, ord="nuc"),
    "matrix_power": lambda xp, x: xp.linalg.matrix_power(x, -3),
    "solve": lambda xp, x: xp.linalg.solve(x, x @ x),
    "rfft": lambda xp, x: abs(xp.fft.rfft(x)),
    "irfft": lambda xp, x: xp.fft.irfft(xp.fft.fft(x), n=5),
    "hfft": lambda xp, x: xp.fft.hfft(xp.fft.ihfft(x, n=4) ** 2, n=7, norm="ortho"),
}


@pytest.mark.parametrize("name", TORCH)
def test_gradients_equal_torchs(name: str) -> None:
    torch = pytest.importorskip("torch")
    import micrograd_core

    data = np.random.default_rng(5).normal(size=(3, 3)) + 2 * np.eye(3)
    ours, theirs = Tensor(data, dtype="float64"), torch.tensor(data, requires_grad=True)
    f = TORCH[name]
    weights = np.arange(1.0, 1 + np.prod(f(micrograd_core, ours).shape)).reshape(f(micrograd_core, ours).shape)
    (f(micrograd_core, ours) * asarray(weights)).sum().backward()
    (f(torch, theirs) * torch.tensor(weights)).sum().backward()
    np.testing.assert_allclose(ours.grad.numpy(), theirs.grad.numpy(), rtol=1e-9, atol=1e-9)


# ── transforms ───────────────────────────────────────────────────────────────────────────────────────────────


def test_a_filter_is_fitted_through_the_spectrum() -> None:
    rng = np.random.default_rng(0)
    signal, wanted = asarray(rng.normal(size=64)), np.array([0.5, 0.3, -0.2])
    kernel = np.zeros(64)
    kernel[:3] = wanted
    target = asarray(np.fft.irfft(np.fft.rfft(signal.numpy()) * np.fft.rfft(kernel)))

    def loss(taps: Tensor) -> Any:
        return ((fft.irfft(fft.rfft(signal) * fft.rfft(taps, n=64)) - target) ** 2).mean()

    taps = Tensor(np.zeros(3), dtype="float64")
    for _ in range(200):
        value, g = value_and_grad(loss)(taps.detach())
        taps = taps.detach() - 0.3 * g
    assert value.item() < 1e-12
    np.testing.assert_allclose(taps.numpy(), wanted, atol=1e-6)


@pytest.mark.parametrize("n", [1, 2, 5, 8])
def test_frequencies_equal_numpys(n: int) -> None:
    np.testing.assert_allclose(fft.fftfreq(n, d=0.1, dtype="float64").numpy(), np.fft.fftfreq(n, d=0.1))
    np.testing.assert_allclose(fft.rfftfreq(n, d=0.1, dtype="float64").numpy(), np.fft.rfftfreq(n, d=0.1))


def test_float32_stays_float32() -> None:
    x = Tensor(np.ones((4, 4), "float32"))
    assert str(fft.rfft(x).dtype) == "complex64"
    assert str(fft.irfft(fft.rfft(x)).dtype) == "float32"
    assert str(linalg.qr(x).Q.dtype) == "float32"
