#!/usr/bin/env bash
# The array API's own suite (data-apis/array-api-tests) against micrograd_core on the cpu: nothing skipped or expected to
# fail by us. Give it a checkout with its submodule, or let it clone one; further arguments go to pytest.
#
#   tests/array_api_tests.sh [CHECKOUT [PYTEST ARGUMENTS ...]]
#
# MICROGRAD_DEVICE=cuda judges the cuda backend: one test asks it for memory that the host can see without a copy.
# MICROGRAD_DEVICE=opencl SKIP=complex64,complex128 judges a device without some dtypes, by what does not need them, nor
# the extensions and DLPack.
# The environment needs pytest, pytest-json-report, hypothesis>=6.151 and ndindex>=1.8. Not part of CI, which has no network but an index.
set -euo pipefail
checkout=${1:-$(mktemp -d)/array-api-tests}
[ -d "$checkout" ] || git clone --quiet --depth 1 --recurse-submodules --shallow-submodules \
  https://github.com/data-apis/array-api-tests "$checkout"
python=${PYTHON:-python}
export ARRAY_API_TESTS_MODULE=micrograd_core ARRAY_API_TESTS_SKIP_DTYPES=${SKIP:-}
judge() { "$python" -m pytest -q -p no:cacheprovider array_api_tests "$@"; }
cd "$checkout"
[ -n "${SKIP:-}" ] || { judge "${@:2}" && exit; }
# The suite asks for the widest complex dtype even where all are skipped, and has its special cases in any case.
sed -i 's/for dt in complex_dtypes\], key/for dt in complex_dtypes] or [(None, 0)], key/' array_api_tests/dtype_helpers.py
without=(--ignore=array_api_tests/test_{linalg,fft,signatures,dlpack}.py)
judge "${without[@]}" --collect-only | grep -E "(real|imag)\(x_i\)" >no-complex.txt
judge "${without[@]}" --skips-file no-complex.txt --hypothesis-disable-deadline "${@:2}"
