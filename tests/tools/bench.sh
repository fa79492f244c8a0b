#!/bin/bash
# SPDX-License-Identifier: GPL-2.0
#
# treadle-bench measures, with both ends in one thread, in two processes, and as if on two machines,
# and writes JSON.

. tests/tools/tap

# JSON is complete if a single value is left after the innermost ones are replaced by values
# repeatedly.
is_json() {
	local left
	left=$(sed -zE 's/"([^"\\]|\\.)*"/s/g; s/-?[0-9]+(\.[0-9]+)?([eE][-+]?[0-9]+)?/v/g
		s/true|false|null/v/g; s/[[:space:]]//g
		:b; s/\{(s:[sv](,s:[sv])*)?\}|\[([sv](,[sv])*)?\]/v/g; tb' "$1")
	[ "$left" = v ]
}

# measured NAME MODE OPTION…: each provider, each operation.
measured() {
	local json=/tmp/$1.json mode=$2 provider operation
	shift 2
	timeout "$limit" treadle-bench -p treadle -p shm -o tagged -o write -s 8 -r 2 -d 2 --json "$json" "$@" || return 1
	cat "$json"
	is_json "$json" || { echo "this is no JSON"; return 1; }
	for provider in treadle shm; do
		for operation in tagged write; do
			grep "\"mode\": \"$mode\", \"endpoint\": \"rdm\", \"operation\": \"$operation\", \"size\": 8, \"provider\": \"$provider\"" "$json" |
				grep -q '"status": "done", "ns": {.*"median": [0-9.e+]*.*"ratio": [0-9.e+-]*' ||
				{ echo "nothing of $operation over $provider"; return 1; }
		done
	done
}

# is_json rejects these
broken() {
	local text
	for text in '{"a": 1' '{"a": 1,}' '[1 2]' '{"a"}' '' '{} {}' '[1,,2]'; do
		echo "$text" >/tmp/broken
		! is_json /tmp/broken || { echo "taken for JSON: $text"; return 1; }
	done
	echo '{"a": [1, -2.5e+3, "b\"c", {}, []], "d": {"e": null}}' >/tmp/whole
	is_json /tmp/whole
}

# As if the second end were on another machine.
distant() {
	local server said status=0
	timeout "$limit" treadle-bench --serve &
	server=$!
	said=$(timeout "$limit" treadle-bench --machine 127.0.0.1 -p treadle -s 8 -s 1M -r 2 -d 2) || status=$?
	wait "$server" || status=$?
	echo "$said"
	[ $status = 0 ] && [ "$(grep -cE ' treadle +[0-9]+ ' <<<"$said")" = 4 ]
}

echo 1..4
check json broken
check one_thread measured one 'one thread'
check two_processes measured two 'two processes' --two
check distant distant
