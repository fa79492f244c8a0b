#!/bin/bash
# SPDX-License-Identifier: GPL-2.0
#
# Open MPI over treadle: four processes, by its matching layer (MTL), by its byte transfer layer
# (BTL), and messages by the former with windows by the latter. No other transport is allowed, so
# Open MPI fails if it refuses treadle.

export FI_TREADLE_ONE_NODE=1 OMPI_ALLOW_RUN_AS_ROOT=1 OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1 HOME=/tmp
number=0

# run NAME OPTION…
run() {
	local name=$1 result=ok
	shift
	mpirun --oversubscribe -n 4 "$@" build/tests/mpi/peers 2>&1 | sed 's/^[^#]/# &/'
	[ "${PIPESTATUS[0]}" = 0 ] || result="not ok"
	echo "$result $((++number)) - $name"
}

echo 1..3
run mtl --mca pml cm --mca mtl ofi --mca mtl_ofi_provider_include treadle --mca osc ^ucx
run btl --mca pml ob1 --mca btl ofi,self --mca btl_ofi_provider_include treadle --mca btl_ofi_mode 2 --mca osc rdma
run both --mca pml cm --mca mtl ofi --mca mtl_ofi_provider_include treadle \
	--mca btl ofi,self --mca btl_ofi_provider_include treadle --mca btl_ofi_mode 0 --mca osc rdma
