// Made by tools/mechanism_tables.py of src/kernel/mechanisms.toml; do not edit.
#pragma once

#include <array>
#include <memory>

#include "cuda/mechanism/node_mechanism.hpp"
#include "cuda/mechanism/region_mechanism.hpp"

// clang-format off

namespace interlace::cuda {

// Each is defined in the file of its mechanism.
std::unique_ptr<node_mechanism> make_bulk_copy(const node_parts& of);
std::unique_ptr<node_mechanism> make_multi_path(const node_parts& of);
std::unique_ptr<node_mechanism> make_split(const node_parts& of);
std::unique_ptr<node_mechanism> make_inline_stores(const node_parts& of);
std::unique_ptr<node_mechanism> make_polling(const node_parts& of);
std::unique_ptr<node_mechanism> make_device_launch(const node_parts& of);
std::unique_ptr<node_mechanism> make_copy_engine(const node_parts& of);
std::unique_ptr<node_mechanism> make_nccl(const node_parts& of);
std::unique_ptr<node_mechanism> make_unified_memory(const node_parts& of);
const region_mechanism& region_by_bulk_copy();
const region_mechanism& region_by_inline_stores();
const region_mechanism& region_by_polling();
const region_mechanism& region_by_copy_engine();

// By the value of kernel::mechanism; null: a node of GPUs does not have it.
inline constexpr std::array<std::unique_ptr<node_mechanism> (*)(const node_parts&), 17> node_mechanisms{{
    make_bulk_copy,
    make_multi_path,
    make_split,
    make_inline_stores,
    make_polling,
    make_device_launch,
    make_copy_engine,
    nullptr,
    nullptr,
    nullptr,
    nullptr,
    nullptr,
    nullptr,
    make_nccl,
    nullptr,
    make_unified_memory,
    nullptr,
}};

// The same; null: regions of a group do not have it.
inline constexpr std::array<const region_mechanism& (*)(), 17> region_mechanisms{{
    region_by_bulk_copy,
    nullptr,
    nullptr,
    region_by_inline_stores,
    region_by_polling,
    nullptr,
    region_by_copy_engine,
    nullptr,
    nullptr,
    nullptr,
    nullptr,
    nullptr,
    nullptr,
    nullptr,
    nullptr,
    nullptr,
    nullptr,
}};

}  // namespace interlace::cuda
