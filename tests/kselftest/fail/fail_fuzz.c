/* SPDX-License-Identifier: GPL-2.0 */
/*
 * The coverage-guided fuzzer on any kernel. The module of tests/fail reports coverage, of workers
 * as well, makes operations fail when a step asks for it, and counts after each input what was not
 * released.
 *
 * test-timeout: 7200
 */
#include "fail_fuzz.h"

FAIL_HARNESS_MAIN
