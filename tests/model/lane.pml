/*
 * Lanes (Documentation/lanes.rst): the matcher changes while messages come through the lane and
 * through the kernel. tests/spin searches all orders.
 *
 * What an end of the lane stores becomes visible later: at a full barrier, in a system call, or at
 * any time. The kernel's steps are atomic (rx->lock). Messages have one of two tags.
 *
 * Proven, for MESSAGES messages: those with the same tag are received in the order of sending, each
 * once, and all of them as soon as there are receives.
 *
 * Left out: the end of a lane, a full lane (the sender takes back as before any other message),
 * commands that are under way (the sender uses the lane only while there is none).
 *
 * Each of these takes a piece away, and the search has to find out:
 *	NO_BARRIER_SENDER	no barrier between the message and the look at the state
 *	NO_BARRIER_RECEIVER	no barrier between the state and the last look at the lane
 *	NO_LAST_LOOK		the receiver hands over without it
 *	TAKEN_LATE		the receiver goes on taking messages when it has handed over
 *	NO_DOORBELL_CHECK	the sender uses the lane while a message waits in the kernel
 *	NO_TAKE_BACK		the sender uses its ring, and leaves what is in the lane there
 *	TAKEN_BLINDLY		the receiver takes a message without a compare-and-swap
 *	NOT_COMPARED		new receives are not compared with the messages in the library
 *	OPENED_EARLY		the lane is opened while receives are in the kernel
 */
#define MESSAGES 3

bit tag[MESSAGES + 1];
byte last[2], received; /* by tag; messages are numbered from 1 */
byte posted[2];

/* the lane */
byte lane[MESSAGES], tail, head;
bit open;
byte tail_stored, open_stored; /* not visible yet: the value and 1; 0: nothing */

/* the kernel */
byte waiting[MESSAGES], waits;
byte receives[2];
bit doorbell;

/* the receiver's library */
bit is_open;
byte kept[MESSAGES], keeps;
byte own[2];

active proctype memory()
{
end:	do
	:: atomic { tail_stored -> tail = tail_stored - 1; tail_stored = 0 }
	:: atomic { open_stored -> open = open_stored - 1; open_stored = 0 }
	od
}

inline receive(m)
{
	assert(m > last[tag[m]]);
	last[tag[m]] = m;
	received++
}

/* --- the kernel --- */

inline kernel_message(m)
{
	atomic {
		if
		:: receives[tag[m]] -> receives[tag[m]]--; receive(m)
		:: else -> waiting[waits] = m; waits++; doorbell = 1
		fi
	}
}

/* Finds the first message with this tag; i == n: there is none. */
#define FIND(list, n, t)                            \
	i = 0;                                      \
	do                                          \
	:: i < n && tag[list[i]] != t -> i++        \
	:: else -> break                            \
	od

/* Takes message i out of a list. */
#define REMOVE(list, n)                             \
	j = i + 1;                                  \
	do                                          \
	:: j < n -> list[j - 1] = list[j]; j++      \
	:: else -> break                            \
	od;                                         \
	n--;                                        \
	list[n] = 0

inline kernel_receive(t)
{
	atomic {
		FIND(waiting, waits, t);
		if
		:: i < waits ->
			receive(waiting[i]);
			REMOVE(waiting, waits);
			if
			:: !waits -> doorbell = 0
			:: else
			fi
		:: else -> receives[t]++
		fi;
		i = 0; j = 0
	}
}

/* --- the sender --- */

byte own_tail;

inline take_back()
{
	atomic { from = head; head = own_tail };
	do
	:: from < own_tail -> kernel_message(lane[from]); from++
	:: else -> break
	od;
	from = 0
}

active proctype sender()
{
	byte m = 1, from;

	do
	:: m <= MESSAGES ->
		if
		:: tag[m] = 0
		:: tag[m] = 1
		fi;
		if
		:: open
#ifndef NO_DOORBELL_CHECK
		   -> if
		   :: !doorbell
#endif
		   ->
			atomic { lane[own_tail] = m; own_tail++ };
			atomic { tail_stored == 0 -> tail_stored = own_tail + 1 };
#ifndef NO_BARRIER_SENDER
			tail_stored == 0;
#endif
			if
			:: open
			:: else -> tail_stored == 0; take_back()
			fi
#ifndef NO_DOORBELL_CHECK
		   :: else -> tail_stored == 0; take_back(); kernel_message(m)
		   fi
#endif
		:: true ->
			tail_stored == 0;
#ifndef NO_TAKE_BACK
			take_back();
#endif
			kernel_message(m)
		fi;
		m++
	:: else -> break
	od
}

/* --- the receiver --- */

/* Takes the next message of the lane. */
inline take()
{
	at = head;
	if
	:: at < tail ->
		m = lane[at];
		atomic {
			if
#ifdef TAKEN_BLINDLY
			:: true ->
#else
			:: head == at ->
#endif
				head = at + 1;
				if
				:: own[tag[m]] -> own[tag[m]]--; receive(m)
				:: else -> kept[keeps] = m; keeps++
				fi
			:: else
			fi;
			m = 0
		}
	:: else
	fi;
	at = 0
}

inline hand_over()
{
	is_open = 0;
	atomic { open_stored == 0 -> open_stored = 1 };
#ifndef NO_BARRIER_RECEIVER
	open_stored == 0;
#endif
#ifndef NO_LAST_LOOK
	do
	:: head < tail -> take()
	:: else -> break
	od;
#endif
	open_stored == 0; /* a system call follows */
	do
	:: own[0] -> own[0]--; kernel_receive(0)
	:: own[1] -> own[1]--; kernel_receive(1)
	:: else -> break
	od
}

inline post(t)
{
	posted[t]++;
	i = keeps;
#ifndef NOT_COMPARED
	atomic { FIND(kept, keeps, t) };
#endif
	if
	:: i < keeps -> atomic { receive(kept[i]); REMOVE(kept, keeps); i = 0; j = 0 }
	:: i == keeps && is_open -> i = 0; own[t]++
	:: else -> i = 0; kernel_receive(t)
	fi
}

active proctype receiver()
{
	byte i, j, m, at, sleeps;

	do
	:: received == MESSAGES -> break
	:: posted[0] < MESSAGES -> post(0)
	:: posted[1] < MESSAGES -> post(1)
	:: is_open && head < tail -> take()
	:: is_open && doorbell -> hand_over()
	:: is_open && sleeps < 2 -> sleeps++; hand_over() /* it is about to sleep */
#ifdef TAKEN_LATE
	:: !is_open && head < tail -> take()
#endif
#ifdef OPENED_EARLY
	:: !is_open && !doorbell ->
#else
	:: !is_open && !receives[0] && !receives[1] && !doorbell ->
#endif
		is_open = 1;
		atomic { open_stored == 0 -> open_stored = 2 }
	od
}
