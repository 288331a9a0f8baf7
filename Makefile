# SPDX-License-Identifier: GPL-2.0
# User targets; 'make help' lists them.  The module's objects are in Kbuild.
#
# KVER=NAME  the kernel to build for: a series (6.1), a release, or 'debug'
# KDIR=DIR   the same, by kernel build folder
# The default is the running kernel if its headers are installed and supported, else
# the newest installed 6.1 (tools/vm/kernel decides, for builds and for VM boots).

KVER ?= default
KDIR ?=
PREFIX ?= /usr/local
DESTDIR ?=
MODULE_FLAGS ?=

which_kernel = $(if $(KDIR),--kdir $(KDIR),--kernel $(KVER))
build_modules = tools/build-modules $(which_kernel) $(MODULE_FLAGS)
cmake_build = cmake -S user -B build/user -G Ninja $(CMAKE_FLAGS) >build/cmake.log || { cat build/cmake.log; exit 1; }

# Areas whose tests boot a machine: the settings say where=guest, or nothing of it.
areas = $(filter-out lib unit,$(sort $(notdir $(patsubst %/,%,$(dir $(wildcard selftests/*/*.sh selftests/*/*.c))))))
host_areas = $(notdir $(patsubst %/settings,%,$(shell grep -l '^where=host' selftests/*/settings)))

.PHONY: help deps all modules user bpf fuzz check check-unit check-vm check-long check-debug \
	own-kernels no-kdir test-modules demo bench install uninstall clean format lint

# With -j: one target after another, as their order means something; each of them
# uses all processors by itself.
.NOTPARALLEL:

help: ## list the targets
	@sed -n 's/^\([a-z-]*\):.*## \(.*\)/  \1\t\2/p' $(MAKEFILE_LIST) | expand -t 16
	@echo
	@echo "  KVER=6.12 or KDIR=DIR chooses the kernel; see the head of the Makefile."

deps: ## install the packages and fetch the kernels that all this needs (Debian 12, root)
	@tools/deps

all: modules user bpf ## build the kernel module, the tools and the BPF programs

modules: ## build uhsfs.ko for KVER or KDIR
	@$(build_modules)

user: ## build the toolkit into build/bin
	@mkdir -p build
	@$(cmake_build)
	@cmake --build build/user

bpf: ## compile the BPF programs into build/bpf
	@$(MAKE) --no-print-directory -C bpf

fuzz: ## build the fuzz targets into build/fuzz/bin
	@mkdir -p build
	@cmake -S user -B build/fuzz -G Ninja -C selftests/fuzz/src/clang.cmake >build/fuzz.log || { cat build/fuzz.log; exit 1; }
	@cmake --build build/fuzz --target fuzz

# Modules of both Debian 12 kernels with the test modules, for the VM tests.
test-modules:
	@tools/build-modules --kernel default UHSFS_TESTS=m modules
	@tools/build-modules --kernel 6.1 UHSFS_TESTS=m modules
	@tools/build-modules --kernel 6.12 UHSFS_TESTS=m modules
	@tools/build-modules --kernel 6.1 --breakable

# Tests run on the kernels that their settings name.
own-kernels:
	@[ "$(KVER)$(KDIR)" = default ] || { \
		echo "$(MAKECMDGOALS): tests choose their kernels, KVER and KDIR cannot; see 'selftests/run --kernel V'" >&2; exit 1; }

check: own-kernels deps user bpf fuzz test-modules ## everything CI runs: lint, unit, fuzz, VM tests on 6.1 and 6.12
	@selftests/run --suite check --jobs 2

check-unit: user ## unit tests only: no virtual machine
	@selftests/run --suite check unit

check-vm: own-kernels user test-modules ## the tests that boot a virtual machine
	@selftests/run --suite check --jobs 2 vm $(filter-out $(host_areas),$(areas))

check-long: own-kernels deps user bpf test-modules ## long tests, by hand: see Documentation/tests.md
	@selftests/run --suite long

check-debug: own-kernels deps user bpf ## tests under the KASAN + lockdep kernel, by hand
	@tools/vm/build-debug-kernel
	@tools/build-modules --kernel debug UHSFS_TESTS=m modules
	@selftests/run --suite debug

# A folder of headers is nothing that boots.
no-kdir:
	@[ -z "$(KDIR)" ] || { echo "$(MAKECMDGOALS): KDIR cannot be booted; name a kernel with KVER" >&2; exit 1; }

demo: no-kdir deps modules user ## show what works, in a virtual machine
	@tools/demo --kernel "$(KVER)"

bench: user ## micro-benchmarks of the core
	@tools/bench/run

install: modules user ## install the module for KVER and the tools below PREFIX
	@tools/install --destdir "$(DESTDIR)" --prefix "$(PREFIX)" $(which_kernel)

uninstall: ## remove what 'make install' installed, for every kernel
	@tools/install --uninstall --destdir "$(DESTDIR)" --prefix "$(PREFIX)"

clean: ## remove everything built
	@rm -rf build
	@find . -path ./.git -prune -o -type f \( -name '*.o' -o -name '*.ko' -o -name '*.mod' -o -name '*.mod.c' \
		-o -name '.*.cmd' -o -name modules.order -o -name Module.symvers \) -print0 | xargs -0r rm -f
	@find . -path ./.git -prune -o -type d -name __pycache__ -print0 | xargs -0r rm -rf

format: ## reformat the C++ code
	@tools/lint/run --fix format

lint: user ## style, licences, static analysis
	@tools/lint/run
