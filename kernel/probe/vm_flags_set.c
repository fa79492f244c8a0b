// SPDX-License-Identifier: GPL-2.0
/* Since 6.3, flags of a VMA are changed by vm_flags_set() only. */
#include <linux/mm.h>
void probe(struct vm_area_struct *vma);
void probe(struct vm_area_struct *vma)
{
	vm_flags_set(vma, VM_DONTCOPY);
}
