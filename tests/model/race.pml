/* SPDX-License-Identifier: GPL-2.0 */
/*
 * The race of arming, firing and canceling on one counter: kernel/exec/fire.c and trigger.c, step
 * by step, between two who count, one who arms and counts, one who sets the counter back, a worker and
 * one who cancels, in batches. tests/spin searches all orders in which they can run.
 *
 * Each command runs or is canceled, exactly one of both; or it is still armed, and then
 * its threshold is not reached once all have come to rest. There is one runner at a time, and
 * commands start in the order of (threshold, submission).
 *
 * Each of these takes a piece away, and the search has to find out:
 *	NO_LOCK		who fires takes commands off without the lock
 *	LATE_IDLE	the runner finds nothing more to do, and says so a while later
 *	NO_ACTIVE	whoever counts fires, also if somebody does already
 *	NO_LOOK		who arms does not look whether the threshold has been reached
 *	LATE_ERASE	what is canceled is found under the lock, and taken off after
 *	LOST_JOB	a job that is handed to the worker is forgotten
 */
#define N     3 /* commands, in the order in which they are submitted */
#define NOONE N
#define BATCH 2 /* FIRE_BATCH, CULL_BATCH */

byte threshold[N]; /* set by init */
bool armed[N];	   /* the tree */
byte ran[N], canceled[N];
byte value;
bool firing; /* there is a runner: cntr->active */
bool locked;
byte runners;
byte busy; /* processes that have something to do */
bool job;  /* given to the worker */
hidden byte at;

inline lock() { atomic { !locked -> locked = true } }
inline unlock() { locked = false }

/* The first one that is armed: by threshold, then by submission. A look at the tree. */
inline first(c)
{
	d_step {
		c = NOONE;
		at = 0;
		do
		:: at < N ->
			if
			:: armed[at] && (c == NOONE || threshold[at] < threshold[c]) -> c = at
			:: else
			fi;
			at++
		:: else -> break
		od
	}
}

/* cntr_activate, under the lock */
inline activate(c, mine)
{
	first(c);
	mine = false;
	if
#ifdef NO_ACTIVE
	:: c != NOONE && threshold[c] <= value ->
#else
	:: c != NOONE && threshold[c] <= value && !firing ->
#endif
		firing = true;
		mine = true
	:: else
	fi
}

/* An issue: the command can't be found any more. */
inline issue(c)
{
	atomic {
		ran[c]++;
		assert(ran[c] + canceled[c] == 1)
	}
}

/* cntr_fire, until nothing is left or the budget is used up: then the worker goes on. */
inline fire(c, n)
{
	atomic { runners++; assert(runners == 1) }
	n = 0;
	do
	:: atomic {
#ifndef NO_LOCK
		n < BATCH && !locked -> locked = true;
#else
		n < BATCH;
#endif
		n++;
		first(c)
	   }
		if
		:: c != NOONE && threshold[c] <= value ->
			armed[c] = false;
#ifndef NO_LOCK
			unlock();
#endif
			issue(c);
			c = 0
		:: else ->
#ifdef LATE_IDLE
			unlock();
			atomic { firing = false; runners-- }
#else
			atomic { firing = false; runners-- };
#ifndef NO_LOCK
			unlock()
#endif
#endif
			break
		fi
	:: atomic {
			/* on the list of the worker's jobs, on which it can't be already */
			n == BATCH;
			n = 0;
			runners--;
#ifndef LOST_JOB
			assert(!job);
			job = true
#endif
		}
		break
	od
}

/* treadle_cntr_add */
proctype counts(byte n)
{
	byte c, i;
	bool mine;

	do
	:: n > 0 ->
		atomic {
			!locked;
			n--;
			value++;
			activate(c, mine);
			c = 0
		}
		if
		:: mine -> mine = false; fire(c, i)
		:: else
		fi
	:: else -> break
	od;
	busy--
}

/* treadle_cntr_set, to less */
proctype sets_back()
{
	atomic { !locked -> value = 0; busy-- }
}

/* treadle_cntr_arm */
proctype arms()
{
	byte c, i, next = 0;
	bool mine;

	do
	:: next < N ->
		atomic {
			!locked;
			armed[next] = true;
			next++;
#ifndef NO_LOOK
			activate(c, mine);
#endif
			c = 0
		}
		if
		:: mine -> mine = false; fire(c, i)
		:: else
		fi
	:: else -> break
	od;
	busy--
}

/* treadle_ctx_worker */
proctype worker()
{
	byte c, i;

end:	do
	:: atomic { job -> job = false; busy++ };
		fire(c, i);
		busy--
	od
}

/* trigger_cull: some commands or all, from a place in the tree on that stays valid without the lock */
proctype cancels()
{
	byte key = 0, seq = 0, c, n, found[BATCH];
	bool more = true;

	do
	:: more ->
		atomic { !locked -> locked = true; n = 0 };
		do
		:: n < BATCH ->
			d_step {
				/* treadle_armed_from: the first that is not before (key, seq) */
				c = NOONE;
				at = 0;
				do
				:: at < N ->
					if
					:: armed[at] &&
					   (threshold[at] > key || (threshold[at] == key && at >= seq)) &&
					   (c == NOONE || threshold[at] < threshold[c]) -> c = at
					:: else
					fi;
					at++
				:: else -> break
				od
			};
			if
			:: c == NOONE -> break
			:: else ->
				atomic { key = threshold[c]; seq = c + 1 };
				if
				:: true ->
#ifndef LATE_ERASE
					armed[c] = false;
#endif
					atomic { found[n] = c; n++ }
				:: true /* not one that is looked for */
				fi
			fi
		:: else -> break
		od;
		atomic { more = c != NOONE; locked = false };
		do
		:: n > 0 ->
			atomic {
				n--;
				armed[found[n]] = false;
				canceled[found[n]]++;
				assert(ran[found[n]] + canceled[found[n]] == 1);
				found[n] = 0
			}
		:: else -> break
		od
	:: else -> break
	od;
	busy--
}

init {
	byte c;

	atomic {
		/* two that wait for the same, and one for less that comes after them */
		threshold[0] = 2;
		threshold[1] = 2;
		threshold[2] = 1;
		busy = 5;
		run arms();
		run counts(1);
		run counts(1);
		run sets_back();
		run cancels();
		run worker()
	}
	/* All have come to rest. */
	atomic {
		busy == 0 && !job;
		assert(!firing && !locked);
		c = 0;
		do
		:: c < N ->
			assert(ran[c] + canceled[c] + armed[c] == 1);
			assert(!armed[c] || threshold[c] > value);
			c++
		:: else -> break
		od
	}
}
