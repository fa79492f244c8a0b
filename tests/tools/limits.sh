#!/bin/bash
# SPDX-License-Identifier: GPL-2.0
#
# Programs work with the smallest limits that the module accepts.

. tests/tools/tap

example() { timeout "$limit" build/examples/remote_memory; }

offered() {
	local sizes
	sizes=$(fi_info -p treadle -v | sed -n 's/^ *\(cq_\)\?size: \([0-9]*\)$/\2/p' | sort -u)
	echo sizes: $sizes
	[ "$sizes" = 32 ]
}

ring() { timeout "$limit" treadle-ring --rounds 20; }

graphs() { timeout "$limit" treadle-allreduce --rounds 5; }

# Objects of a program go a moment after it.
reload() {
	local i
	for i in {1..30}; do
		! rmmod treadle || break
		sleep 0.1
	done
	insmod "$MODULE" "$@"
}

echo 1..6
check loaded reload max_ring=32 max_cq=32
check example example
check fi_info offered
check graphs graphs
check ring ring
# shellcheck disable=SC2086 # they are several words
check back reload ${MODULE_PARAMS-}
