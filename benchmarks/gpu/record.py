"""Figures as dated JSON, with the machine they are from."""

from __future__ import annotations

import json
import os
import platform
import subprocess
import sys
from datetime import UTC, datetime
from importlib import metadata
from pathlib import Path
from typing import Any

PACKAGES = ("cupy", "cupy-cuda12x", "cupy-cuda13x", "jax", "micrograd-core", "numpy", "torch")


def machine() -> dict[str, Any]:
    """GPU, driver, packages. What is not there is left out."""
    found: dict[str, Any] = {"python": platform.python_version(), "platform": platform.platform()}
    for name in PACKAGES:
        try:
            found[name] = metadata.version(name)
        except metadata.PackageNotFoundError:
            continue
    if "cupy" in sys.modules:
        import cupy

        facts = cupy.cuda.runtime.getDeviceProperties(0)
        found["gpu"] = facts["name"].decode()
        found["multiprocessors"], found["memory"] = facts["multiProcessorCount"], facts["totalGlobalMem"]
        found["driver runs CUDA"] = cupy.cuda.runtime.driverGetVersion()
    return found


def commit() -> str:
    """What was run: the checkout's commit, and whether files differ from it; ``$COMMIT`` where there is no git."""
    git = ["git", "-C", str(Path(__file__).parent)]
    try:
        found = subprocess.run([*git, "rev-parse", "HEAD"], capture_output=True, text=True, check=True).stdout.strip()
        differs = subprocess.run(
            [*git, "diff", "--quiet", "HEAD", "--", ":!/benchmarks/results"], check=False
        ).returncode
    except (OSError, subprocess.CalledProcessError):
        return os.environ.get("COMMIT", "unknown")
    return f"{found} and changes" if differs else found


def write(name: str, figures: dict[str, Any], folder: Path) -> Path:
    """Keep figures; where they went."""
    folder.mkdir(parents=True, exist_ok=True)
    now = datetime.now(UTC)
    path = folder / f"{now:%Y-%m-%d}-gpu-{name}.json"
    content = {"at": now.isoformat(timespec="seconds"), "commit": commit(), "machine": machine(), **figures}
    path.write_text(json.dumps(content, indent=1) + "\n", encoding="utf-8")
    return path
