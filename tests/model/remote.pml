/* SPDX-License-Identifier: GPL-2.0 */
/*
 * Commands that another node executes: CMD and DONE, and between them the pieces of a payload. The target asks for
 * a piece and the source answers: GRANT and DATA, or DATA and GRANT for a READ; here both are ASK and ANSWER. A
 * command may be canceled, and its endpoint may close, at any time. tests/spin searches all orders.
 *
 * The source finds a command by its reference, a place in a table that has one here. Taking it out of
 * the table ends it: DONE does, and close does. A place is used again at once, by a command of a new
 * endpoint. The target has NODES commands, each of which is a credit.
 *
 * Proven, for COMMANDS commands, ASKS pieces, as many receives as there are commands or fewer:
 *	- a command ends once at the source, and once at the target, where its credit is free again;
 *	- what DONE tells is what happened: a command that ran is not told as canceled, nor the other way round;
 *	- a piece is of the command that it was asked for;
 *	- at rest a command that has not ended waits for a receive at the target, and its source for it.
 *
 * Assumed: the session delivers once and in order (session.pml), so GONE comes behind the commands. Left out: order
 * and fences, which the target's own code keeps as for local commands, and several pieces on the way.
 *
 * Each of these takes a piece away, and the search has to find out:
 *	NO_ABORT	an ASK for a command that has ended is not answered
 *	NO_GENERATION	a reference is the place alone
 *	NO_WITHDRAW	GONE withdraws nothing
 *	CANCEL_ENDS	the source ends a command when it asks to cancel it
 *	DONE_ENDS	DONE ends a command that close has ended already
 */
#define COMMANDS 4
#define ASKS	 2
#define NODES	 2
#define NONE	 0

mtype = { cmd, done, canceled, ask, answer, abort, cancel, gone };
#define WAITS 1 /* for a receive */
#define ASKED 2

/* the message; generation of the reference (of gone: the endpoint); and, to check, the command */
chan to_target = [8] of { mtype, byte, byte };
chan to_source = [8] of { mtype, byte, byte };

/* The source: what is in the table */
byte entry, generation;
bool asked_to_cancel;
byte submitted, cancels, closes;
byte ended[COMMANDS + 1];
bool told_done[COMMANDS + 1], told_canceled[COMMANDS + 1];

/* The target */
byte state[NODES], its[NODES], refers[NODES], asks[NODES];
byte in_use, receives;
byte ran[COMMANDS + 1], stopped[COMMANDS + 1];

inline end_at_source()
{
	ended[entry]++;
	assert(ended[entry] == 1);
	entry = NONE;
	asked_to_cancel = false
}

proctype source()
{
	mtype what;
	byte ref, c;

end:	do
	:: atomic {
		!entry && submitted < COMMANDS && in_use < NODES ->
		submitted++;
		in_use++;
		entry = submitted;
		generation++;
		to_target!cmd,generation,entry
	   }
	:: atomic {
		entry && cancels && !asked_to_cancel ->
		cancels--;
		asked_to_cancel = true;
		to_target!cancel,generation,entry;
#ifdef CANCEL_ENDS
		told_canceled[entry] = true;
		end_at_source()
#endif
	   }
	/* The endpoint closes. The next command is of another one. */
	:: atomic {
		entry && closes ->
		closes--;
		to_target!gone,generation,entry;
		end_at_source()
	   }
	:: atomic {
		to_source?what,ref,c ->
		if
#ifdef NO_GENERATION
		:: entry ->
#else
		:: entry && ref == generation ->
#endif
			if
			:: what == ask -> to_target!answer,ref,entry
			:: what == done -> told_done[entry] = true; end_at_source()
			:: what == canceled -> told_canceled[entry] = true; end_at_source()
			fi
		:: else ->
#ifndef NO_ABORT
			if
			:: what == ask -> to_target!abort,ref,c
			:: else
			fi;
#endif
#ifdef DONE_ENDS
			if
			:: what != ask -> ended[c]++; assert(ended[c] == 1)
			:: else
			fi
#endif
		fi;
		what = 0;
		ref = 0;
		c = 0
	   }
	od
}

inline find(ref)
{
	n = 0;
	do
	:: n < NODES && state[n] && refers[n] == ref -> break
	:: n < NODES && !(state[n] && refers[n] == ref) -> n++
	:: n == NODES -> break
	od
}

/* The command ends at the target. The credit goes with the next frame, whatever that is. */
inline end_at_target(n)
{
	assert(ran[its[n]] + stopped[its[n]] == 1);
	state[n] = NONE;
	its[n] = 0;
	refers[n] = 0;
	asks[n] = 0;
	in_use--
}

proctype target()
{
	mtype what;
	byte ref, c, n;

end:	do
	/* A receive is there: the command asks for its payload, or has it already. */
	:: atomic {
		receives && (state[0] == WAITS || state[1] == WAITS) ->
		if
		:: state[0] == WAITS -> n = 0
		:: state[1] == WAITS -> n = 1
		fi;
		receives--;
		if
		:: asks[n] = ASKS - 1; state[n] = ASKED; to_source!ask,refers[n],its[n]
		:: ran[its[n]]++; to_source!done,refers[n],its[n]; end_at_target(n)
		fi;
		n = 0
	   }
	:: atomic {
		to_target?what,ref,c ->
		if
		:: what == cmd ->
			n = (state[0] -> 1 : 0);
			assert(!state[n]);
			state[n] = WAITS;
			its[n] = c;
			refers[n] = ref
		:: else ->
			find(ref);
			if
			:: n == NODES /* it has ended */
			:: n < NODES && what == answer ->
				assert(c == its[n] && state[n] == ASKED);
				if
				:: asks[n] -> asks[n]--; to_source!ask,ref,c
				:: else -> ran[c]++; to_source!done,ref,c; end_at_target(n)
				fi
			:: n < NODES && what == abort -> stopped[its[n]]++; end_at_target(n)
			:: n < NODES && what == cancel ->
				stopped[its[n]]++;
				to_source!canceled,ref,its[n];
				end_at_target(n)
#ifdef NO_WITHDRAW
			:: n < NODES && what == gone
#else
			:: n < NODES && what == gone && state[n] == WAITS -> stopped[its[n]]++; end_at_target(n)
			:: n < NODES && what == gone && state[n] != WAITS /* abort comes */
#endif
			fi
		fi;
		what = 0;
		ref = 0;
		c = 0;
		n = 0
	   }
	od
}

init {
	byte c;

	atomic {
		cancels = 2;
		closes = 2;
		if
		:: receives = COMMANDS
		:: receives = COMMANDS - 2
		:: receives = 0
		fi;
		run source();
		run target()
	}
	timeout;
	c = 1;
	atomic {
		do
		:: c <= submitted ->
			assert(ended[c] == 1 || (c == entry && (state[0] == WAITS && its[0] == c || state[1] == WAITS && its[1] == c)));
			assert(!told_done[c] || ran[c] && !stopped[c]);
			assert(!told_canceled[c] || stopped[c] && !ran[c]);
			c++
		:: else -> break
		od;
		assert(in_use == (entry != NONE));
		assert(submitted == COMMANDS || entry)
	}
}
