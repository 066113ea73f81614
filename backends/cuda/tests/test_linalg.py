"""Linear algebra around a namespace that, as CuPy, broadcasts no batches and keeps its doubts to itself."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from micrograd_core import Device, asarray, linalg as functions
from micrograd_core.errors import LinAlgError
from micrograd_cuda import linalg

RNG = np.random.default_rng(0)


def table(version: int, asked: list[str]) -> dict[str, linalg.Kernel]:
    """Over NumPy. `asked` takes what `errstate` was asked for."""

    @contextmanager
    def errstate(*, linalg: str) -> Iterator[None]:
        asked.append(linalg)
        yield

    def solve(x: Any, y: Any) -> Any:
        assert y.ndim == 1 or x.shape[:-1] == y.shape[:-1]  # as CuPy asks
        return np.linalg.solve(x, y)

    def eigvals(x: Any) -> Any:
        return np.empty(x.shape[:-1], x.dtype) if x.size == 0 else np.linalg.eigvals(x)

    def eig(x: Any) -> Any:
        return (eigvals(x), np.empty(x.shape, x.dtype)) if x.size == 0 else np.linalg.eig(x)

    names = {name: getattr(np.linalg, name) for name in vars(np.linalg) if name[0].islower()}
    own = SimpleNamespace(**(names | {"solve": solve, "eig": eig, "eigvals": eigvals}))
    cuda = SimpleNamespace(get_local_runtime_version=lambda: version)
    xp = SimpleNamespace(
        linalg=own, cuda=cuda, broadcast_to=np.broadcast_to, result_type=np.result_type, complex64=np.complex64,
        zeros=np.zeros,
    )  # fmt: skip
    return linalg.table(xp, errstate)


@pytest.mark.parametrize("batches", [((), (3,)), ((2, 1), (3,)), ((4,), ()), ((0,), (1,)), ((), ())])
def test_batches_of_equations_broadcast(batches: tuple[tuple[int, ...], tuple[int, ...]]) -> None:
    x, y = RNG.normal(size=(*batches[0], 2, 2)), RNG.normal(size=(*batches[1], 2, 3))
    found = table(13000, [])["solve"](x, y)
    assert found.shape == np.linalg.solve(x, y).shape
    np.testing.assert_allclose(x @ found, np.broadcast_to(y, found.shape), atol=1e-12)


def test_one_vector_is_solved_for() -> None:
    x, y = RNG.normal(size=(3, 3)), RNG.normal(size=3)
    np.testing.assert_allclose(x @ table(13000, [])["solve"](x, y), y, atol=1e-12)


def test_every_function_asks_whether_there_is_an_answer() -> None:
    asked: list[str] = []
    for name, kernel in (solvers := table(13000, asked)).items():
        kernel(*[np.eye(2)] * (2 if name == "solve" else 1))
    assert asked == ["raise"] * len(solvers)


@pytest.mark.parametrize("name", ["eig", "eigvals"])
@pytest.mark.parametrize(("dtype", "wide"), [("float32", "complex64"), ("float64", "complex128")])
def test_eigenvalues_are_complex_even_if_there_are_none(name: str, dtype: str, wide: str) -> None:
    for shape in ((0, 2, 2), (2, 2)):
        found = table(12060, [])[name](np.zeros(shape, dtype))
        assert {each.dtype.name for each in (found if isinstance(found, tuple) else (found,))} == {wide}


def test_older_cusolvers_have_no_eig() -> None:
    assert not {"eig", "eigvals"} & set(table(12050, []))
    assert {"inv", "svd"} < set(table(12050, []))


@pytest.mark.skipif(not Device.is_cuda_available(), reason="there is no CUDA device")
@pytest.mark.parametrize("batch", [(), (2,)])
def test_a_gpu_says_that_there_is_no_answer(batch: tuple[int, ...]) -> None:
    x = asarray(np.zeros((*batch, 2, 2)), device="cuda")
    for name in ("inv", "cholesky"):
        with pytest.raises(LinAlgError, match=name):
            getattr(functions, name)(x)
    with pytest.raises(LinAlgError, match="solve"):
        functions.solve(x, x)
    assert functions.det(x).tolist() == np.zeros(batch).tolist()
