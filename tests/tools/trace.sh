#!/bin/bash
# SPDX-License-Identifier: GPL-2.0
#
# Tracepoints through treadlectl and through the system's own tools: Documentation/tracing.rst.
#
# test-timeout: 1200

. tests/tools/tap

traces=/sys/kernel/tracing
[ -d $traces/instances ] || mount -t tracefs tracefs $traces
events=(post arm fire match keep park copy_begin copy_end page_wait complete remote_send remote_arrive
	connect peer_up peer_down link_down reconnect)

as_user() { setpriv --reuid 65534 --regid 65534 --clear-groups "$@"; }
no_instance() { ! ls $traces/instances | grep treadlectl; }

# says STATUS WORDS COMMAND…
says() {
	local status=$1 words=$2 rc=0
	shift 2
	"$@" >/tmp/said 2>&1 || rc=$?
	[ $rc = "$status" ] && grep -qF -- "$words" /tmp/said || { echo "$*: $rc"; head -20 /tmp/said; return 1; }
}

# Two processes exchange messages until they are killed. The tools come first.
start() {
	local i
	timeout 1200 nice -n 19 treadle-bench -p treadle -o tagged -s "$1" --two --no-count -r 9999 -d 1000 >/dev/null 2>&1 &
	others=$!
	for i in {1..100}; do
		pid=$(treadlectl list endpoints --json | jq '[.endpoints[] | select(.out > 0)][0].pid // empty')
		[ -z "$pid" ] || return 0
		sleep 0.1
	done
}
stop() {
	kill $others 2>/dev/null
	wait $others || :
}

all_events_are_there() {
	local event
	for event in "${events[@]}"; do
		[ -d $traces/events/treadle/treadle_$event ] || { echo "no $event"; return 1; }
	done
	[ "$(find $traces/events/treadle -mindepth 1 -type d | wc -l)" = ${#events[@]} ]
}

words() {
	says 0 'meets a receive' treadlectl trace -d 0.5 "$pid" && grep -q 'tsend of 8 bytes.* posted by endpoint' /tmp/said &&
		grep -q 'completed for' /tmp/said && no_instance
}
# Each message of which the post is seen has one match, at the peer.
json() {
	treadlectl trace -d 0.5 --json "$pid" >/tmp/trace.json || return 1
	jq -e '.lost == 0 and (.events | length > 4) and
		([.events[] | select(.event == "match" and .peer_ctx != .ctx)] | length > 0) and
		([.events[] | select(.event == "match").msg] | length == (unique | length))' /tmp/trace.json >/dev/null ||
		{ jq -c '.lost, (.events | length), .events[:4]' /tmp/trace.json; return 1; }
	no_instance
}
# Ends one by a signal when it has shown something.
follow() {
	local i tool
	env --default-signal=INT treadlectl trace -f "$pid" >/tmp/followed &
	tool=$!
	for i in {1..300}; do
		! grep -q 'meets a receive' /tmp/followed || break
		sleep 0.1
	done
	kill -s "$1" $tool
	wait $tool
	grep -q 'meets a receive' /tmp/followed
}
follow_until() { follow "$1" && no_instance; }
# What a killed one leaves is removed by the next one.
killed() {
	follow KILL 2>/dev/null
	! no_instance >/dev/null || return 1
	treadlectl trace -d 0.1 "$pid" >/dev/null && no_instance
}
svg() {
	treadlectl trace -d 0.5 --svg "$pid" >/tmp/trace.svg && python3 - <<-'END'
		import xml.etree.ElementTree as tree
		root = tree.parse("/tmp/trace.svg").getroot()
		texts = [t.text for t in root.iter("{http://www.w3.org/2000/svg}text")]
		assert sum("treadle-bench (" in t for t in texts) >= 2, texts[:9]
		assert any("meets a receive" in t for t in texts)
	END
}
explain_svg() {
	says 0 '<svg' treadlectl explain --svg "$pid" && grep -q '</svg>' /tmp/said
}
refused() {
	says 2 'trace needs a process' treadlectl trace && says 2 'no number' treadlectl trace x &&
		says 2 'whole picture' treadlectl trace --svg -f 1 &&
		says 2 'only for a process' treadlectl explain --svg --all || return 1
	says 1 'has no context' treadlectl trace 1 && says 1 'there is no process' treadlectl trace 999999
}
# The process ends when it is being traced, however slow the start of that is.
vanished() {
	(
		for i in {1..300}; do
			no_instance >/dev/null || break
			sleep 0.1
		done
		kill $others
	) &
	says 0 'has ended' timeout 300 treadlectl trace -f "$pid" && no_instance
}
no_rights() {
	as_user treadlectl trace "$pid" >/tmp/said 2>&1
	[ $? = 1 ] && grep -Eq 'root|has no context' /tmp/said || { cat /tmp/said; return 1; }
}
no_tracefs() {
	says 1 'there is no tracefs' unshare -m sh -c "umount $traces && mount -t tmpfs none /sys/kernel/debug && exec treadlectl trace $pid"
}

# --- the system's tools, as in tracing.rst -------------------------------------------------

trace_cmd() {
	trace-cmd record -q -o /tmp/trace.dat -e treadle sleep 1 >/tmp/said 2>&1 || { cat /tmp/said; return 1; }
	trace-cmd report -i /tmp/trace.dat 2>/dev/null | grep treadle_match >/tmp/said
	grep -q 'msg=.*peer_ctx=' /tmp/said || { head -3 /tmp/said; return 1; }
}
perf_record() {
	perf record -q -a -e 'treadle:*' -o /tmp/perf.data sleep 1 >/tmp/said 2>&1 || { cat /tmp/said; return 1; }
	perf script -i /tmp/perf.data 2>/dev/null | grep -q 'treadle:treadle_complete:.*op=tsend'
}
perf_trace() {
	perf trace -a --no-syscalls -e 'treadle:treadle_match' sleep 1 >/tmp/said 2>&1
	grep -q treadle_match /tmp/said || { head /tmp/said; return 1; }
}
bpf() {
	timeout 300 bpftrace -e 'tracepoint:treadle:treadle_match { @bytes = hist(args->len); }
		interval:s:2 { exit(); }' >/tmp/said 2>&1
	grep -q '@bytes' /tmp/said || { head /tmp/said; return 1; }
}

echo 1..16
check every_event_is_there all_events_are_there
check wrong_arguments_and_processes refused
start 8
check events_in_words words
check events_as_json json
check follow_until_it_is_interrupted follow_until INT
check follow_until_it_is_ended follow_until TERM
check what_a_killed_one_leaves killed
check a_picture_of_messages svg
check a_picture_of_what_is_armed explain_svg
check another_user no_rights
check without_tracefs no_tracefs
stop
start 8
check trace_cmd trace_cmd
check perf_record perf_record
check perf_trace perf_trace
check bpftrace bpf
check a_process_that_ends vanished
stop
