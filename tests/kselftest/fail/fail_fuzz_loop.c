/* SPDX-License-Identifier: GPL-2.0 */
/*
 * As fail_fuzz, but all peers are on another node: this network namespace reaches itself by a
 * session (fail_mirror.h).
 *
 * test-timeout: 7200
 */
#include "fail_fuzz.h"
#include "fail_mirror.h"

FAIL_MAIN(mirror_enter(); hold_still())
