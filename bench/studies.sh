#!/usr/bin/env bash
# Runs studies of PROACT's workloads on 4 GPUs. For most workloads, there are three sizes at which
# copies take about 30, 50 and 70 % of bulk-copy's time on 4 x H200, and a small size at which
# latency decides. In X-ray CT, copies never take more than about 40 % of the time, because the
# update of the image takes as long. Each study on 2 GPUs has the name of the study on 4 GPUs that
# it resembles. On 2 GPUs, each GPU sends to one GPU instead of three, and copies take 10 to 70 % of
# the time.
#
#   bench/studies.sh FOLDER [PATTERN]   writes FOLDER/WORKLOAD-SIZE.json and .txt for each study
#                                       whose name matches PATTERN
#
# `split` is tried with 2, 4 and 8 ranges. On 2 x H200, 2 ranges are fastest in every study.
#
# Variables, with their defaults in brackets:
# GPUS (4)       the number of GPUs, 4 or 2
# INTERLACE (.venv/bin/interlace)  the command `interlace`
# LIMIT (300)    seconds that a study may take, including its wait for the GPUs
# AT_ONCE (4)    studies that prepare and verify at the same time; they take turns on the GPUs
#
# The exit code is 1 if a study failed or if PATTERN matches no study. A message names the reason.
set -uo pipefail
cd "$(dirname "$0")/.." || exit 1

folder=${1:?give a folder for the results}
pattern=${2:-.}
export interlace=${INTERLACE:-$PWD/.venv/bin/interlace} limit=${LIMIT:-300} folder
gpus=${GPUS:-4}
if [ "$gpus" != 4 ] && [ "$gpus" != 2 ]; then
  echo "GPUS is '$gpus': give 2 or 4" >&2
  exit 2
fi
export options="--gpus $gpus --split 2,4,8 --chunks 256K,1M --threads 4096,16384 --jobs 4 \
  --mechanisms bulk-copy,split,inline,polling,device-launch,copy-engine,nccl,infinite-bandwidth"
mkdir -p "$folder"

one() {
  local name=$1
  shift
  # shellcheck disable=SC2086 # words
  timeout "$limit" $interlace study "$@" $options --json "$folder/$name.json" \
    >"$folder/$name.txt" 2>&1 || { echo "$name: exit code $?; see $folder/$name.txt"; return 1; }
}
export -f one
failed=0

# columns: GPUs, name, the arguments of the study
cases() {
  sed -n "s/^$gpus //p" <<'LIST'
4 pagerank-30 pagerank --rmat 22 --edge-factor 24 --iterations 4
4 pagerank-50 pagerank --rmat 22 --edge-factor 8 --iterations 4
4 pagerank-70 pagerank --rmat 22 --edge-factor 2 --iterations 4
4 pagerank-small pagerank --rmat 16
4 sssp-30 sssp --rmat 20 --edge-factor 48
4 sssp-50 sssp --rmat 20 --edge-factor 10
4 sssp-70 sssp --rmat 22 --edge-factor 2
4 sssp-small sssp --rmat 16
4 jacobi-30 jacobi --rows 2097152 --half-bandwidth 96 --iterations 4
4 jacobi-50 jacobi --rows 4194304 --half-bandwidth 28 --iterations 4
4 jacobi-70 jacobi --rows 4194304 --half-bandwidth 8 --iterations 4
4 jacobi-small jacobi --rows 262144 --half-bandwidth 16
4 als-30 als --users 262144 --items 65536 --ratings 524288 --iterations 2
4 als-50 als --method sgd --users 1048576 --items 262144 --ratings 4194304 --iterations 2
4 als-70 als --method sgd --users 1048576 --items 262144 --ratings 1048576 --iterations 2
4 als-small als
4 ct-25 ct --size 1024 --angles 64 --subsets 4 --iterations 2
4 ct-30 ct --size 2048 --angles 64 --subsets 4 --iterations 1
4 ct-40 ct --size 2048 --angles 32 --subsets 16 --iterations 1
4 ct-small ct --size 256 --angles 16 --subsets 4
2 pagerank-30 pagerank --rmat 21 --edge-factor 24 --iterations 4
2 pagerank-50 pagerank --rmat 21 --edge-factor 8 --iterations 4
2 pagerank-70 pagerank --rmat 21 --edge-factor 2 --iterations 4
2 pagerank-small pagerank --rmat 16
2 sssp-30 sssp --rmat 19 --edge-factor 48
2 sssp-50 sssp --rmat 19 --edge-factor 10
2 sssp-70 sssp --rmat 21 --edge-factor 2
2 sssp-small sssp --rmat 16
2 jacobi-30 jacobi --rows 1048576 --half-bandwidth 96 --iterations 4
2 jacobi-50 jacobi --rows 2097152 --half-bandwidth 28 --iterations 4
2 jacobi-70 jacobi --rows 2097152 --half-bandwidth 8 --iterations 4
2 jacobi-small jacobi --rows 262144 --half-bandwidth 16
2 als-30 als --users 131072 --items 32768 --ratings 262144 --iterations 2
2 als-50 als --method sgd --users 524288 --items 131072 --ratings 2097152 --iterations 2
2 als-70 als --method sgd --users 524288 --items 131072 --ratings 524288 --iterations 2
2 als-small als
2 ct-30 ct --size 1024 --angles 64 --subsets 4 --iterations 2
2 ct-40 ct --size 2048 --angles 32 --subsets 16 --iterations 1
2 ct-small ct --size 256 --angles 16 --subsets 4
LIST
}

cases | grep -E -e "$pattern" | xargs -P "${AT_ONCE:-4}" -I{} bash -c 'one {}' || failed=1
if [ "$failed" -ne 0 ]; then
  echo "a study failed, or no study's name matches '$pattern'" >&2
  exit 1
fi
