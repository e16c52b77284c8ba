#!/usr/bin/env bash
# Builds the GPU tests and runs them. If compute-sanitizer is installed, the script also runs the
# tests under compute-sanitizer. If an Interlace with CUDA is installed, the script also runs the
# regions of several processes and the examples.
#
#   bench/gpu_check.sh          builds and runs
#   bench/gpu_check.sh build    only builds; needs nvcc and GoogleTest, but no GPU
#   bench/gpu_check.sh run      only runs an earlier build, also on another machine
#
# Variables, with their defaults in brackets:
# - BUILD (build/gpu-check): the folder of the build
# - TESTS (BUILD/interlace_gpu_tests): the program to run
# - OUT (build/gpu): the folder of the logs; read summary.txt first
# - INTERLACE_TEST_SHARED_GPU (0): with 1, a test that needs more GPUs than there are runs several
#   devices on one GPU
# - FILTER (*): the GoogleTest filter of the plain run
# - LIMIT (300): the seconds that the plain run may take
# - SANITIZE (1): with 0, the script does not run compute-sanitizer
# - ARCHITECTURES (90): the GPUs to compile for. 80-virtual is the PTX that GPUs of compute
#   capability 8.0 to 8.9 run. A newer GPU compiles this PTX, and then runs kernels without early
#   launches and agents without bulk copies. Tests of bulk copies are skipped, and tests of early
#   launches expect no early launch.
# - PYTHON (python3): a Python with Interlace. Regions of processes need CuPy. Some steps need
#   PyTorch, Triton or mpi4py.
#
# The exit code is 1 if anything failed. A line says what failed.
set -uo pipefail
cd "$(dirname "$0")/.." || exit 1

what=${1:-all}
build=${BUILD:-build/gpu-check}
out=${OUT:-build/gpu}
tests=${TESTS:-$build/interlace_gpu_tests}
filter=${FILTER:-*}
limit=${LIMIT:-300}
mkdir -p "$out"
: >"$out/summary.txt"
failed=0

say() { echo "$*" | tee -a "$out/summary.txt"; }

# step NAME SECONDS COUNTS COMMAND...: runs a command with a log and a limit. If COUNTS is 0, a
# failure is reported but does not change the exit code.
step() {
  local name=$1 seconds=$2 counts=$3 code=0 start=$SECONDS
  shift 3
  local log=$logs/$name.log
  timeout --kill-after=10 "$seconds" "$@" >"$log" 2>&1 || code=$?
  local verdict=passed
  if [ "$code" -ne 0 ]; then
    verdict="FAILED (exit code $code)"
    [ "$code" -eq 124 ] || [ "$code" -eq 137 ] && verdict="FAILED (over its $seconds s)"
    if [ "$counts" -eq 1 ]; then failed=1; else verdict="$verdict, but the exit code stays 0"; fi
  fi
  say "$(printf '%-22s %4d s  %s' "$name" $((SECONDS - start)) "$verdict")"
  if [ "$code" -ne 0 ]; then
    grep -aE '^\[  FAILED|Failure|error:|Error:|: error|ERROR SUMMARY|========= ' "$log" |
      head -30 || true
    tail -5 "$log"
  fi
  return 0
}

if [ "$what" != run ]; then
  mkdir -p "$build"
  logs=$build
  # The program contains the C++ runtime. It therefore also runs on a machine with an older or newer
  # C++ runtime.
  step configure 120 1 cmake -S . -B "$build" -G Ninja -DCMAKE_BUILD_TYPE=Release \
    -DINTERLACE_CUDA=ON -DCMAKE_CUDA_ARCHITECTURES="${ARCHITECTURES:-90}" \
    -DINTERLACE_TESTS=ON -DINTERLACE_PYTHON=OFF \
    -DCMAKE_EXE_LINKER_FLAGS="-static-libstdc++ -static-libgcc"
  [ "$failed" -eq 0 ] && step build 900 1 cmake --build "$build" --target interlace_gpu_tests \
    --parallel "${JOBS:-$(nproc)}"
  if [ "$failed" -ne 0 ] || [ "$what" = build ]; then exit "$failed"; fi
fi

if [ ! -x "$tests" ]; then
  say "$tests does not exist: run '$0 build' first, or set TESTS"
  exit 1
fi
logs=$out
ulimit -c 0
shared=${INTERLACE_TEST_SHARED_GPU:-0}
{
  nvidia-smi
  nvidia-smi topo -m
} >"$out/machine.log" 2>&1 || say "nvidia-smi failed"

step tests "$limit" 1 "$tests" --gtest_color=no --gtest_brief=0 --gtest_filter="$filter"
grep -aE '^\[  (PASSED|SKIPPED|FAILED)[ ]+\] [0-9]+ test' "$out/tests.log" | tee -a "$out/summary.txt"
if ! grep -qaE '^\[  PASSED  \] [1-9]' "$out/tests.log"; then
  say "no test passed: $(grep -am1 ' GPUs and ' "$out/tests.log")"
  exit 1
fi
grep -aE '^\[  TWINS|^\[  LINKS|^\[ COUNTERS|^\[  RATES' "$out/tests.log" >>"$out/summary.txt" || true

# With this variable, one hardware queue serves all streams of a GPU. A wait hangs if it is enqueued
# before the work that it waits for.
if [ "$shared" != 1 ]; then
  midst="*tracking_test*publish_in_their_midst*:*region_api*publish_in_their_midst*"
  step one_connection 90 1 env CUDA_DEVICE_MAX_CONNECTIONS=1 "$tests" --gtest_color=no \
    --gtest_filter="*exchange_test*_everybody_2_*:*exchange_test*_everybody_4_*:*runs_test*:$midst"
fi

sanitizer=$(PATH=$PATH:/usr/local/cuda/bin:/usr/local/cuda/compute-sanitizer \
  command -v compute-sanitizer || true)
if [ "${SANITIZE:-1}" = 1 ] && [ -n "$sanitizer" ]; then
  one_gpu="model_test.*:*probes_test.*/1:*exchange_test*_everybody_1_*:*small_reductions/1"
  one_gpu+=":*early_launch_test*1_devices*:*region_api.kernels_publish*"
  step memcheck 150 1 env CUDA_VISIBLE_DEVICES=0 INTERLACE_TEST_SHARED_GPU=0 \
    "$sanitizer" --tool memcheck --report-api-errors no --error-exitcode 9 "$tests" \
    --gtest_color=no --gtest_filter="$one_gpu"
  step racecheck 150 1 "$sanitizer" --tool racecheck --error-exitcode 9 "$tests" \
    --gtest_color=no --gtest_filter="model_test.*"
  # compute-sanitizer may run kernels one after the other. Devices then cannot wait for each other.
  step memcheck_two_gpus 60 0 "$sanitizer" --tool memcheck --report-api-errors no \
    --error-exitcode 9 "$tests" \
    --gtest_color=no --gtest_filter="*exchange_test*bulkcopy_everybody_2_*"
else
  say "compute-sanitizer is not used"
fi

# python_step NAME SECONDS NEED COMMAND...: runs the step only if Python can import every module in
# NEED. NEED is a list of words.
python_step() {
  local name=$1 seconds=$2 need=$3 module
  shift 3
  for module in $need; do
    "$python" -c "import $module" >>"$out/python.log" 2>&1 && continue
    say "$(printf '%-22s skipped: %s cannot import %s' "$name" "$python" "$module")"
    return 0
  done
  step "$name" "$seconds" 1 "$@"
}

python=${PYTHON:-python3}
regions=tests/gpu/regions_processes.py
python_step partitions 200 "interlace._cuda torch" "$python" tests/gpu/partitions_torch.py
python_step partition_torch 60 "interlace._cuda torch" "$python" docs/example/partition_torch.py
# Prints how many GPUs this script may use: at most four, and more than one only if each GPU can
# access every other GPU.
processes=$("$python" 2>>"$out/python.log" - <<'PYTHON'
import cupy
count = min(4, cupy.cuda.runtime.getDeviceCount())
pairs = [(a, b) for a in range(count) for b in range(count) if a != b]
print(count if all(cupy.cuda.runtime.deviceCanAccessPeer(a, b) for a, b in pairs) else 1)
PYTHON
) || processes=0
if [ "$shared" = 1 ]; then
  # Processes that share a GPU take turns. Each wait of a process lasts until the other process's
  # time slice is over.
  python_step regions 400 "interlace._cuda cupy torch" \
    "$python" "$regions" --shared-gpu --processes 2
elif [ "$processes" -ge 2 ]; then
  python_step regions 400 "interlace._cuda torch" "$python" "$regions"
  python_step regions_torchrun 200 "interlace._cuda torch" \
    "$python" -m torch.distributed.run --nproc-per-node "$processes" "$regions"
  mpirun=$(dirname "$(command -v "$python")")/mpirun
  [ -x "$mpirun" ] || mpirun=$(command -v mpirun || true)
  if [ -n "$mpirun" ] && "$mpirun" --version 2>/dev/null | grep -q 'Open MPI'; then
    python_step regions_mpirun 200 "interlace._cuda torch mpi4py" \
      "$mpirun" --allow-run-as-root -n "$processes" "$python" "$regions"
  else
    say "regions_mpirun         skipped: there is no mpirun of Open MPI"
  fi
  python_step regions_time 200 "interlace._cuda" \
    "$python" "$regions" --time --json "$out/regions-processes.json"
  python_step region_torch 60 "interlace._cuda torch" "$python" docs/example/region_torch.py
  python_step region_triton 120 "interlace._cuda torch triton" \
    "$python" docs/example/region_triton.py
  for mechanism in bulk-copy inline polling copy-engine; do
    python_step "overlap_torch_$mechanism" 120 "interlace._cuda torch triton" \
      "$python" docs/example/overlap_torch.py --mechanism "$mechanism"
  done
else
  say "regions of processes   skipped: they need CuPy and 2 GPUs that reach each other"
fi

if [ "$failed" -eq 0 ]; then say "all passed"; else say "something failed"; fi
exit "$failed"
