#!/usr/bin/env bash
# The tests on Python 3.14 where this machine has none: Pyodide, which is CPython for WebAssembly, run by node.
#
#   bash tests/newest.sh                            tests/engine and tests/scalar, 3 minutes
#   bash tests/newest.sh tests/engine/test_owners.py -k view   some of it, with arguments for pytest, 25 s and more
#
# It has no NumPy, threads, processes or timers: `cpu` is played by rawbuffer, and a test that wants one of those is
# skipped. Where node or npm is missing, or npm cannot install pyodide, all is left out, and said.
set -euo pipefail
cd "$(dirname "$0")/.."
root=$PWD

command -v node >/dev/null && command -v npm >/dev/null || { echo "left out: there is no node, or no npm, on the path" && exit 0; }
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
npm install --silent --no-fund --no-audit --prefix "$work" 'pyodide@314' >"$work/log" 2>&1 || { echo "left out: npm cannot install pyodide" && exit 0; }

uv build --quiet --wheel --out-dir "$work/dist" .
uv build --quiet --wheel --out-dir "$work/dist" plugins/rawbuffer
# Later releases of hypothesis are not pure Python.
uv pip install --quiet --target "$work/site" "$work"/dist/*.whl pytest 'hypothesis>=6.100,<6.150' mpmath
mkdir -p "$work/site/micrograd_cpu" "$work/site/micrograd_cpu-0.1.0.dist-info"
cat >"$work/site/micrograd_cpu/plugin.py" <<'PYTHON'
from micrograd_core.plugins import hookimpl
from micrograd_rawbuffer.storage import RawBufferBackend


@hookimpl
def micrograd_open(address):
    return RawBufferBackend("cpu")


@hookimpl
def micrograd_addresses():
    return ["0"]
PYTHON
touch "$work/site/micrograd_cpu/__init__.py"
printf 'Metadata-Version: 2.1\nName: micrograd-cpu\nVersion: 0.1.0\n' >"$work/site/micrograd_cpu-0.1.0.dist-info/METADATA"
printf '[micrograd.backends]\ncpu = micrograd_cpu.plugin\n' >"$work/site/micrograd_cpu-0.1.0.dist-info/entry_points.txt"

cat >"$work/site/lacking.py" <<'PYTHON'
"""What WebAssembly lacks, as a plugin of pytest: a test that fails for want of it is skipped."""

import pytest

LACKING = ("No module named 'numpy", "No module named 'micrograd_cpu.", "start new thread", "not support processes")
LACKING += ("'signal' has no attribute", "Function not implemented", "No module named '_multiprocessing", "provides the device 'strict'")


def skipped(report, call, where):
    why = next((x for x in LACKING if call.excinfo and x in str(call.excinfo.value)), None)
    if report.failed and why:
        report.outcome, report.longrepr = "skipped", (str(where), 0, f"Skipped: {why}")
    return report


@pytest.hookimpl(wrapper=True, tryfirst=True)
def pytest_make_collect_report(collector):
    report = yield
    return skipped(report, report.call, collector.path) if getattr(report, "call", None) else report


@pytest.hookimpl(wrapper=True, tryfirst=True)
def pytest_runtest_makereport(item, call):
    return skipped((yield), call, item.path)
PYTHON

cat >"$work/run.mjs" <<'JAVASCRIPT'
import { loadPyodide } from "pyodide";
const [root, site, ...given] = process.argv.slice(2);
const python = await loadPyodide({ env: { HOME: "/home/pyodide", MICROGRAD_TESTS_WITHOUT_DEV: "1" } });
for (const [from, to] of [[root, "/checkout"], [site, "/site"]]) {
  python.FS.mkdirTree(to);
  python.mountNodeFS(to, from);
}
python.globals.set("given", given);
process.exitCode = python.runPython(`
import os, sys
sys.path[:0] = ["/site", "/checkout"]
sys.dont_write_bytecode = True
os.chdir("/checkout")
import pytest
print("Python", sys.version, flush=True)
int(pytest.main(["-q", "-p", "no:cacheprovider", "-p", "lacking", *given]))
`);
JAVASCRIPT

[ $# -gt 0 ] || set -- tests/engine tests/scalar
ulimit -s unlimited 2>/dev/null || true # objects that hold each other die by recursion
node --stack-size=60000 "$work/run.mjs" "$root" "$work/site" --continue-on-collection-errors "$@"
