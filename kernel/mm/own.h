/* SPDX-License-Identifier: GPL-2.0 */
/*
 * treadle: memory of the running process
 *
 * Few bytes of a process that runs in its own address space (treadle_run.own) are copied by user
 * addresses, as in any system call, without the pagemap. Page faults are off, but the page may be
 * slow memory of a device: a caller holds no lock that others wait for. If a page is missing, or
 * the process may not access it, the copy fails, and the pagemap tells the two cases apart. The
 * other end is kernel memory with room for exactly these bytes: hardened usercopy has nothing to
 * check.
 */
#ifndef TREADLE_OWN_H
#define TREADLE_OWN_H

#include <linux/nospec.h>
#include <linux/uaccess.h>

/*
 * A word that need not be aligned. READ_ONCE() does not fit: with LTO it is a load-acquire on
 * arm64, which faults on such a word.
 */
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

/* The CPU has unaligned words. */
#define OWN_WORDS IS_ENABLED(CONFIG_HAVE_EFFICIENT_UNALIGNED_ACCESS)

/* Are @len bytes copied as one word? Pollers may rely on that for 1, 2, 4 and 8 bytes. */
static __always_inline bool own_word(u64 len)
{
	return OWN_WORDS && (likely(len == 8) || len == 4 || len == 2 || len == 1);
}

/* Load a word; own_word(@len) is true. */
static __always_inline u64 own_word_at(const void *at, u64 len)
{
	if (likely(len == 8))
		return own_load(u64, at);
	if (len == 4)
		return own_load(u32, at);
	if (len == 2)
		return own_load(u16, at);
	return READ_ONCE(*(const u8 *)at);
}

/* Store a word; own_word(@len) is true. */
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

/* Copy @n bytes, as one word if own_word(@n). No page fault can happen at either end. */
static __always_inline void copy_word(void *d, const void *s, u64 n)
{
	if (own_word(n))
		own_set_word(d, own_word_at(s, n), n);
	else
		memcpy(d, s, n);
}

/* Load a word from user space; own_word(@len) is true. False: it would fault. */
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

/* Store a word to user space; own_word(@len) is true. False: it would fault. */
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

/*
 * Load a word from the address @addr of the running process; own_word(@len) is true. False: it
 * would fault. The caller holds no lock that others wait for.
 */
static __always_inline bool treadle_own_get(u64 *word, u64 addr, u64 len)
{
	bool ok;

	pagefault_disable();
	ok = own_get(word, u64_to_user_ptr(addr), len);
	pagefault_enable();
	return ok;
}

/* The same, but store it. */
static __always_inline bool treadle_own_put(u64 addr, u64 word, u64 len)
{
	bool ok;

	pagefault_disable();
	ok = own_put(u64_to_user_ptr(addr), word, len);
	pagefault_enable();
	return ok;
}

/*
 * Copy @len bytes from the address @addr of the running process. False: it would fault; a part may
 * have been copied. The caller holds no lock that others wait for.
 */
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
