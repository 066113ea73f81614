"""By whom it is computed: one class for each peer, and one table of them. A peer imports its library when it is made.

A peer turns arrays into its own leaves (`leaf`), has the functions that programs call, and inherits from
`Tape` or `Functional` how a case of each kind is prepared: the two ways in which libraries differentiate.
"""

from __future__ import annotations

import subprocess
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from importlib import import_module
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from tempfile import TemporaryDirectory
from types import ModuleType
from typing import Any, ClassVar

import numpy as np

from benchmarks.by_hand import BY_HAND
from benchmarks.cases import PRODUCED, Arrays, Case, affine

TIMED_RATE = 1e-6
"""Learning rate while timing: after 10⁵ steps the network is still the one that was checked."""
CHECKED_RATE = {"sgd": 1.0, "adam": 1e-3}
"""Learning rates while checking: three steps move parameters far beyond the tolerance."""


@dataclass(frozen=True)
class Prepared:
    """A case made ready by a peer."""

    run: Callable[[], Any]
    """What is timed; complete when it returns."""
    numbers: Callable[[], Arrays]
    """Values, gradients and parameters by name, for comparison with other peers."""


class Peer:
    """What all peers have in common."""

    name: ClassVar[str]
    module: ClassVar[str]
    """What is imported when the peer is made."""
    distribution: ClassVar[str]
    kinds: ClassVar[tuple[str, ...]] = ("operation", "gradient", "training", "scalars")
    """Kinds of case it can run."""
    without: ClassVar[dict[str, str]] = {}
    """Cases it is left out of, and why."""
    notes: ClassVar[dict[str, str]] = {}
    """By kind, what is different here from what others are timed for."""

    def __init__(self) -> None:
        self.library: Any = import_module(self.module)

    @classmethod
    def version(cls) -> str:
        """Of the installed distribution."""
        try:
            return version(cls.distribution)
        except PackageNotFoundError:
            return "unknown"

    def runs(self, case: Case) -> bool:
        """Whether this peer takes part in a case."""
        return case.kind in self.kinds and case.name not in self.without

    def prepare(self, case: Case, arrays: Arrays) -> Prepared:
        """Make a case ready, by the method that has the name of its kind."""
        prepared: Prepared = getattr(self, case.kind)(case, arrays)
        return prepared

    def training(self, case: Case, arrays: Arrays) -> Prepared:
        """Steps of an optimiser."""
        step, _ = self.trainer(case, arrays, TIMED_RATE)

        def numbers() -> Arrays:
            checked, parameters = self.trainer(case, arrays, CHECKED_RATE[case.optimizer])
            losses = [self.host(checked()) for _ in range(3)]
            names = [name for name in arrays if name not in ("x", "targets")]
            return {"loss": losses[-1], **dict(zip(names, map(self.host, parameters()), strict=True))}

        return Prepared(step, numbers)

    model = training

    def scalars(self, case: Case, arrays: Arrays) -> Prepared:
        """Scalars are 0-d arrays unless a peer knows better."""
        return self.gradient(case, arrays)

    def operation(self, case: Case, arrays: Arrays) -> Prepared:
        """One recorded operation."""
        raise NotImplementedError

    def gradient(self, case: Case, arrays: Arrays) -> Prepared:
        """A scalar and its gradients."""
        raise NotImplementedError

    def trainer(self, case: Case, arrays: Arrays, rate: float) -> tuple[Callable[[], Any], Callable[[], Sequence[Any]]]:
        """A function that makes one step and returns the loss before it, and one that returns the parameters."""
        raise NotImplementedError

    def leaf(self, array: Any) -> Any:
        """An array to differentiate by."""
        return array

    def constant(self, array: Any) -> Any:
        """An array not to differentiate by."""
        return self.leaf(array)

    def host(self, x: Any) -> np.ndarray:
        """As a NumPy array."""
        return np.asarray(x)


def named(arrays: Arrays, gradients: Sequence[np.ndarray]) -> Arrays:
    """Gradients under the names of their inputs."""
    return {f"gradient of {name}": g for name, g in zip(arrays, gradients, strict=True)}


# ── update rules, for peers that have no optimisers of their own ─────────────────────────────────────────────


def sgd(p: Any, x: Any, g: Any, state: Any, rate: float) -> tuple[Any, Any]:
    """Plain gradient descent."""
    return x - rate * g, state


def adam(p: Any, x: Any, g: Any, state: Any, rate: float) -> tuple[Any, Any]:
    """Adam as torch computes it, with its default hyperparameters."""
    t, m, v = state or (0, 0.0, 0.0)
    t, m, v = t + 1, 0.9 * m + 0.1 * g, 0.999 * v + 0.001 * (g * g)
    root = p.sqrt(v) / (1 - 0.999**t) ** 0.5 + 1e-8
    return x - rate / (1 - 0.9**t) * (m / root), (t, m, v)


RULES = {"sgd": sgd, "adam": adam}


# ── the two ways to differentiate ────────────────────────────────────────────────────────────────────────────


class Tape(Peer):
    """Operations record themselves; ``backward()`` leaves gradients in ``.grad``."""

    @staticmethod
    def clear(leaf: Any) -> None:
        """Forget a gradient, so that the next is not added to it."""
        leaf.grad = None

    def compile(self, function: Callable[..., Any]) -> Callable[..., Any]:
        """What is done with a function of tensors before it is called again and again."""
        return function

    def compile_step(self, function: Callable[[], Any]) -> Callable[[], Any]:
        """The same for a whole step, which sweeps and changes parameters."""
        return function

    @property
    def functions(self) -> Any:
        """What programs call their functions on."""
        return self

    def operation(self, case: Case, arrays: Arrays) -> Prepared:
        leaves = [self.leaf(array) for array in arrays.values()]
        run = partial(self.compile(partial(case.program, self.functions)), *leaves)

        def numbers() -> Arrays:
            value = run()
            self.sum(value).backward()
            return {"value": self.host(value), **named(arrays, [self.host(leaf.grad) for leaf in leaves])}

        return Prepared(run, numbers)

    def gradient(self, case: Case, arrays: Arrays) -> Prepared:
        leaves = [self.leaf(array) for array in arrays.values()]
        run = self.swept(case, leaves, leaves)

        def numbers() -> Arrays:
            return {"value": self.host(run()), **named(arrays, [self.host(leaf.grad) for leaf in leaves])}

        return Prepared(run, numbers)

    def swept(self, case: Case, operands: list[Any], leaves: list[Any]) -> Callable[[], Any]:
        """A function that computes a case, and leaves gradients in `leaves`."""
        program, clear = self.compile(partial(case.program, self.functions)), self.clear

        def run() -> Any:
            for leaf in leaves:
                clear(leaf)
            value = program(*operands)
            value.backward()
            return value

        return self.compile_step(run)

    sum: Callable[[Any], Any]


class Modules(Tape):
    """A tape with layers and optimisers in torch's fashion."""

    kinds = (*Peer.kinds, "network", "model")
    nn: Any
    optimizers: dict[str, Any]
    cross_entropy: Callable[..., Any]

    def network(self, case: Case, arrays: Arrays) -> Prepared:
        """As `gradient`; integers are not differentiated by."""
        leaves = [self.leaf(x) if x.dtype.kind == "f" else self.constant(x) for x in arrays.values()]
        varied = [(name, x) for (name, array), x in zip(arrays.items(), leaves, strict=True) if array.dtype.kind == "f"]
        run = self.swept(case, leaves, [x for _, x in varied])

        def numbers() -> Arrays:
            return {"value": self.host(run()), **{f"gradient of {name}": self.host(x.grad) for name, x in varied}}

        return Prepared(run, numbers)

    def trainer(self, case: Case, arrays: Arrays, rate: float) -> Any:
        x, targets, *numbers = arrays.values()
        x, targets = self.constant(x), self.constant(targets)
        parameters, loss_of = (self.functional if case.kind == "model" else self.layers)(case, numbers)
        optimizer = self.optimizers[case.optimizer](parameters, lr=rate)
        loss_of = self.compile(loss_of)

        def step() -> Any:
            optimizer.zero_grad()
            loss = loss_of(x, targets)
            loss.backward()
            optimizer.step()
            return loss

        return self.compile_step(step), lambda: parameters

    def layers(self, case: Case, numbers: Sequence[Any]) -> tuple[list[Any], Callable[[Any, Any], Any]]:
        """Parameters and loss of a perceptron of layers."""
        layers: list[Any] = []
        for weight in numbers[::2]:
            layers += [self.nn.Linear(*weight.shape[::-1]), self.nn.ReLU()]
        model, cross_entropy = self.nn.Sequential(*layers[:-1]), self.cross_entropy
        for parameter, array in zip(model.parameters(), numbers, strict=True):
            parameter.data = self.constant(array.copy())
        return list(model.parameters()), lambda x, targets: cross_entropy(model(x), targets)

    def functional(self, case: Case, numbers: Sequence[Any]) -> tuple[list[Any], Callable[[Any, Any], Any]]:
        """Parameters and loss of a model that is written in functions."""
        leaves, functions, program = [self.leaf(array.copy()) for array in numbers], self.functions, case.program
        return leaves, lambda x, targets: program(functions, x, targets, *leaves)


class Functional(Peer):
    """Functions are turned into functions that compute gradients."""

    sum: Callable[[Any], Any]

    def value_and_grad(self, case: Case, program: Callable[..., Any], positions: range) -> Any:
        """The function that gives a program's value, and its gradients by the arguments at `positions`."""
        raise NotImplementedError

    def compile(self, function: Callable[..., Any]) -> Callable[..., Any]:
        """What is done with a function before it is called again and again."""
        return function

    def finish(self, results: Any) -> Any:
        """Wait for results that are still being computed."""
        return results

    def operation(self, case: Case, arrays: Arrays) -> Prepared:
        leaves = [self.leaf(array) for array in arrays.values()]
        function, finish = self.compile(partial(case.program, self)), self.finish
        total = self.value_and_grad(case, lambda *inputs: self.sum(case.program(self, *inputs)), range(len(leaves)))

        def numbers() -> Arrays:
            _, gradients = finish(total(*leaves))
            return {"value": self.host(finish(function(*leaves))), **named(arrays, [self.host(g) for g in gradients])}

        return Prepared(lambda: finish(function(*leaves)), numbers)

    def gradient(self, case: Case, arrays: Arrays) -> Prepared:
        """Integers come last, and are not differentiated by."""
        leaves = [self.leaf(array) for array in arrays.values()]
        varied = {name: array for name, array in arrays.items() if array.dtype.kind == "f"}
        both = self.compile(self.value_and_grad(case, partial(case.program, self), range(len(varied))))
        finish = self.finish

        def run() -> Any:
            return finish(both(*leaves))

        def numbers() -> Arrays:
            value, gradients = run()
            return {"value": self.host(value), **named(varied, [self.host(g) for g in gradients])}

        return Prepared(run, numbers)

    network = gradient

    def trainer(self, case: Case, arrays: Arrays, rate: float) -> Any:
        x, targets, *parameters = (self.leaf(array) for array in arrays.values())
        states: list[Any] = [()] * len(parameters)
        both = self.value_and_grad(case, partial(case.program, self), range(2, len(arrays)))
        rule, finish = RULES[case.optimizer], self.finish

        def update(x: Any, targets: Any, parameters: list[Any], states: list[Any]) -> Any:
            loss, gradients = both(x, targets, *parameters)
            moved = [rule(self, *each, rate) for each in zip(parameters, gradients, states, strict=True)]
            return loss, [parameter for parameter, _ in moved], [state for _, state in moved]

        update = self.compile(update)

        def step() -> Any:
            nonlocal parameters, states
            loss, parameters, states = finish(update(x, targets, parameters, states))
            return loss

        return step, lambda: parameters


# ── the peers ────────────────────────────────────────────────────────────────────────────────────────────────


class NumPy(Functional):
    """The floor: gradients worked out by hand for each case, nothing recorded, no engine."""

    name, module, distribution = "numpy", "numpy", "numpy"
    kinds = ("operation", "gradient", "training")
    notes: ClassVar[dict[str, str]] = {
        "operation": "NumPy records nothing",
        "gradient": "gradients written by hand in NumPy",
        "training": "gradients and update written by hand in NumPy",
    }
    sqrt = staticmethod(np.sqrt)
    sum = staticmethod(np.ndarray.sum)

    def relu(self, x: Any) -> Any:
        return np.maximum(x, 0)

    def operation(self, case: Case, arrays: Arrays) -> Prepared:
        run = partial(case.program, self, *arrays.values())
        return Prepared(run, lambda: {"value": np.asarray(run())})

    def value_and_grad(self, case: Case, program: Callable[..., Any], positions: range) -> Any:
        return BY_HAND[case.name if case.kind == "gradient" else case.kind]


class C(Peer):
    """Loops in C, over memory that is there already: what a case costs where nothing is recorded or allocated."""

    name, module, distribution = "c", "ctypes", "c"
    kinds = ("operation", "network")
    notes: ClassVar[dict[str, str]] = {
        "operation": "cc -O3 -march=native, one thread, into the same memory each time",
        "network": "a loop for each operation, by all threads (OpenMP), into the same memory each time",
    }
    layers: ClassVar[dict[str, tuple[str, int, int]]] = {
        "layer-norm": ("layer_norm", 4, 2),
        "batch-norm": ("batch_norm", 4, 2),
        "cross-entropy": ("cross_entropy", 0, 1),
    }
    """Functions in `loops.c` by the name of the case; how many arrays and how many rows they need between."""

    def __init__(self) -> None:
        super().__init__()
        source = str(Path(__file__).with_name("loops.c"))
        options = ["-O3", "-march=native", "-ffast-math", "-fopenmp", "-shared", "-fPIC"]
        with TemporaryDirectory() as folder:
            path = f"{folder}/loops.so"
            subprocess.run(["cc", *options, source, "-o", path, "-lm"], check=True, capture_output=True)
            self.functions = self.library.CDLL(path)

    def runs(self, case: Case) -> bool:
        return case.program is affine or case.name.removesuffix("-large") in self.layers

    def pointers(self, *arrays: np.ndarray) -> list[Any]:
        """Where arrays are."""
        return [self.library.c_void_p(array.ctypes.data) for array in arrays]

    def operation(self, case: Case, arrays: Arrays) -> Prepared:
        out = np.zeros_like(arrays["x"])
        run = partial(self.functions.affine, *self.pointers(*arrays.values(), out), self.library.c_long(out.size))
        return self.prepared(run, {"value": out}, arrays)

    def network(self, case: Case, arrays: Arrays) -> Prepared:
        """The value and gradients of a layer, and what is between them."""
        (x, *_), value = arrays.values(), np.zeros((), "float32")
        gradients = {name: np.zeros_like(array) for name, array in arrays.items() if array.dtype.kind == "f"}
        name, whole, rows = self.layers[case.name.removesuffix("-large")]
        between = [np.zeros_like(x) for _ in range(whole)] + [np.zeros(max(x.shape), "float32") for _ in range(rows)]
        function = getattr(self.functions, name)
        given = self.pointers(*arrays.values(), value, *gradients.values(), *between)
        run = partial(function, *given, *map(self.library.c_long, x.shape))
        found = {"value": value, **named(gradients, [*gradients.values()])}
        return self.prepared(run, found, (arrays, between))

    @staticmethod
    def prepared(run: partial[Any], found: Arrays, held: Any) -> Prepared:
        """A function of addresses, which `held` arrays are at, and what it leaves in arrays."""
        run.held = held, found  # type: ignore[attr-defined]

        def numbers() -> Arrays:
            run()
            return found

        return Prepared(run, numbers)


class Micrograd(Modules):
    """The project itself, on its CPU backend."""

    name, module, distribution = "micrograd", "micrograd_core", "micrograd-core"

    def __init__(self) -> None:
        super().__init__()
        mg = self.library
        self.relu, self.sum, self.tanh = mg.Tensor.relu, mg.Tensor.sum, mg.Tensor.tanh
        self.cross_entropy, self.conv2d, self.layer_norm = mg.cross_entropy, mg.conv2d, mg.layer_norm
        self.gelu, self.softmax, self.attention = mg.gelu, mg.softmax, mg.scaled_dot_product_attention
        self.batch_norm = lambda x, *rows: mg.batch_norm(x, None, None, *rows, training=True)
        self.causal_attention = partial(self.attention, is_causal=True)
        self.linear = lambda x, weight, bias=0.0: mg.linear(x, weight, bias)
        self.embedding, self.max_pool2d, self.permute = mg.embedding, mg.max_pool2d, mg.permute_dims
        self.nn, self.optimizers = mg.nn, {"sgd": mg.optim.SGD, "adam": mg.optim.Adam}

    def leaf(self, array: Any) -> Any:
        return self.library.Tensor(array)

    def constant(self, array: Any) -> Any:
        return self.library.asarray(array)

    def scalars(self, case: Case, arrays: Arrays) -> Prepared:
        """Scalars are Values here: Python floats instead of arrays."""
        return Scalars("micrograd_core").gradient(case, arrays)

    def host(self, x: Any) -> np.ndarray:
        return np.array(x.detach().numpy(), "float32")


class MicrogradJit(Micrograd):
    """The same under `jit`: a whole step, gradients and update included, is one program."""

    name = "micrograd-jit"
    kinds = ("operation", "gradient", "training", "network", "model")

    def __init__(self) -> None:
        super().__init__()
        self.compile = self.compile_step = self.library.jit
        self._functions = ModuleType("functions")
        vars(self._functions).update(vars(self))

    @property
    def functions(self) -> Any:
        """A module, as a user has: of other objects `jit` looks at each call whether the attributes are the same."""
        return self._functions


class Products(MicrogradJit):
    """The products of matrices of that program alone, in memory that is there: what no loop around them goes below."""

    name, module = "products", "micrograd_core"
    kinds = ("gradient", "training", "network", "model")
    notes: ClassVar[dict[str, str]] = dict.fromkeys(
        kinds, "NumPy's BLAS alone on the shapes and layouts of micrograd-jit's products, a limit and no peer"
    )

    def runs(self, case: Case) -> bool:
        return super().runs(case) and case.program in PRODUCED

    def prepare(self, case: Case, arrays: Arrays) -> Prepared:
        run: Any = super().prepare(case, arrays).run
        run()
        operands = factors(run.program)
        calls = [partial(np.dot if x.ndim == 2 else np.matmul, x, y, out=x @ y) for x, y in operands]

        def products() -> None:
            for call in calls:
                call()

        return Prepared(products, dict)


def factors(program: Any) -> list[tuple[np.ndarray, np.ndarray]]:
    """Operands for every product of a program, which lie in memory as its views say."""
    expanded = import_module("micrograd_core.compiler.passes").expand(
        program, import_module("micrograd_cpu.scalars").covers
    )
    rng = np.random.default_rng(0)
    made: list[Any] = [None] * len(expanded.types)
    views: dict[str, Callable[..., Any]] = {
        "permute_dims": lambda x, axes: x.transpose(axes),
        "reshape": lambda x, shape: x.reshape(shape),
        "getitem": lambda x, key: x[key],
    }

    def array(n: int) -> Any:
        if made[n] is None:
            made[n] = rng.normal(size=expanded.types[n].shape).astype("float32")
        return made[n]

    found = []
    for step, (n, *_) in expanded.numbered():
        if step.op in views:
            made[n] = views[step.op](array(step.operands[0].number), **step.params)
        elif step.op == "matmul":
            x, y = (array(operand.number) for operand in step.operands)
            if y.ndim == 2 < x.ndim:  # many rows, one product
                x = x.reshape(-1, x.shape[-1])
            found.append((x, y))
    return found


class Torch(Modules):
    """PyTorch, eager."""

    name, module, distribution = "torch", "torch", "torch"

    def __init__(self) -> None:
        super().__init__()
        torch = self.library
        self.relu, self.sum, self.tanh = torch.relu, torch.sum, torch.tanh
        functional = torch.nn.functional
        self.cross_entropy, self.conv2d, self.gelu = functional.cross_entropy, functional.conv2d, functional.gelu
        self.softmax = partial(functional.softmax, dim=-1)
        self.attention = functional.scaled_dot_product_attention
        self.causal_attention = partial(self.attention, is_causal=True)
        self.linear, self.embedding, self.max_pool2d = functional.linear, functional.embedding, functional.max_pool2d
        self.permute = torch.permute
        self.nn, self.optimizers = torch.nn, {"sgd": torch.optim.SGD, "adam": torch.optim.Adam}

    def layer_norm(self, x: Any, weight: Any, bias: Any) -> Any:
        return self.library.nn.functional.layer_norm(x, weight.shape, weight, bias)

    def batch_norm(self, x: Any, weight: Any, bias: Any) -> Any:
        return self.library.nn.functional.batch_norm(x, None, None, weight, bias, training=True)

    def leaf(self, array: Any) -> Any:
        return self.library.tensor(array, requires_grad=True)

    def constant(self, array: Any) -> Any:
        return self.library.tensor(array)

    def host(self, x: Any) -> np.ndarray:
        return np.array(x.detach())


class TorchCompile(Torch):
    """PyTorch, with `torch.compile` around the program or around model and loss; the optimiser's step stays eager."""

    name = "torch-compile"
    kinds = ("operation", "gradient", "training", "network", "model")
    without: ClassVar[dict[str, str]] = {"chain-1000": "its compiler takes minutes over a thousand operations"}
    notes: ClassVar[dict[str, str]] = {"training": "model and loss are compiled, the optimiser is not"}

    def __init__(self) -> None:
        super().__init__()
        self.compile = partial(self.library.compile, dynamic=False)
        self.compile(lambda x: x + 1)(self.library.ones(4))  # fails here, and not in the first case, without a compiler

    def prepare(self, case: Case, arrays: Arrays) -> Prepared:
        """Without what was compiled for the case before, whose code objects may be the same."""
        self.library.compiler.reset()
        return super().prepare(case, arrays)


class Jax(Functional):
    """JAX without compilation: every operation is dispatched on its own, every gradient traced anew."""

    name, module, distribution = "jax", "jax", "jax"
    kinds = (*Peer.kinds, "network", "model")
    without: ClassVar[dict[str, str]] = {"resnet-18": "it has no functions of such layers"}
    notes: ClassVar[dict[str, str]] = {"operation": "not recorded: JAX records only inside a gradient"}

    def __init__(self) -> None:
        super().__init__()
        jax = self.library
        self.relu, self.sum, self.tanh, self.sqrt = jax.nn.relu, jax.numpy.sum, jax.numpy.tanh, jax.numpy.sqrt
        self.gelu, self.softmax = partial(jax.nn.gelu, approximate=False), jax.nn.softmax

    def leaf(self, array: Any) -> Any:
        return self.library.numpy.asarray(array)

    def finish(self, results: Any) -> Any:
        return self.library.block_until_ready(results)

    def cross_entropy(self, logits: Any, targets: Any) -> Any:
        return -self.library.nn.log_softmax(logits)[np.arange(len(targets)), targets].mean()

    def layer_norm(self, x: Any, weight: Any, bias: Any) -> Any:
        return self._standardised(x, -1) * weight + bias

    def batch_norm(self, x: Any, weight: Any, bias: Any) -> Any:
        return self._standardised(x, 0) * weight + bias

    def _standardised(self, x: Any, axis: int) -> Any:
        centred = x - x.mean(axis, keepdims=True)
        return centred / self.sqrt((centred * centred).mean(axis, keepdims=True) + 1e-5)

    def conv2d(self, x: Any, weight: Any, bias: Any, padding: int) -> Any:
        around = [(padding, padding)] * 2
        return self.library.lax.conv_general_dilated(x, weight, (1, 1), around) + bias[:, None, None]

    def attention(self, q: Any, k: Any, v: Any) -> Any:
        return self.softmax(q @ k.swapaxes(-1, -2) * q.shape[-1] ** -0.5) @ v

    def causal_attention(self, q: Any, k: Any, v: Any) -> Any:
        scores = q @ k.swapaxes(-1, -2) * q.shape[-1] ** -0.5
        return self.softmax(self.library.numpy.where(np.tri(*scores.shape[-2:], dtype=bool), scores, -np.inf)) @ v

    def linear(self, x: Any, weight: Any, bias: Any = 0.0) -> Any:
        return x @ weight.T + bias

    def embedding(self, indices: Any, weight: Any) -> Any:
        return weight[indices]

    def permute(self, x: Any, axes: Any) -> Any:
        return self.library.numpy.transpose(x, axes)

    def max_pool2d(self, x: Any, kernel: int) -> Any:
        batch, channels, height, width = x.shape
        return x.reshape((batch, channels, height // kernel, kernel, width // kernel, kernel)).max((3, 5))

    def value_and_grad(self, case: Case, program: Callable[..., Any], positions: range) -> Any:
        return self.library.value_and_grad(program, argnums=tuple(positions))


class JaxJit(Jax):
    """JAX, the whole case compiled into one program."""

    name = "jax-jit"

    def compile(self, function: Callable[..., Any]) -> Any:
        return self.library.jit(function)


class Autograd(Functional):
    """HIPS autograd, which wraps NumPy."""

    name, module, distribution = "autograd", "autograd", "autograd"
    notes: ClassVar[dict[str, str]] = {"operation": "on boxes made by hand: autograd records only inside a gradient"}

    def __init__(self) -> None:
        super().__init__()
        self.anp = anp = import_module("autograd.numpy")
        self.sum, self.tanh, self.sqrt = anp.sum, anp.tanh, np.sqrt

    def relu(self, x: Any) -> Any:
        return self.anp.maximum(x, 0)

    def cross_entropy(self, logits: Any, targets: Any) -> Any:
        anp = self.anp
        shifted = logits - anp.max(logits, axis=1, keepdims=True)
        log_total = anp.log(anp.sum(anp.exp(shifted), axis=1))
        return anp.mean(log_total - shifted[np.arange(len(targets)), targets])

    def value_and_grad(self, case: Case, program: Callable[..., Any], positions: range) -> Any:
        return self.library.value_and_grad(program, argnum=tuple(positions))

    def operation(self, case: Case, arrays: Arrays) -> Prepared:
        new_box, root = import_module("autograd.tracer").new_box, import_module("autograd.core").VJPNode.new_root
        boxes = [new_box(array, 0, root()) for array in arrays.values()]
        return Prepared(partial(case.program, self, *boxes), super().operation(case, arrays).numbers)


class MyGrad(Tape):
    """MyGrad, a tape over NumPy."""

    name, module, distribution = "mygrad", "mygrad", "mygrad"

    def __init__(self) -> None:
        super().__init__()
        mygrad = self.library
        self.relu, self.sum, self.tanh, self.sqrt = mygrad.nnet.relu, mygrad.sum, mygrad.tanh, np.sqrt
        self.cross_entropy = mygrad.nnet.softmax_crossentropy

    def leaf(self, array: Any) -> Any:
        return self.library.tensor(array)

    def constant(self, array: Any) -> Any:
        return self.library.tensor(array, constant=True)

    @staticmethod
    def clear(leaf: Any) -> None:
        leaf.null_grad()

    def trainer(self, case: Case, arrays: Arrays, rate: float) -> Any:
        x, targets, *numbers = arrays.values()
        leaves, inputs = [self.leaf(array) for array in numbers], self.constant(x)
        states: list[Any] = [()] * len(leaves)
        rule = RULES[case.optimizer]

        def step() -> Any:
            loss = case.program(self, inputs, targets, *leaves)
            loss.backward()
            for i, leaf in enumerate(leaves):
                leaf.data[...], states[i] = rule(self, leaf.data, leaf.grad, states[i], rate)
            return loss

        return step, lambda: leaves

    def host(self, x: Any) -> np.ndarray:
        return np.array(getattr(x, "data", x))


class TinyGrad(Functional):
    """tinygrad, which is lazy: results are realized, and waited for, in every call."""

    name, module, distribution = "tinygrad", "tinygrad", "tinygrad"
    kinds = ("operation", "gradient", "training")
    without: ClassVar[dict[str, str]] = {"chain-1000": "its scheduler takes minutes over a thousand operations"}
    notes: ClassVar[dict[str, str]] = dict.fromkeys(kinds, "scheduled and realized in every call, without its TinyJit")

    def __init__(self) -> None:
        super().__init__()
        self.tensor = Tensor = self.library.Tensor  # noqa: N806
        self.device = self.library.Device[self.library.Device.DEFAULT]
        self.relu, self.sum, self.tanh, self.sqrt = Tensor.relu, Tensor.sum, Tensor.tanh, Tensor.sqrt
        self.cross_entropy = Tensor.sparse_categorical_crossentropy
        (self.tensor([1.0]) + 1).realize()  # fails here, and not in the first case, where there is no compiler

    def leaf(self, array: Any) -> Any:
        return self.tensor(array).realize()

    def finish(self, results: Any) -> Any:
        self.tensor.realize(*(x for x in flattened(results) if isinstance(x, self.tensor)))
        self.device.synchronize()
        return results

    def value_and_grad(self, case: Case, program: Callable[..., Any], positions: range) -> Any:
        def both(*inputs: Any) -> tuple[Any, Any]:
            value = program(*inputs)
            return value, value.gradient(*(inputs[position] for position in positions))

        return both

    def host(self, x: Any) -> np.ndarray:
        return np.array(x.detach().numpy())


def flattened(tree: Any) -> Iterator[Any]:
    """What nested lists and tuples hold."""
    if isinstance(tree, (list, tuple)):
        for each in tree:
            yield from flattened(each)
    else:
        yield tree


class Scalars(Tape):
    """An engine of scalars, whose class is `Value`."""

    def __init__(self, module: str) -> None:
        self.library = import_module(module)
        self.relu = self.library.Value.relu

    def leaf(self, array: Any) -> Any:
        return self.library.Value(float(array))

    @staticmethod
    def clear(leaf: Any) -> None:
        leaf.grad = 0.0

    def host(self, x: Any) -> np.ndarray:
        return np.asarray(getattr(x, "data", x), "float32")


class Karpathy(Scalars):
    """karpathy/micrograd, the scalar engine this project is named after."""

    name, module, distribution = "karpathy", "micrograd.engine", "micrograd"
    kinds = ("scalars",)

    def __init__(self) -> None:
        super().__init__(self.module)


_PEERS = (
    C,
    Products,
    NumPy,
    Micrograd,
    MicrogradJit,
    Torch,
    TorchCompile,
    Jax,
    JaxJit,
    Autograd,
    MyGrad,
    TinyGrad,
    Karpathy,
)
PEERS: dict[str, type[Peer]] = {peer.name: peer for peer in _PEERS}
"""In the order of the columns."""
