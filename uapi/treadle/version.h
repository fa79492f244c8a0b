/* SPDX-License-Identifier: GPL-2.0 WITH Linux-syscall-note */
/*
 * treadle: the release. Module, library, provider, packages and manual pages have their version
 * from here. Whether a library and a module understand each other is another question:
 * TREADLE_ABI_VERSION answers it.
 */
#ifndef UAPI_TREADLE_VERSION_H
#define UAPI_TREADLE_VERSION_H

#define TREADLE_VERSION_MAJOR 0
#define TREADLE_VERSION_MINOR 1

#define TREADLE_TEXT_(major, minor) #major "." #minor
#define TREADLE_TEXT(major, minor)  TREADLE_TEXT_(major, minor)
#define TREADLE_VERSION		    TREADLE_TEXT(TREADLE_VERSION_MAJOR, TREADLE_VERSION_MINOR)

#endif
