/* SPDX-License-Identifier: GPL-2.0 */
/*
 * One page of a window (kernel/mm/window.c, peer_window.h): the initiator stores to it, while notifiers of
 * the owner take it away, two at once, and the initiator asks for it again. tests/spin searches all
 * orders.
 *
 * Proven:
 *	- a store reaches a page only while the owner has it, or while a reference keeps it;
 *	- a store that finds the generation unchanged has reached the owner's page, not the scratch page;
 *	- a notifier that may wait returns when the page is not mapped any more.
 *
 * A store is one step, as is the change of a page table with the flush of all processors. Accesses take
 * effect in the order of the program: the fences of both sides see to that. Left out: pinned regions, and the
 * end of a window, which takes its pages away in the same way.
 *
 * Each of these takes a piece away, and the search has to find out:
 *	GENERATION_FIRST	the generation changes before the bit is cleared
 *	STALE_FAULT	a fault looks for the page before it has the lock
 *	ONLY_FILLED	a second notifier doesn't wait if the page can't be entered any more
 *	FILL_MAPPED	a page comes while the one before is still mapped
 *	PRESENT_AT_ONCE	the bit is set although the scratch page may be mapped
 *	FILLED_BEFORE	the bit is set at the next look, although the scratch page may be mapped
 *	SCRATCH_STAYS	what is mapped of the scratch page is not unmapped when a page has come
 *	NO_REFERENCE	a notifier that must not wait keeps no reference
 *	ONE_ROUND	a late work lets go of a page that it has not unmapped
 */
#define PAGES	 2  /* that the owner has at this address, one after the other */
#define SCRATCH	 9
#define FILLS	 2
#define ACCESSES 2

bool lock;		 /* pm->lock */
byte owner = 1, going;	 /* the owner's page; notifiers under way: nothing can be entered */
byte generation, page;	 /* page: in the window's table */
bool present, filled, mapped, scratched;
byte pte;		 /* of the initiator: 0, a page, or SCRATCH */
byte refs[PAGES + 1], mark, round = 1;
bool late;		 /* the late work is queued */

/* What no one sees without the lock is one step. */
#define locked(steps) atomic { !lock -> steps }

/* treadle_pm_windows_take(), and what follows it in the owner */
proctype notifier(byte takes)
{
	byte n;
	bool block, unmap;

	do
	:: n < takes ->
		atomic {
			n++;
			if
			:: block = true
			:: block = false
			fi
		};
		atomic {
			!lock -> lock = true;
			going++;
#ifdef ONLY_FILLED
			unmap = filled
#else
			unmap = mapped
#endif
		};
		if
		:: filled -> /* window_change() */
#ifdef GENERATION_FIRST
			generation++;
			present = false;
#else
			present = false;
			generation++;
#endif
			filled = false
		:: else
		fi;
		atomic {
			if
			:: unmap && !block -> /* window_later() */
				if
				:: !mark ->
#ifndef NO_REFERENCE
					refs[page]++;
#endif
					mark = round
				:: else
				fi;
				late = true
			:: else
			fi;
			lock = false
		};
		if
		:: unmap && block ->
			pte = 0;
			locked(mapped = mapped && (filled || mark))
		:: else
		fi;
		/* the owner's page goes, or stays with other rights */
		atomic {
			assert(!block || pte == 0 || pte == SCRATCH);
			if
			:: owner < PAGES -> owner++
			:: true
			fi;
			going--
		}
	:: else -> break
	od
}

/* window_late() */
proctype late_work()
{
	byte its;

end:	do
	:: atomic { late && !lock ->
			late = false;
			its = round;
#ifndef ONE_ROUND
			round = 3 - round
#endif
		};
		pte = 0;
		atomic { !lock ->
			if
			:: mark == its ->
				mark = 0;
				mapped = false;
#ifndef NO_REFERENCE
				refs[page]--
#endif
			:: else
			fi;
			its = 0
		}
	od
}

inline fill_known()
{
	atomic { !lock ->
		if
#ifdef FILL_MAPPED
		:: !going && !filled ->
#else
		:: !going && !filled && !mapped ->
#endif
			page = owner;
			mapped = true;
			filled = true;
#ifdef FILLED_BEFORE
			present = !scratched
		:: !going && filled ->
			present = true
#endif
		:: else
		fi;
#ifndef FILLED_BEFORE
		if
#ifdef PRESENT_AT_ONCE
		:: !going && filled ->
#else
		:: !going && filled && !scratched ->
#endif
			assert(page == owner);
			present = true
		:: else
		fi
#endif
	}
}

/* treadle_pm_window_fill() */
proctype filler()
{
	byte n;
	bool was;

	do
	:: n < FILLS ->
		n++;
		fill_known();
		locked(was = scratched; scratched = false);
		if
		:: was ->
			was = false;
#ifndef SCRATCH_STAYS
			pte = 0;
#endif
			fill_known()
		:: else
		fi
	:: else -> break
	od
}

/* transfer() of peer_window.h, and treadle_pm_window_fault() */
proctype initiator()
{
	byte n, before, hit;
	bool found;

	do
	:: n < ACCESSES ->
		n++;
		before = generation;
		if
		:: present ->
			do
			:: atomic { pte ->
					hit = pte;
					assert(hit == SCRATCH || hit == owner || refs[hit] > 0)
				};
				break
			:: pte == 0 ->
#ifdef STALE_FAULT
				found = filled;
				atomic { !lock ->
#else
				atomic { !lock ->
					found = filled;
#endif
					if
					:: pte
					:: !pte && found -> pte = page
					:: !pte && !found ->
						scratched = true;
						pte = SCRATCH
					fi;
					found = false
				}
			od;
			assert(generation != before || hit != SCRATCH);
			hit = 0
		:: else
		fi;
		before = 0
	:: else -> break
	od
}

init
{
	atomic {
		run notifier(2);
		run notifier(1);
		run late_work();
		run filler();
		run initiator()
	}
}
