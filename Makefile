# SPDX-License-Identifier: GPL-2.0
#
# make              module, library, provider, tools, examples, tests
# make demo         the main job, shown in a virtual machine, and then on two; sets up all it needs
# make check        all tests; the last line counts them (KERNEL=6.12, TESTS=PATTERN: only those;
#                   KERNEL=debug COVERAGE=1: and which lines of the module they run)
# make bench        compares with libfabric's other providers; table, JSON, picture
#                   (BENCH='OPTION…' of treadle-bench; NODES=2: between two machines, and with the
#                   bare RDMA device)
# make vm CMD='…'   CMD in a virtual machine with the module loaded; tools/vm/run has the options
#                   (NODES=2: in two, on one network; REMOTE=1: endpoints reach the other one)
# make vm-shell     a shell in a virtual machine
# make fabtests FABTESTS=DIR   libfabric's own tests, installed in DIR, in a virtual machine
#                   (SETS='unit short': only those; NODES=2: between two)
# make setup        the Debian packages and the kernels that all this uses
# make module       only the module (KERNEL=6.12: another packaged kernel; KDIR=DIR: any kernel's
#                   build tree)
# make install      PREFIX=/usr DESTDIR=; puts the module's source into DESTDIR/usr/src, for DKMS
# make uninstall    removes what make install with the same variables installs
# make deb          Debian packages, in build/deb
# make rpm          RPM packages, in build/rpm
# make package-check   the packages are built twice and compared, and tried in a Debian system
# make docs         the documents as build/docs/html
# make headers-check format-check tidy sparse   the static checks; make format repairs
# make clean        removes what was built; make distclean also what was fetched
#
# KERNEL=6.1, V=1: show commands; KERNEL=6.1-arm64, 6.12-arm64-16k: module and ABI's tests for an
# emulated arm64 machine

SHELL := /bin/bash
MAKEFLAGS += --no-print-directory
.DELETE_ON_ERROR:

KERNEL ?= 6.1

Q := $(if $(V),,@)
say = $(if $(V),,@printf '  %-7s %s\n' '$(1)' '$(2)')

comma := ,

all: module programs

# --- the module, mirrored so that its objects for several kernels live side by side ---------------

ifdef KDIR
release = $(shell cut -d'"' -f2 $(KDIR)/include/generated/utsrelease.h)
else
kernel := build/kernels/$(KERNEL)
release = $(file <$(kernel)/release)
KDIR = $(kernel)/usr/src/linux-headers-$(release)
# Treat warnings as errors only for kernels that this project is tested on. Others may have new
# ones.
werror := y
endif
mirror = build/kernel-$(release)
rooms := $(notdir $(patsubst %/,%,$(wildcard kernel/*/)))
mirror-fail module-fail: mirror = build/kernel-$(release)-fail
mirror-lto module-lto: mirror = build/kernel-$(release)-lto
mirror-fail: extra := tests/fail
# flock: two makes at once would write the same files.
# cross: the compiler prefix for a kernel of another architecture.
cross := $(if $(findstring -arm64,$(KERNEL)),aarch64-linux-gnu-)
# -d: make -n runs this line, but not those that make the directory, and flock would make a file.
kbuild = +$(Q)[ ! -d $(mirror) ] || flock $(mirror) $(MAKE) -C $(mirror) KDIR=$(abspath $(KDIR)) W=1 TREADLE_WERROR=$(werror) \
	TREADLE_COVERAGE=$(if $(COVERAGE),y) $(if $(cross),ARCH=arm64 CROSS_COMPILE=$(cross))

build/kernels/%/release:
	$(Q)tools/setup kernel $*
$(patsubst tools/vm/%.config,build/kernels/%/release,$(wildcard tools/vm/*.config)): build/kernels/%/release: \
	tools/vm/config.common tools/vm/%.config
	$(Q)tools/setup kernel $*

mirror mirror-fail mirror-lto: $(if $(kernel),$(kernel)/release)
	$(Q)mkdir -p $(rooms:%=$(mirror)/%) $(if $(extra),$(mirror)/fail)
	$(Q)ln -sfn $(abspath kernel/Kbuild kernel/Makefile uapi) $(mirror)
	$(Q)for room in $(rooms); do ln -sfn $(CURDIR)/kernel/$$room/* $(mirror)/$$room; done
	$(if $(extra),$(Q)ln -sfn $(abspath $(wildcard $(extra)/*.[ch])) $(mirror)/fail)
	$(Q)find -L $(mirror) -type l -delete

module: mirror
	$(kbuild) modules
	$(Q)rm -f kernel/treadle_rdma.ko # not every kernel has it
	$(Q)for ko in $(mirror)/*.ko; do cmp -s $$ko kernel/$${ko##*/} || cp $$ko kernel; done

# A transport for tests, which joins nodes of one kernel: a module of its own, beside that with the
# symbols that it uses. Kbuild does not look whether these have other versions now.
loop = $(mirror)-loop
define kbuild_loop
	$(Q)mkdir -p $(loop)
	$(Q)ln -sfn $(abspath $(wildcard tests/loop/*.[ch]) tests/loop/Kbuild) $(loop)
	$(Q)find -L $(loop) -type l -delete
	$(Q)cmp -s $(mirror)/Module.symvers $(loop)/treadle.symvers || rm -f $(loop)/Module.symvers
	$(Q)cp $(mirror)/Module.symvers $(loop)/treadle.symvers
	+$(Q)[ ! -d $(loop) ] || flock $(loop) $(MAKE) -C $(KDIR) M=$(abspath $(loop)) W=1 CONFIG_DEBUG_INFO_BTF_MODULES= \
		TREADLE=$(abspath $(mirror)) TREADLE_WERROR=$(werror) $(if $(cross),ARCH=arm64 CROSS_COMPILE=$(cross)) \
		KBUILD_EXTRA_SYMBOLS=$(abspath $(loop))/treadle.symvers modules
endef
module-loop: module
	$(kbuild_loop)

# A variant for tests, in which each allocation can be made to fail (tests/fail), with a transport
# of its own.
module-fail: mirror-fail
	$(kbuild) TREADLE_FAIL=y modules
	$(kbuild_loop)

# A variant for tests, with the READ_ONCE of an arm64 kernel with LTO: it acquires, and faults if
# the address is not aligned.
module-lto: mirror-lto
	$(kbuild) KCFLAGS=-DCONFIG_LTO modules

# --- programs: sources are found, objects are under build/ ----------------------------------------

CXXFLAGS ?= -O2 -g
CFLAGS ?= -O2 -g
warnings := -Wall -Wextra -Werror
depend := -MMD -MP
include := -Iuapi -Ilib/include
cxx = $(CXX) -std=c++23 $(warnings) $(depend) $(include) -fPIC -fvisibility=hidden $(CPPFLAGS) $(CXXFLAGS)
# A callback in C has unused parameters. Fields that are left out are zero on purpose.
cc = $(CC) -std=gnu11 $(warnings) -Wno-unused-parameter -Wno-missing-field-initializers $(depend) $(include) $(CFLAGS)

# $(call kept,FILE,TEXT): writes TEXT to FILE, but only if it has changed, so that what depends on
# FILE is rebuilt then.
kept = $(if $(subst |$(strip $(file <$(1)))|,,|$(strip $(2))|),$(shell mkdir -p $(dir $(1)))$(file >$(1),$(2)))
# Rebuild objects if flags change, and libraries if the list of objects changes (a source has gone).
$(call kept,build/flags,$(CC) $(CXX) $(warnings) $(CPPFLAGS) $(CFLAGS) $(CXXFLAGS))

# $(call objects,SOURCES)
objects = $(patsubst %,build/%.o,$(basename $(1)))

lib_objects := $(call objects,$(wildcard lib/src/*.cpp lib/src/*/*.cpp))
provider_objects := $(call objects,$(wildcard lib/provider/*/*.cpp))
$(call kept,build/objects,$(lib_objects) $(provider_objects))
libtreadle := $(if $(lib_objects),lib/libtreadle.so)
provider := $(if $(provider_objects),lib/libtreadle-fi.so)
# One source each, but for treadlectl.
small_tools := $(patsubst tools/%.cpp,build/bin/%,$(wildcard tools/*.cpp))
treadlectl := $(call objects,$(wildcard tools/treadlectl/*.cpp))
tools := $(small_tools) build/bin/treadlectl
$(call kept,build/objects-treadlectl,$(treadlectl))
# MPI programs for comparison: not installed.
mpi_tools := $(patsubst tools/mpi/%.c,build/bin/%,$(wildcard tools/mpi/*.c))
examples := $(patsubst %.cpp,build/%,$(wildcard examples/*.cpp))
c_examples := $(patsubst %.c,build/%,$(wildcard examples/*.c))
# In the directories of tests, NAME_test.cpp is a program. All other sources are linked into each of
# them.
lib_tests := $(patsubst %.cpp,build/%,$(wildcard tests/lib/*_test.cpp))
fi_tests := $(patsubst %.cpp,build/%,$(wildcard tests/fi/*_test.cpp))
helpers = $(call objects,$(filter-out %_test.cpp,$(wildcard tests/$(1)/*.cpp)))
# debug/: tests for the kernels of tools/vm/*.config only. fail/: tests for module-fail.
# loop/: tests for module-loop.
kselftests := $(patsubst %.c,build/%,$(wildcard $(addprefix tests/kselftest/,*.c debug/*.c fail/*.c loop/*.c)))
mpi_tests := $(patsubst %.c,build/%,$(wildcard tests/mpi/*.c))
# Code in documents.
documents := $(addprefix build/tests/docs/,self readme.o)
# A hostile node, and traffic that is disturbed; for two machines.
hostile := build/tests/hostile/hostile
outage := build/tests/outage/traffic
guest_tests := $(kselftests) $(lib_tests) $(fi_tests) $(mpi_tests) $(documents) $(hostile) $(outage)

programs: $(libtreadle) $(provider) $(tools) $(mpi_tools) $(examples) $(c_examples) $(guest_tests)
	@:

build/lib/src/%.o build/tests/lib/%.o: include += -Ilib/src
build/lib/provider/%.o: include += -Ilib/provider
# Tests are most of what is compiled. With -O1 -g1 they hardly run longer, still report line
# numbers, and build in two thirds of the time.
build/tests/lib/%.o build/tests/fi/%.o $(patsubst %,build/tests/%/gtest.gch,lib fi): \
	CXXFLAGS := $(patsubst -g,-g1,$(CXXFLAGS:-O2=-O1))
# PAGE_SIZE: of the machine on which the ABI's tests will run.
PAGE_SIZE ?= $(shell getconf PAGE_SIZE)
build/arm64/%: PAGE_SIZE := 4096
build/arm64-16k/%: PAGE_SIZE := 16384
$(kselftests) $(hostile) $(outage) build/arm64/% build/arm64-16k/%: CFLAGS := $(patsubst -g,-g1,$(CFLAGS:-O2=-O1))
$(kselftests) $(hostile) $(outage) build/arm64/% build/arm64-16k/%: include += -DPAGE=$(PAGE_SIZE)
build/tests/unit-%.o build/tests/unit-%.gch: CXXFLAGS := $(CXXFLAGS:-g=-g1)
build/%.o: %.cpp build/flags
	$(call say,CXX,$<)
	$(Q)mkdir -p $(@D) && $(cxx) -c $< -o $@

# GoogleTest's header took half of the build time, so it is precompiled once for each set of
# options.
build/tests/%/gtest.gch: /usr/include/gtest/gtest.h build/flags
	$(call say,CXX,$< ($*))
	$(Q)mkdir -p $(@D) && echo '#include <gtest/gtest.h>' >$(basename $@) # if another compiler does not take it
	$(Q)$(cxx) $($(*:unit-%=unit_%)) -x c++-header $< -o $@

# $(call test_rules,DIRECTORY)
define test_rules
build/tests/$(1)/%.o: tests/$(1)/%.cpp build/tests/$(1)/gtest.gch build/flags
	$$(call say,CXX,$$<)
	$$(Q)mkdir -p $$(@D) && $$(cxx) -include build/tests/$(1)/gtest -c $$< -o $$@
endef
$(foreach dir,lib fi,$(eval $(call test_rules,$(dir))))

# $(call program,FILE), $(call shared,FILE,OPTIONS): links what the rule lists. Files in build/ and
# lib/ find each other by relative rpaths. Installed files have none.
libs := -lfabric -luring
program = $(CXX) $(LDFLAGS) -o $(1) $(filter %.o,$^) $(filter %.so,$^) -pthread -Wl,--as-needed $(libs) $(rpath)
shared = $(CXX) $(LDFLAGS) -shared -o $(1) $(filter %.o,$^) $(filter %.so,$^) -Wl,-z,defs \
	-Wl,--version-script=$(filter %.map,$^) -Wl,--as-needed $(libs) $(rpath) $(2)
# libfabric closes its providers when the program ends. Threads may still run in them then.
stays := -Wl,-z,nodelete
rpath_to = -Wl,-rpath,'$$ORIGIN/$(1)'

lib/libtreadle.so.1: $(lib_objects) lib/libtreadle.map build/objects
	$(call say,LD,$@)
	$(Q)$(call shared,$@,-Wl$(comma)-soname$(comma)$(@F))
lib/libtreadle.so: lib/libtreadle.so.1
	$(Q)ln -sfn $(<F) $@
lib/libtreadle.a: $(lib_objects) build/objects
	$(call say,AR,$@)
	$(Q)rm -f $@ && $(AR) crD $@ $(lib_objects)
# private: prerequisites must not inherit it.
lib/libtreadle-fi.so: private rpath = $(call rpath_to,)
lib/libtreadle-fi.so: $(provider_objects) lib/provider/libtreadle-fi.map $(libtreadle) build/objects
	$(call say,LD,$@)
	$(Q)$(call shared,$@,$(stays))

$(tools) $(examples): private rpath = $(call rpath_to,../../lib)
$(lib_tests) $(fi_tests): private rpath = $(call rpath_to,../../../lib)
$(lib_tests) $(fi_tests): libs += -lgtest_main -lgtest
$(small_tools): build/bin/%: build/tools/%.o
build/bin/treadlectl install/treadlectl: $(treadlectl) build/objects-treadlectl
$(examples) $(lib_tests) $(fi_tests): %: %.o
$(lib_tests): $(call helpers,lib)
$(fi_tests): $(call helpers,fi)
$(tools) $(examples) $(lib_tests) $(fi_tests): $(libtreadle)
	$(call say,LD,$@)
	$(Q)mkdir -p $(@D) && $(call program,$@)

# The provider as built with device headers (those in tests/fi/hmem), and drivers of imaginary
# devices.
hmem := build/tests/fi/hmem
$(hmem)/domain/fi_hmem.o: lib/provider/domain/fi_hmem.cpp
	$(call say,CXX,$< (hmem))
	$(Q)mkdir -p $(@D) && $(cxx) -Itests/fi/hmem -c $< -o $@
$(hmem)/drivers.o: include += -Itests/fi/hmem
$(hmem)/domain/fi_hmem.o: include += -Ilib/provider
$(hmem)/libtreadle-fi.so: private rpath = $(call rpath_to,../../../../lib)
$(hmem)/libtreadle-fi.so: $(filter-out %/fi_hmem.o,$(provider_objects)) $(hmem)/domain/fi_hmem.o lib/provider/libtreadle-fi.map $(libtreadle)
	$(call say,LD,$@)
	$(Q)$(call shared,$@,$(stays))
# One library under two names, because the second needs the first.
$(hmem)/libcuda.so.1: $(hmem)/drivers.o
$(hmem)/libze_loader.so.1: $(hmem)/libcuda.so.1
$(hmem)/libcuda.so.1 $(hmem)/libze_loader.so.1:
	$(call say,LD,$@)
	$(Q)$(CXX) -shared -o $@ -Wl$(comma)--no-as-needed$(comma)-soname$(comma)$(@F) $^
build/tests/fi/hmem_test: | $(addprefix $(hmem)/,libtreadle-fi.so libcuda.so.1 libze_loader.so.1)

build/kselftest/kselftest_harness.h:
	$(Q)tools/setup kselftest
$(kselftests) $(outage): build/%: %.c build/flags | build/kselftest/kselftest_harness.h
	$(call say,CC,$<)
	$(Q)mkdir -p $(@D) && $(cc) -isystem build/kselftest $< -o $@ -pthread -Wl,--as-needed -luring

$(hostile): include += -Itests/unit
$(hostile): build/%: %.c build/flags | build/kselftest/kselftest_harness.h
	$(call say,CC,$<)
	$(Q)mkdir -p $(@D) && $(cc) -isystem build/kselftest $< -o $@ -pthread -lrdmacm -libverbs

# The ABI's tests for the machine that KERNEL=SERIES-arm64 emulates, linked with its libraries.
cross_to := build/$(if $(filter %-16k,$(KERNEL)),arm64-16k,arm64)
cross_tests := $(patsubst %.c,$(cross_to)/%,$(wildcard tests/kselftest/*.c tests/kselftest/arm64/*.c))
cross-tests: $(cross_tests)
	@:
$(cross_tests): CC = $(cross)gcc-12 --sysroot=build/kernels/$(KERNEL)/root
$(cross_tests): $(cross_to)/%: %.c | build/kselftest/kselftest_harness.h build/kernels/$(KERNEL)/release
	$(call say,CC,$< (arm64))
	$(Q)mkdir -p $(@D) && $(cc) -isystem build/kselftest $< -o $@ -pthread -Wl,--as-needed -luring

# mpicc knows where MPI is.
$(mpi_tests): build/%: %.c
$(mpi_tools): build/bin/%: tools/mpi/%.c
$(mpi_tests) $(mpi_tools):
	$(call say,MPICC,$<)
	$(Q)mkdir -p $(@D) && mpicc -std=gnu11 $(warnings) $(CFLAGS) $< -o $@

# These know only libfabric.
$(c_examples): build/%: %.c build/flags
	$(call say,CC,$<)
	$(Q)mkdir -p $(@D) && $(cc) $< -o $@ -lfabric

# The client in ring-abi.rst is compiled with only the uapi headers, and README's C inside a
# function.
build/tests/docs/self.c: Documentation/ring-abi.rst
	$(Q)mkdir -p $(@D) && awk '/^\.\. code:: c$$/ { on = 1; next } on && /^[^ ]/ { exit } on' $< | cut -c 5- >$@
build/tests/docs/self: build/tests/docs/self.c $(wildcard uapi/treadle/*.h)
	$(call say,CC,$< (of ring-abi.rst))
	$(Q)$(CC) -std=gnu11 $(warnings) -Iuapi $< -o $@
build/tests/docs/readme.c: README.md
	$(Q)mkdir -p $(@D) && awk 'BEGIN { \
		print "#include <rdma/fi_trigger.h>\nvoid program(struct fid_domain *domain, struct fid_ep *ep,"; \
		print "struct fid_cntr *received, struct fid_cntr *sent, fi_addr_t peer, void *buffer, size_t length) {" } \
		/^```c$$/ { on = 1; next } on && /^```$$/ { exit } on; END { print "}" }' $< >$@
build/tests/docs/readme.o: build/tests/docs/readme.c
	$(call say,CC,$< (of README.md))
	$(Q)$(cc) -c $< -o $@

# --- unit tests: the module's pure logic in user space, natively, three times ---------------------

unit := $(patsubst tests/unit/%.cpp,%,$(wildcard tests/unit/*_test.cpp))
shims := $(patsubst tests/unit/%,%,$(basename $(filter-out %_test.cpp,$(wildcard tests/unit/*.c tests/unit/*.cpp))))
unit_plain := -O2
unit_asan := -O1 -fsanitize=address,undefined -fno-sanitize-recover=all -fno-omit-frame-pointer
# TSan does not support fences; here they order no plain data (-Wno-tsan). It does not see a
# built-in memcpy (-fno-builtin).
unit_tsan := -O1 -fsanitize=thread -Wno-tsan -fno-builtin

# $(call unit_rules,VARIANT)
define unit_rules
unit_tests += $(unit:%=build/tests/unit-$(1)/%)
build/tests/unit-$(1)/%.o: tests/unit/%.cpp build/tests/unit-$(1)/gtest.gch build/flags
	$$(call say,CXX,$$< ($(1)))
	$$(Q)mkdir -p $$(@D) && $$(cxx) -Itests/unit -Ikernel -Ilib/src $(unit_$(1)) -include $$(@D)/gtest -c $$< -o $$@
build/tests/unit-$(1)/%.o: tests/unit/%.c build/flags
	$$(call say,CC,$$< ($(1)))
	$$(Q)mkdir -p $$(@D) && $$(cc) -Wno-sign-compare -fno-strict-aliasing -Itests/unit -Ikernel \
		$(unit_$(1)) -c $$< -o $$@
# An archive, so that each test links only the sources that it tests.
build/tests/unit-$(1)/shims.a: $(shims:%=build/tests/unit-$(1)/%.o)
	$$(Q)mkdir -p $$(@D) && rm -f $$@ && $(AR) cr $$@ $$^
$(unit:%=build/tests/unit-$(1)/%): %: %.o build/tests/unit-$(1)/shims.a
	$$(call say,LD,$$@)
	$$(Q)$(CXX) $(unit_$(1)) $$^ -o $$@ -pthread -lgtest_main -lgtest
endef
$(foreach variant,plain asan tsan,$(eval $(call unit_rules,$(variant))))

unit: $(unit_tests)
	@:

# --- fuzzers of the same logic: libFuzzer, which comes with clang ---------------------------------

fuzzers := $(patsubst %.cpp,build/%,$(wildcard tests/fuzz/*_fuzz.cpp))
fuzz_flags := $(warnings) $(depend) -Iuapi -Itests/unit -Ikernel -g -O1 -fno-sanitize-recover=all
fuzz_sanitize := -fsanitize=fuzzer-no-link,address,undefined

build/tests/fuzz/%.o: tests/fuzz/%.cpp
	$(call say,CXX,$< (fuzz))
	$(Q)mkdir -p $(@D) && clang++-14 -std=gnu++20 $(fuzz_flags) $(fuzz_sanitize) -c $< -o $@
build/tests/fuzz/unit/%.o: tests/unit/%.c
	$(call say,CC,$< (fuzz))
	$(Q)mkdir -p $(@D) && clang-14 -std=gnu11 $(fuzz_flags) -Wno-sign-compare -Wno-unused-parameter \
		-fno-strict-aliasing $(fuzz_sanitize) -c $< -o $@
$(fuzzers): %: %.o $(patsubst tests/unit/%.c,build/tests/fuzz/unit/%.o,$(wildcard tests/unit/*.c))
	$(call say,LD,$@)
	$(Q)clang++-14 -fsanitize=fuzzer,address,undefined $^ -o $@

fuzz: $(fuzzers)
	@:

# Dependencies of the last build.
-include $(shell find build \( -path 'build/kernel*' -o -path build/deb -o -path build/rpm -o -path build/package \) -prune \
	-o -type f -name '*.d' -print 2>/dev/null)

# --- static checks --------------------------------------------------------------------------------

sources := $(wildcard $(foreach ext,c h cpp,$(addsuffix /*.$(ext),kernel/* uapi/treadle lib/include/treadle \
	lib/include/treadle/detail lib/src lib/src/* lib/provider/* tools tools/* examples tests/* tests/fi/*)))

format-check:
	$(Q)clang-format --dry-run -Werror $(sources)
format:
	$(Q)clang-format -i $(sources)

# Compiles each header alone, because a header includes what it needs; those of uapi also as C.
# (C forbids an empty unit, which a header of macros would be.)
headers-check: $(patsubst %,build/alone/%,$(wildcard uapi/treadle/*.h lib/include/treadle/*.h))
build/alone/%: %
	$(Q)mkdir -p $(@D)
	$(Q)$(cxx) -MF $@.d -MT $@ -fsyntax-only -x c++ -include $< /dev/null
	$(if $(filter uapi/%,$<),$(Q)$(CC) -std=c11 -pedantic $(warnings) -Iuapi -fsyntax-only -x c -include $< - <<<'struct unit;')
	$(Q)touch $@

# clang-tidy 19 is the oldest that understands <expected> of libstdc++ 12. Parsing other projects'
# headers takes most of the time, so the sources of one library are read together.
tidied := $(filter-out tests/%,$(filter %.cpp,$(sources)))
tidy: build/tidy/lib/src.cpp build/tidy/lib/provider.cpp $(patsubst %,build/tidy/%,$(filter-out lib/%,$(tidied)))
build/tidy/lib/%.cpp: $(tidied) .clang-tidy $(filter %.h,$(sources))
	$(call say,TIDY,lib/$*)
	$(Q)mkdir -p $(@D)
	$(Q)printf '#include "$(CURDIR)/%s" // NOLINT(bugprone-suspicious-include)\n' $(filter lib/$*/%,$^) >$@.new
	$(Q)mv $@.new $@ && { $(call tidy,$@,-Ilib/src -Ilib/provider) || { rm $@; false; }; }
build/tidy/%: % .clang-tidy $(filter %.h,$(sources))
	$(call say,TIDY,$<)
	$(Q)mkdir -p $(@D)
	$(Q)$(call tidy,$<)
	$(Q)touch $@
tidy = clang-tidy-19 --quiet $(1) -- -std=c++23 $(include) $(2) 2> >(grep -v 'warnings\? generated' >&2)

# sparse also reports on the kernel's own headers. Only reports on these sources count.
sparse: module
	$(call say,SPARSE,kernel/*/*.c)
	$(kbuild) modules C=2 >build/sparse.log 2>&1 || { cat build/sparse.log; false; }
	$(Q)! grep -F '$(mirror)/' build/sparse.log | grep -E ':[0-9]+: (warning|error)'

# --- documents ------------------------------------------------------------------------------------

Documentation/architecture.svg: Documentation/architecture.awk
	$(call say,AWK,$@)
	$(Q)awk -f $< >$@

# A warning is an error, in the manual pages as well.
docs: Documentation/architecture.svg
	$(call say,SPHINX,build/docs/html)
	$(Q)sphinx-build -q -W --keep-going -d build/docs/doctrees Documentation build/docs/html
	$(Q)! for page in Documentation/man/*.[17]; do \
		LC_ALL=C.UTF-8 MANWIDTH=80 man --warnings=w -l $$page 2>&1 >/dev/null | sed "s,^,$$page: ,"; done | grep .

# --- running --------------------------------------------------------------------------------------

# The shell expands these variables: make must not expand a $ in them.
$(foreach name,CMD BENCH SETS TESTS FABTESTS,$(if $(filter command% environment%,$(origin $(name))),\
	$(eval override $(name) := $$(value $(name)))))
export KERNEL NODES REMOTE CMD BENCH SETS TESTS FABTESTS COVERAGE
# (tests/docs/commands replaces these)
run := tools/vm/run
setup := tools/setup
check := tests/run

# bench and fabtests between two machines
two := $(filter 2,$(NODES))
# The machines don't have the environment of make.
fabtests-variables = FABTESTS_PATIENCE=$${FABTESTS_PATIENCE-} FABTESTS_TIMEOUT=$${FABTESTS_TIMEOUT-}
bench-variables = BENCH_ROUNDS=$${BENCH_ROUNDS-} BENCH_MS=$${BENCH_MS-} LIBFABRIC=$$(env printf %q "$${LIBFABRIC-}")

# make turns every failure into exit status 2, while tools/vm/run returns that of CMD.
vm: module programs
	$(Q)$(run) $(if $(CMD),"$$CMD",$(error CMD='…' is missing))
vm-shell: module programs
	$(Q)VM_SHELL=1 $(run)

setup:
	$(Q)$(setup) packages
	$(Q)$(setup) kernel $(KERNEL)

# Setup may install the compiler, so a second make does the rest.
demo: setup
	+$(Q)$(MAKE) module programs
	$(Q)$(run) tools/demo
	$(Q)if [ -e kernel/treadle_rdma.ko ]; then NODES=2 REMOTE=1 $(run) 'tools/demo machines'; \
		else echo "Kernel $(KERNEL) has no RDMA: not shown on two machines."; fi
bench:
	$(Q)$(setup) packages gnuplot-nox $(if $(two),perftest)
	+$(Q)$(MAKE) module programs
	$(Q)$(if $(two),REMOTE=1) VM_DIR=build/bench VM_TIMEOUT=$${VM_TIMEOUT:-3000} \
		$(run) "$(if $(two),$(bench-variables) tools/bench-machines,tools/bench-run $$BENCH)"
	$(Q)ls build/bench/$(if $(two),0/)out/*
fabtests: setup
	$(if $(FABTESTS),,$(error FABTESTS=DIR is missing: where libfabric's tests are installed (DIR/bin/runfabtests.sh)))
	+$(Q)$(MAKE) module programs
	$(Q)$(setup) packages python3 procps
	$(Q)$(if $(two),REMOTE=1) VM_TIMEOUT=$${VM_TIMEOUT:-$(if $(two),21600,7200)} VM_MEM=$${VM_MEM:-6G} \
		$(run) "$(fabtests-variables) FABTESTS=$$(realpath "$$FABTESTS" | xargs -d '\n' printf %q) tools/fabtests $$SETS"
check:
	$(Q)$(setup) packages
	+$(Q)$(check) $(if $(filter file,$(origin KERNEL)),6.1 6.12 6.12-rt 6.1-arm64,$(KERNEL))

# --- installing -----------------------------------------------------------------------------------

PREFIX ?= /usr
LIBDIR ?= lib/$(shell $(CC) -print-multiarch)
bindir = $(DESTDIR)$(PREFIX)/bin
libdir = $(DESTDIR)$(PREFIX)/$(LIBDIR)
incdir = $(DESTDIR)$(PREFIX)/include/treadle
mandir = $(DESTDIR)$(PREFIX)/share/man/man
# The one place that has the version is a header. What can't include it has @VERSION@ instead.
# tests/version compares those that have a copy.
version = $(shell awk '/define TREADLE_VERSION_M[A-Z]*R/ { v = v dot $$3; dot = "." } END { print v }' uapi/treadle/version.h)
# $(call install_text,FILES,DIRECTORY)
install_text = install -d $(2) && $(foreach file,$(1),sed 's,@VERSION@,$(version),; s,@PREFIX@,$(PREFIX),; s,@LIBDIR@,$(LIBDIR),' \
	$(file) >$(2)/$(notdir $(file)) && chmod 644 $(2)/$(notdir $(file)) &&) :
srcdir = $(DESTDIR)/usr/src/treadle-$(version)

# What install needs.
userland: $(libtreadle) lib/libtreadle.a $(provider) $(tools)
	@:
install: install-library install-provider install-tools install-module install-man
install-library: $(libtreadle) lib/libtreadle.a
	install -D -m644 -t $(libdir) lib/libtreadle.so.1 lib/libtreadle.a
	ln -sfn libtreadle.so.1 $(libdir)/libtreadle.so
	install -D -m644 -t $(incdir) $(filter-out %/layout.h,$(wildcard uapi/treadle/*.h)) lib/include/treadle/*.h
	install -D -m644 -t $(incdir)/detail lib/include/treadle/detail/*.h
	$(call install_text,packaging/treadle.pc,$(libdir)/pkgconfig)
	$(call install_text,$(wildcard packaging/*.cmake),$(libdir)/cmake/treadle)
install-provider: $(provider_objects) lib/provider/libtreadle-fi.map $(libtreadle)
	install -d $(libdir)/libfabric
	$(call shared,$(libdir)/libfabric/libtreadle-fi.so,$(stays))
datadir = $(DESTDIR)$(PREFIX)/share
install-tools: $(tools:build/bin/%=install/%)
	install -D -m644 tools/completion/treadlectl.bash $(datadir)/bash-completion/completions/treadlectl
	install -D -m644 -t $(datadir)/zsh/vendor-completions tools/completion/_treadlectl
	install -D -m644 -t $(DESTDIR)$(PREFIX)/lib/systemd/system $(wildcard tools/systemd/*)
$(small_tools:build/bin/%=install/%): install/%: build/tools/%.o
$(tools:build/bin/%=install/%): install/%: $(libtreadle)
	install -d $(bindir)
	$(call program,$(bindir)/$*)
# For DKMS: dkms add treadle/VERSION, dkms install treadle/VERSION. At the start of the machine the
# module is loaded.
install-module:
	install -D -m644 -t $(srcdir) kernel/Kbuild kernel/Makefile kernel/ROOMS
	$(call install_text,kernel/dkms.conf,$(srcdir))
	for room in $(rooms); do install -D -m644 -t $(srcdir)/$$room kernel/$$room/*; done
	install -D -m644 -t $(srcdir)/uapi/treadle uapi/treadle/*.h
	install -D -m644 -t $(DESTDIR)/usr/lib/udev/rules.d packaging/60-treadle.rules
	install -D -m644 packaging/modules-load.conf $(DESTDIR)/usr/lib/modules-load.d/treadle.conf
install-man:
	$(foreach section,1 7,$(call install_text,$(wildcard Documentation/man/*.$(section)),$(mandir)$(section)) &&) :
# What would be installed now says what to remove. Directories stay if other files are in them.
uninstall:
	$(Q)dir=$$(mktemp -d) && trap 'rm -rf $$dir' EXIT && $(MAKE) install DESTDIR=$$dir >/dev/null && \
		find $$dir ! -type d -printf '%P\n' | (cd $(DESTDIR)/ && xargs -d '\n' rm -fv) && \
		find $$dir -depth -mindepth 1 -type d -printf '%P\n' | \
		(cd $(DESTDIR)/ && xargs -d '\n' rmdir --ignore-fail-on-non-empty 2>/dev/null) || :
# For scripts.
version:
	@echo $(version)
deb rpm:
	$(Q)rm -rf build/$@
	$(Q)packaging/build $@
package-check:
	$(Q)$(setup) packages
	$(Q)tests/package/run $(KERNEL) whole

help:
	@sed -n '3,/^$$/s/^# \{0,1\}//p' Makefile

clean:
	$(Q)rm -rf $(filter-out build/kernels build/kselftest build/system,$(wildcard build/*))
	$(Q)rm -f kernel/*.ko lib/*.so lib/*.so.* lib/*.a
distclean: clean
	$(Q)rm -rf build

.PHONY: all cross-tests mirror mirror-fail mirror-lto module module-fail module-loop module-lto programs unit fuzz docs format format-check headers-check tidy sparse vm vm-shell setup demo bench deb rpm \
	fabtests check help userland install install-library install-provider install-tools install-module install-man uninstall version package-check clean distclean
.SECONDARY:
