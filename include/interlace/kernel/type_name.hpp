// Readable names of types, from the results of std::type_info::name.
#pragma once

#include <string>

namespace interlace::kernel {

// The name of a type as it is written in source code. A name that cannot be demangled is returned
// unchanged.
std::string readable_type_name(const char* type_name);

// Does the same as readable_type_name, but leaves out namespaces and enclosing classes, both of the
// type and of its template arguments.
std::string short_type_name(const char* type_name);

}  // namespace interlace::kernel
