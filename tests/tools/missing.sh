#!/bin/bash
# SPDX-License-Identifier: GPL-2.0
#
# Without the device, without rights, or with bad arguments each tool says in one sentence what is
# missing, and what to do.

. tests/tools/tap

# says STATUS WORDS COMMAND…: the command exits with STATUS, and prints a single line, with WORDS.
says() {
	local expected=$1 words=$2 said status
	shift 2
	said=$("$@" 2>&1 >/dev/null)
	status=$?
	echo "$*: $status, $said"
	[ "$status" = "$expected" ] && [[ $said == *"$words"* ]] && [ "$(wc -l <<<"$said")" = 1 ]
}

no_device() { unshare -m sh -c 'mount -t tmpfs none /dev && touch /dev/null && exec "$@"' - "$@"; }
no_rights() { unshare -m sh -c 'chmod 600 /dev/treadle; trap "chmod 666 /dev/treadle" EXIT
	setpriv --reuid 65534 --regid 65534 --clear-groups "$@"' - "$@"; }

each_needs_the_device() {
	local tool
	for tool in treadle-ring treadle-allreduce treadle-bench "treadle-bench --cells" "treadle-bench --scale=1K" "treadlectl explain $$"; do
		# shellcheck disable=SC2086 # they are several words
		says 1 'the module is not loaded' no_device $tool || return 1
		[[ $tool = *explain* ]] || says 1 'may not be opened' no_rights $tool || return 1
	done
}

# A missing provider is an error, even if another one was measured.
a_provider_that_is_not_here() {
	says 1 'has none of this here' treadle-bench -p treadle -p nonesuch -o tagged -s 8 -r 1 -d 1 --no-count
}

a_process_that_cannot_be_looked_at() {
	says 1 'there is no process 999999' treadlectl explain 999999 &&
		says 1 'may not be looked at' setpriv --reuid 65534 --regid 65534 --clear-groups treadlectl explain $$ &&
		says 1 'has no file of' treadlectl explain $$ &&
		says 1 'no other node is reached' treadlectl peers
}

another_machine() {
	says 1 'nothing serves there' treadle-ring --machine 127.0.0.1 --timeout 1 &&
		says 1 'there.invalid: ' treadle-allreduce --machine there.invalid --timeout 1 || return 1
	timeout "$limit" treadle-allreduce --serve 2>/tmp/refused &
	local server=$!
	says 1 'another program or version serves there' treadle-ring --machine 127.0.0.1 || return 1
	kill $server
	grep 'refused a connection of another program' /tmp/refused
}

wrong_arguments() {
	local tool
	for tool in treadle-ring treadle-allreduce treadle-bench; do
		says 2 'is no number from' $tool --rounds 0 && says 2 'is no number from' $tool --rounds 1X &&
			says 2 'is no number from' $tool --rounds -1 && says 2 'is no number from' $tool --rounds 99999999999G &&
			says 2 'what is this?' $tool this || return 1
	done
	says 2 'try --help' treadlectl explain && says 2 'try --help' treadlectl peers this && says 2 'is no number from' treadlectl explain x
}

sizes_have_units() {
	timeout "$limit" treadle-ring --rounds 2 -n 2 --size 4K | grep '2 rounds of 4096 bytes'
}

echo 1..6
check each_needs_the_device each_needs_the_device
check a_provider_that_is_not_here a_provider_that_is_not_here
check another_machine another_machine
check a_process_that_cannot_be_looked_at a_process_that_cannot_be_looked_at
check wrong_arguments wrong_arguments
check sizes_have_units sizes_have_units
