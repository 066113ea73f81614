#!/usr/bin/env bash
# The tests as other machines see them: other instructions, another BLAS, other numbers of threads, no compiler, and the
# plain way of macOS and Windows to call what was compiled.
#
#   bash tests/machines.sh                          every disguise, all tests that compute
#   bash tests/machines.sh old bare -- tests/nn     some of them, with arguments for pytest
#
# What this processor cannot play is left out, and said. `python` is the one on the path.
set -euo pipefail
cd "$(dirname "$0")/.."

#          needs    NumPy without   OPENBLAS_CORETYPE   threads   MICROGRAD_CPU_TARGET; no llvmlite; MICROGRAD_CPU_PLAIN
table="
old        sse4_1   .*              Prescott            1         x86-64-v2
middle     avx2     X86_V4|AVX512   Haswell             5         x86-64-v3
zen        avx2     X86_V4|AVX512   Zen                 2         x86-64-v3
new        avx512vl none            SkylakeX            2         x86-64-v4
bare       -        none            -                   5         none
plain      -        none            -                   2         plain
"

disguises=() tests=(tests/ops tests/scalar tests/compiler tests/transforms tests/nn tests/engine tests/optim)
while [ $# -gt 0 ] && [ "$1" != -- ]; do disguises+=("$1") && shift; done
if [ $# -gt 0 ]; then shift && tests=("$@"); fi
[ ${#disguises[@]} -gt 0 ] || disguises=(old middle zen new bare plain)

hidden=$(mktemp -d)
trap 'rm -rf "$hidden"' EXIT
echo 'import sys; sys.modules["llvmlite"] = None' >"$hidden/sitecustomize.py" # as if it were not installed

failed=()
for name in "${disguises[@]}"; do
  read -r _ needs without core threads target < <(grep "^$name " <<<"$table") || { echo "no disguise is called $name" && exit 2; }
  if [ "$needs" != - ] && ! grep -qw "$needs" /proc/cpuinfo 2>/dev/null; then
    echo "── $name: left out, this processor has no $needs" && continue
  fi
  features=$(python -c 'import re, sys; from numpy._core._multiarray_umath import __cpu_dispatch__ as names, __cpu_features__ as has
print(*(name for name in names if has[name] and re.match(sys.argv[1], name)))' "$without")
  given=(OPENBLAS_NUM_THREADS="$threads" NPY_DISABLE_CPU_FEATURES="$features")
  [ "$core" = - ] || given+=(OPENBLAS_CORETYPE="$core")
  case $target in
    none) given+=(PYTHONPATH="$hidden") ;;
    plain) given+=(MICROGRAD_CPU_PLAIN=1) ;;
    *) given+=(MICROGRAD_CPU_TARGET="$target") ;;
  esac
  echo "── $name: ${given[*]}"
  env "${given[@]}" python -m pytest -q "${tests[@]}" || failed+=("$name")
done
[ ${#failed[@]} -eq 0 ] || { echo "red: ${failed[*]}" && exit 1; }
