// SPDX-License-Identifier: GPL-2.0
/* Until 6.4, get_user_pages_remote() can return the VMAs. */
#include <linux/mm.h>
long probe(struct mm_struct *mm, struct page **pages, int *locked);
long probe(struct mm_struct *mm, struct page **pages, int *locked)
{
	return get_user_pages_remote(mm, 0, 1, 0, pages, (struct vm_area_struct **)NULL, locked);
}
