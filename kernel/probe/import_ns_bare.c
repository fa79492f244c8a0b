// SPDX-License-Identifier: GPL-2.0
/* Until 6.12 MODULE_IMPORT_NS() takes a bare name. Since 6.13 it takes a string. */
#include <linux/module.h>
MODULE_IMPORT_NS(DMA_BUF);
