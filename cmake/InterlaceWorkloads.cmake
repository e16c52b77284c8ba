# Sources made of the headers of workloads. A header NAME.hpp ends in a struct
# interlace::workload::NAME_problem (src/workload/shared/problem.hpp says what it has); nothing here
# reads headers, the sources instantiate templates for that struct.

set(interlace_workload_templates "${CMAKE_CURRENT_LIST_DIR}/workloads")

# interlace_make_workload_sources(PREFIX FOLDER [WORKLOADS HEADER...] [PROGRAMS HEADER...]
#                                 [LAUNCHING HEADER...])
#
# Writes sources into a folder, and their lists into variables:
#
#   PREFIX_cpu            what runs on the host and the simulated node, a source for each header
#   PREFIX_cuda           what runs on GPUs
#   PREFIX_launching      kernels that launch kernels, to be compiled as relocatable device code. One
#                         source has those of all headers: of several in a library none may be left out
#   PREFIX_core_bindings  interlace::python::bind_workloads, of modules for CPUs and for GPUs
#   PREFIX_cuda_bindings
#
# PROGRAMS see several GPUs as one. Of those after LAUNCHING only the kernels that launch are used.
function(interlace_make_workload_sources prefix folder)
  cmake_parse_arguments(PARSE_ARGV 2 given "" "" "WORKLOADS;PROGRAMS;LAUNCHING")
  set(includes "")
  set(bindings "")
  set(launching_includes "")
  set(launching "")
  set(made_cpu "")
  set(made_cuda "")
  foreach(kind WORKLOADS PROGRAMS LAUNCHING)
    if(kind STREQUAL "PROGRAMS")
      set(runner "run/unified_on_")
      set(macro "INTERLACE_RUN_UNIFIED_ON_")
      set(bind "bind_unified_program")
    else()
      set(runner "run/on_")
      set(macro "INTERLACE_RUN_ON_")
      set(bind "bind_workload")
    endif()
    foreach(header IN LISTS given_${kind})
      get_filename_component(name "${header}" NAME_WE)
      get_filename_component(header "${header}" ABSOLUTE)
      set(problem "interlace::workload::${name}_problem")
      if(NOT kind STREQUAL "PROGRAMS")
        string(APPEND launching_includes "#include \"${header}\"\n")
        string(APPEND launching "template void add_launching_kernels_of<${problem}>();\n")
      endif()
      if(kind STREQUAL "LAUNCHING")
        continue()
      endif()
      string(APPEND includes "#include \"${header}\"\n")
      string(APPEND bindings "  ${bind}<${problem}>(module, \"run_${name}\");\n")
      foreach(part "cpu;cpu;CPU;cpp" "cuda;gpus;GPUS;cu")
        list(GET part 0 list)
        list(GET part 1 nodes)
        list(GET part 2 upper)
        list(GET part 3 ending)
        set(runner_header "${runner}${nodes}.hpp")
        set(instantiate "${macro}${upper}")
        set(source "${folder}/${name}_on_${nodes}.${ending}")
        configure_file("${interlace_workload_templates}/run.in" "${source}" @ONLY)
        list(APPEND made_${list} "${source}")
      endforeach()
    endforeach()
  endforeach()
  foreach(nodes cpu gpus)
    configure_file("${interlace_workload_templates}/bindings.cpp.in"
                   "${folder}/bindings_on_${nodes}.cpp" @ONLY)
  endforeach()
  configure_file("${interlace_workload_templates}/launching.cu.in" "${folder}/launching.cu" @ONLY)
  set(${prefix}_cpu "${made_cpu}" PARENT_SCOPE)
  set(${prefix}_cuda "${made_cuda}" PARENT_SCOPE)
  set(${prefix}_launching "${folder}/launching.cu" PARENT_SCOPE)
  set(${prefix}_core_bindings "${folder}/bindings_on_cpu.cpp" PARENT_SCOPE)
  set(${prefix}_cuda_bindings "${folder}/bindings_on_gpus.cpp" PARENT_SCOPE)
endfunction()

# interlace_add_workload(NAME HEADER LIBRARY...): a target of this name, the Python module _NAME. It
# runs the workload of a header that lies anywhere on the host and the simulated node, which the
# libraries have. Put it beside NAME.py.
set(interlace_sources "${CMAKE_CURRENT_LIST_DIR}/../src")
function(interlace_add_workload name header)
  set(folder "${CMAKE_CURRENT_BINARY_DIR}/workloads/${name}")
  interlace_make_workload_sources(made "${folder}" WORKLOADS "${header}")
  configure_file("${interlace_workload_templates}/module.cpp.in" "${folder}/module.cpp" @ONLY)
  nanobind_add_module(
    ${name} NB_STATIC NB_SUPPRESS_WARNINGS "${folder}/module.cpp" ${made_cpu} ${made_core_bindings}
    "${interlace_sources}/python/workloads.cpp" "${interlace_sources}/python/unified_result.cpp")
  set_target_properties(${name} PROPERTIES OUTPUT_NAME "_${name}")
  target_include_directories(${name} PRIVATE "${interlace_sources}" "${interlace_sources}/../include")
  target_link_libraries(${name} PRIVATE ${ARGN})
  target_link_options(${name} PRIVATE -Wl,--exclude-libs,ALL)
endfunction()
