#!/bin/bash
# SPDX-License-Identifier: GPL-2.0
#
# Programs of documents print what is said there, after "It prints ::". The order of lines, and the
# number of a free port, may differ.

number=0
same() { sed 's/port [0-9]*$/port N/' <<<"$1" | sort; }

# prints DOCUMENT PROGRAM
prints() {
	local says said result=ok
	says=$(awk '/^It prints ::$/ { on = 1; next } on && /^[^ ]/ { exit } on && NF' "$1" |
		cut -c 5-)
	said=$("$2" 2>&1) && [ -n "$says" ] && [ "$(same "$said")" = "$(same "$says")" ] ||
		result="not ok"
	sed 's/^/# /' <<<"$said"
	[ "$result" = ok ] || sed 's/^/# the document: /' <<<"$says"
	echo "$result $((++number)) - $1"
}

echo 1..2
prints Documentation/ring-abi.rst build/tests/docs/self
prints Documentation/tutorial.rst build/examples/tutorial
