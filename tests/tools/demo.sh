#!/bin/bash
# SPDX-License-Identifier: GPL-2.0
#
# `make demo`, shortened, and the same with the other types of endpoints: the system's own programs
# find treadle and exchange messages over it, and a ring and a sum go on while all but one process
# are stopped.

. tests/tools/tap

found() { fi_info -p treadle | grep -c '^provider: treadle$'; }

# exchanged TYPE OPTION…: runs fi_pingpong; -c checks each byte. Fails also if no message was
# exchanged.
exchanged() {
	local pingpong=(fi_pingpong -p treadle -c -e "$@") server status=0 i
	timeout "$limit" "${pingpong[@]}" >/tmp/server 2>&1 &
	server=$!
	# fi_pingpong listens on TCP port 47592 (0xb9e8).
	for i in {1..100}; do
		! grep -q ':B9E8 [^ ]* 0A' /proc/net/tcp /proc/net/tcp6 || break
		sleep 0.1
	done
	timeout "$limit" "${pingpong[@]}" 127.0.0.1 >/tmp/client 2>&1 || status=$?
	wait "$server" || status=$?
	cat /tmp/server /tmp/client
	[ "$status" = 0 ] && [ "$(grep -c '^[0-9]' /tmp/client)" -ge 3 ]
}

# As if the other processes were on another machine.
distant() {
	local tool=$1 server status=0
	timeout "$limit" "$tool" --serve &
	server=$!
	timeout "$limit" "$@" --machine 127.0.0.1 || status=$?
	wait "$server" || status=$?
	return $status
}

echo 1..8
check fi_info found
check rdm exchanged rdm -S all -I 2
check msg exchanged msg -I 5
check dgram exchanged dgram -I 5
check ring timeout "$limit" treadle-ring --rounds 100
check allreduce timeout "$limit" treadle-allreduce --rounds 20
check distant_ring distant treadle-ring --rounds 20
check distant_allreduce distant treadle-allreduce --rounds 20
