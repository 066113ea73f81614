"""What to make native first: kernel calls of three training steps, against the fewest possible.

``micrograd conformance DEVICE --profile`` runs a step of a small network of each kind on the device, and writes down
every kernel call and the operations that the core composed it for. An operation with a kernel of its own is one call,
so that each composed operation says what its kernel would save; the optimiser's update of all parameters is one too,
where the device has a kernel for it. The list is in order of what to write next: each line counts what is left to save
when all lines above it are written.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator
from typing import Any, Final, NamedTuple

from micrograd_core import nn, optim, random
from micrograd_core.device import Device
from micrograd_core.interpreters.guards import Guard
from micrograd_core.interpreters.raw import Kernels
from micrograd_core.ops import TABLE


class Call:
    """One call of an operation, and the calls that it was composed of."""

    __slots__ = ("native", "op", "parts")

    def __init__(self, op: str, native: bool) -> None:
        self.op, self.native = op, native
        self.parts: list[Call] = []

    def cost(self, written: frozenset[str] = frozenset()) -> int:
        """Kernel calls, if the operations `written` had kernels as well."""
        if self.op in written or (self.native and not self.parts):
            return 1
        return sum(part.cost(written) for part in self.parts)

    def composed(self, written: frozenset[str]) -> Iterator[Call]:
        """The call and what it is made of, as far as the core composes it."""
        if self.op in written or not self.parts:
            return
        yield self
        for part in self.parts:
            yield from part.composed(written)


class Counted(Kernels):
    """The table of a device, which writes calls down."""

    def __init__(self, backend: Any) -> None:
        super().__init__(backend)
        self.open = [Call("", False)]

    def _bind(self, name: str) -> Callable[..., Any]:
        function, native = super()._bind(name), self.is_native(name)

        def counted(*operands: Any, **params: Any) -> Any:
            call = Call(name, native)
            self.open[-1].parts.append(call)
            self.open.append(call)
            try:
                return function(*operands, **params)
            finally:
                self.open.pop()

        return counted

    def settle(self, guard: Guard) -> None:
        """Never: calls are counted around the guard."""


def counted_device(name: str) -> Device:
    """The device `name` under a table of its own, which nobody else sees."""
    device = object.__new__(Device)
    device._label, device.kernels = name, Counted(Device(name).kernels.backend)
    device.kernels.device = device
    return device


# ── the steps ────────────────────────────────────────────────────────────────────────────────────────────────


def mlp() -> tuple[nn.Module, tuple[int, ...]]:
    """Two linear layers."""
    return nn.Sequential(nn.Linear(8, 16), nn.ReLU(), nn.Linear(16, 4)), (5, 8)


def cnn() -> tuple[nn.Module, tuple[int, ...]]:
    """A convolution, normalised and pooled, before a linear layer."""
    features = nn.Conv2d(2, 3, 3, padding=1), nn.BatchNorm2d(3), nn.ReLU(), nn.MaxPool2d(2)
    return nn.Sequential(*features, nn.Flatten(), nn.Linear(12, 4)), (2, 2, 4, 4)


def transformer() -> tuple[nn.Module, tuple[int, ...]]:
    """One block, and a linear layer."""
    return nn.Sequential(nn.TransformerBlock(8, 2), nn.Flatten(), nn.Linear(24, 4)), (2, 3, 8)


STEPS: Final = {"mlp": mlp, "cnn": cnn, "transformer": transformer}


UPDATE: Final = optim.AdamW.together
"""The kernel that updates all parameters. Optimisers ask the device for it by that name; it is in no table."""


def step(name: str, device: Device) -> list[Call]:
    """The calls of one training step, with cross entropy and AdamW; the second one, after all constants are there."""
    update = Call(UPDATE, device.kernels.backend.kernel(UPDATE) is not None)
    with random.use_generator(0):
        network, shape = STEPS[name]()
        network.to(device)
        optimizer = optim.AdamW(network.parameters(), lr=1e-3)
        inputs = random.normal(shape).to(device)
        targets = random.randint((shape[0],), 0, 4).to(device)
        opened = device.kernels.open
        root = opened[0]
        for _ in range(2):
            root.parts.clear()
            update.parts.clear()
            optimizer.zero_grad()
            nn.cross_entropy(network(inputs), targets).backward()
            opened.append(update)
            optimizer.step()
            opened.pop()
    return [*root.parts, update]


# ── what they say ────────────────────────────────────────────────────────────────────────────────────────────


class Advice(NamedTuple):
    """One kernel to write: how often it would be called, and what it saves in each step."""

    op: str
    calls: int
    saves: dict[str, int]
    left: int

    @property
    def total(self) -> int:
        """Kernel calls saved in all steps."""
        return sum(self.saves.values())


def ranked(steps: dict[str, list[Call]]) -> list[Advice]:
    """The kernels to write, in order."""
    found: list[Advice] = []
    written: frozenset[str] = frozenset()
    left = sum(call.cost() for calls in steps.values() for call in calls)
    while True:
        saves: dict[str, Counter[str]] = {}
        calls: Counter[str] = Counter()
        for name, made in steps.items():
            for call in (each for top in made for each in top.composed(written)):
                saves.setdefault(call.op, Counter())[name] += call.cost(written) - 1
                calls[call.op] += 1
        best = max(sorted(saves), key=lambda op: saves[op].total(), default="")
        if not best or saves[best].total() <= 0:
            return found
        written |= {best}
        left -= saves[best].total()
        found.append(Advice(best, calls[best], {name: saves[best][name] for name in steps}, left))


def report(device: str) -> str:
    """The steps, and the kernels to write, as text."""
    counted = counted_device(str(Device(device)))
    steps = {name: step(name, counted) for name in STEPS}
    every = frozenset(TABLE) | {UPDATE}
    lines = [
        f"Kernel calls of one training step on {counted}, and the fewest possible, if every operation had a kernel,",
        f"and the optimiser {UPDATE}, which updates all parameters at once:",
    ]
    for name, calls in steps.items():
        lines.append(f"{name:>13} {sum(call.cost() for call in calls):>6} {sum(call.cost(every) for call in calls):>6}")
    advice = ranked(steps)
    if not advice:
        return "\n".join([*lines, "Every operation in them has a kernel: there is none to write."])
    width = max(len(each.op) for each in advice)
    lines += ["", "Write next, each line after those above it:"]
    titles = "".join(f"{name:>13}" for name in steps)
    lines.append(f"{'':>4} {'kernel':<{width}} {'called':>7} {'saves':>7}{titles} {'left':>7}")
    for number, each in enumerate(advice, 1):
        saved = "".join(f"{n or '':>13}" for n in each.saves.values())
        lines.append(f"{number:>4} {each.op:<{width}} {each.calls:>7} {each.total:>7}{saved} {each.left:>7}")
    return "\n".join(lines)
