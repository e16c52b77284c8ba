# shellcheck shell=bash
# quickstart and check source this file. It has their common set-up: system packages, the virtual
# environment (.venv), the CUDA toolkit if it is wanted, and the installation of the project into
# .venv. Do not run this file by itself.
#
# The set-up makes all its parts inside the checkout. A finished part leaves a stamp in
# .venv/.interlace. The stamp is a hash of the part's inputs. While the stamp fits, the part is not
# made again. While pip changes .venv, .venv/.interlace has the file `unfinished`. A run that finds
# this file makes a new .venv.

set -euo pipefail

root=$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd -P)
program=$(basename "$0")
venv=$root/.venv
stamps=$venv/.interlace
logs=$root/build/logs
child=
gpus=0
nvcc=
cuda=OFF
cuda_plan=
setting_up=0
terminal=0
if [ -t 1 ]; then terminal=1; fi

# --- messages and steps ---------------------------------------------------------------------------

say() { printf '%s\n' "$*"; }

fail() {
  printf '%s: %s\n' "$program" "$*" >&2
  exit 1
}

usage_error() {
  printf '%s: %s; see ./%s --help\n' "$program" "$*" "$program" >&2
  exit 2
}

# Each child process has its own process group. This function passes Ctrl-C on to every process that
# the child started.
stop_child() {
  local tries
  [ -n "$child" ] || return 0
  kill -INT -- "-$child" 2>/dev/null || true
  for ((tries = 0; tries < 100; tries++)); do
    kill -0 -- "-$child" 2>/dev/null || break
    sleep 0.1
  done
  kill -KILL -- "-$child" 2>/dev/null || true
  wait "$child" 2>/dev/null || true
  child=
}

interrupted() {
  trap '' INT TERM HUP
  stop_child
  printf '\n%s: interrupted; run it again to go on from here\n' "$program" >&2
  exit "$1"
}

start() {
  set -m
  "$@" </dev/null 9>&- &
  child=$!
  set +m
}

# show COMMAND...: runs a command with its output on the terminal.
show() {
  local status=0
  start "$@"
  wait "$child" || status=$?
  child=
  return "$status"
}

# explain LOG: prints one sentence if the log file shows a problem that the user can fix. Otherwise
# it fails.
explain() {
  if grep -qi 'no space left on device' "$1"; then
    say "the disk is full"
  elif grep -qE 'NewConnectionError|NameResolutionError|Connect(ion)?Timeout|ReadTimeoutError|ProxyError|Temporary failure (in name resolution|resolving)|Network is unreachable|Could not (resolve|connect)' "$1"; then
    say "no network: a package index cannot be reached; connect (or set a proxy, or PIP_INDEX_URL) and run ./$program again"
  else
    return 1
  fi
}

# step LABEL LOG COMMAND...: runs a command and prints one line with the seconds that it took. The
# output of the command goes to build/logs/LOG.log. If the command fails, the end of that file is
# printed.
step() {
  local label=$1 log=$logs/$2.log began=$SECONDS status=0 tick=0 part reason
  shift 2
  printf '%-52s' "$label"
  start "$@" >"$log" 2>&1
  while kill -0 "$child" 2>/dev/null; do
    if ((tick < 10)); then sleep 0.1; else sleep 0.5; fi
    tick=$((tick + 1))
    if ((tick >= 10 && terminal)); then
      part=$(tail -c 2000 "$log" | grep -aoE '\[ *[0-9]+/[0-9]+\]' | tail -n 1 || true)
      printf '\r%-52s%4d s %-12s' "$label" $((SECONDS - began)) "$part"
    elif ((tick >= 10 && (tick - 10) % 40 == 39)); then
      printf '.' # a dot every 20 seconds shows that the step still runs
    fi
  done
  wait "$child" || status=$?
  child=
  if ((terminal)); then printf '\r%-52s' "$label"; fi
  if ((status == 0)); then
    printf '%4d s %-12s\n' $((SECONDS - began)) ''
    return 0
  fi
  printf '%4d s failed\n' $((SECONDS - began))
  if ((setting_up)) && reason=$(explain "$log"); then fail "$reason"; fi
  say "--- the last lines of ${log#"$root"/}:"
  tail -n 40 "$log"
  say "---"
  return "$status"
}

# setup_step LABEL LOG COMMAND...: runs a step of the set-up. If the step fails and its log shows a
# known reason, the run ends with one sentence.
setup_step() {
  local status=0
  setting_up=1
  step "$@" || status=$?
  setting_up=0
  return "$status"
}

# --- stamps ---------------------------------------------------------------------------------------

stamped() { [ "$(cat "$stamps/$1" 2>/dev/null)" = "$2" ]; }

stamp() {
  printf '%s\n' "$2" >"$stamps/$1.new"
  mv "$stamps/$1.new" "$stamps/$1"
}

hash_of() { sha256sum | cut -d ' ' -f 1; }

# Prints a hash of the path of the checkout and of every file below the given names.
tree_hash() {
  (
    cd "$root"
    say "$root"
    for name in "$@"; do
      if [ -e "$name" ]; then
        find "$name" -name __pycache__ -prune -o -type f -print0 | LC_ALL=C sort -z | xargs -0r sha256sum
      fi
    done
  ) | hash_of
}

# --- system packages ------------------------------------------------------------------------------

find_python() {
  local name found
  python=
  for name in python3 python3.14 python3.13 python3.12 python3.11; do
    while read -r found; do
      # An activated .venv comes first in PATH, but the python of .venv cannot make .venv again.
      if [ "${found%/*}" -ef "$venv/bin" ]; then continue; fi
      if "$found" -c 'import sys; sys.exit(sys.version_info < (3, 11))' 2>/dev/null </dev/null; then
        python=$found
        return 0
      fi
    done < <(type -aP "$name")
  done
  return 1
}

python_has() { "$python" -c "$1" >/dev/null 2>&1; }

compiler_is_new_enough() {
  local version
  command -v "$CXX" >/dev/null || return 1
  case $CXX in *clang*) return 0 ;; esac
  version=$("$CXX" -dumpversion) || return 1
  [ "${version%%.*}" -ge 12 ]
}

# Puts the names of the missing packages into `missing`.
find_missing() {
  missing=()
  if find_python; then
    python_has 'import venv, ensurepip' || missing+=(python3-venv)
    python_has 'import os, sys, sysconfig
sys.exit(not os.path.exists(sysconfig.get_path("include") + "/Python.h"))' || missing+=(python3-dev)
  else
    missing+=(python3 python3-venv python3-dev)
  fi
  compiler_is_new_enough || missing+=(g++)
  local need
  for need in "$@"; do # PACKAGE=COMMAND or PACKAGE=/FILE
    case ${need#*=} in
      /*) [ -e "${need#*=}" ] || missing+=("${need%%=*}") ;;
      *) command -v "${need#*=}" >/dev/null || missing+=("${need%%=*}") ;;
    esac
  done
}

install_packages() {
  export DEBIAN_FRONTEND=noninteractive
  dpkg --configure -a && # repairs what an interrupted run has left
    apt-get update &&
    apt-get install -y --no-install-recommends "$@"
}

# system_packages [PACKAGE=COMMAND|PACKAGE=/FILE]...: installs the packages that are missing. It
# also checks python and g++ in every call.
system_packages() {
  local packages
  find_missing "$@"
  if ((${#missing[@]} == 0)); then return 0; fi
  packages=${missing[*]}
  if ! command -v apt-get >/dev/null; then
    fail "this machine has no apt-get; install the packages that Debian calls $packages, then run ./$program again"
  fi
  if [ "$(id -u)" != 0 ]; then
    fail "missing system packages; install them with: sudo apt-get install -y $packages"
  fi
  setup_step "system packages: $packages" apt install_packages "${missing[@]}" ||
    fail "cannot install the system packages $packages"
  find_missing "$@"
  if ((${#missing[@]} > 0)); then
    fail "$packages installed, but ${python:-python3} or $CXX is still too old or incomplete: ${missing[*]} is missing (python 3.11 or later and g++ 12 or later are required)"
  fi
}

# --- the virtual environment ----------------------------------------------------------------------

create_venv() {
  rm -rf "$venv"
  mkdir -p "$stamps"
  "$python" -m venv "$venv"
}

make_venv() {
  local key
  key=$(say "$root $python $("$python" -V)" | hash_of)
  if stamped venv "$key" && [ ! -e "$stamps/unfinished" ]; then return 0; fi
  if [ -e "$venv" ] && [ ! -d "$stamps" ]; then
    fail ".venv was not made by this script; move it away, then run ./$program again"
  fi
  setup_step "virtual environment (.venv)" venv create_venv || fail "cannot make .venv"
  stamp venv "$key"
}

pip_install() {
  : >"$stamps/unfinished"
  "$venv/bin/python" -m pip install --no-input --disable-pip-version-check --retries 2 \
    --progress-bar off "$@" || return $?
  rm -f "$stamps/unfinished"
}

# requirements LIST...: prints packages of pyproject.toml. Each LIST is build, project or the name
# of an extra.
requirements() {
  "$venv/bin/python" - "$root/pyproject.toml" "$@" <<'PYTHON'
import sys, tomllib
with open(sys.argv[1], "rb") as file:
    project = tomllib.load(file)
for name in sys.argv[2:]:
    if name == "build":  # the build finds cmake and ninja in the environment
        needs = project["build-system"]["requires"] + ["cmake>=3.22", "ninja>=1.10"]
    elif name == "project":
        needs = project["project"]["dependencies"]
    else:
        needs = project["project"]["optional-dependencies"][name]
    print(*needs, sep="\n")
PYTHON
}

# python_packages STAMP LABEL LIST...: installs the packages of the lists.
python_packages() {
  local name=$1 label=$2 needs key
  shift 2
  needs=$(requirements "$@")
  key=$(say "$needs" | hash_of)
  if stamped "$name" "$key"; then return 0; fi
  say "$needs" >"$root/build/requirements-$name.txt"
  setup_step "$label" "pip-$name" pip_install -r "$root/build/requirements-$name.txt" ||
    fail "cannot install $label"
  stamp "$name" "$key"
}

# --- CUDA -----------------------------------------------------------------------------------------

# Sets `gpus` to the number of GPUs that can run kernels. Says why if a GPU or a driver cannot be
# used.
find_gpus() {
  local answer why=
  answer=$("$python" "$root/tools/find_gpus.py") || answer=
  gpus=$(wc -w <<<"${answer%%$'\n'*}")
  if [[ $answer == *$'\n'* ]]; then why=${answer#*$'\n'}; fi
  if [ -n "$why" ]; then
    if ((gpus == 0)); then say "No real GPUs: $why."; else say "Real GPUs: $gpus, since $why."; fi
  fi
}

usable_nvcc() {
  local release
  [ -x "$1" ] || return 1
  release=$("$1" --version 2>/dev/null | sed -n 's/.*release \([0-9]*\).*/\1/p')
  [ -n "$release" ] && [ "$release" -ge 13 ]
}

toolkit_folder() {
  "$venv/bin/python" -c 'import sysconfig; print(sysconfig.get_path("purelib") + "/nvidia/cu13")'
}

# Sets `nvcc` to the first nvcc that is found. If there is none, `nvcc` becomes empty.
find_nvcc() {
  local candidate
  for candidate in "${CUDACXX:-}" "$(command -v nvcc || true)" /usr/local/cuda/bin/nvcc \
    "$(toolkit_folder)/bin/nvcc"; do
    if usable_nvcc "$candidate"; then
      nvcc=$candidate
      export CUDACXX=$nvcc
      return 0
    fi
  done
  nvcc=
  unset CUDACXX
}

install_toolkit() {
  local folder
  pip_install 'cuda-toolkit[nvcc,cudart,cufft,cccl,nvml,nvtx]==13.0.*' || return $?
  # nvcc and cmake look for the file names of an installed toolkit.
  folder=$(toolkit_folder)
  ln -sfn lib "$folder/lib64"
  ln -sfn libcudart.so.13 "$folder/lib/libcudart.so"
}

# Sets `cuda` to ON if there is an nvcc of CUDA 13, and to OFF otherwise. Sets `cuda_plan` to a
# sentence about this choice. If there is a GPU but no nvcc, the toolkit is fetched from PyPI.
# INTERLACE_CUDA=OFF leaves out the CUDA part.
cuda_toolkit() {
  case ${INTERLACE_CUDA:-AUTO} in
    ON | AUTO) ;;
    OFF)
      cuda_plan='Interlace will be built without CUDA, since INTERLACE_CUDA is OFF.'
      find_nvcc
      return 0
      ;;
    *) usage_error "INTERLACE_CUDA is '$INTERLACE_CUDA'; give ON, OFF or AUTO" ;;
  esac
  find_gpus
  find_nvcc
  if [ -z "$nvcc" ] && { ((gpus > 0)) || [ "${INTERLACE_CUDA:-AUTO}" = ON ]; }; then
    setup_step "CUDA toolkit 13.0 from PyPI" pip-toolkit install_toolkit ||
      fail "cannot install the CUDA toolkit"
    find_nvcc
    if [ -z "$nvcc" ]; then fail "the CUDA toolkit is in .venv, but its nvcc does not run"; fi
  fi
  if [ -n "$nvcc" ]; then
    cuda=ON
    cuda_plan="Interlace will be built with CUDA, by $nvcc (INTERLACE_CUDA=OFF leaves CUDA out)."
  else
    cuda_plan='Interlace will be built without CUDA: there is no nvcc of CUDA 13, and no GPU that needs one.'
  fi
}

say_cuda_plan() { say "$cuda_plan"; }

# --- the project ----------------------------------------------------------------------------------

build_wheel() {
  rm -rf "$root/build/wheel"
  "$venv/bin/python" -m pip wheel "$root" --verbose --no-input --disable-pip-version-check \
    --no-deps --no-build-isolation --no-index --wheel-dir "$root/build/wheel" \
    --config-settings=build-dir="$build" \
    --config-settings=cmake.define.INTERLACE_CUDA="$cuda" \
    --config-settings=cmake.define.INTERLACE_TESTS="$1"
}

install_wheel() {
  pip_install --no-deps --no-index --force-reinstall "$root"/build/wheel/interlace-*.whl
}

# install_project TESTS: builds and installs the project. If TESTS is ON, the C++ tests are
# compiled, too. The build folder is build/host without CUDA, build/cuda with CUDA, and build/login
# with CUDA but without a GPU.
install_project() {
  local tests=$1 key label='interlace: compile and pack'
  build=$root/build/host
  if [ "$cuda" = ON ]; then
    build=$root/build/login
    if ((gpus > 0)); then build=$root/build/cuda; fi
  fi
  key=$(tree_hash CMakeLists.txt cmake pyproject.toml VERSION LICENSE THIRD_PARTY.md README.md src \
    include python machines data tools/setup.sh tools/find_gpus.py)-$cuda-$nvcc-$CXX
  if [ "$tests" = ON ]; then # the same build also compiles the tests
    label='interlace: compile with its tests, and pack'
    if stamped wheel "$key" && stamped tests "$key-$(tree_hash tests/cpp tests/gpu)"; then return 0; fi
  elif stamped wheel "$key"; then
    return 0
  fi
  setup_step "$label" build build_wheel "$tests" || return $?
  setup_step 'interlace: install into .venv' install install_wheel || return $?
  stamp wheel "$key"
  if [ "$tests" = ON ]; then stamp tests "$key-$(tree_hash tests/cpp tests/gpu)"; fi
}

# --- begin ----------------------------------------------------------------------------------------

begin() {
  trap 'interrupted 130' INT
  trap 'interrupted 143' TERM HUP
  cd "$root"
  mkdir -p "$logs" "$root/build/tmp" || fail "cannot write in $root"
  exec 9>"$root/build/lock"
  flock -n 9 || fail "another quickstart or check runs in this checkout; wait until it ends"
  find "$root/build/tmp" -mindepth 1 -delete
  export TMPDIR=$root/build/tmp # so that nothing is written outside of the checkout
  export PIP_USER=0
  export CXX=${CXX:-g++} # every build uses the compiler that was checked
  export CMAKE_BUILD_PARALLEL_LEVEL=${CMAKE_BUILD_PARALLEL_LEVEL:-$(nproc)}
}
