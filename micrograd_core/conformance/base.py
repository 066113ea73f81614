"""What every test of the suite stands on: the device, its known failures, and the protocol a test came with."""

from __future__ import annotations

import fnmatch
from collections.abc import Callable, Iterator
from typing import Any, ClassVar, TypeVar

import pytest

from micrograd_core import plugins
from micrograd_core.backend import CAPABILITIES
from micrograd_core.conformance.cases import cases, is_differentiable
from micrograd_core.conformance.extremes import large, special
from micrograd_core.conformance.matrix import facts
from micrograd_core.device import Device
from micrograd_core.dtypes import DTYPES
from micrograd_core.ops import TABLE

F = TypeVar("F", bound=Callable[..., None])


NOT_RUN = "not run: "
"""What the reason of a known failure begins with where the test would hang, or take the process with it."""


def since(protocol: int) -> Callable[[F], F]:
    """Mark a test with the protocol version it arrived with: older backends skip it."""

    def mark(test: F) -> F:
        test.since = protocol  # type: ignore[attr-defined]
        return test

    return mark


def claim(device: Device, word: str) -> None:
    """Skip the rest of a test of one level, and say which word would run it, unless the device claims the word."""
    if word not in device.capabilities:
        pytest.skip(f"add {word!r} to capabilities if {CAPABILITIES[word]}")


def others(device: Device) -> Iterator[Device]:
    """Devices that tensors can move to from here: the host's, siblings of the same plugin, else any that works."""
    siblings = [f"{device.type}:{address}" for address in plugins.call(device.type, "micrograd_addresses")]
    strangers = [name for name in plugins.names() if name not in ("cpu", device.type)] if device.is_cpu() else []
    for name in ("cpu", *siblings, *strangers):
        if Device.is_available(name) and Device(name) is not device:
            yield Device(name)


def matches(pattern: str, name: str) -> bool:
    """Whether a known failure means a test. ``*`` and ``?`` are wild; brackets are just what pytest prints."""
    return fnmatch.fnmatchcase(name, pattern.replace("[", "[[]"))


class Suite:
    """Parametrizes its tests by the device, and applies the device's known failures to them."""

    device: ClassVar[str] = ""
    told: ClassVar[bool] = False
    names: ClassVar[set[str]] = set()  # of all tests for this device, selected or not

    def pytest_generate_tests(self, metafunc: Any) -> None:
        """Cases by the device's dtypes; operations, dtypes and words of the vocabulary one by one."""
        cls, test = metafunc.cls, metafunc.function.__name__
        if not cls.device:
            cls.device = metafunc.config.getoption("--device", None) or "cpu"
        if "names" not in cls.__dict__:
            cls.names = set()
        dtypes, capabilities = Device(cls.device).kernels.backend.dtypes, Device(cls.device).capabilities
        gradient = "gradient" in test
        tables: dict[str, Callable[[], dict[str, Any]]] = {
            "case": lambda: {
                each.id: each
                for each in cases(dtypes, capabilities, floating_only=gradient)
                if not gradient or is_differentiable(each)
            },
            "dtype": lambda: {name: name for name in dtypes if name in DTYPES},
            "special": lambda: special(dtypes, capabilities),
            "large": lambda: large(dtypes, capabilities),
            "op": lambda: {name: name for name in TABLE},
            "word": lambda: {word: word for word in CAPABILITIES},
        }
        for argument in metafunc.fixturenames:
            if argument in tables:
                found = tables[argument]()
                metafunc.parametrize(argument, list(found.values()), ids=list(found))
                cls.names.update(f"{test}[{each}]" for each in found)
                return
        cls.names.add(test)

    @pytest.fixture(autouse=True)
    def _expectations(self, request: Any) -> None:
        """Older backends skip newer tests; known failures are strict. The matrix is told which device this is."""
        backend, test = Device(self.device).kernels.backend, request.node
        test.user_properties.append(("micrograd device", str(self.device)))
        if "told" not in type(self).__dict__:  # once in each process
            type(self).told = True
            test.user_properties.append(("micrograd facts", facts(Device(self.device))))
        arrived = getattr(request.function, "since", 1)
        if backend.protocol < arrived:
            pytest.skip(f"this test came with protocol {arrived}; the backend speaks {backend.protocol}")
        for pattern, reason in known_failures(backend).items():
            if matches(pattern, test.name):
                test.add_marker(pytest.mark.xfail(reason=reason, strict=True, run=not reason.startswith(NOT_RUN)))

    @pytest.fixture
    def opened(self) -> Device:
        """The device under test."""
        return Device(self.device)

    @since(1)
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


__all__ = ["Suite", "claim", "known_failures", "matches", "others", "since"]
