// Computes, on host memory, the results of the kernels that copy blocks. This code was written
// independently of the kernels.
#pragma once

#include <cstdint>
#include <cstring>
#include <string>
#include <vector>

#include "cuda/transfer/block_arguments.hpp"

namespace interlace::fake {

// A launched kernel. `name` is the kernel's name in the PTX.
struct block_kernel {
  struct copy {
    std::uint64_t to = 0, from = 0, bytes = 0;
  };

  int gpu = 0;
  bool even = false;
  cuda::block_arguments what;

  static bool is(const std::string& name) { return name.starts_with("interlace_copy_"); }
  block_kernel(int on, const std::string& name, const cuda::block_arguments& given)
      : gpu(on), even(name == "interlace_copy_even_blocks"), what(given) {}

  // The copies that the kernel makes. The kernel reads its lists only when it runs.
  std::vector<copy> copies() const {
    std::vector<copy> made;
    for (std::uint32_t at = 0; at < what.count; ++at)
      made.push_back(
          {what.to_base +
               number(what.to_list, what.bits & cuda::block_arguments::wide_to, at) * what.to_scale,
           what.from_base +
               number(what.from_list, what.bits & cuda::block_arguments::wide_from, at) *
                   what.from_scale,
           what.size_list == 0 ? what.bytes : number(what.size_list, 1, at)});
    return made;
  }
  // Says why a GPU would fail or copy wrong bytes with these arguments. The text is empty if the
  // arguments are right.
  std::string mistake(unsigned grid, unsigned threads, unsigned shared_bytes) const {
    if (what.count == 0 || grid == 0 || threads == 0 || threads > 512 || threads % 32 != 0)
      return "a kernel for blocks has an impossible grid";
    if (!even) return "";
    if (what.size_list != 0) return "the kernel for blocks of one size gets a list of sizes";
    if (what.bytes == 0 || what.run == 0 || shared_bytes < what.run * 16 || shared_bytes > 49152)
      return "the kernel for blocks of one size gets too little or too much shared memory";
    if (what.run * (what.bytes / 16) >= std::uint64_t{1} << 32U)
      return "the numbers of blocks of one size exceed the kernel's counters";
    for (const copy& one : copies())
      if ((one.to | one.from | one.bytes) % 16 != 0) return "a block is misaligned";
    return "";
  }

 private:
  std::uint64_t number(std::uint64_t list, std::uint32_t wide, std::uint32_t at) const {
    if (list == 0) return at;
    const auto* begin = reinterpret_cast<const std::uint8_t*>(list);
    if ((what.bits & cuda::block_arguments::lists_inside) != 0)
      begin = reinterpret_cast<const std::uint8_t*>(&what) + list;
    std::uint64_t read = 0;
    std::memcpy(&read, begin + std::size_t{at} * (wide != 0 ? 8 : 4), wide != 0 ? 8 : 4);
    return read;
  }
};

}  // namespace interlace::fake
