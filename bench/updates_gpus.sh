#!/usr/bin/env bash
# Measures updates of partitioned arrays on several GPUs. bench/updates_gpus_table.py reads the
# results.
#
#   bench/updates_gpus.sh NAME GPUS [FOLDER]   writes updates-NAME-STUDY.json into FOLDER
#                                              (bench/results); a NAME is, for example, 2xh200
#
# INTERLACE (interlace)  the command `interlace`
# LIMIT (600)            seconds that one study may take; later studies run even if one fails
# STUDIES                the names of the studies to run (all)
# MECHANISMS (bulk-copy,inline,packed,nccl)  the mechanisms to compare
set -uo pipefail
name=$1
gpus=$2
folder=${3:-$(dirname "${BASH_SOURCE[0]}")/results}
cd "$folder" || exit 1
failed=0
read -ra interlace <<<"${INTERLACE:-interlace}"
study() { # STUDY words...
  local of=$1 start=$SECONDS code=0
  [[ -z ${STUDIES:-} || " $STUDIES " == *" $of "* ]] || return 0
  shift
  timeout "${LIMIT:-600}" "${interlace[@]}" study "$@" --gpus "1,$gpus" --no-profile \
    --mechanisms "${MECHANISMS:-bulk-copy,inline,packed,nccl}" --json "updates-$name-$of.json" || code=$?
  echo "$of: exit code $code, $((SECONDS - start)) s"
  [ "$code" -eq 0 ] || failed=1
}
# The tables of the following studies fit in the L2 of each GPU.
study histogram histogram --size 4194304 --keys 4194304 --skew 0 --iterations 4
study histogram-skewed histogram --size 4194304 --keys 4194304 --iterations 4
study histogram-long histogram --size 4194304 --keys 16777216 --skew 0 --iterations 1
study random-access random-access --size 2097152 --iterations 1
study embedding embedding --iterations 4
study pagerank pagerank --rmat 20 --kernel push --iterations 5
study sssp sssp --rmat 20 --kernel push
# The parts of the following studies are larger than the L2 of a GPU.
study histogram-large histogram --size 67108864 --keys 16777216 --skew 0 --iterations 1
study random-access-large random-access --size 33554432 --iterations 1
exit "$failed"
