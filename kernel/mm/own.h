/* SPDX-License-Identifier: GPL-2.0 */
/*
 * treadle: the memory of who runs
 *
 * Few bytes of who runs in his own address space (treadle_run.own): by his own addresses, as any
 * system call does it, without a table. Nothing faults, but what is mapped there may be the slow memory of
 * a device: no lock that others wait for is held. What is not there, or he may not touch, is left to the
 * pagemap, which tells the two apart. The other end is memory of the kernel that has room for just these
 * bytes: hardened usercopy has nothing to check.
 */
#ifndef TREADLE_OWN_H
#define TREADLE_OWN_H

#include <linux/nospec.h>
#include <linux/uaccess.h>

/* A word that lies anywhere. READ_ONCE is not for these: with LTO, arm64 has it acquire, which faults. */
struct own_u64 {
	u64 word;
} __packed;
struct own_u32 {
	u32 word;
} __packed;
struct own_u16 {
	u16 word;
} __packed;

/* One load, and one store, of a word that a process may change or poll meanwhile. */
#define own_load(type, at)	  (((const volatile struct own_##type *)(at))->word)
#define own_store(type, at, from) (((volatile struct own_##type *)(at))->word = (from))

/* May words lie anywhere? */
#define OWN_WORDS IS_ENABLED(CONFIG_HAVE_EFFICIENT_UNALIGNED_ACCESS)

/* 1, 2, 4 or 8 bytes go as a whole, as who polls them may count on. */
static __always_inline bool own_word(u64 len)
{
	return OWN_WORDS && (likely(len == 8) || len == 4 || len == 2 || len == 1);
}

/* @len is one that own_word() takes. */
static __always_inline u64 own_word_at(const void *at, u64 len)
{
	return likely(len == 8) ? own_load(u64, at) :
	       len == 4		? own_load(u32, at) :
	       len == 2		? own_load(u16, at) :
				  READ_ONCE(*(const u8 *)at);
}

static __always_inline void own_set_word(void *at, u64 word, u64 len)
{
	if (likely(len == 8))
		own_store(u64, at, word);
	else if (len == 4)
		own_store(u32, at, word);
	else if (len == 2)
		own_store(u16, at, word);
	else
		WRITE_ONCE(*(u8 *)at, word);
}

/* Such a word, where both ends are known to be there. */
static __always_inline void copy_word(void *d, const void *s, u64 n)
{
	if (own_word(n))
		own_set_word(d, own_word_at(s, n), n);
	else
		memcpy(d, s, n);
}

static __always_inline bool own_get(u64 *word, const void __user *from, u64 len)
{
	if (!user_access_begin(from, len))
		return false;
	if (likely(len == 8))
		unsafe_get_user(*word, (const u64 __user *)from, fault);
	else if (len == 4)
		unsafe_get_user(*word, (const u32 __user *)from, fault);
	else if (len == 2)
		unsafe_get_user(*word, (const u16 __user *)from, fault);
	else
		unsafe_get_user(*word, (const u8 __user *)from, fault);
	user_access_end();
	return true;
fault:
	user_access_end();
	return false;
}

static __always_inline bool own_put(void __user *to, u64 word, u64 len)
{
	if (!user_access_begin(to, len))
		return false;
	if (likely(len == 8))
		unsafe_put_user(word, (u64 __user *)to, fault);
	else if (len == 4)
		unsafe_put_user((u32)word, (u32 __user *)to, fault);
	else if (len == 2)
		unsafe_put_user((u16)word, (u16 __user *)to, fault);
	else
		unsafe_put_user((u8)word, (u8 __user *)to, fault);
	user_access_end();
	return true;
fault:
	user_access_end();
	return false;
}

/* Read, or write, the word at @addr. @len is one that own_word() takes. */
static __always_inline bool treadle_own_get(u64 *word, u64 addr, u64 len)
{
	bool ok;

	pagefault_disable();
	ok = own_get(word, u64_to_user_ptr(addr), len);
	pagefault_enable();
	return ok;
}

static __always_inline bool treadle_own_put(u64 addr, u64 word, u64 len)
{
	bool ok;

	pagefault_disable();
	ok = own_put(u64_to_user_ptr(addr), word, len);
	pagefault_enable();
	return ok;
}

/* Read @len bytes. False: some of it may have been copied. */
static __always_inline bool treadle_own_read(void *to, u64 addr, u64 len)
{
	const void __user *from = u64_to_user_ptr(addr);
	bool ok = false;
	u64 word;

	if (own_word(len)) {
		ok = treadle_own_get(&word, addr, len);
		if (ok)
			own_set_word(to, word, len);
		return ok;
	}
	pagefault_disable();
	if (access_ok(from, len)) {
		barrier_nospec();
		ok = !raw_copy_from_user(to, from, len);
	}
	pagefault_enable();
	return ok;
}

#endif
