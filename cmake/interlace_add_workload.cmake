# interlace_add_workload(NAME HEADER [DESTINATION FOLDER])
#
# Builds the libraries that `interlace study` loads for the workload of a header. HEADER ends in a
# struct interlace::workload::NAME_problem (<interlace/workload/problem.hpp>). The function makes
# two targets:
#
#   NAME          _NAME.so, for the reference node and the simulated node
#   NAME_on_gpus  _NAME_on_gpus.so, for GPUs, if the project enabled CUDA and Interlace was
#                 built with it
#
# With DESTINATION, both libraries are installed into FOLDER. The libraries belong next to the
# Python file of the workload.
function(interlace_add_workload name header)
  cmake_parse_arguments(PARSE_ARGV 2 given "" "DESTINATION" "")
  if(given_UNPARSED_ARGUMENTS)
    message(FATAL_ERROR "interlace_add_workload: '${given_UNPARSED_ARGUMENTS}' is not an argument")
  endif()
  get_filename_component(header "${header}" ABSOLUTE)
  if(NOT EXISTS "${header}")
    message(FATAL_ERROR "interlace_add_workload: there is no header ${header}")
  endif()
  set(folder "${CMAKE_CURRENT_BINARY_DIR}/${name}_workload")
  set(problem "interlace::workload::${name}_problem")

  function(interlace_workload_library target source words)
    file(CONFIGURE OUTPUT "${folder}/${source}" CONTENT "#include \"${header}\"\n${words}" @ONLY)
    add_library(${target} MODULE "${folder}/${source}")
    set_target_properties(
      ${target} PROPERTIES PREFIX "" OUTPUT_NAME "_${target}" CXX_VISIBILITY_PRESET hidden
                           CUDA_VISIBILITY_PRESET hidden VISIBILITY_INLINES_HIDDEN ON
                           POSITION_INDEPENDENT_CODE ON)
    target_link_options(${target} PRIVATE -Wl,--exclude-libs,ALL -Wl,--gc-sections
                                            -Wl,--no-undefined)
    if(given_DESTINATION)
      install(TARGETS ${target} LIBRARY DESTINATION "${given_DESTINATION}")
    endif()
  endfunction()

  interlace_workload_library(
    ${name} on_cpu.cpp
    "#include <interlace/run/module_on_cpu.hpp>\nINTERLACE_MODULE_ON_CPU(${problem})\n")
  target_link_libraries(${name} PRIVATE interlace::host interlace::sim)

  get_property(languages GLOBAL PROPERTY ENABLED_LANGUAGES)
  if(TARGET interlace::cuda AND "CUDA" IN_LIST languages)
    interlace_workload_library(
      ${name}_on_gpus on_gpus.cu
      "#include <interlace/run/module_on_gpus.hpp>\nINTERLACE_MODULE_ON_GPUS(${problem})\n")
    target_link_libraries(${name}_on_gpus PRIVATE interlace::cuda)
    # Kernels that launch kernels are compiled as relocatable code, which is slower. They are
    # therefore separate from the other kernels.
    file(CONFIGURE OUTPUT "${folder}/launching.cu" CONTENT
         "#include \"${header}\"\n#include <interlace/run/launching.cuh>\n\
template void interlace::run::add_launching_kernels_of<${problem}>();\n" @ONLY)
    add_library(${name}_launching STATIC "${folder}/launching.cu")
    set_target_properties(
      ${name}_launching PROPERTIES CUDA_SEPARABLE_COMPILATION ON CUDA_RESOLVE_DEVICE_SYMBOLS ON
                                   POSITION_INDEPENDENT_CODE ON CUDA_VISIBILITY_PRESET hidden)
    find_library(INTERLACE_CUDADEVRT cudadevrt HINTS "${CUDAToolkit_LIBRARY_DIR}" REQUIRED)
    target_link_libraries(${name}_launching PRIVATE interlace::cuda "${INTERLACE_CUDADEVRT}")
    target_link_libraries(${name}_on_gpus PRIVATE ${name}_launching)
  endif()
endfunction()
