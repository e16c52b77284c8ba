// Updates as records, and producers of updates.
#pragma once

#include <cstdint>
#include <cstring>
#include <type_traits>

#include "interlace/kernel.hpp"

// Tests compile this file and bins.cuh for the host, too.
#if defined(__CUDACC__)
#define INTERLACE_UNROLL _Pragma("unroll")
#define INTERLACE_NO_UNROLL _Pragma("unroll 1")
#else
#define INTERLACE_UNROLL
#define INTERLACE_NO_UNROLL
#endif

namespace interlace {

namespace cuda::updates {

// The words by which a record is moved.
template <class Record>
using word_of = std::conditional_t<alignof(Record) % 8 == 0, unsigned long long, unsigned int>;

// Loads a record that will not be used again, so that it need not stay in a cache.
template <class Record>
__device__ __forceinline__ Record load_streaming(const Record* from) {
  using word = word_of<Record>;
  word words[sizeof(Record) / sizeof(word)];
  INTERLACE_UNROLL
  for (unsigned k = 0; k < sizeof(Record) / sizeof(word); ++k)
    words[k] = __ldcs(reinterpret_cast<const word*>(from) + k);
  Record r;
  memcpy(&r, words, sizeof(Record));
  return r;
}

// The codec of records that have their own functions for the element and the value. For tables in
// the host's memory, the host calls these functions, too (INTERLACE_HOST_DEVICE).
template <class Record>
struct own_codec {
  using value_type = typename Record::value_type;
  INTERLACE_HOST_DEVICE std::uint64_t element(const Record& r) const { return r.element(); }
  INTERLACE_HOST_DEVICE value_type value(const Record& r) const { return r.value(); }
};

// The number of bytes of memory that a producer reads for an update. The number is 8 if the
// producer does not define it.
template <class Producer>
constexpr std::uint32_t produced_bytes() {
  if constexpr (requires { Producer::bytes; })
    return Producer::bytes;
  else
    return 8;
}

}  // namespace cuda::updates

// An update with the number of its element. A record has 8 bytes if the number and the value have 4
// bytes each. It has 12 bytes if the value has 8 bytes, and 16 bytes if Index is std::uint64_t.
template <class T, class Index = std::uint32_t>
struct indexed_update {
  using value_type = T;
  indexed_update() = default;
  INTERLACE_HOST_DEVICE indexed_update(std::uint64_t element, T value) {
    const auto index = static_cast<Index>(element);
    memcpy(words, &index, sizeof(Index));
    memcpy(words + sizeof(Index) / 4, &value, sizeof(T));
  }
  INTERLACE_HOST_DEVICE std::uint64_t element() const {
    Index index;
    memcpy(&index, words, sizeof(Index));
    return index;
  }
  INTERLACE_HOST_DEVICE T value() const {
    T value;
    memcpy(&value, words + sizeof(Index) / 4, sizeof(T));
    return value;
  }
  unsigned int words[(sizeof(Index) + sizeof(T)) / 4];
};

// A producer of the updates (indices[i], values[i]).
template <class Update, class Index>
struct update_arrays {
  static constexpr std::uint32_t bytes = sizeof(Index) + sizeof(typename Update::value_type);
  const Index* indices;
  const typename Update::value_type* values;
  struct walk {
    const Index* index;
    const typename Update::value_type* value;
    __device__ __forceinline__ Update get() const { return Update(__ldcs(index), __ldcs(value)); }
    __device__ __forceinline__ void advance() {
      index += 32;
      value += 32;
    }
  };
  __device__ __forceinline__ walk begin(std::uint64_t i) const { return {indices + i, values + i}; }
};

// A producer of the updates make(0), make(1), and so on.
template <class Make>
struct each_update {
  static constexpr std::uint32_t bytes = cuda::updates::produced_bytes<Make>();
  Make make;
  struct walk {
    const Make* make;
    std::uint64_t i;
    __device__ __forceinline__ auto get() const { return (*make)(i); }
    __device__ __forceinline__ void advance() { i += 32; }
  };
  __device__ __forceinline__ walk begin(std::uint64_t i) const { return {&make, i}; }
};
template <class Make>
each_update(Make) -> each_update<Make>;

}  // namespace interlace
