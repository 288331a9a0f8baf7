# SPDX-License-Identifier: GPL-2.0
#
# What every target of the toolkit is built with, and one-line helpers to add a
# tool, a unit test or a benchmark.

add_library(uhsfs-options INTERFACE)
target_compile_features(uhsfs-options INTERFACE c_std_11 cxx_std_20)
target_compile_definitions(uhsfs-options INTERFACE _GNU_SOURCE _FILE_OFFSET_BITS=64)
target_compile_options(uhsfs-options INTERFACE
    -Wall -Wextra -Wshadow
    $<$<COMPILE_LANGUAGE:C>:-Wstrict-prototypes -Wmissing-prototypes>
    $<$<COMPILE_LANGUAGE:CXX>:-Wnon-virtual-dtor>)
if(UHSFS_WERROR)
    target_compile_options(uhsfs-options INTERFACE -Werror)
endif()
if(UHSFS_SANITIZE)
    target_compile_options(uhsfs-options INTERFACE
        -fsanitize=${UHSFS_SANITIZE} -fno-sanitize-recover=all -fno-omit-frame-pointer)
    target_link_options(uhsfs-options INTERFACE -fsanitize=${UHSFS_SANITIZE})
endif()

function(_uhsfs_executable name folder)
    cmake_parse_arguments(PARSE_ARGV 2 arg "" "" "SOURCES;LIBS")
    add_executable(${name} ${arg_SOURCES})
    target_link_libraries(${name} PRIVATE uhsfs-options uhsfs ${arg_LIBS})
    set_target_properties(${name} PROPERTIES RUNTIME_OUTPUT_DIRECTORY "${folder}")
endfunction()

# uhsfs_tool(NAME SOURCES FILE... [LIBS LIBRARY...]): build/bin/NAME, installed
# where mount and fsck look for their helpers.
function(uhsfs_tool name)
    _uhsfs_executable(${name} "${UHSFS_BIN}" ${ARGN})
    target_compile_definitions(${name} PRIVATE UHSFS_VERSION="${UHSFS_VERSION}")
    install(TARGETS ${name} RUNTIME DESTINATION sbin)
endfunction()

# uhsfs_unit_test(NAME SOURCES FILE... [LIBS LIBRARY...]): a GoogleTest program
# build/bin/tests/NAME, also known to ctest.
function(uhsfs_unit_test name)
    _uhsfs_executable(test-${name} "${UHSFS_BIN}/tests" ${ARGN})
    set_target_properties(test-${name} PROPERTIES OUTPUT_NAME ${name})
    target_link_libraries(test-${name} PRIVATE uhsfs-test-support)
    add_test(NAME ${name} COMMAND test-${name})
endfunction()

# uhsfs_benchmark(NAME SOURCES FILE... [LIBS LIBRARY...]): a Google Benchmark
# program build/bin/bench/NAME.
function(uhsfs_benchmark name)
    _uhsfs_executable(bench-${name} "${UHSFS_BIN}/bench" ${ARGN})
    set_target_properties(bench-${name} PROPERTIES OUTPUT_NAME ${name})
    target_link_libraries(bench-${name} PRIVATE benchmark::benchmark benchmark::benchmark_main)
endfunction()

# uhsfs_manual(NAME TABLE FILE...): the man pages and the bash completion of a tool from the
# table that describes it (user/common/manual.hpp), in build/man and build/completion.
function(uhsfs_manual name)
    cmake_parse_arguments(PARSE_ARGV 1 arg "" "" "TABLE")
    add_executable(manual-${name} "${UHSFS_ROOT}/user/common/generate.cpp" ${arg_TABLE})
    target_link_libraries(manual-${name} PRIVATE uhsfs-options uhsfs-manual)
    set(stamp "${CMAKE_CURRENT_BINARY_DIR}/manual-${name}.stamp")
    add_custom_command(OUTPUT "${stamp}"
        COMMAND manual-${name} "${UHSFS_VERSION}" "${UHSFS_BIN}/../man" "${UHSFS_BIN}/../completion"
        COMMAND "${CMAKE_COMMAND}" -E touch "${stamp}"
        DEPENDS manual-${name} VERBATIM)
    add_custom_target(pages-${name} ALL DEPENDS "${stamp}")
endfunction()
