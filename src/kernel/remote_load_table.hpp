// Made by tools/mechanism_tables.py of src/kernel/remote_loads.toml; do not edit.
#pragma once

#include <array>

#include "kernel/remote_loads.hpp"

// clang-format off

namespace interlace::kernel {

struct remote_load_row {
  const char* name = "";
  remote_load_options options;
};

inline constexpr std::array<remote_load_row, 12> remote_load_rows{{
    {.name = "direct", .options = {.steps = {}}},
    {.name = "page-migration", .options = {.steps = {}, .pages = page_moves::first_touch}},
    {.name = "griffin", .options = {.steps = {}, .pages = page_moves::griffin}},
    {.name = "bypass", .options = {.steps = {.bypass = true}}},
    {.name = "fine-grained", .options = {.steps = {.bypass = true, .fine = true}}},
    {.name = "coalesced", .options = {.steps = {.bypass = true, .fine = true, .coalesce = true}}},
    {.name = "rdma-cache", .options = {.steps = {.cache = true}}},
    {.name = "dualopt", .options = {.steps = {}, .decide = true}},
    {.name = "dualopt-adaptive", .options = {.steps = {}, .decide = true, .watch = true}},
    {.name = "dualopt-pages", .options = {.steps = {}, .each_page = true}},
    {.name = "finepack", .options = {.steps = {}, .pack = true}},
    {.name = "dualopt-finepack", .options = {.steps = {}, .decide = true, .pack = true}},
}};

}  // namespace interlace::kernel
