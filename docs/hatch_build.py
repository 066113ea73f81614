"""What hatchling runs before it builds `micrograd-core`, as a wheel or editable: makes the stubs of type checkers."""

from __future__ import annotations

import os
import subprocess
import sys
from typing import Any

from hatchling.builders.hooks.plugin.interface import BuildHookInterface


class CustomBuildHook(BuildHookInterface):  # type: ignore[type-arg]
    """Run `stubs.py` on the sources that are built; the build's own environment has what these import."""

    def initialize(self, version: str, build_data: dict[str, Any]) -> None:
        """Called before each build."""
        environment = {**os.environ, "PYTHONPATH": self.root}
        command = [sys.executable, "docs/stubs.py"]
        subprocess.run(command, cwd=self.root, env=environment, check=True, stdout=subprocess.DEVNULL)
