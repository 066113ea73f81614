"""What every test of the suite stands on: the device, its known failures, and the protocol a test came with."""

from __future__ import annotations

import fnmatch
import gc
import inspect
from collections.abc import Callable, Iterable, Iterator
from functools import cache
from typing import Any, ClassVar

import pytest

from micrograd_core import plugins
from micrograd_core.array.tensor import asarray
from micrograd_core.backend import CAPABILITIES
from micrograd_core.conformance.cases import cases, formed, is_compiled, is_differentiable, large, special
from micrograd_core.conformance.limit import SECONDS, limited
from micrograd_core.conformance.matrix import facts
from micrograd_core.device import Device
from micrograd_core.dtypes import DTYPES
from micrograd_core.ops import TABLE

NOT_RUN = "not run: "
"""What the reason of a known failure begins with where the test would hang, or take the process with it."""


def kept(device: Device, work: Callable[[], object], first: int = 1, then: int = 1) -> int:
    """Bytes that stay in use after calls of `work`, beyond those after the `first` ones, whose constants are cached."""
    in_use = []
    for calls in (first, then):
        for _ in range(calls):
            work()
        gc.collect()
        device.synchronize()
        in_use.append(device.memory()["in_use"])
    return in_use[1] - in_use[0]


BROKEN: dict[str, str] = {}
"""Devices beside the one under test that do not work, and how it showed. Nobody charges the device under test."""


def others(device: Device) -> list[Device]:
    """Devices that tensors can move to from here: the host's, siblings of the same plugin, else any that works."""

    def working(names: Iterable[str]) -> list[Device]:
        found = [Device(name) for name in names if Device.is_available(name)]
        return [each for each in found if each is not device and _works(each)]

    siblings = [f"{device.type}:{address}" for address in plugins.call(device.type, "micrograd_addresses")]
    return working(["cpu", *siblings]) or working(plugins.names())


@cache
def _works(device: Device) -> bool:
    """Whether a device keeps a few numbers and multiplies them; what is wrong otherwise is noted in `BROKEN`."""
    try:
        found = (asarray([1.0, 2.0, 3.0], device=device) * 3).tolist()
        wrong = "" if found == [3.0, 6.0, 9.0] else f"3 times [1, 2, 3] is {found} there"
    except Exception as error:  # whatever its library raises
        wrong = str(error).partition("\n")[0] or type(error).__name__
    if wrong:
        BROKEN[str(device)] = wrong
    return not wrong


def matches(pattern: str, name: str) -> bool:
    """Whether a known failure means a test. ``*`` and ``?`` are wild; brackets are just what pytest prints."""
    return fnmatch.fnmatchcase(name, pattern.replace("[", "[[]"))


@cache
def _cases(name: str, gradient: bool, compiled: bool) -> dict[str, Any]:
    device = Device(name)
    found = cases(
        device.kernels.backend.dtypes, device.capabilities, floating_only=gradient, native=device.kernels.is_native
    )
    return {
        each.id: each
        for each in found
        if (not gradient or is_differentiable(each)) and (not compiled or is_compiled(each, gradient))
    }


def _of_dtypes(table: Callable[..., dict[str, Any]]) -> Callable[[str, bool, bool], dict[str, Any]]:
    return cache(lambda name, *_: table(Device(name).kernels.backend.dtypes, Device(name).capabilities))


TABLES: dict[str, Callable[[str, bool, bool], dict[str, Any]]] = {
    "case": _cases,
    "dtype": lambda name, *_: {each: each for each in Device(name).kernels.backend.dtypes if each in DTYPES},
    "formed": _of_dtypes(formed),
    "special": _of_dtypes(special),
    "large": _of_dtypes(large),
    "op": lambda *_: {name: name for name in TABLE},
    "word": lambda *_: {word: word for word in CAPABILITIES},
}
"""What a test is repeated for by the name of its argument: of a device, for gradients or not, compiled or not."""


class Suite:
    """Parametrizes its tests by the device, and applies the device's known failures to them."""

    device: ClassVar[str] = ""
    seconds: ClassVar[float] = SECONDS
    """How long one test may take. ``--time-limit`` has the last word."""
    told: ClassVar[bool] = False
    names: ClassVar[frozenset[str]] = frozenset()  # of all tests for this device, selected or not

    @classmethod
    def parameters(cls, test: str, arguments: Any) -> tuple[str, dict[str, Any]]:
        """What a test is repeated for: its argument, and the values by their names in the test's; or nothing.

        Cases by the device's dtypes; operations, dtypes and words of the vocabulary one by one.
        """
        found = next((argument for argument in arguments if argument in TABLES), "")
        return found, TABLES[found](cls.device, "gradient" in test, "jit" in test) if found else {}

    @classmethod
    def whole(cls) -> frozenset[str]:
        """The names of all tests of the suite for the device, whatever of them was selected or overridden."""
        ours = [base for base in cls.__mro__ if base.__module__.startswith(__package__)]
        found = set()
        for test, function in [item for base in ours for item in vars(base).items() if item[0].startswith("test_")]:
            argument, values = cls.parameters(test, inspect.signature(function).parameters)
            found.update([f"{test}[{each}]" for each in values] if argument else [test])
        return frozenset(found)

    def pytest_generate_tests(self, metafunc: Any) -> None:
        """Repeat a test for all that `parameters` finds."""
        gc.freeze()  # tens of thousands of tests live as long as the session: no collection need look through them
        cls = metafunc.cls
        if not cls.device:
            cls.device = metafunc.config.getoption("device", None) or "cpu"
        argument, values = cls.parameters(metafunc.function.__name__, metafunc.fixturenames)
        if argument:
            metafunc.parametrize(argument, list(values.values()), ids=list(values))

    @pytest.fixture(autouse=True)
    def _expectations(self, request: Any) -> Iterator[None]:
        """Older backends skip newer tests; known failures are strict; no test hangs. The matrix is told the facts."""
        backend, test, cls = Device(self.device).kernels.backend, request.node, type(self)
        test.user_properties.append(("micrograd device", str(self.device)))
        if "told" not in cls.__dict__:  # once in each process
            cls.told, cls.names = True, cls.whole()
            selected = {
                each.name
                for each in request.session.items
                if getattr(getattr(each, "cls", None), "device", "") == self.device
            }
            counted = {"tests": len(cls.names), "selected": len(cls.names & selected)}
            test.user_properties.append(("micrograd facts", {**facts(Device(self.device)), **counted}))
        arrived = getattr(request.function, "since", 1)  # what a newer test says of itself
        if backend.protocol < arrived:
            pytest.skip(f"this test came with protocol {arrived}; the backend speaks {backend.protocol}")
        for pattern, reason in known_failures(backend).items():
            if matches(pattern, test.name):
                test.add_marker(pytest.mark.xfail(reason=reason, strict=True, run=not reason.startswith(NOT_RUN)))
        broken = len(BROKEN)
        with limited(test.name, str(self.device), request.config.getoption("time_limit", None) or self.seconds):
            yield
        if len(BROKEN) > broken:
            test.user_properties.append(("micrograd broken", dict(BROKEN)))

    @pytest.fixture
    def opened(self) -> Device:
        """The device under test."""
        return Device(self.device)

    def test_known_failures_match_tests(self, opened: Device) -> None:
        """A pattern that matches nothing is a mistake, or a failure that is over."""
        for pattern in known_failures(opened.kernels.backend):
            assert any(matches(pattern, name) for name in self.names), (
                f"the known failure {pattern!r} matches no test; their names are as pytest prints them, "
                f"such as {min(self.names)!r}"
            )


def known_failures(backend: Any) -> dict[str, str]:
    """Pattern to reason, as the backend has them."""
    return dict(getattr(backend, "known_failures", {}))
