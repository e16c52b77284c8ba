# Generates sources from the headers of workloads. A header NAME.hpp ends in a struct
# interlace::workload::NAME_problem, which include/interlace/workload/problem.hpp describes. This
# code does not read the headers. The sources instantiate templates for the struct.

set(interlace_workload_templates "${CMAKE_CURRENT_LIST_DIR}/workloads")

# Derives name, problem and include from the name of a header.
macro(interlace_problem_of header)
  get_filename_component(name "${header}" NAME_WE)
  get_filename_component(include "${header}" ABSOLUTE)
  set(include "#include \"${include}\"\n")
  set(problem "interlace::workload::${name}_problem")
endmacro()

# Makes the two sources that run problems, and adds these sources to made_cpu and made_cuda.
macro(interlace_make_runs path runner instantiate includes problems)
  foreach(nodes cpu gpus)
    string(TOUPPER "${nodes}" upper)
    set(run_includes "${includes}")
    set(run_header "${runner}_${nodes}.hpp")
    set(instances "")
    foreach(one ${problems})
      string(APPEND instances "${instantiate}_${upper}(${one});\n")
    endforeach()
    if(nodes STREQUAL "cpu")
      set(source "${path}_on_cpu.cpp")
      list(APPEND made_cpu "${source}")
    else()
      set(source "${path}_on_gpus.cu")
      list(APPEND made_cuda "${source}")
    endif()
    configure_file("${interlace_workload_templates}/run.in" "${source}" @ONLY)
  endforeach()
endmacro()

# interlace_make_workload_sources(PREFIX FOLDER [WORKLOADS HEADER...] [PROGRAMS HEADER...]
#                                 [LAUNCHING HEADER...])
#
# Writes sources into a folder, and lists of these sources into variables:
#
#   PREFIX_cpu            code for the host and the simulated node: one source for each workload,
#                         and one for all programs, which compile faster together
#   PREFIX_cuda           code for GPUs, divided in the same way
#   PREFIX_launching      kernels that launch kernels, to be compiled as relocatable device code. One
#                         source has the kernels of all headers, because each such source needs a
#                         library of its own
#   PREFIX_core_bindings  interlace::python::bind_workloads for the module for CPUs
#   PREFIX_cuda_bindings  interlace::python::bind_workloads for the module for GPUs
#
# PROGRAMS are programs that see several GPUs as one. From the headers after LAUNCHING, only the
# kernels that launch kernels are used.
function(interlace_make_workload_sources prefix folder)
  cmake_parse_arguments(PARSE_ARGV 2 given "" "" "WORKLOADS;PROGRAMS;LAUNCHING")
  set(includes "")
  set(bindings "")
  set(launching_includes "")
  set(launching "")
  set(made_cpu "")
  set(made_cuda "")
  foreach(header IN LISTS given_WORKLOADS given_LAUNCHING)
    interlace_problem_of("${header}")
    string(APPEND launching_includes "${include}")
    string(APPEND launching "template void add_launching_kernels_of<${problem}>();\n")
  endforeach()
  foreach(header IN LISTS given_WORKLOADS)
    interlace_problem_of("${header}")
    string(APPEND includes "${include}")
    string(APPEND bindings "  bind_workload<${problem}>(module, \"run_${name}\");\n")
    interlace_make_runs("${folder}/${name}" "interlace/run/on" INTERLACE_RUN_ON "${include}" "${problem}")
  endforeach()
  set(program_includes "")
  set(programs "")
  foreach(header IN LISTS given_PROGRAMS)
    interlace_problem_of("${header}")
    string(APPEND program_includes "${include}")
    list(APPEND programs "${problem}")
    string(APPEND bindings "  bind_unified_program<${problem}>(module, \"run_${name}\");\n")
  endforeach()
  string(APPEND includes "${program_includes}")
  if(programs)
    interlace_make_runs("${folder}/programs" "run/unified_on" INTERLACE_RUN_UNIFIED_ON
                        "${program_includes}" "${programs}")
  endif()
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
