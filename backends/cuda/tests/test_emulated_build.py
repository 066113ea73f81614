"""What the emulated environment cannot be built without is named, and nothing is touched."""

from __future__ import annotations

import sys

import pytest

from emulated import build

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="the emulation runs on Linux")
LACKS = {
    "a driver": ({"has_driver": lambda: True}, "this machine has NVIDIA's driver: use the GPU"),
    "a compiler": ({"TOOLS": ("no-such-compiler",)}, "there is no no-such-compiler: install the compiler"),
    "a distribution": ({"NEEDED": ("no-such-thing",)}, "no-such-thing is not installed in"),
    "an environment": ({"sys.prefix": sys.base_prefix}, "is no environment of its own: python -m venv"),
}


@pytest.mark.parametrize("what", LACKS)
def test_what_is_missing_is_named(
    what: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    changes, message = LACKS[what]
    for name, value in {"has_driver": lambda: False, "sys.prefix": "an environment", **changes}.items():
        monkeypatch.setattr(f"emulated.build.{name}", value)
    assert build.main() == build.MISSING
    assert message in capsys.readouterr().err


def test_what_a_command_says_is_told_when_it_fails() -> None:
    with pytest.raises(build.Failed, match="failed:\\n.*the reason"):
        build.run(sys.executable, "-c", "raise SystemExit('the reason')")
