# SPDX-License-Identifier: GPL-2.0
#
# Reads the output of a test program, TAP or GoogleTest's, and prints the result of each test:
# "pass|fail|skip <tab> PROGRAM <tab> TEST". Variables: program, status (its exit status), took and
# limit (seconds).
#
# Every program gets at least one line. It gets a failing one if its exit status or its plan does
# not agree with its results.

function result(what, test)
{
	count[what]++
	seen++
	print what "\t" program "\t" test
}

BEGIN {
	planned = -1
	split("HUP INT QUIT ILL TRAP ABRT BUS FPE KILL USR1 SEGV USR2 PIPE ALRM TERM", signals)
}
{ sub(/\r$/, "") }

/^1\.\.[0-9]+/ {
	planned = substr($1, 4) + 0
	if (planned == 0)
		result("skip", $0)
}
/^ok [0-9]+/ { result(/# *SKIP/ ? "skip" : "pass", $0) }
/^not ok [0-9]+/ { result(/# *SKIP/ ? "skip" : "fail", $0) }

/^\[==========\] Running [0-9]+ test/ { planned = $3 + 0 }
/^\[ +(OK|FAILED|SKIPPED) +\] .*\([0-9]+ ms\)$/ {
	test = $0
	sub(/^\[[^]]*\] /, "", test)
	result(/^\[ +OK/ ? "pass" : /^\[ +FAILED/ ? "fail" : "skip", test)
}

END {
	if (status == 124 || status == 137 && took >= limit)
		result("fail", "stopped after " limit " s")
	else if (status > 128)
		result("fail", "died of SIG" signals[status - 128] " (" status - 128 "), " seen + 0 " of " planned " tests seen")
	else if (!seen)
		result("fail", "exit status " status ", and no result")
	else if (planned < 0)
		result("fail", "no plan")
	else if (planned > 0 && seen != planned)
		result("fail", planned " tests planned, " seen " seen")
	else if (status != 0 && !count["fail"] && !(status == 4 && count["skip"]))
		result("fail", "exit status " status " after no failure")
}
