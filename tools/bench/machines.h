// SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
/*
 * Several machines. The same tool serves on the others: for each connection of a run it starts a
 * process, which does what the connection asks for. The connections are of TCP.
 */
#pragma once

#include <utility>
#include <vector>

#include <netdb.h>
#include <netinet/in.h>
#include <netinet/tcp.h>

#include "../cli.h"
#include "others.h"

namespace bench
{

/*
 * The first words of a connection: both sides have to be of the same tool, and the same build. They
 * are answered by one byte.
 */
constexpr char accepted = 'y', refused = 'n';
struct Hello {
	char tool[24]{};
	uint64_t version = 0x7472'6561'646c'0001; /* of the words that follow; and the byte order */
	uint64_t job;				  /* the size of what follows first */

	Hello(const char *name, size_t size) : job(size)
	{
		std::snprintf(tool, sizeof(tool), "%s", name);
	}
};

class Socket
{
public:
	explicit Socket(int fd = -1) : fd_(fd) {}
	Socket(Socket &&other) noexcept : fd_(std::exchange(other.fd_, -1)) {}
	~Socket()
	{
		if (fd_ >= 0)
			::close(fd_);
	}

	int get() const { return fd_; }
	explicit operator bool() const { return fd_ >= 0; }
	Socket &operator=(Socket &&other) noexcept
	{
		std::swap(fd_, other.fd_);
		return *this;
	}

	template <class T> bool set(int level, int option, const T &value) const
	{
		return !setsockopt(fd_, level, option, &value, sizeof(value));
	}
	bool set_timeout(unsigned seconds) const
	{
		return set(SOL_SOCKET, SO_RCVTIMEO, timeval{.tv_sec = seconds, .tv_usec = 0});
	}

	/* This end's address, as text. */
	std::string address() const
	{
		const std::string mapped = "::ffff:";
		sockaddr_storage storage{};
		socklen_t length = sizeof(storage);
		auto *const own = reinterpret_cast<sockaddr *>(&storage);
		char text[NI_MAXHOST];

		if (getsockname(fd_, own, &length) ||
		    getnameinfo(own, length, text, sizeof(text), nullptr, 0, NI_NUMERICHOST))
			throw std::runtime_error("a connection has no address");
		return std::string(text).starts_with(mapped) ? text + mapped.size() : text;
	}

private:
	int fd_;
};

/* Another machine, on which the tool serves as long as this object lives. */
class Machine
{
public:
	/* Waits until the tool serves there. */
	Machine(std::string name, uint16_t port, const Hello &hello, unsigned seconds)
		: name_(std::move(name)), port_(port), hello_(hello), seconds_(seconds),
		  session_(connect())
	{
	}

	Socket connect() const
	{
		const auto until = Clock::now() + std::chrono::seconds(seconds_);
		addrinfo hints{}, *all;

		hints.ai_socktype = SOCK_STREAM;
		if (const int rc =
			    getaddrinfo(name_.c_str(), std::to_string(port_).c_str(), &hints, &all))
			throw std::runtime_error(name_ + ": " + gai_strerror(rc));
		const std::unique_ptr<addrinfo, decltype(&freeaddrinfo)> list(all, freeaddrinfo);
		do {
			for (const addrinfo *a = all; a; a = a->ai_next) {
				Socket socket(
					::socket(a->ai_family, SOCK_STREAM | SOCK_CLOEXEC, 0));

				if (::connect(socket.get(), a->ai_addr, a->ai_addrlen))
					continue;
				socket.set(IPPROTO_TCP, TCP_NODELAY, 1);
				socket.set_timeout(seconds_);
				::send(socket.get(), &hello_, sizeof(hello_), MSG_NOSIGNAL);
				char answer;
				if (!Partner(socket.get()).get(&answer, 1))
					continue; /* a run before this one has just ended */
				if (answer != accepted)
					throw std::runtime_error(
						name_ +
						": another program or version serves there");
				return socket;
			}
			usleep(200000);
		} while (Clock::now() < until);
		throw std::runtime_error(name_ + ", port " + std::to_string(port_) +
					 ": nothing serves there (--serve)");
	}

	/* The address at which that machine reaches this one. */
	std::string own_address() const { return session_.address(); }

private:
	const std::string name_;
	const uint16_t port_;
	const Hello hello_;
	const unsigned seconds_;
	Socket session_; /* the tool there ends when this is closed */
};

inline Socket listen_at(const sockaddr *address, socklen_t length)
{
	Socket socket(::socket(address->sa_family, SOCK_STREAM | SOCK_CLOEXEC, 0));

	socket.set(SOL_SOCKET, SO_REUSEADDR, 1);
	if (address->sa_family == AF_INET6)
		socket.set(IPPROTO_IPV6, IPV6_V6ONLY, 0);
	if (bind(socket.get(), address, length) || listen(socket.get(), 1000))
		return Socket();
	return socket;
}

/* At all addresses: of IPv4 only, if this machine has no IPv6. */
inline Socket listen_at(uint16_t port)
{
	sockaddr_in6 six{};
	sockaddr_in four{};

	six.sin6_family = AF_INET6;
	four.sin_family = AF_INET;
	six.sin6_port = four.sin_port = htons(port);
	Socket socket = listen_at(reinterpret_cast<sockaddr *>(&six), sizeof(six));
	if (!socket)
		socket = listen_at(reinterpret_cast<sockaddr *>(&four), sizeof(four));
	if (!socket)
		throw Failure("port " + std::to_string(port), errno);
	return socket;
}

/* Accepts a connection of the same tool. Others are closed, and the result is empty. */
inline Socket admit(const Socket &listening, const Hello &expected)
{
	Hello hello("", 0);
	Socket socket(::accept4(listening.get(), nullptr, nullptr, SOCK_CLOEXEC));

	if (!socket)
		return socket;
	socket.set(IPPROTO_TCP, TCP_NODELAY, 1);
	socket.set_timeout(30);
	if (!Partner(socket.get()).get(&hello, sizeof(hello)) ||
	    std::memcmp(&hello, &expected, sizeof(hello)) != 0) {
		::send(socket.get(), &refused, 1, MSG_NOSIGNAL);
		std::fprintf(stderr, "%s: refused a connection of another program or version\n",
			     expected.tool);
		return Socket();
	}
	socket.set_timeout(0);
	::send(socket.get(), &accepted, 1, MSG_NOSIGNAL);
	return socket;
}

/* Does what a connection asks for. The address is the one at which this machine is reached. */
using Service = std::function<void(Partner &asking, const std::string &address)>;

/* Serves one run. Returns 0 if all that was asked for has ended well. */
inline int serve(uint16_t port, const Hello &hello, const Service &service)
{
	Socket listening = listen_at(port);
	Socket session;
	int status, bad = 0;

	while (!session)
		session = admit(listening, hello);
	for (;;) {
		pollfd polls[] = {{listening.get(), POLLIN, 0}, {session.get(), POLLIN, 0}};

		if (poll(polls, 2, -1) < 0 || polls[1].revents)
			break; /* nothing is sent in it: the run has ended */
		const Socket asking = admit(listening, hello);
		if (!asking)
			continue;
		const pid_t pid = fork();
		if (pid < 0)
			throw Failure("fork", errno);
		if (pid)
			continue;
		prctl(PR_SET_PDEATHSIG, SIGKILL);
		listening = Socket();
		session = Socket();
		try {
			Partner partner(asking.get());
			service(partner, asking.address());
		} catch (const std::exception &e) {
			std::fprintf(stderr, "%s: %s\n", hello.tool, e.what());
			std::_Exit(1);
		}
		std::_Exit(0);
	}
	listening = Socket();
	/* A process that still runs after 5 s dies with this one. */
	for (int i = 0; i < 500; i++) {
		const pid_t pid = waitpid(-1, &status, WNOHANG);
		if (pid < 0)
			return bad;
		if (pid == 0)
			usleep(10000);
		else if (status)
			bad = 1;
	}
	return 1;
}

/* What process 0 asks of a process on another machine. The answer is a Report, but for tell. */
enum class Step : uint32_t { tell, report, stop, resume, look };
struct Order {
	Step step;
	uint32_t size; /* of what is told, which follows */
};

/* A process on another machine, where keep() answers. */
class Distant final : public Other
{
public:
	template <class Job>
	Distant(size_t number, const Machine &machine, const Job &job)
		: Other(number), socket_(machine.connect())
	{
		Partner(socket_.get()).put(&job, sizeof(job));
	}

	using Other::tell;
	void tell(const void *what, size_t size) override
	{
		order(Step::tell, size);
		Partner(socket_.get()).put(what, size);
	}
	void stop() override { must_do(Step::stop); }
	void resume() override { must_do(Step::resume); }
	Activity activity() override { return must_do(Step::look).activity; }
	void dismiss() override { ::shutdown(socket_.get(), SHUT_RDWR); }

protected:
	Report next_report() override { return answer(Step::report); }

private:
	void order(Step step, size_t size = 0)
	{
		const Order order{step, static_cast<uint32_t>(size)};

		Partner(socket_.get()).put(&order, sizeof(order));
	}
	Report answer(Step step)
	{
		Report report;

		order(step);
		if (!Partner(socket_.get()).get(&report, sizeof(report)))
			return Report::error("no answer");
		report.text[sizeof(report.text) - 1] = 0;
		return report;
	}
	Report must_do(Step step)
	{
		const Report report = answer(step);

		if (!report.good)
			throw std::runtime_error(name_ + ": " + report.text);
		return report;
	}

	const Socket socket_;
};

/* The service for Distant: follows the orders, as long as the connection lasts. */
inline void keep(Partner &master, unsigned seconds, const Child::Life &life)
{
	constexpr size_t most = 4096;
	Child child(0, seconds, life);
	Order order;

	while (master.get(&order, sizeof(order))) {
		std::byte what[most];
		Report answer;

		if (order.step == Step::tell) {
			if (order.size > most || !master.get(what, order.size))
				break;
			child.tell(what, order.size);
			continue;
		}
		try {
			if (order.step == Step::report)
				answer = child.report();
			else if (order.step == Step::stop)
				child.stop();
			else if (order.step == Step::resume)
				child.resume();
			else
				answer.activity = child.activity();
		} catch (const std::exception &e) {
			answer = Report::error(e.what());
		}
		master.put(&answer, sizeof(answer));
	}
	child.dismiss();
}

using Machines = std::vector<std::unique_ptr<Machine>>;

/* What the command line says of other machines. */
struct Places {
	std::vector<std::string> names;
	uint16_t port = 18771;
	bool serve = false;

	/* Waits until the tool serves on each of them. */
	Machines meet(const Hello &hello, unsigned seconds) const
	{
		Machines machines;

		for (const std::string &name : names)
			machines.push_back(std::make_unique<Machine>(name, port, hello, seconds));
		return machines;
	}
};

inline cli::Option machine_option(Places &places)
{
	return {'m', "machine", "NAME",
		"also on machine NAME, where this program has to run with\n"
		"--serve; more than once: on more machines",
		[&](const char *text) { places.names.emplace_back(text); }};
}
inline cli::Option serve_option(Places &places)
{
	return {0, "serve", nullptr, "be such a machine for one run (see below)",
		[&](const char *) { places.serve = true; }};
}
inline cli::Option port_option(Places &places)
{
	return {0, "port", "N", "the TCP port for that (default: 18771)",
		[&](const char *text) { places.port = cli::number(text, 1, 65535); }};
}
constexpr const char *places_help =
	"With --serve, any program that reaches the TCP port can have processes started, with\n"
	"the rights of this one: use it in a network that you trust. NAME is the name or address\n"
	"of the machine in the network over which the messages are to go.\n";

/* "8 processes", and on how many machines. */
inline std::string number_of(size_t processes, const Machines &machines)
{
	const std::string text = std::to_string(processes) + " processes";

	return machines.empty() ? text :
				  text + " on " + std::to_string(machines.size() + 1) + " machines";
}

/*
 * Starts process 1 and so on, on this machine and the others in turn, so that each has a neighbour
 * on another machine. life(number): what it does here; job(number): what says so there.
 */
template <class LifeOf, class JobOf>
void start_others(Others &others, size_t processes, unsigned seconds, const Machines &machines,
		  LifeOf life, JobOf job)
{
	for (size_t i = 1; i < processes; i++) {
		const size_t place = i % (machines.size() + 1);

		if (place)
			others.push_back(
				std::make_unique<Distant>(i, *machines[place - 1], job(i)));
		else
			others.push_back(std::make_unique<Child>(i, seconds, life(i)));
	}
}

} // namespace bench
