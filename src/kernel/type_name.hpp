// Names of types for people, from what std::type_info::name gives.
#pragma once

#include <string>

namespace interlace::kernel {

// As it would be written; what cannot be read is returned as it is.
std::string readable_type_name(const char* type_name);

// The same without the namespaces and classes that it and its arguments are in.
std::string short_type_name(const char* type_name);

}  // namespace interlace::kernel
