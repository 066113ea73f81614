"""What kernels find on their way for later ones, and when nobody may be told. On a GPU, or played on the host."""

from __future__ import annotations

from collections.abc import Iterator
from importlib.util import find_spec
from typing import Any

import numpy as np
import pytest

import host
from cases import NO_COMPILER
from micrograd_core import Device, Tensor, no_grad
from micrograd_core.array.functions import FUNCTIONS

if find_spec("micrograd_cuda"):
    from micrograd_cuda.runtime import Remembered

DEVICE = "cuda" if Device.is_cuda_available() else "played"
pytestmark = pytest.mark.skipif(DEVICE == "played" and host.COMPILER is None, reason=NO_COMPILER)
G, A = (np.random.default_rng(seed).integers(-3, 4, (6, 8)).astype("float32") for seed in range(2))


@pytest.fixture
def remembered(monkeypatch: pytest.MonkeyPatch) -> Iterator[Any]:
    """The device's: nothing yet, and as if no memory had ever been shared."""
    found = Device(DEVICE).kernels.backend.runtime.remembered
    found.forget()
    monkeypatch.setattr(found, "_exposed", False)
    yield found
    found.forget()


def handle(a: Any) -> Any:
    return Tensor(a, device=DEVICE, requires_grad=False)._handle


def relu(k: Any) -> tuple[Any, ...]:
    """Gradient of relu: what is remembered is its sum."""
    return (k.relu_gradient(handle(G), handle(A)),)


def norm(k: Any) -> tuple[Any, ...]:
    """Gradient of a norm's weight: the sum of its cotangent."""
    g = handle(G)
    k.layer_norm_weight_gradient(g, handle(A), axis=(1,), eps=1e-5)
    return (g,)


def loss(k: Any) -> tuple[Any, ...]:
    """A loss: each row's maximum and denominator, of logits and targets."""
    x, targets = handle(A), handle(np.array([0, 1, -100, 3, 4, 5]))
    k.cross_entropy(x, targets, 1.0, ignore_index=-100, label_smoothing=0.0, reduction="mean")
    return x, targets


FINDS = (relu, norm, loss)


@pytest.mark.parametrize("find", FINDS)
def test_what_is_found_is_forgotten_with_its_arrays(find: Any, remembered: Any) -> None:
    kernels = Device(DEVICE).kernels
    for i in range(len(find(kernels))):
        arrays = [*find(kernels)]
        assert len(remembered) == 1
        del arrays[i]  # with any of them
        assert len(remembered) == 0


@pytest.mark.parametrize("find", FINDS)
def test_an_assignment_anywhere_makes_it_forget(find: Any, remembered: Any) -> None:
    kernels = Device(DEVICE).kernels
    arrays = find(kernels)
    assert kernels.assign(handle(A), 2.0, ())
    assert len(remembered) == 0
    del arrays


@pytest.mark.parametrize("find", FINDS)
@pytest.mark.parametrize("way", ["to_dlpack", "from_dlpack"])
@pytest.mark.skipif(DEVICE == "played", reason="its arrays are exported to nobody")
def test_memory_that_is_shared_makes_it_forget(way: str, find: Any, remembered: Any) -> None:
    kernels = Device(DEVICE).kernels
    arrays = find(kernels)
    assert len(remembered) == 1
    getattr(kernels.backend, way)(arrays[0])
    assert len(remembered) == 0
    again = find(kernels)
    assert len(remembered) == (find is relu)  # which has just made what it is said of
    del arrays, again


@pytest.mark.parametrize("written", ["logits", "a view", "targets"])
def test_the_gradient_of_a_loss_is_of_what_is_written_meanwhile(written: str, remembered: Any) -> None:
    a, numbers = A.copy(), np.array([0, 1, -100, 3, 4, 5])
    found = []
    for device, dtype in ((DEVICE, "float32"), ("cpu", "float64")):
        x, targets = Tensor(A, dtype=dtype, device=device), Tensor(numbers, device=device)
        value = FUNCTIONS["cross_entropy"](x, targets)
        handles = x._handle, targets._handle
        del value
        if device == "cpu":
            a[0, 2] = 9.0 if written != "targets" else a[0, 2]
            x = Tensor(a, dtype=dtype, device=device)
            changed = numbers.copy()
            changed[1] = 7 if written == "targets" else changed[1]
            FUNCTIONS["cross_entropy"](x, Tensor(changed, device=device)).backward()
            assert x.grad is not None
            found.append(np.asarray(x.grad.tolist()))
            continue
        k = x.device.kernels
        with no_grad():
            if written == "targets":
                assert k.assign(handles[1], 7, (slice(1, 2),))
            elif written == "logits":
                assert k.assign(handles[0], 9.0, (slice(0, 1), slice(2, 3)))
            else:
                assert k.assign(handles[0][:1, 2:3], 9.0, ())
        one = Tensor(1.0, dtype=dtype, device=device)._handle
        gradient = k.cross_entropy_gradient(
            one, *handles, 1.0, ignore_index=-100, label_smoothing=0.0, reduction="mean"
        )
        found.append(gradient.get() if hasattr(gradient, "get") else np.asarray(gradient))
    np.testing.assert_allclose(found[0], found[1], rtol=1e-4, atol=1e-6)


# ── by itself ────────────────────────────────────────────────────────────────────────────────────────────────


def test_it_is_given_out_once_to_who_asks_the_same_of_the_same_arrays() -> None:
    found, x, y = Remembered(), np.ones(2), np.ones(2)
    found.keep((x, y), 1, "answer", made=False)
    for arrays, facts in (((x,), 1), ((y, x), 1), ((x, y), 2), ((x, x), 1), ((x.view(), y), 1)):
        assert found.take(arrays, facts) is None
    assert found.take((x, y), 1) == "answer"
    assert found.take((x, y), 1) is None


def test_once_memory_is_shared_nothing_is_kept_of_what_is_given() -> None:
    found, x = Remembered(), np.ones(2)
    for made in (True, False):
        found.keep((x,), 0, 2, made=made)
        found.expose()
        assert found.take((x,), 0) is None
        found.keep((x,), 0, 3, made=made)
        assert found.take((x,), 0) == (3 if made else None)


def test_elsewhere_it_is_not_found() -> None:
    here, x = [1], np.ones(2)
    found = Remembered(lambda: here[0])
    found.keep((x,), 0, "answer", made=True)
    here[0] = 2
    assert found.take((x,), 0) is None
    found.keep((x,), 0, "another", made=True)
    here[0] = 1
    assert found.take((x,), 0) == "answer"
    del x
    assert len(found) == 0


def test_what_another_thread_makes_it_forget_meanwhile_is_not_given_out() -> None:
    found, x = Remembered(), np.ones(2)

    class Written:
        def __ne__(self, other: object) -> bool:
            found.forget()
            return False

    found.keep((x,), Written(), "answer", made=True)
    assert found.take((x,), 0) is None
