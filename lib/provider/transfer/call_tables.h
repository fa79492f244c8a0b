// SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
#ifndef TREADLE_PROVIDER_CALL_TABLES_H
#define TREADLE_PROVIDER_CALL_TABLES_H

#include <rdma/fi_atomic.h>
#include <rdma/fi_endpoint.h>
#include <rdma/fi_rma.h>
#include <rdma/fi_tagged.h>

#include <treadle/threading.h>

#include "base/refuses.h"
#include "endpoint/calls.h"

namespace treadle::fi
{

/* Do plain calls first try PortOf::execute_word? Is then a completion reported, but for injects? */
enum class Words { none, silent, reported };

/* How the calls of a table post; lanes: plain calls of an endpoint that has lanes. */
enum class Way { plain, lanes, special };

/* Does an endpoint send, or receive, by lanes? */
struct Lanes {
	bool out, in;
};

/* fi_msg.cpp, fi_tagged.cpp, fi_rma.cpp, fi_atomic.cpp: fill the tables of a port. */
void choose_calls(fi_ops_msg &ops, bool serialized, Calls tx, Calls rx, Lanes lanes) noexcept;
void choose_calls(fi_ops_tagged &ops, bool serialized, Calls tx, Calls rx, Lanes lanes) noexcept;
void choose_calls(fi_ops_rma &ops, bool serialized, Calls read, Calls write, Words words) noexcept;
void choose_calls(fi_ops_atomic &ops, bool serialized, Calls write, Calls fetch, bool valid,
		  Words words) noexcept;

/* A class with members that refuse, for the calls of all tables. */
template <int Error> struct Refusing {
	static constexpr Refuses<Error> recv{}, recvv{}, recvmsg{};
	static constexpr Refuses<Error> send{}, sendv{}, sendmsg{}, inject{}, senddata{},
		injectdata{};
	static constexpr Refuses<Error> read{}, readv{}, readmsg{};
	static constexpr Refuses<Error> write{}, writev{}, writemsg{}, writedata{};
	static constexpr Refuses<Error> readwrite{}, readwritev{}, readwritemsg{};
	static constexpr Refuses<Error> compwrite{}, compwritev{}, compwritemsg{};
};

/* Calls fill(C); the functions of class C behave as `calls` says. */
template <template <class, Way> class Live, class Fill>
void choose(bool serialized, Calls calls, Fill &&fill) noexcept
{
	switch (calls) {
	case Calls::absent:
		return fill(Refusing<-FI_ENOSYS>());
	case Calls::disabled:
		return fill(Refusing<-FI_EOPBADSTATE>());
	case Calls::unreported:
		return fill(Refusing<-FI_ENOCQ>());
	case Calls::plain:
		return serialized ? fill(Live<NoLock, Way::plain>()) :
				    fill(Live<Mutex, Way::plain>());
	case Calls::special:
		return serialized ? fill(Live<NoLock, Way::special>()) :
				    fill(Live<Mutex, Way::special>());
	}
}

/*
 * The table of fi_msg(3) or fi_tagged(3). Their members have the same names. Other threads may call
 * through it meanwhile (FI_SETOPSFLAG), so each pointer changes once, if at all.
 */
template <template <class, Way> class Live, class Ops>
void choose_for(Ops &live, bool serialized, Calls tx, Calls rx, Lanes lanes) noexcept
{
	using Quick = Live<NoLock, Way::lanes>;
	Ops ops = live;
	const auto fill_rx = [&]<class C>(C) {
		ops.recv = C::recv;
		ops.recvv = C::recvv;
		ops.recvmsg = C::recvmsg;
	};
	const auto fill_tx = [&]<class C>(C) {
		ops.send = C::send;
		ops.sendv = C::sendv;
		ops.sendmsg = C::sendmsg;
		ops.inject = C::inject;
		ops.senddata = C::senddata;
		ops.injectdata = C::injectdata;
	};

	ops.size = sizeof(ops);
	choose<Live>(serialized, rx, fill_rx);
	choose<Live>(serialized, tx, fill_tx);
	if (lanes.in && rx == Calls::plain) {
		serialized ? fill_rx(Quick()) : fill_rx(Live<Mutex, Way::lanes>());
		ops.recv = serialized ? Quick::recv_here : Live<Mutex, Way::lanes>::recv_here;
	}
	if (lanes.out && tx == Calls::plain) {
		serialized ? fill_tx(Quick()) : fill_tx(Live<Mutex, Way::lanes>());
		if (serialized) {
			ops.send = Quick::send_word;
			ops.inject = Quick::inject_word;
		}
	}
	live = ops;
}

} // namespace treadle::fi

#endif
