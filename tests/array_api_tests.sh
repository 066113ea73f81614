#!/usr/bin/env bash
# The array API's own suite (data-apis/array-api-tests) against micrograd_core on the cpu: nothing skipped or expected to
# fail by us. Give it a checkout with its submodule, or let it clone one; further arguments go to pytest.
#
#   tests/array_api_tests.sh [CHECKOUT [PYTEST ARGUMENTS ...]]
#
# MICROGRAD_DEVICE=cuda judges the cuda backend: one test asks it for memory that the host can see without a copy.
# The environment needs pytest, pytest-json-report, hypothesis>=6.151 and ndindex>=1.8. Not part of CI, which has no network but an index.
set -euo pipefail
checkout=${1:-$(mktemp -d)/array-api-tests}
[ -d "$checkout" ] || git clone --quiet --depth 1 --recurse-submodules --shallow-submodules \
  https://github.com/data-apis/array-api-tests "$checkout"
python=${PYTHON:-python}
cd "$checkout"
ARRAY_API_TESTS_MODULE=micrograd_core exec "$python" -m pytest -q -p no:cacheprovider array_api_tests "${@:2}"
