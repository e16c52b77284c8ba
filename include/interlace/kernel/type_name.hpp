// Readable names of types, from the results of std::type_info::name.
#pragma once

#include <string>

namespace interlace::kernel {

// The name as it is written in source code. Returns a name that cannot be demangled unchanged.
std::string readable_type_name(const char* type_name);

// The same name without the namespaces and classes of the type and its arguments.
std::string short_type_name(const char* type_name);

}  // namespace interlace::kernel
