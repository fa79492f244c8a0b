# SPDX-License-Identifier: GPL-2.0

# make              module, library, provider, tools, examples, tests
# make demo         the main job, shown in a virtual machine; sets up all it needs
# make check        all tests; the last line counts them (KERNEL=6.12, TESTS=PATTERN: only those)
# make bench        beside libfabric's other providers; table, JSON, picture
# make vm CMD='…'   runs CMD in a virtual machine with the module loaded (see tools/vm/run)
# make vm-shell     a shell there
# make fabtests FABTESTS=DIR   an installed copy of libfabric's own tests, there
# make setup        Debian packages and kernels that the above use
# make module       only the module (KERNEL=6.12: another packaged kernel; KDIR=DIR: any build tree)
# make install      PREFIX=/usr DESTDIR=
# make sparse tidy format-check headers-check   one of the static checks; make format repairs
# make clean        what was built; make distclean also what was fetched
#
# KERNEL=6.1, V=1 (show commands)

SHELL := /bin/bash
MAKEFLAGS += --no-print-directory
.DELETE_ON_ERROR:

Q := $(if $(V),,@)
say = $(if $(V),,@printf '  %-7s %s\n' '$(1)' '$(2)')

KERNEL ?= 6.1

all: module programs

# -- The module, mirrored for every kernel so that the objects of several live side by side --

ifdef KDIR
release = $(shell $(MAKE) -s -C $(KDIR) kernelrelease)
else
kernel := $(abspath build/kernels/$(KERNEL))
release = $(file <$(kernel)/release)
KDIR = $(kernel)/usr/src/linux-headers-$(release)
# Kernels that this project is tested on. Others may warn about what nobody has seen yet.
werror := y
endif
mirror = build/kernel-$(release)

build/kernels/%/release:
	$(Q)tools/setup kernel $*

mirror: $(if $(kernel),$(kernel)/release)
	$(Q)mkdir -p $(mirror)/probe
	$(Q)ln -sfn $(abspath $(wildcard kernel/*.[ch] kernel/Kbuild kernel/Makefile) uapi) $(mirror)
	$(Q)ln -sfn $(abspath $(wildcard kernel/probe/*.c) kernel/probe/Kbuild) $(mirror)/probe
	$(Q)find -L $(mirror) -type l -delete

kbuild = +$(Q)$(MAKE) -C $(mirror) KDIR=$(abspath $(KDIR)) W=1 TREADLE_WERROR=$(werror)

module: mirror
	$(kbuild) modules
	$(Q)cmp -s $(mirror)/treadle.ko kernel/treadle.ko || cp $(mirror)/treadle.ko kernel/treadle.ko

programs:

# -- The virtual machine --

vm: module programs
	$(Q)KERNEL=$(KERNEL) tools/vm/run $(if $(CMD),"$$CMD",$(error CMD='…' is missing))
vm-shell: module programs
	$(Q)KERNEL=$(KERNEL) VM_SHELL=1 tools/vm/run
export CMD NODES

setup:
	$(Q)tools/setup packages
	$(Q)tools/setup kernel $(KERNEL)

help:
	@sed -n '3,/^$$/s/^# \{0,1\}//p' Makefile

clean:
	$(Q)find build -mindepth 1 -maxdepth 1 ! -name kernels ! -name kselftest -exec rm -rf {} + 2>/dev/null || :
	$(Q)rm -f kernel/treadle.ko lib/*.so lib/*.so.*
distclean: clean
	$(Q)rm -rf build

.PHONY: all mirror module programs vm vm-shell setup help clean distclean
