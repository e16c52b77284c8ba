// The machine for which a copy engine plans.
#pragma once

#include <string>
#include <vector>

#include "cuda/transfer/driver_table.hpp"
#include "interlace/machine/machine.hpp"

namespace interlace::cuda {

struct copy_machine {
  machine::machine described;           // the machine, with its figures for copies
  std::vector<int> gpus;                // CUDA's numbers of the machine's GPUs
  std::vector<std::string> names = {};  // names of the GPUs; they are the same in every process
  bool hides_gpus = false;  // whether the machine has more GPUs, which this process cannot use
  // A copy profile fits this machine only if the profile has the same `model`, `driver` and number
  // of GPUs.
  std::string model = {};
  std::string driver = {};
  std::vector<std::string> remarks = {};  // sentences for people
};

// The machine of this process. Throws device_error.
copy_machine this_machine(const driver_table& driver);

}  // namespace interlace::cuda
