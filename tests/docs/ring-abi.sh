#!/bin/bash
# SPDX-License-Identifier: GPL-2.0
#
# The client at the end of ring-abi.rst, which make has compiled, prints the output shown there,
# except for the port.

without_port() { sed 's/port [0-9]*$/port N/'; }
says=$(sed -n '/^It prints ::/,/^\.\. code/{s/^    //p}' Documentation/ring-abi.rst)
said=$(build/tests/docs/self 2>&1)
status=$?

echo 1..1
sed 's/^/# /' <<<"$said"
if [ "$status" = 0 ] && [ -n "$says" ] && [ "$(without_port <<<"$said" | sort)" = "$(without_port <<<"$says" | sort)" ]; then
	echo "ok 1 - prints"
else
	echo "not ok 1 - prints"
	sed 's/^/# the document: /' <<<"$says"
fi
