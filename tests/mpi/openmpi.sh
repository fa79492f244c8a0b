#!/bin/bash
# SPDX-License-Identifier: GPL-2.0
#
# Open MPI over treadle, by each command line of Documentation/programs.rst, as it stands there:
# PROGRAM is replaced, and there may be fewer processors than processes. No other transport is
# allowed, so Open MPI fails if it refuses treadle.

export OMPI_ALLOW_RUN_AS_ROOT=1 OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1 HOME=/tmp
document=Documentation/programs.rst
eval "$(sed -n 's/^ \+\(export FI_TREADLE_ONE_NODE=.*\)/\1/p' $document)"
mapfile -t lines < <(sed -n ':more; /\\$/ { N; s/ *\\\n */ /; b more }
	s/^ \+\(mpirun .*\)/\1/p' $document)
number=0

echo 1..3
for line in "${lines[@]}"; do
	result=ok
	command=${line/mpirun/mpirun --oversubscribe}
	bash -c "${command/PROGRAM/build/tests/mpi/peers}" 2>&1 | sed 's/^[^#]/# &/'
	[ "${PIPESTATUS[0]}" = 0 ] || result="not ok"
	echo "$result $((++number)) - ${line#mpirun }"
done
