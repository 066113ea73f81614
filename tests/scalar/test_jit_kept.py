"""The Python of a long function of Values is kept on disk, as object code is."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from micrograd_core import Value, jit
from micrograd_core.scalar import results


def long(x: Value) -> Value:
    """Steps that machine code does not take."""
    for i in range(4000):
        x = (x * 0.5).exp() - 0.001 * i
    return x


@pytest.fixture
def kept(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("MICROGRAD_CACHE", str(tmp_path / "kept"))
    return tmp_path / "kept"


def outcome(f: Any) -> tuple[float, float]:
    x = Value(0.25)
    out = jit(f)(x)
    out.backward()
    return out.data, x.grad


def test_a_long_function_is_compiled_by_one_process_only(kept: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    first = outcome(long)
    (file,) = kept.iterdir()
    assert file.stat().st_mode & 0o777 == 0o600
    monkeypatch.setattr(results, "compile", lambda *given: pytest.fail("it was there"), raising=False)
    assert outcome(long) == first


@pytest.mark.parametrize("harm", ["cut", "changed", "writable"])
def test_code_that_is_not_whole_or_not_ours_is_not_run(kept: Path, harm: str, monkeypatch: pytest.MonkeyPatch) -> None:
    first = outcome(long)
    (file,) = kept.iterdir()
    data = file.read_bytes()
    file.write_bytes({"cut": data[:-9], "changed": data[:-9] + bytes([data[-9] ^ 1]) + data[-8:]}.get(harm, data))
    file.chmod(0o622 if harm == "writable" else 0o600)
    texts = list[str]()
    monkeypatch.setattr(results, "compile", lambda *given: texts.append(given[0]) or compile(*given), raising=False)
    assert outcome(long) == first
    assert len(texts) == 1


def test_a_short_function_is_not_kept(kept: Path) -> None:
    outcome(lambda x: x.exp() + 1)
    assert not kept.exists()


def test_the_derivatives_of_a_loss_that_is_returned_too_are_written_once(monkeypatch: pytest.MonkeyPatch) -> None:
    from micrograd_core.tables.expressions import Expressions

    calls = list[int]()
    gradients = Expressions.gradients
    monkeypatch.setattr(Expressions, "gradients", lambda *given: calls.append(1) or gradients(*given))
    w = Value(3.0)

    @jit
    def step(x: Value) -> Value:
        loss = (w * x).tanh()
        w.grad = 0.0
        loss.backward()
        return loss

    loss = step(Value(0.1))
    assert calls == [1]
    assert w.grad == pytest.approx(0.1 * (1 - loss.data**2))
