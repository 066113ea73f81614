#!/usr/bin/env bash
# Everything that needs a GPU, in one command and under 9 minutes: bash benchmarks/gpu/run.sh
#
# Needs Python with numpy, pytest, pluggy and CuPy; torch and jax are compared with where they are. What is missing may lie
# as wheels in $WHEELS (default: .whl in the checkout): nothing is downloaded. array-api-compat has to be there one way or the
# other; pytest-xdist and execnet let the suites use all cores; what the core's own `tests` lack of the group dev, they skip by name.
# DEVICE=cpu runs what can be run without a GPU; with any other, what finds no GPU fails, and so does the whole.
# KERNELS and CONFORMANCE choose what runs of these, as pytest's -k does; empty, all of it, which takes its time.
# SMALL=1 compares in small sizes, to see that the programs work: their times mean nothing then.
# LEAK_STEPS is how many steps of training the proof that memory does not grow takes; GRAPH_CASES, how many programs are
# captured; TESTS, which of the core's tests run.
# PATIENCE multiplies the time that each step may take, for what is slower than a GPU; LIMIT is that of all of them.
# Ends non-zero if a step failed; each step's output is in $OUT (default: a folder that is named at the end).
# STEPS names those to run beside devices; they keep their order, and the default is all: STEPS="kernels peers" bash …/run.sh
set -uo pipefail
cd "$(dirname "$0")/../.."
device=${DEVICE:-cuda:0}
python=${PYTHON:-python3}
out=${OUT:-$(mktemp -d)}
mkdir -p "$out"
results=${RESULTS:-benchmarks/results}
site=$(mktemp -d)
mkdir "$site/wheels"
workers=$(($(nproc) < 12 ? $(nproc) : 12))
export XLA_PYTHON_CLIENT_PREALLOCATE=false PYTHONUNBUFFERED=1
export COMMIT=${COMMIT:-$(git rev-parse HEAD 2>/dev/null || echo unknown)} # of the figures
end=$((SECONDS + ${LIMIT:-525}))
steps=" devices ${STEPS:-kernels graphs races attention peers networks devices-compared proofs memcheck racecheck synccheck conformance tests} "
[ "$device" = cpu ] || export MICROGRAD_CUDA_REQUIRED=1
# One layout and one dtype of each sort; of all that has neither, all of it.
kept="contiguous and (float32 or bfloat16 or int64 or int8 or complex64 or bool or not second_gradient)"
conformance=${CONFORMANCE-"not (test_value or gradient or jit) or $kept or jit and 0-float32-contiguous"}
failed=()
summary=()

for wheel in "${WHEELS:-.whl}"/*.whl; do # of Python alone: unpacked is installed
  [ -e "$wheel" ] && { "$python" -m zipfile -e "$wheel" "$site/wheels" || exit; }
done
path() { echo "$("$python" benchmarks/gpu/links.py "$site/$1" "${@:2}"):$site/wheels:$PWD${PYTHONPATH:+:$PYTHONPATH}"; }
without_cuda=$(path plain cuda) # the core's tests expect that nobody provides cuda
PYTHONPATH=$(path all)
export PYTHONPATH

# step NAME SECONDS COMMAND...: not longer than that, nor than what is left of the 9 minutes
step() {
  local name=$1 limit=$(($2 * ${PATIENCE:-1})) start=$SECONDS status left=$((end - SECONDS))
  shift 2
  [[ "$steps" == *" $name "* ]] || return
  [ "$left" -lt 5 ] && { failed+=("$name"); summary+=("$name|not started: no time was left"); return; }
  printf '\n── %s\n' "$name"
  # An interrupt, once and to the command alone, lets pytest say what it found so far.
  timeout --foreground -s INT -k 20 "$((limit < left ? limit : left))" "$@" >"$out/$name.log" 2>&1
  status=$?
  tail -n "${LINES_SHOWN:-12}" "$out/$name.log"
  [ "$status" -eq 0 ] || failed+=("$name")
  summary+=("$name|$([ "$status" -eq 0 ] && echo holds || echo "FAILS ($status)"), $((SECONDS - start)) s: $(tail -n 1 "$out/$name.log" | cut -c1-100)")
}

# sanitize NAME TOOL VARIABLE=VALUE ARGUMENT...: pytest under a tool that looks at each access to memory
sanitize() {
  local name=$1 tool=$2 setting=$3
  shift 3
  if command -v compute-sanitizer >/dev/null; then
    step "$name" 100 env "$setting" compute-sanitizer --tool "$tool" --error-exitcode 9 "${pytest[@]}" "$@"
  elif [[ "$steps" == *" $name "* ]]; then
    summary+=("$name|left out: compute-sanitizer is not on the PATH")
  fi
}

parallel=()
"$python" -c 'import xdist' 2>/dev/null && parallel=(-n "$workers")
# Other people's plugins and warnings are none of ours: with them no warning is an error.
pytest=("$python" -m pytest -q --tb=short -p no:cacheprovider -p no:benchmark -o filterwarnings=default)
captured=(backends/cuda/tests/test_{graphs,fused_attention,halves}.py)
sanitized=(backends/cuda/tests/test_{gpu,rows,linear,cudnn,remembered,linalg,special_values}.py
  backends/cuda/tests/test_channels.py::test_batch_norm_and_its_gradients)
own=("${sanitized[@]%::*}" backends/cuda/tests/test_{attention,fused_attention,halves,pooling}.py)

# What is worth most comes first: that it works, and how fast; then the long suites, as far as the time goes.
step devices 60 bash -c 'found=$("$0" -m micrograd_core.tools.cli devices); grep "^$1  *works" <<<"$found" || { echo "$found"; false; }' \
  "$python" "$device"
step kernels 120 "${pytest[@]}" "${own[@]}" -k "${KERNELS:-}" "${parallel[@]}"
step graphs 90 env GRAPH_CASES="${GRAPH_CASES:-10000}" "${pytest[@]}" backends/cuda/tests/test_graphs.py "${parallel[@]}"
sanitize races racecheck GRAPH_CASES=20 "${captured[@]}" -k "numbers_are_right or captured or casts_no_row or first-bfloat16"
small=()
compared=(--seconds 0.2)
if [ "$device" = cpu ] || [ "${SMALL:-0}" = 1 ]; then small=(--small --seconds 0) compared=(--size 10000 --seconds 0); fi
[ "$device" = cpu ] || LINES_SHOWN=60 step attention 90 "$python" -m benchmarks.gpu.attention --device "$device" --out "$results" \
  "${small[@]:0:1}" ${ATTENTION:-}
LINES_SHOWN=120 step peers 150 "$python" benchmarks/benchmark_gpu.py --device "$device" --out "$results" "${small[@]}"
LINES_SHOWN=120 step networks 170 "$python" benchmarks/benchmark_gpu_networks.py --device "$device" --out "$results" \
  "${small[@]}"
step devices-compared 45 "$python" benchmarks/benchmark_device.py --devices cpu "$device" "${compared[@]}" --out "$results"
LINES_SHOWN=20 step proofs 120 "$python" benchmarks/gpu/prove.py --device "$device" --out "$results" \
  --steps "${LEAK_STEPS:-10000}"
for tool in memcheck racecheck synccheck; do # of memory without a pool, where each array has bounds of its own
  chosen="layouts or functions_of_rows or anywhere"
  [ "$tool" = memcheck ] || chosen="functions_of_rows or sums_over_rows or norm or cross_entropy or optimiser"
  sanitize "$tool" "$tool" MICROGRAD_CUDA_POOL=0 "${sanitized[@]}" -k "$chosen"
done
step conformance 240 "${pytest[@]}" --pyargs micrograd_core.conformance --device "$device" \
  -k "$conformance" "${parallel[@]}"
step tests 150 env PYTHONPATH="$without_cuda" MICROGRAD_TESTS_WITHOUT_DEV=1 "${pytest[@]}" -rs ${TESTS:-tests} "${parallel[@]}"

printf '\n%-18s %s\n' step outcome
for line in "${summary[@]}"; do printf '%-18s %s\n' "${line%%|*}" "${line#*|}"; done
echo "logs: $out; figures: $results; $SECONDS s in all"
[ "${#failed[@]}" -eq 0 ]
