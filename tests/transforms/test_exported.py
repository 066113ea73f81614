"""Functions under jit as C files: compiled, and called with ctypes, they give the numbers of jit."""

from __future__ import annotations

import ctypes
import re
import shutil
import subprocess
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import micrograd_core as mg
from micrograd_core import jit, nn, optim, random
from micrograd_core.compiler.languages import C
from micrograd_core.conformance.cases import cases
from micrograd_core.errors import ProgramError, TraceError

COMPILER = shutil.which("cc")
FLAGS = ["-O3", "-shared", "-fPIC", "-Wall", "-Wno-unused-function", "-Wno-unused-variable", "-Wno-unknown-pragmas"]
with_compiler = pytest.mark.skipif(COMPILER is None, reason="there is no C compiler")


class Compiled:
    """An exported function, its state, and what its file says of its arrays."""

    def __init__(self, lowered: Any, folder: Path, *sources: str, blas: bool = False) -> None:
        state = lowered.export(folder / "step.c", blas=blas)
        self.text = (folder / "step.c").read_text()
        library = folder / "step.so"
        subprocess.run([str(COMPILER), *FLAGS, "-o", library, folder / "step.c", *sources, "-lm"], check=True)
        self.function = ctypes.CDLL(str(library)).step
        self.state = [ctypes.create_string_buffer(each, len(each)) for each in state]
        self.types = {
            kind: [
                (np.dtype(dtype), tuple(map(int, shape.split(", "))) if shape else ())
                for dtype, shape in re.findall(rf"^   {kind}\[\d+\]: (\w+)\[(.*?)\]", self.text, re.MULTILINE)
            ]
            for kind in ("in", "state", "out")
        }

    def __call__(self, *inputs: Any) -> list[Any]:
        given = [np.ascontiguousarray(x.detach().numpy()) for x in inputs]
        outputs = [np.empty(shape, dtype) for dtype, shape in self.types["out"]]
        places = [
            [x.ctypes.data for x in given], [*map(ctypes.addressof, self.state)], [x.ctypes.data for x in outputs]
        ]  # fmt: skip
        assert self.function(*[(ctypes.c_void_p * (len(each) + 1))(*each) for each in places]) == 0
        return outputs

    def states(self) -> list[Any]:
        """The state as arrays."""
        return [
            np.frombuffer(x.raw, dtype).reshape(shape)
            for x, (dtype, shape) in zip(self.state, self.types["state"], strict=True)
        ]


def ulps(found: Any, expected: Any) -> float:
    """The largest difference, in units in the last place of the largest number."""
    if found.dtype.kind != "f":
        return float(np.abs(found.astype("float64") - expected.astype("float64")).max(initial=0))
    largest = np.abs(expected).max(initial=0)
    return float(np.abs(found - expected).max(initial=0) / np.spacing(largest))


def agrees(function: Any, *inputs: Any, folder: Path, calls: int = 3, most: float, first: int = 1) -> Compiled:
    """C gives what jit gives, call after call, and the state is the same afterwards."""
    for _ in range(first):
        function(*inputs)
    found = Compiled(function.lower(*inputs), folder)
    for _ in range(calls):
        made, expected = found(*inputs), function(*inputs)
        for x, y in zip(made, expected if isinstance(expected, tuple) else [expected], strict=True):
            assert x.shape == y.shape
            assert ulps(x, y.detach().numpy()) <= most
    now = function.lower(*inputs).export(folder / "now.c")
    for i, (x, y) in enumerate(zip(found.states(), now, strict=True)):
        assert ulps(x, np.frombuffer(y, x.dtype).reshape(x.shape)) <= most, found.text.split(f"state[{i}]")[1][:80]
    return found


def trained(model: Any, rule: Any, loss: Any) -> Any:
    @jit
    def step(*batch: Any) -> Any:
        rule.zero_grad()
        found = loss(model, *batch)
        found.backward()
        rule.step()
        return found

    return step


def classified(model: Any, x: Any, t: Any) -> Any:
    return nn.cross_entropy(model(x), t)


def batch(*shape: int) -> tuple[Any, Any]:
    rng = random.Generator(3)
    return random.normal((12, *shape), generator=rng), mg.asarray([i % 3 for i in range(12)])


@with_compiler
def test_a_training_step_with_adam_and_dropout(tmp_path: Path) -> None:
    rng = random.Generator(0)
    model = nn.Sequential(
        nn.Linear(4, 16, generator=rng), nn.GELU(), nn.Dropout(0.3, generator=rng), nn.Linear(16, 3, generator=rng)
    )
    step = trained(model, optim.Adam(model.parameters(), lr=0.01), classified)
    found = agrees(step, *batch(4), folder=tmp_path, calls=5, most=64)
    for words in ("the attribute of a Linear, 'weight'", "state[0, 'm'] of Adam", "a generator's place", "result 0"):
        assert words in found.text
    assert found.states()[1] == 6  # the number of steps


@with_compiler
def test_a_step_of_a_convolutional_network(tmp_path: Path) -> None:
    rng = random.Generator(0)
    model = nn.Sequential(
        nn.Conv2d(1, 4, 3, padding=1, bias=False, generator=rng), nn.BatchNorm2d(4), nn.ReLU(), nn.MaxPool2d(2),
        nn.Conv2d(4, 4, 3, stride=2, generator=rng), nn.Flatten(), nn.Linear(4, 3, generator=rng),
    )  # fmt: skip
    agrees(trained(model, optim.SGD(model.parameters(), lr=0.05, momentum=0.9), classified), *batch(1, 8, 8),
           folder=tmp_path, most=64)  # fmt: skip


class GPT(nn.Module):
    def __init__(self, rng: Any) -> None:
        self.tokens, self.places = nn.Embedding(11, 16, generator=rng), nn.Embedding(6, 16, generator=rng)
        self.block, self.norm = nn.TransformerBlock(16, 2, generator=rng), nn.LayerNorm(16)
        self.head = nn.Linear(16, 11, generator=rng)

    def forward(self, x: Any) -> Any:
        seen = self.tokens(x) + self.places(mg.arange(x.shape[1]))
        return self.head(self.norm(self.block(seen, is_causal=True)))


@with_compiler
def test_a_step_of_a_language_model(tmp_path: Path) -> None:
    model = GPT(random.Generator(0))
    words = mg.asarray([[i * j % 11 for i in range(7)] for j in range(3)])

    def loss(model: Any, x: Any) -> Any:
        return nn.cross_entropy(model(x[:, :-1]).reshape((-1, 11)), x[:, 1:].reshape((-1,)))

    agrees(trained(model, optim.SGD(model.parameters(), lr=0.1), loss), words, folder=tmp_path, most=64)


@with_compiler
def test_inference_of_an_lstm(tmp_path: Path) -> None:
    model = nn.LSTM(4, 8, generator=random.Generator(0))
    x = random.normal((5, 3, 4), generator=random.Generator(1))
    agrees(jit(lambda x: model(x)[0]), x, folder=tmp_path, most=32)


@with_compiler
@pytest.mark.parametrize(
    "function",
    [
        lambda x: (mg.sort(x, axis=1), mg.argsort(-x, axis=0), mg.cumulative_sum(x, axis=1)),
        lambda x: (mg.take(x, mg.asarray([2, 0, -1]), axis=1), x[::-1, 1:] * 2, x.mT @ x),
        lambda x: mg.take_along_axis(x, mg.asarray([[0, -1, 2], [1, 1, 0]]), axis=1),
        lambda x: (x[0] @ x[1], x @ x[0], mg.astype(x, mg.int32) @ mg.astype(x, mg.int32).mT),
        lambda x: (mg.concat([x, x], axis=0), mg.pad(x, ((1, 0), (0, 2))), mg.flip(x, axis=1)),
        lambda x: ((x * 2).mT, (x + 1)[1:], mg.searchsorted(x[0, ::2], x), mg.cummax(x, axis=1).values),
        lambda x: (x > 1, mg.argmax(x, axis=1), mg.floor(mg.astype(x, mg.int64)) // 2, mg.astype(x, mg.float64) ** 0.5),
        lambda x: mg.broadcast_to(x, (2, 2, 3)) @ mg.broadcast_to(mg.expand_dims(x.mT, axis=0), (2, 3, 2)),
    ],
)  # fmt: skip
def test_what_is_no_nest_is_loops(function: Any, tmp_path: Path) -> None:
    agrees(jit(function), mg.asarray([[5.0, 1, 3], [2, 9, 4]]), folder=tmp_path, most=2, calls=1, first=0)


CASES = [
    each for each in cases(tuple(C.types), frozenset({"boolean-indexing", "data-dependent-shapes", "jit", "array-api"}))
    if each.layout == "contiguous" and each.id.split("-")[1] == "0" and each.dtype in ("float32", "int64")
]  # fmt: skip


@with_compiler
@pytest.mark.parametrize("case", CASES[:: 1 + len(CASES) // 40], ids=lambda case: case.id)
def test_an_operation_leaves_or_says_why_not(case: Any, tmp_path: Path) -> None:
    given = case.tensors(mg.Device("cpu"))

    def function(*tensors: Any) -> Any:
        left = iter(tensors)
        return case.call([next(left) if hasattr(x, "shape") else x for x in given])

    try:
        agrees(jit(function), *[x.detach() for x in given if hasattr(x, "shape")], folder=tmp_path, most=64, calls=1)
    except (ProgramError, TraceError) as error:
        told = str(error)
    else:
        return
    assert re.search("no C for '|no C for .* has no composition|C has no complex|inside a traced", told)


@with_compiler
def test_random_numbers_are_the_same_bits(tmp_path: Path) -> None:
    rng = random.Generator(5)
    draw = jit(
        lambda x: (x + random.uniform((3, 5), generator=rng), random.uniform((3,), dtype="float64", generator=rng))
    )
    agrees(draw, mg.zeros((3, 5)), folder=tmp_path, most=0)


@with_compiler
def test_a_place_in_a_stream_has_a_carry(tmp_path: Path) -> None:
    rng = random.Generator(5)
    rng.state = (rng.state[0], (1 << 64) - 2, rng.state[2])
    draw = jit(lambda x: x + random.uniform((30,), generator=rng))
    agrees(draw, mg.zeros(30), folder=tmp_path, most=0, first=0)


@with_compiler
def test_state_may_be_exchanged(tmp_path: Path) -> None:
    held = {"a": mg.asarray([1.0, 2.0]), "b": mg.asarray([3.0, 4.0])}

    def turn(x: Any) -> Any:
        a, b = held["a"].detach(), held["b"].detach()
        held["a"], held["b"] = b, a
        return a + x

    agrees(jit(turn), mg.zeros(2), folder=tmp_path, most=0)


CBLAS = """
static int calls;
int counted(void) { return calls; }
void cblas_sgemm(int o, int a, int b, int m, int n, int k, float f, const float *x, int p, const float *y, int q,
                 float g, float *r, int s) {
    calls++;
    for (int i = 0; i < m; i++) for (int j = 0; j < n; j++) {
        r[i * s + j] = 0;
        for (int l = 0; l < k; l++) r[i * s + j] += x[i * p + l] * y[l * q + j];
    }
}
"""


@with_compiler
def test_products_are_calls_of_a_blas_by_choice(tmp_path: Path) -> None:
    x = random.normal((4, 3, 5), generator=random.Generator(0))
    (tmp_path / "blas.c").write_text(CBLAS)
    product = jit(lambda x: x @ x.mT)
    found = Compiled(product.lower(x), tmp_path, str(tmp_path / "blas.c"), blas=True)
    assert ulps(found(x)[0], product(x).numpy()) <= 8
    assert ctypes.CDLL(str(tmp_path / "step.so")).counted() == 4


@with_compiler
def test_a_condition_that_comes_out_otherwise_writes_nothing(tmp_path: Path) -> None:
    w = mg.Tensor([1.0, 2.0])
    rule = optim.RAdam([w], lr=0.1)
    step = trained(w, rule, lambda w, x: ((w - x) ** 2).sum())
    x = mg.zeros(2)
    step(x)
    found = Compiled(step.lower(x), tmp_path)
    assert "return 2" in found.text  # the rule's first steps are others than the later ones
    before, status = [each.raw for each in found.state], 0
    data = np.zeros(2, "float32")
    for _ in range(20):
        before = [each.raw for each in found.state]
        arguments = ([data.ctypes.data], [*map(ctypes.addressof, found.state)], [None])
        status = found.function(*[(ctypes.c_void_p * (len(each) + 1))(*each) for each in arguments])
        if status:
            break
    assert status == 2
    assert [each.raw for each in found.state] == before


@with_compiler
def test_a_program_in_c_goes_on_with_training(tmp_path: Path) -> None:
    w = mg.Tensor([4.0, -2.0, 1.0])
    step = trained(w, optim.SGD([w], lr=0.1), lambda w, x: ((w - x) ** 2).sum())
    x = mg.zeros(3)
    step(x)
    state = step.lower(x).export(tmp_path / "step.c")
    (tmp_path / "state.bin").write_bytes(b"".join(state))
    page = (Path(__file__).parents[2] / "docs" / "jit.md").read_text()
    (tmp_path / "main.c").write_text(page.partition("```c\n")[2].partition("```")[0])
    subprocess.run([str(COMPILER), "-O3", "main.c", "step.c", "-lm", "-o", "main"], check=True, cwd=tmp_path)
    told = subprocess.run(["./main"], check=True, cwd=tmp_path, capture_output=True, text=True).stdout
    assert [float(each) for each in told.split()] == pytest.approx([step(x).item() for _ in range(3)], rel=1e-5)


# ── what cannot leave ────────────────────────────────────────────────────────────────────────────────────────


def refused(function: Any, *inputs: Any, tmp: Path, first: int = 0) -> str:
    compiled = jit(function)
    for _ in range(first):
        compiled(*inputs)
    with pytest.raises(ProgramError) as caught:
        compiled.lower(*inputs).export(tmp / "f.c")
    assert not (tmp / "f.c").exists()
    return str(caught.value)


def test_what_cannot_leave_is_named(tmp_path: Path) -> None:
    x = mg.asarray([[2.0, 1.0], [1.0, 3.0]])
    assert "no C for 'cholesky'" in refused(mg.linalg.cholesky, x, tmp=tmp_path)
    assert "C has no float16" in refused(lambda x: mg.astype(x, mg.float16) + 1, x, tmp=tmp_path)
    assert "no C for 'pow' of such int64" in refused(
        lambda x: mg.astype(x, mg.int64) ** mg.astype(x, mg.int64), x, tmp=tmp_path
    )
    assert "reads random_normal" in refused(lambda x: x + random.normal((2, 2)), x, tmp=tmp_path)
    assert "take tensors" in refused(lambda x: x * 2, mg.Value(2.0), tmp=tmp_path)
    with pytest.raises(ProgramError, match="'my-step' must be a name in C"):
        jit(lambda x: x + 1).lower(x).export(tmp_path / "my-step.c")


def test_state_that_the_first_call_makes_is_refused_until_then(tmp_path: Path) -> None:
    w = mg.Tensor([1.0, 2.0])
    step = trained(w, optim.Adam([w], lr=0.1), lambda w, x: ((w - x) ** 2).sum())
    with pytest.raises(ProgramError, match="once before"):
        step.lower(mg.zeros(2)).export(tmp_path / "step.c")
    step(mg.zeros(2))
    assert len(step.lower(mg.zeros(2)).export(tmp_path / "step.c", name="other")) == 5
    assert "int other(" in (tmp_path / "step.c").read_text()


def test_schedules_stay_outside(tmp_path: Path) -> None:
    w = mg.Tensor([1.0, 2.0])
    rule = optim.SGD([w], lr=0.1)
    schedule = optim.lr_scheduler.StepLR(rule, 2)

    def step(x: Any) -> None:
        rule.zero_grad()
        ((w - x) ** 2).sum().backward()
        rule.step()
        schedule.step()

    assert "Schedule.step changes numbers" in refused(step, mg.zeros(2), tmp=tmp_path, first=1)
