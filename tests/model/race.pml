/* SPDX-License-Identifier: GPL-2.0 */
/*
 * The race of arming, firing and canceling on one counter: kernel/exec/fire.c and trigger.c, step
 * by step. Two processes count, one arms and counts, one sets the counter back, a worker runs, and one
 * cancels, in batches. tests/spin searches all interleavings.
 *
 * Each command either runs or is canceled, or it is still armed. Then its threshold is not reached
 * once all processes are at rest. There is one runner at a time, and commands start in the order of
 * (threshold, submission).
 *
 * Each of these removes a piece, and the search has to find an error:
 *	NO_LOCK		the runner takes commands off without the lock
 *	LATE_IDLE	the runner finds nothing more to do, and gives up its role a while later
 *	NO_ACTIVE	each process that counts fires, even if there is a runner already
 *	NO_LOOK		arming does not check whether the threshold has been reached
 *	LATE_ERASE	a canceled command is found under the lock, and taken off after it
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
byte busy; /* processes that are not at rest */
bool job;  /* given to the worker */
hidden byte at;

inline lock() { atomic { !locked -> locked = true } }
inline unlock() { locked = false }

/* The first armed command: by threshold, then by submission. */
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

/* Issues a command, which can't be found any more. */
inline issue(c)
{
	atomic {
		ran[c]++;
		assert(ran[c] + canceled[c] == 1)
	}
}

/* cntr_fire, until nothing is left or the budget is used up; then the worker goes on. */
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
			/* the counter can't be on the list of the worker's jobs already */
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

/* trigger_cull: some commands or all, from a key on, which stays valid without the lock */
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
				:: true /* not to be canceled */
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
		/* two with the same threshold, and a later one with a lower threshold */
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
	/* All processes are at rest. */
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
