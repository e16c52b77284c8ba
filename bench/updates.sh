#!/usr/bin/env bash
# Simulates random updates on machines of four GPUs. bench/updates_table.py reads the results.
#
#   bench/updates.sh [FOLDER]     writes updates-MACHINE-OPERATION.json into FOLDER (bench/results)
set -euo pipefail
folder=${1:-$(dirname "${BASH_SOURCE[0]}")/results}
for machine in 4x-volta-nvlink2 4x-gv100-pcie4 hgx-h200-4; do
  for operation in xor store; do
    names=inline,write-combining,finepack,packed
    if [ "$operation" = xor ]; then names+=,bulk-copy,infinite-bandwidth; fi
    interlace study random-access --operation "$operation" --machine "$machine" --gpus 4 \
      --mechanisms "$names" --json "$folder/updates-$machine-$operation.json"
  done
done
