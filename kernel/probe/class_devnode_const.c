// SPDX-License-Identifier: GPL-2.0
/* Linux 6.2: class.devnode takes a const device. */
#include <linux/device.h>
char *probe(const struct device *dev, umode_t *mode);
char *probe(const struct device *dev, umode_t *mode)
{
	struct class class = { .devnode = probe };

	return class.devnode(dev, mode);
}
