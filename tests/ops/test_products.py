"""Products and rearrangements: values against NumPy, gradients against finite differences, and their refusals."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings, strategies as st
from hypothesis.extra import numpy as hnp

import micrograd_core as mg
from micrograd_core import Device, Tensor, asarray, gradcheck, gradgradcheck, shares_memory, zeros
from micrograd_core.errors import ShapeError

LENGTHS = {"a": 2, "b": 3, "c": 1, "d": 2}


@st.composite
def sums(draw: st.DrawFn) -> tuple[str, list[tuple[int, ...]]]:
    """Subscripts with repeats, ellipses, explicit and implicit results, and shapes to go with them."""
    terms, shapes = [], []
    behind = draw(hnp.array_shapes(min_dims=0, max_dims=2, max_side=3))
    for _ in range(draw(st.integers(1, 3))):
        letters = draw(st.text("abcd", min_size=0, max_size=3))
        shape = tuple(LENGTHS[letter] for letter in letters)
        if draw(st.booleans()):
            at = draw(st.integers(0, len(letters)))
            some = behind[draw(st.integers(0, len(behind))) :]
            letters, shape = letters[:at] + "..." + letters[at:], shape[:at] + some + shape[at:]
        terms.append(letters)
        shapes.append(shape)
    text = ",".join(terms)
    if draw(st.booleans()) or "..." not in text:
        named = sorted(set(text) - set(",."))
        kept = draw(st.permutations(named))[: draw(st.integers(0, len(named)))]
        ellipsis = ["..."] if "..." in text else []
        text += "->" + "".join(draw(st.permutations([*kept, *ellipsis])))
    return text, shapes


@settings(deadline=None, max_examples=150)
@given(sums())
def test_einsum_is_numpys(case: tuple[str, list[tuple[int, ...]]]) -> None:
    subscripts, shapes = case
    arrays = [np.random.default_rng(i).normal(size=shape) for i, shape in enumerate(shapes)]
    expected = np.einsum(subscripts, *arrays)
    for device in ("cpu", "rawbuffer"):
        result = mg.einsum(subscripts, *(asarray(array, device=device) for array in arrays))
        assert result.shape == expected.shape
        np.testing.assert_allclose(result.numpy(), expected, rtol=1e-10, atol=1e-12)


@pytest.mark.parametrize("subscripts", ["ij,jk,kl->il", "ij,jk,kl", "ij,jk,kl->jl", "ij,jk,kl->", "iJ,Jk,kl->lkiJ"])
def test_gradients_of_einsum(subscripts: str, device: Device) -> None:
    rng = np.random.default_rng(0)
    operands = [Tensor(rng.normal(size=shape), device=device) for shape in ((2, 3), (3, 2), (2, 2))]
    assert gradcheck(lambda *xs: mg.einsum(subscripts, *xs), operands)
    assert gradgradcheck(lambda *xs: mg.einsum(subscripts, *xs), operands)


def test_gradients_of_einsum_are_torchs() -> None:
    torch = pytest.importorskip("torch")
    rng = np.random.default_rng(0)
    for subscripts, *shapes in (
        ("bhqd,bhkd->bhqk", (2, 2, 3, 4), (2, 2, 5, 4)),
        ("...ij,...jk->...ik", (2, 1, 3, 4), (5, 4, 2)),
        ("ii->i", (3, 3)),
        ("i,j,k->ijk", (2,), (3,), (4,)),
    ):
        arrays = [rng.normal(size=shape) for shape in shapes]
        ours = [Tensor(array) for array in arrays]
        theirs = [torch.tensor(array, requires_grad=True) for array in arrays]
        (mg.einsum(subscripts, *ours) ** 2).sum().backward()
        (torch.einsum(subscripts, *theirs) ** 2).sum().backward()
        for x, y in zip(ours, theirs, strict=True):
            assert x.grad is not None
            np.testing.assert_allclose(x.grad.numpy(), y.grad.numpy(), rtol=1e-10)


def test_a_long_chain_of_products_is_contracted_in_a_good_order() -> None:
    """A vector at the end of a chain makes it a chain of vectors; left to right it would be of matrices."""
    matrices = [np.full((300, 300), 1 / 300) for _ in range(12)]
    letters = "abcdefghijklm"
    terms = ",".join(letters[i : i + 2] for i in range(12))
    result = mg.einsum(f"{terms},m->a", *matrices, np.ones(300))
    np.testing.assert_allclose(result.numpy(), np.ones(300), rtol=1e-10)


@pytest.mark.parametrize(
    ("subscripts", "shapes", "words"),
    [
        ("ij,jk", [(2, 3)], "there are 2 terms for 1 operands"),
        ("ij,jk->ik", [(2, 3), (4, 5)], r"\(2, 3\), \(4, 5\): the subscript 'j' has lengths 3 and 4"),
        ("ijk", [(2, 3)], r"the term 'ijk' names 3 axes of shape \(2, 3\)"),
        ("i", [(2, 3)], r"the term 'i' names 1 axes of shape \(2, 3\)"),
        ("ij->k", [(2, 3)], "the result's 'k' must stand there once, and in some term"),
        ("ij->ii", [(2, 3)], "the result's 'i' must stand there once"),
        ("i1", [(2, 3)], "'i1' holds '1'; a term is letters and one ellipsis"),
        ("...i,...i", [(2, 3), (4, 3)], "an axis behind the ellipsis has lengths 2 and 4"),
    ],
)
def test_einsum_says_which_subscript_does_not_fit(subscripts: str, shapes: Any, words: str) -> None:
    with pytest.raises(ShapeError, match=f"einsum: .*{words}"):
        mg.einsum(subscripts, *map(zeros, shapes))


PRODUCT_ERRORS = {
    "tensordot": (lambda x, y: mg.tensordot(x, y, axes=1), r"tensordot: shapes \(2, 3\) and \(2, 4\) do not fit"),
    "axes": (lambda x, y: mg.tensordot(x, y, axes=3), "tensordot: 3 axes cannot be summed over"),
    "vecdot": (lambda x, y: mg.vecdot(x, y), r"vecdot: shapes \(2, 3\) and \(2, 4\) have lengths 3 and 4"),
    "outer": (lambda x, y: mg.outer(x, y), r"outer: operands are 1-d; got shapes \(2, 3\)"),
    "roll": (lambda x, y: mg.roll(x, (1, 2), axis=(0, 1, 0)), r"roll: 2 shifts \(1, 2\) do not fit 3 axes"),
    "roll all": (lambda x, y: mg.roll(x, (1, 2)), "need as many axes; got axis=None"),
    "repeat": (lambda x, y: mg.repeat(x, (1, 2), axis=1), r"repeat: 2 counts do not fit 3 elements along axis 1"),
    "moveaxis": (lambda x, y: mg.moveaxis(x, (0, 1), 0), r"moveaxis: 2 axes \(0, 1\) cannot move to 1 places 0"),
    "pad": (lambda x, y: mg.pad(x, ((1, 1),) * 3), r"pad: widths .* do not fit shape \(2, 3\); give a number"),
    "pad nothing": (lambda x, y: mg.pad(x[:0], 1, "edge"), "no element for mode 'edge' to repeat"),
    "transpose": (lambda x, y: mg.matrix_transpose(x[0]), "matrix_transpose: at least two axes"),
    "unstack": (lambda x, y: mg.unstack(x, axis=2), "unstack: axis 2 is out of range"),
    "broadcast": (lambda x, y: mg.broadcast_arrays(x, y), r"broadcast_arrays: shapes \(2, 3\) and \(2, 4\) do not"),
}


@pytest.mark.parametrize("name", PRODUCT_ERRORS)
def test_refusals_name_what_was_asked_and_what_fits(name: str) -> None:
    call, words = PRODUCT_ERRORS[name]
    with pytest.raises(ShapeError, match=words):
        call(zeros((2, 3)), zeros((2, 4)))


def test_pad_knows_its_modes() -> None:
    with pytest.raises(ValueError, match="pad: mode is 'constant', 'edge', .* or 'symmetric'; got 'mean'"):
        mg.pad(zeros(2), 1, "mean")


@settings(deadline=None, max_examples=60)
@given(
    shape=hnp.array_shapes(max_dims=3, max_side=4),
    data=st.data(),
    mode=st.sampled_from(("constant", "edge", "wrap", "reflect", "symmetric")),
)
def test_padding_is_numpys(shape: tuple[int, ...], data: st.DataObject, mode: str) -> None:
    widths = tuple(data.draw(st.tuples(st.integers(0, 5), st.integers(0, 5))) for _ in shape)
    array = np.arange(np.prod(shape), dtype="float64").reshape(shape)
    for device in ("cpu", "rawbuffer"):
        found = mg.pad(asarray(array, device=device), widths, mode)
        np.testing.assert_array_equal(found.numpy(), np.pad(array, widths, mode))


def test_counts_of_repeat_may_be_a_tensor(device: Device) -> None:
    x = Tensor([1.0, 2.0, 3.0], device=device)
    y = mg.repeat(x, asarray([2, 0, 1], device=device))
    assert y.tolist() == [1.0, 1.0, 3.0]
    y.sum().backward()
    assert x.grad is not None
    assert x.grad.tolist() == [2.0, 0.0, 1.0]


def test_slices_and_broadcasts_are_views_in_the_graph(device: Device) -> None:
    x = Tensor([[1.0, 2.0], [3.0, 4.0]], device=device)
    first, second = mg.unstack(x, axis=1)
    assert second.tolist() == [2.0, 4.0]
    assert shares_memory(second, x)
    wide, tall = mg.broadcast_arrays(x[:1], x[:, :1])
    assert tall.tolist() == [[1.0, 1.0], [3.0, 3.0]]
    assert shares_memory(wide, x)
    (first * second + (wide * tall).sum(axis=0)).sum().backward()
    assert x.grad is not None
    assert x.grad.tolist() == [[2.0 + 3.0 + 4.0, 1.0 + 4.0], [4.0 + 3.0, 3.0]]


def test_rearrangements_of_one_element_own_their_memory(device: Device) -> None:
    """Where nothing is to be done there is still a copy: only views are views."""
    x = asarray([[1.0]], device=device)
    for same in (mg.roll(x, 0), mg.tile(x, (1, 1)), mg.repeat(x, 1, axis=0), mg.pad(x, 0), mg.pad(x, 0, "edge")):
        assert not shares_memory(same, x)
        same[0, 0] = 5.0
    spread = mg.tile(x, (3, 1))
    spread[0, 0] = 7.0
    assert spread.tolist() == [[7.0], [1.0], [1.0]]
    assert mg.einsum("ij->ji", x).requires_grad is False
    assert not shares_memory(mg.einsum("ij->ji", x), x)
