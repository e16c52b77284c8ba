#!/usr/bin/env bash
# Measures updates of partitioned arrays on two GPUs, for bench/updates_table.py:
#
#   bench/updates_gpus.sh NAME [FOLDER]     writes updates-NAME-STUDY.json, NAME such as 2xh200; by
#                                           default to bench/results
set -euo pipefail
name=$1
folder=${2:-$(dirname "${BASH_SOURCE[0]}")/results}
study() { # STUDY words...
  local file="$folder/updates-$name-$1.json"
  shift
  interlace study "$@" --gpus 1,2 --no-profile --mechanisms bulk-copy,inline,packed,nccl --json "$file"
}
study histogram histogram --size 4194304 --keys 4194304 --skew 0 --iterations 4
study histogram-skewed histogram --size 4194304 --keys 4194304 --iterations 4
study random-access random-access --size 2097152 --iterations 1
study embedding embedding --iterations 4
study pagerank pagerank --rmat 20 --kernel push --iterations 5
study sssp sssp --rmat 20 --kernel push
