/*
 * Polled transmit rings (kernel/exec/polled.c): a thread falls asleep and is woken while a process
 * posts. tests/spin searches all orders.
 *
 * What either side stores becomes visible later: at a full barrier, in a system call, before the
 * lock is released, or at any time. The thread may find the idle time over at any look.
 *
 * Proven, for POSTS commands: at rest all of them have been taken.
 *
 * Left out: several rings, commands that have to stay in the ring.
 *
 * Each of these takes a piece away, and the search has to find out:
 *	NO_BARRIER_PROCESS	no barrier between the command and the look at the flag
 *	NO_BARRIER_THREAD	no barrier between the flag and the last look at the ring
 *	NO_LAST_LOOK		the thread falls asleep without it
 *	CLEARED_EARLY		the doorbell clears the flag, and leaves the ring asleep
 */
#define POSTS 3

byte prod, head;
bit doorbell = 1;	    /* the flag TREADLE_RING_DOORBELL */
byte prod_stored, doorbell_stored; /* not visible yet: the value and 1; 0: nothing */
bit locked, woken, queued;
bit asleep = 1; /* of the thread alone */

active proctype memory()
{
end:	do
	:: atomic { prod_stored -> prod = prod_stored - 1; prod_stored = 0 }
	:: atomic { doorbell_stored -> doorbell = doorbell_stored - 1; doorbell_stored = 0 }
	od
}

inline store_doorbell(value)
{
	atomic { doorbell_stored == 0 -> doorbell_stored = value + 1 }
}

inline lock()
{
	atomic { !locked -> locked = 1 }
}

inline unlock()
{
	atomic { doorbell_stored == 0 -> locked = 0 }
}

active proctype process()
{
	byte posted = 0;

	do
	:: posted < POSTS ->
		posted++;
		atomic { prod_stored == 0 -> prod_stored = posted + 1 }
#ifndef NO_BARRIER_PROCESS
		prod_stored == 0;
#endif
		if
		:: doorbell ->
			prod_stored == 0;
			lock();
			head = prod;
			if
			:: doorbell ->
#ifdef CLEARED_EARLY
				store_doorbell(0)
#else
				woken = 1;
				queued = 1
#endif
			:: else
			fi;
			unlock()
		:: else
		fi
	:: else -> break
	od;
	head == POSTS
}

active proctype thread()
{
end:	do
	:: atomic { queued -> queued = 0 }
		do
		:: asleep && !woken -> break
		:: else ->
			lock();
			if
			:: asleep ->
				asleep = 0;
				woken = 0;
				store_doorbell(0)
			:: else
			fi;
			head = prod;
			if
			:: true /* not idle for long */
			:: true ->
				store_doorbell(1);
#ifndef NO_BARRIER_THREAD
				doorbell_stored == 0;
#endif
				if
#ifdef NO_LAST_LOOK
				:: true -> asleep = 1
#else
				:: head == prod -> asleep = 1
				:: else -> store_doorbell(0)
#endif
				fi
			fi;
			unlock()
		od
	od
}
