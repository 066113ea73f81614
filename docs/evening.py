"""What an evening's reading takes: the files in order, and everything that importing them pulls in.

Both are counted as `size.py` counts, and gated. ``python docs/evening.py`` prints the table.
"""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

from size import ROOT, code_lines

LIMIT, CLOSED_LIMIT = 3_755, 5_000
CORE = ROOT / "micrograd_core"
READING = (
    "errors.py dtypes.py layout.py ops/record.py ops/core/elementwise.py ops/core/movement.py ops/core/reductions.py "
    "ops/core/matmul.py backend.py interpreters/raw.py engine/apply.py engine/array.py "
    "engine/graph.py engine/sweep.py engine/backward.py engine/modes.py "
    "engine/explain.py engine/ingest.py engine/dlpack.py engine/hooks.py engine/keys.py engine/selection.py "
    "engine/write.py array/operators.py array/tensor.py"
).split()
LOADED = """
import sys, types
package = types.ModuleType("micrograd_core")  # not its own imports, which serve users
package.__path__ = [sys.argv[1]]
sys.modules["micrograd_core"] = package
import micrograd_core.adapters.strided
import micrograd_core.array.tensor
import micrograd_core.backend
import micrograd_core.engine.backward
import micrograd_core.transforms.vmap
print(*(module.__file__ for name, module in sys.modules.items() if name.startswith("micrograd_core.")))
"""


def lines(name: str) -> int:
    """The lines of code of a file of the core."""
    return code_lines((CORE / name).read_text(encoding="utf-8"))


def closed() -> dict[str, int]:
    """Every file that Python runs when it imports the engine, the tensor, an adapter and `vmap`, with its lines."""
    found = subprocess.run([sys.executable, "-c", LOADED, str(CORE)], capture_output=True, text=True, check=True).stdout
    names = [Path(each).relative_to(CORE).as_posix() for each in found.split()]
    return {name: count for name in names if (count := lines(name))}


def table() -> tuple[str, int]:
    """The files with their lines, and the sum."""
    counts = {name: lines(name) for name in READING}
    total = sum(counts.values())
    rows = [f"{count:6,}  {name}" for name, count in counts.items()]
    return "\n".join([*rows, f"{total:6,}  of at most {LIMIT:,}"]), total


if __name__ == "__main__":
    printed, found = table()
    print(printed)
    everything = closed()
    whole = sum(everything.values())
    print(f"{whole:6,}  of at most {CLOSED_LIMIT:,} with all that they import: {len(everything)} files")
    sys.exit(found > LIMIT or whole > CLOSED_LIMIT)
