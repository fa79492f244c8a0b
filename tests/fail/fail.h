/* SPDX-License-Identifier: GPL-2.0 */
/*
 * For tests only, and in no other module: each operation that can fail for want of memory, or for a
 * bad address, first asks whether to fail; allocations are counted until they are freed. The
 * module's sources are compiled with this header in front (TREADLE_FAIL in Kbuild) and are not
 * changed; fail.c has the parameters.
 */
#ifndef TREADLE_FAIL_H
#define TREADLE_FAIL_H

/* Headers that declare what is replaced below, or use it in inline functions. */
#include <linux/anon_inodes.h>
#include <linux/cdev.h>
#include <linux/device.h>
#include <linux/file.h>
#include <linux/fs.h>
#include <linux/kthread.h>
#include <linux/mm.h>
#include <linux/mmu_notifier.h>
#include <linux/module.h>
#include <linux/pagemap.h>
#include <linux/percpu.h>
#include <linux/rhashtable.h>
#include <linux/sched/mm.h>
#include <linux/slab.h>
#include <linux/uaccess.h>
#include <linux/vmalloc.h>
#include <linux/workqueue.h>
#include <linux/xarray.h>

void treadle_kcov_begin(void);
void treadle_kcov_end(void);
bool treadle_fails(gfp_t gfp);
extern atomic_long_t treadle_live;

static inline void *treadle_got(void *p)
{
	if (p)
		atomic_long_inc(&treadle_live);
	return p;
}

static inline void treadle_gone(const void *p)
{
	if (p)
		atomic_long_dec(&treadle_live);
}

static inline long treadle_got_pages(long n)
{
	if (n > 0)
		atomic_long_add(n, &treadle_live);
	return n;
}

/* --- memory --------------------------------------------------------------------- */

/* By functions: in some kernels the names are macros. */
#define GETS(name, gfp, parameters, ...)                                     \
	static inline void *treadle_##name parameters                        \
	{                                                                    \
		return treadle_fails(gfp) ? NULL : treadle_got(__VA_ARGS__); \
	}
GETS(kmalloc, gfp, (size_t n, gfp_t gfp), kmalloc(n, gfp))
GETS(kzalloc, gfp, (size_t n, gfp_t gfp), kzalloc(n, gfp))
GETS(kcalloc, gfp, (size_t n, size_t size, gfp_t gfp), kcalloc(n, size, gfp))
GETS(kvmalloc, gfp, (size_t n, gfp_t gfp), kvmalloc(n, gfp))
GETS(kvzalloc, gfp, (size_t n, gfp_t gfp), kvzalloc(n, gfp))
GETS(kvcalloc, gfp, (size_t n, size_t size, gfp_t gfp), kvcalloc(n, size, gfp))
GETS(vmalloc, gfp, (size_t n, gfp_t gfp), __vmalloc(n, gfp))
GETS(kmemdup, gfp, (const void *from, size_t n, gfp_t gfp), kmemdup(from, n, gfp))
GETS(cache, gfp, (struct kmem_cache * cache, gfp_t gfp), kmem_cache_alloc(cache, gfp))
GETS(page, gfp, (gfp_t gfp), alloc_page(gfp))
GETS(free_pages, gfp, (gfp_t gfp, unsigned int order), (void *)__get_free_pages(gfp, order))
GETS(vmap, 0, (struct page * *pages, unsigned int n, unsigned long flags, pgprot_t prot),
     vmap(pages, n, flags, prot))

#define GIVES(name, type)                            \
	static inline void treadle_##name(type what) \
	{                                            \
		treadle_gone((const void *)what);    \
		name(what);                          \
	}
GIVES(kfree, const void *)
GIVES(kvfree, const void *)
GIVES(kfree_sensitive, const void *)
GIVES(vunmap, const void *)
GIVES(put_page, struct page *)

static inline void __percpu *treadle_alloc_percpu(size_t n, size_t align, gfp_t gfp)
{
	void __percpu *p = treadle_fails(gfp) ? NULL : __alloc_percpu_gfp(n, align, gfp);

	treadle_got((__force void *)p);
	return p;
}

static inline void treadle_free_percpu(void __percpu *p)
{
	treadle_gone((__force void *)p);
	free_percpu(p);
}

static inline struct kmem_cache *treadle_cache_create(const char *name, unsigned int size,
						      unsigned int align, slab_flags_t flags)
{
	return treadle_fails(0) ? NULL : kmem_cache_create(name, size, align, flags, NULL);
}

static inline int treadle_table(struct rhashtable *table, const struct rhashtable_params *params)
{
	return treadle_fails(0) ? -ENOMEM : rhashtable_init(table, params);
}

static inline int treadle_class_register(struct class *class)
{
	return treadle_fails(0) ? -ENOMEM : class_register(class);
}

static inline void treadle_cache_free(struct kmem_cache *cache, void *p)
{
	treadle_gone(p);
	kmem_cache_free(cache, p);
}

static inline void treadle_free_pages_at(unsigned long addr, unsigned int order)
{
	treadle_gone((void *)addr);
	free_pages(addr, order);
}

static inline void treadle_free_page_of(struct page *page)
{
	treadle_gone(page);
	__free_page(page);
}

static inline void treadle_get_page(struct page *page)
{
	treadle_got(page);
	get_page(page);
}

static inline void treadle_unpin(struct page **pages, unsigned long n)
{
	atomic_long_sub(n, &treadle_live);
	unpin_user_pages(pages, n);
}

#undef kmalloc
#undef kzalloc
#undef kcalloc
#undef __alloc_percpu_gfp
#undef kvmalloc
#undef kvzalloc
#undef kvcalloc
#undef __vmalloc
#undef kmemdup
#undef kmem_cache_alloc
#undef alloc_page
#undef __get_free_page
#undef __get_free_pages
#undef get_zeroed_page
#undef __free_page
#undef free_page
#undef kfree_rcu
#undef kvfree_rcu
#undef KMEM_CACHE
#undef rhashtable_init
#define kmalloc			     treadle_kmalloc
#define kzalloc			     treadle_kzalloc
#define kcalloc			     treadle_kcalloc
#define __alloc_percpu_gfp	     treadle_alloc_percpu
#define free_percpu		     treadle_free_percpu
#define kvmalloc		     treadle_kvmalloc
#define kvzalloc		     treadle_kvzalloc
#define kvcalloc		     treadle_kvcalloc
#define __vmalloc		     treadle_vmalloc
#define kmemdup			     treadle_kmemdup
#define kmem_cache_alloc	     treadle_cache
#define alloc_page		     treadle_page
#define __get_free_pages(gfp, order) ((unsigned long)treadle_free_pages(gfp, order))
#define __get_free_page(gfp)	     __get_free_pages(gfp, 0)
#define get_zeroed_page(gfp)	     __get_free_page((gfp) | __GFP_ZERO)
#define vmap			     treadle_vmap
#define kfree			     treadle_kfree
#define kvfree			     treadle_kvfree
#define vunmap			     treadle_vunmap
#define get_page		     treadle_get_page
#define put_page		     treadle_put_page
#define kmem_cache_free		     treadle_cache_free
#define free_pages		     treadle_free_pages_at
#define free_page(addr)		     free_pages(addr, 0)
#define kfree_sensitive		     treadle_kfree_sensitive
#define __free_page		     treadle_free_page_of
#define unpin_user_pages	     treadle_unpin
#define kvfree_rcu(p, rcu)                \
	do {                              \
		treadle_gone(p);          \
		kvfree_rcu_arg_2(p, rcu); \
	} while (0)
#define kfree_rcu(p, rcu) kvfree_rcu(p, rcu)

/* --- other operations that need memory, of the process or of the kernel ------------- */

#define FAILS(error, what) (treadle_fails(0) ? (error) : (what))

#define get_user_pages_fast(...) FAILS(-ENOMEM, treadle_got_pages(get_user_pages_fast(__VA_ARGS__)))
#define get_user_pages_remote(...) \
	FAILS(-ENOMEM, treadle_got_pages(get_user_pages_remote(__VA_ARGS__)))
#define pin_user_pages(...) FAILS(-ENOMEM, treadle_got_pages(pin_user_pages(__VA_ARGS__)))
#define pin_user_pages_unlocked(...) \
	FAILS(-ENOMEM, treadle_got_pages(pin_user_pages_unlocked(__VA_ARGS__)))
#define copy_from_user(...)	   FAILS(1, copy_from_user(__VA_ARGS__))
#define copy_to_user(...)	   FAILS(1, copy_to_user(__VA_ARGS__))
#define fault_in_readable(from, n) (treadle_fails(0) ? (n) : fault_in_readable(from, n))
/* A copy that does not succeed at once takes the long way. */
#define raw_copy_from_user(...) FAILS(1, raw_copy_from_user(__VA_ARGS__))
#define raw_copy_to_user(...)	FAILS(1, raw_copy_to_user(__VA_ARGS__))
#undef user_access_begin
#define user_access_begin(p, n)	   (!treadle_fails(0) && user_access_begin(p, n))
#define copy_struct_from_user(...) FAILS(-EFAULT, copy_struct_from_user(__VA_ARGS__))
#undef get_user
#define get_user(x, from) (copy_from_user(&(x), from, sizeof(x)) ? -EFAULT : 0)

#undef put_user
#define put_user(x, to) (copy_to_user(to, &(x), sizeof(x)) ? -EFAULT : 0)

#define xa_reserve(...)	     FAILS(-ENOMEM, xa_reserve(__VA_ARGS__))
#define xa_alloc_cyclic(...) FAILS(-ENOMEM, xa_alloc_cyclic(__VA_ARGS__))
#define xa_insert(...)	     FAILS(-ENOMEM, xa_insert(__VA_ARGS__))
#define rhashtable_init	     treadle_table
#define rhashtable_lookup_insert_fast(...) \
	FAILS(-ENOMEM, rhashtable_lookup_insert_fast(__VA_ARGS__))
#define rhashtable_insert_fast(...) FAILS(-ENOMEM, rhashtable_insert_fast(__VA_ARGS__))
#define mmu_notifier_get(...)	    FAILS(ERR_PTR(-ENOMEM), mmu_notifier_get(__VA_ARGS__))
#define account_locked_vm(mm, n, inc) \
	((inc) ? FAILS(-ENOMEM, account_locked_vm(mm, n, inc)) : account_locked_vm(mm, n, inc))
#define kthread_create_on_node(...) FAILS(ERR_PTR(-ENOMEM), kthread_create_on_node(__VA_ARGS__))
#define vm_insert_pages(...)	    FAILS(-ENOMEM, vm_insert_pages(__VA_ARGS__))
#define get_unused_fd_flags(...)    FAILS(-EMFILE, get_unused_fd_flags(__VA_ARGS__))
#define anon_inode_getfile(...)	    FAILS(ERR_PTR(-ENOMEM), anon_inode_getfile(__VA_ARGS__))

/* Loading. */
#define KMEM_CACHE(type, flags) \
	treadle_cache_create(#type, sizeof(struct type), __alignof__(struct type), flags)
#define alloc_workqueue(...)	 FAILS(NULL, alloc_workqueue(__VA_ARGS__))
#define alloc_chrdev_region(...) FAILS(-ENOMEM, alloc_chrdev_region(__VA_ARGS__))
#define device_create(...)	 FAILS(ERR_PTR(-ENOMEM), device_create(__VA_ARGS__))
#define cdev_add(...)		 FAILS(-ENOMEM, cdev_add(__VA_ARGS__))
#undef class_register
#define class_register treadle_class_register
/* Both are declared later, with these names. */
#define register_pernet_subsys	 treadle_register_pernet
#define unregister_pernet_subsys treadle_unregister_pernet

#endif
