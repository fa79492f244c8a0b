/* SPDX-License-Identifier: GPL-2.0 */
/*
 * A repeating command with a step of one: kernel/exec/fire.c and complete.c, step by step. One process
 * counts, one is the runner of the counter, one ends commands that have started (a peer, or a worker),
 * one cancels armed commands, and one closes the endpoint.
 *
 * At rest the command is armed, and has run once for each count. Or it was taken off: then it is freed,
 * once, and is not armed. A process that has seen all rounds counted finds the command armed, unless it
 * was taken off.
 *
 * Each of these removes a piece, and the search has to find an error:
 *	NO_DEAD		the command is armed again without a check whether the endpoint is closed
 *	EARLY_DEAD	the check comes before the lock
 *	NO_LOOK		arming again does not check whether the next threshold has been reached
 *	EARLY_COUNT	the round is counted before the command is armed again
 *	BOTH_FREE	the end of a round frees the armed command, once the endpoint is closed
 */
#define ADDS 3

byte value, threshold = 1;
bool armed, started; /* in the tree; issued, and not ended */
bool firing, dead, locked;
byte ran, counted, freed;
byte busy;
bool closed; /* taken off, or its end has found the endpoint closed */

inline lock() { atomic { !locked -> locked = true } }
inline unlock() { locked = false }

inline free_it()
{
	atomic { freed++; assert(freed == 1 && !armed && !started) }
}

inline activate(mine)
{
	mine = armed && threshold <= value && !firing;
	firing = firing || mine
}

/* cntr_fire: meets the command once in a turn, as its end arms it again */
inline fire()
{
	do
	:: lock();
		if
		:: armed && threshold <= value ->
			armed = false;
			unlock();
			atomic { assert(!started); started = true; ran++ }
		:: else ->
			atomic { firing = false; locked = false };
			break
		fi
	od
}

/* treadle_cntr_add */
proctype counts()
{
	byte n = ADDS;
	bool mine;

	do
	:: n > 0 ->
		n--;
		lock();
		value++;
		activate(mine);
		unlock();
		if
		:: mine -> fire()
		:: else
		fi
	:: else -> break
	od;
	busy--
}

/* cmd_again, treadle_cntr_again, cntr_rearm */
proctype ends()
{
	bool mine, gone;

end:	do
	:: atomic { started -> started = false; busy++; threshold++ };
		mine = false;
#ifdef EARLY_COUNT
		counted++;
#endif
#ifdef EARLY_DEAD
		gone = dead;
#endif
		lock();
#ifdef NO_DEAD
		gone = false;
#else
#ifndef EARLY_DEAD
		gone = dead;
#endif
#endif
		if
		:: !gone ->
			armed = true;
#ifndef NO_LOOK
			activate(mine)
#endif
		:: else -> closed = true
		fi;
		unlock();
#ifdef BOTH_FREE
		gone = dead;
#endif
		if
		:: gone -> free_it()
		:: else
		fi;
#ifndef EARLY_COUNT
		counted++;
#endif
		if
		:: mine -> fire()
		:: else
		fi;
		atomic { gone = false; mine = false; busy-- }
	od
}

/* trigger_cull: takes the command off under the lock */
inline cull()
{
	lock();
	if
	:: armed -> atomic { armed = false; closed = true }; unlock(); free_it()
	:: else -> unlock()
	fi
}

proctype flushes() { cull(); busy-- }

/* treadle_ep_shutdown */
proctype closes() { dead = true; cull(); busy-- }

/* Waits for the counter that the command notifies. */
proctype waits()
{
end:	atomic { counted == ADDS && value == ADDS; assert(armed || closed) }
}

init {
	atomic {
		armed = true;
		busy = 1;
		run counts();
		run ends();
		if
		:: busy++; run flushes()
		:: busy++; run closes()
		:: busy = busy + 2; run flushes(); run closes()
		:: true
		fi;
		if
		:: run waits()
		:: true
		fi
	}
	atomic {
		busy == 0 && !started;
		assert(!firing && !locked);
		assert(armed + freed == 1 && closed == freed);
		assert(freed || (ran == ADDS && counted == ADDS && threshold == ADDS + 1));
		assert(!dead || freed)
	}
}
