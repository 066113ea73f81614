"""Matrix products of the cpu: which of them use one thread, and that nobody else notices."""

from __future__ import annotations

import os
import threading
from typing import Any

import numpy as np
import pytest

from micrograd_cpu import products


class Book:
    """An OpenBLAS that writes down what it is told."""

    def __init__(self) -> None:
        self.now, self.most = 4, 0
        self.told: list[int] = []

    def tell(self, number: int) -> None:
        self.now = number
        self.told.append(number)


@pytest.fixture
def book(monkeypatch: pytest.MonkeyPatch) -> Book:
    found = Book()
    single = products.Alone(lambda: found.now, found.tell)
    monkeypatch.setattr(products, "alone", lambda: single)
    return found


@pytest.mark.parametrize(
    ("x", "y", "told"),
    [
        ((4, 4), (4, 4), []),
        ((64, 64), (64, 64), []),
        ((64, 128), (128, 64), [1, 4]),
        ((128, 10), (10, 256), [1, 4]),
        ((5, 64, 128), (128, 64), []),  # as one product of (320, 128)
        ((5, 64, 128), (1, 128, 64), [1, 4]),
        ((128, 784), (784, 512), []),
        ((3, 784), (784, 512), [1, 4]),  # row by row
        ((1024,), (1024, 600), []),
        ((600, 1024), (1024,), []),
    ],
)
def test_small_products_use_one_thread_and_leave_things_as_they_were(
    book: Book, x: tuple[int, ...], y: tuple[int, ...], told: list[int]
) -> None:
    rng = np.random.default_rng(0)
    a, b = rng.normal(size=x), rng.normal(size=y)
    np.testing.assert_allclose(products.matmul(a, b), a @ b)
    assert (book.told, book.now) == (told, 4)


def test_after_an_error_and_where_one_thread_was_asked_for(book: Book) -> None:
    with pytest.raises(ValueError, match="shapes"):
        products.matmul(np.ones((64, 128)), np.ones((64, 64)))
    assert (book.told, book.now) == ([1, 4], 4)
    book.now = 1
    products.matmul(np.ones((64, 128)), np.ones((128, 64)))
    assert book.told == [1, 4]


def test_threads_of_python_share_the_promise(book: Book) -> None:
    single: Any = products.alone()
    meeting = threading.Barrier(3)
    seen: list[int] = []

    def product(y: Any) -> None:
        meeting.wait()
        seen.append(book.now)
        meeting.wait()

    threads = [threading.Thread(target=single, args=(product, None)) for _ in range(3)]
    for each in threads:
        each.start()
    for each in threads:
        each.join()
    assert (seen, book.told, book.now) == ([1, 1, 1], [1, 4], 4)


def test_a_forked_child_starts_afresh(book: Book) -> None:
    single: Any = products.alone()

    def product(y: Any) -> tuple[int, Any]:
        single.forget()
        return book.now, dict(single.inside)

    assert single(product, None) == (4, {})


def test_openblas_is_found_where_numpy_has_it() -> None:
    built = str(np.show_config(mode="dicts")["Build Dependencies"]["blas"]["name"])
    single = products.alone()
    if os.name == "nt" or "openblas" not in built:
        pytest.skip(f"NumPy's products are those of {built}")
    assert single is not None
    before = single.told()
    assert single(lambda y: single.told(), None) == 1
    assert single.told() == before >= 1
