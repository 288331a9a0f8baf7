# SPDX-License-Identifier: GPL-2.0
#
# How the fuzz targets are built: cmake -S user -B build/fuzz -C selftests/fuzz/src/clang.cmake
#
# Comparisons are not traced: the targets' own mutators put right values in place, and it costs
# half of the speed.
set(CMAKE_C_COMPILER clang-19 CACHE STRING "")
set(CMAKE_CXX_COMPILER clang++-19 CACHE STRING "")
set(CMAKE_BUILD_TYPE RelWithDebInfo CACHE STRING "")
set(fuzz_flags "-O1 -gline-tables-only -fno-sanitize-coverage=trace-cmp")
set(CMAKE_C_FLAGS_RELWITHDEBINFO "${fuzz_flags}" CACHE STRING "")
set(CMAKE_CXX_FLAGS_RELWITHDEBINFO "${fuzz_flags}" CACHE STRING "")
set(UHSFS_SANITIZE fuzzer-no-link,address,undefined CACHE STRING "")
set(UHSFS_FUZZ ON CACHE BOOL "")
set(UHSFS_TESTS OFF CACHE BOOL "")
set(UHSFS_BENCH OFF CACHE BOOL "")
# Warnings are g++'s business, in the build that everybody sees.
set(UHSFS_WERROR OFF CACHE BOOL "")
