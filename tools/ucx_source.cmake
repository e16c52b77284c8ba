# Checks that INTERLACE_UCX_SOURCE is the source tree of the UCX version for which the module in
# src/ucx is written. Sets MAJOR_VERSION, MINOR_VERSION and PATCH_VERSION. The module uses
# interfaces of UCX that are not public, so another version is refused.
set(ucx_wanted 1.22)

set(ucx_versions "${INTERLACE_UCX_SOURCE}/configure.ac")
if(NOT EXISTS "${ucx_versions}" OR NOT EXISTS "${INTERLACE_UCX_SOURCE}/src/uct/base/uct_iface.h")
  message(FATAL_ERROR "INTERLACE_UCX_SOURCE=${INTERLACE_UCX_SOURCE} is not a source tree of UCX; "
                      "give one of version ${ucx_wanted}")
endif()
foreach(part major minor patch)
  string(TOUPPER ${part} name)
  file(STRINGS "${ucx_versions}" line REGEX "define\\(\\[ucx_ver_${part}\\]" LIMIT_COUNT 1)
  string(REGEX REPLACE "^.*\\], *([0-9]+)\\).*$" "\\1" ${name}_VERSION "${line}")
  if(NOT ${name}_VERSION MATCHES "^[0-9]+$")
    message(FATAL_ERROR "${ucx_versions} does not tell the version of UCX; give a source tree of version "
                        "${ucx_wanted}")
  endif()
endforeach()
if(NOT "${MAJOR_VERSION}.${MINOR_VERSION}" STREQUAL ucx_wanted)
  message(FATAL_ERROR "INTERLACE_UCX_SOURCE=${INTERLACE_UCX_SOURCE} is UCX "
                      "${MAJOR_VERSION}.${MINOR_VERSION}.${PATCH_VERSION}, and the module is for "
                      "${ucx_wanted}; give a source tree of that version")
endif()
