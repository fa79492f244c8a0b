#!/bin/bash
# SPDX-License-Identifier: GPL-2.0
#
# Open MPI over treadle, by each command line of Documentation/programs.rst, as it stands there:
# PROGRAM is replaced, and there may be fewer processors than processes. No other transport is
# allowed, so Open MPI fails if it refuses treadle.
#
# MPIRUN_OPTIONS: more options, for processes on several machines (tests/machines). Then the line
# that names them runs, too, FI_TREADLE_ONE_NODE is not set, and the data end at 256 KiB.

export OMPI_ALLOW_RUN_AS_ROOT=1 OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1 HOME=/tmp
document=Documentation/programs.rst
program=build/tests/mpi/peers
provider=
if [ -n "${MPIRUN_OPTIONS-}" ]; then
	program+=' 262144'
	provider='\(FI_PROVIDER=treadle \)\?'
else
	eval "$(sed -n 's/^ \+\(export FI_TREADLE_ONE_NODE=.*\)/\1/p' $document)"
fi
mapfile -t lines < <(sed -n ':more; /\\$/ { N; s/ *\\\n */ /; b more }
	s/^ \+\('"$provider"'mpirun .*\)/\1/p' $document)
number=0

echo 1..${#lines[@]}
for line in "${lines[@]}"; do
	result=ok
	command=${line/mpirun/mpirun --oversubscribe ${MPIRUN_OPTIONS-}}
	bash -c "${command/PROGRAM/$program}" 2>&1 | sed 's/^[^#]/# &/'
	[ "${PIPESTATUS[0]}" = 0 ] || result="not ok"
	echo "$result $((++number)) - ${line/mpirun /}"
done
