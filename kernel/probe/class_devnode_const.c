// SPDX-License-Identifier: GPL-2.0
/* since 6.2 */
#include <linux/device.h>
char *probe(const struct device *dev, umode_t *mode);
char *probe(const struct device *dev, umode_t *mode)
{
	struct class class = { .devnode = probe };

	return class.devnode(dev, mode);
}
