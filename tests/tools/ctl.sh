#!/bin/bash
# SPDX-License-Identifier: GPL-2.0
#
# treadlectl: each verb as text and as JSON, on a terminal, and what doctor finds.

. tests/tools/tap

as_user() { setpriv --reuid 65534 --regid 65534 --clear-groups "$@"; }
no_device() { unshare -m sh -c 'mount -t tmpfs none /dev && touch /dev/null && exec "$@"' - "$@"; }

# has WORDS… : the text on standard input has each of them.
has() {
	local text words
	text=$(cat)
	for words; do
		[[ $text == *"$words"* ]] || { echo "no \"$words\" in:"; echo "$text"; return 1; }
	done
}

# Two processes exchange messages until they are killed.
start_others() {
	local i
	timeout 280 treadle-bench -p treadle -o tagged -s 8 --two --no-count -r 1 -d 250000 >/dev/null 2>&1 &
	others=$!
	for i in {1..100}; do
		[ "$(treadlectl list endpoints --json | jq '[.endpoints[] | select(.out > 0)] | length')" -lt 2 ] || break
		sleep 0.1
	done
}

# The same text and JSON of each verb, in the forms that they claim to have.
each_verb_speaks() {
	local verb
	for verb in info list 'list regions' 'list windows' 'list lanes' stat 'stat -i 0.1 -n 2' metrics 'explain --all'; do
		# shellcheck disable=SC2086 # they are several words
		treadlectl $verb --json | jq -e . >/dev/null || { echo "$verb: no JSON"; return 1; }
		# shellcheck disable=SC2086
		treadlectl $verb >/dev/null || return 1
	done
	[[ $(treadlectl --version) =~ ^treadlectl\ [0-9]+\.[0-9]+$ ]]
}

list_shows() {
	treadlectl list endpoints | has TX_USED treadle-bench root RDM || return 1
	treadlectl list contexts --json | jq -e '.contexts | length >= 2 and
		all(.[]; .process == "treadle-bench" and .user == "root" and .endpoints >= 1)' >/dev/null &&
		treadlectl list endpoints --json | jq -e '.endpoints | all(.[]; .rx_depth > 0 and .port > 0)' >/dev/null
}

# lists WHAT OPERATION HEADING FILTER: what two endpoints of a process share while they do that. Until
# it is seen, or for 60 tries.
lists() {
	local pid i seen=1
	treadle-bench -p treadle -o "$2" -s 8 --progress manual --no-count -r 1 -d 250000 >/dev/null 2>&1 &
	pid=$!
	for i in {1..60}; do
		treadlectl list "$1" --json | jq -e ".$1 | $4" >/dev/null && seen=0 && break
		sleep 0.1
	done
	treadlectl list "$1" | has "$3" treadle-bench || seen=1
	kill $pid
	wait $pid
	return $seen
}
list_shows_what_is_shared() {
	lists lanes tagged WAY 'map(select(.port > 0 and .state == "open").way) | sort == ["in", "out"]' &&
		lists windows write FILLED 'length > 0 and all(.[]; .may == "write" and
			.process == "treadle-bench" and .present > 0 and .present <= .pages)'
}

stat_counts() {
	treadlectl stat --json | jq -e '.traffic | map(select(.direction == "out").messages) | add > 0' >/dev/null &&
		treadlectl stat -i 0.2 -n 2 --json | jq -se 'length == 2 and .[1].out > 0' >/dev/null
}

# A family after the other, each sample of the family before it, and an end.
open_metrics() {
	treadlectl metrics >/tmp/metrics || return 1
	awk '
	/^# TYPE [a-z_]+ (counter|gauge|info)$/ { name = $3; type = $4; if (seen[name]++) bad("twice"); next }
	/^# UNIT / { if ($3 != name || name !~ "_" $4 "$") bad("unit"); next }
	/^# HELP / { if ($3 != name) bad("help"); next }
	/^# EOF$/ { end = NR; next }
	/^[a-z_]+(\{[a-z]+="[^"]*"(,[a-z]+="[^"]*")*\})? [0-9.e+-]+$/ {
		split($1, part, "{")
		suffix = type == "counter" ? "_total" : type == "info" ? "_info" : ""
		if (part[1] != name suffix) bad("name")
		if (samples[$1]++) bad("twice")
		next
	}
	{ bad("form") }
	function bad(what) { print "line " NR ": " what ": " $0; failed = 1 }
	END { exit failed || end != NR || NR < 30 }' /tmp/metrics
}

# The screen of a terminal.
screen() { tmux -L ctl capture-pane -p "$@" -t ctl; }
until_screen() {
	local i
	for i in {1..200}; do
		! screen | grep -q -- "$1" || return 0
		sleep 0.1
	done
	echo "the screen never has $1:"
	screen
	return 1
}

top_obeys() {
	tmux -L ctl new-session -d -s ctl -x 120 -y 20 'TERM=screen treadlectl top -i 0.5; echo "ended: $?"; sleep 60'
	until_screen 'treadle-bench' && until_screen 'sorted by worker' &&
		screen -e | grep -q $'\033\[7mPID' || screen -e | grep -q $'\033\[7m *PID' || return 1
	tmux -L ctl send-keys -t ctl h && until_screen 'sort by the time' &&
		tmux -L ctl send-keys -t ctl h && tmux -L ctl send-keys -t ctl N && until_screen 'sorted by pid' &&
		tmux -L ctl send-keys -t ctl '>' && until_screen 'sorted by user' &&
		tmux -L ctl send-keys -t ctl R && until_screen 'user, reversed' || return 1
	tmux -L ctl resize-window -t ctl -x 30 -y 3 && until_screen 'too small' &&
		tmux -L ctl resize-window -t ctl -x 100 -y 12 && until_screen 'sorted by' &&
		tmux -L ctl send-keys -t ctl q && until_screen 'ended: 0'
}
in_tmux() {
	local status=0
	export HOME=/tmp LC_ALL=C.UTF-8
	"$@" || status=1
	tmux -L ctl kill-server 2>/dev/null
	return $status
}
names_features() {
	treadlectl info --json >/tmp/info && grep "counters of devices" /tmp/info &&
		! grep "newer ones" /tmp/info
}
colours() {
	tmux -L ctl new-session -d -s ctl -x 100 -y 50 'TERM=screen treadlectl info; echo ended; sleep 60'
	until_screen ended && screen -e | grep -q $'\033\[1mlimits' && ! treadlectl info | grep $'\033'
}

# Another user sees nothing of root's, and is told what it may not see.
another_user() {
	as_user treadlectl list contexts | has none &&
		as_user treadlectl explain --all | has 'root sees all'
}

doctor_finds() {
	treadlectl doctor --json >/tmp/doctor.json && jq -e '.works and any(.checks[]; .check == "device" and .result == "ok")' /tmp/doctor.json >/dev/null &&
		has 'can be opened' 'there is none' '"advice": "FI_PROVIDER=treadle"' </tmp/doctor.json || return 1
	FI_PROVIDER=tcp treadlectl doctor | has 'FI_PROVIDER=tcp leaves out treadle' || return 1
	FI_PROVIDER=treadle treadlectl doctor | has 'programs take treadle' 'ok       device' || return 1
	FI_PROVIDER_PATH=/nowhere FI_PROVIDER=treadle treadlectl doctor | has 'treadle is not offered' 'FI_PROVIDER_PATH=' || return 1
	export FI_PROVIDER=treadle # the others take long to say what they have
	(ulimit -l 64 && as_user treadlectl doctor) | has '64 KiB: larger pinned' 'LimitMEMLOCK=' || return 1
	chmod 600 /dev/treadle
	as_user treadlectl doctor | has 'user 65534 may not open' 'mode 0600' 'chmod 666'
	local status=$?
	chmod 666 /dev/treadle
	[ $status = 0 ] && no_device treadlectl doctor | has 'there is no /dev/treadle' 'PROBLEM'
}

doctor_without_the_module() {
	rmmod treadle
	FI_PROVIDER=treadle treadlectl doctor >/tmp/doctor
	local status=$?
	insmod "$MODULE"
	[ $status = 1 ] && has 'PROBLEM  module' '-> ' </tmp/doctor
}


completion() {
	bash -c '. tools/completion/treadlectl.bash
		COMP_WORDS=(treadlectl do) COMP_CWORD=1; _treadlectl; echo "${COMPREPLY[@]}"
		COMP_WORDS=(treadlectl explain --a) COMP_CWORD=2; _treadlectl; echo "${COMPREPLY[@]}"
		COMP_WORDS=(treadlectl list e) COMP_CWORD=2; _treadlectl; echo "${COMPREPLY[@]}"' |
		has doctor --all endpoints
}

old_module_and_misuse() {
	local line
	for line in 'nonesuch' 'list trees' 'stat x' 'stat -i 0' 'top --json' 'explain --all 1' 'info 1'; do
		# shellcheck disable=SC2086
		treadlectl $line >/tmp/said 2>&1
		[ $? = 2 ] || { echo "$line: not 2"; cat /tmp/said; return 1; }
	done
	treadlectl top </dev/null 2>&1 | has 'top needs a terminal' &&
		treadlectl stat 999999 2>&1 | has 'has no context'
}

echo 1..13
check each_verb_speaks each_verb_speaks
check doctor_without_the_module doctor_without_the_module
check doctor_finds_what_is_wrong doctor_finds
check each_feature_has_a_name names_features
check colours_are_for_terminals in_tmux colours
check completion_has_verbs_and_options completion
check wrong_arguments old_module_and_misuse
start_others
check list_shows list_shows
check list_shows_what_is_shared list_shows_what_is_shared
check stat_counts stat_counts
check metrics_are_open_metrics open_metrics
check another_user_sees_nothing another_user
check top_obeys_keys_and_sizes in_tmux top_obeys
kill $others
wait $others || :
