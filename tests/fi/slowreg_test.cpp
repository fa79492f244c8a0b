// SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
/*
 * A registration that takes long (FI_REG_MR): the registrar of this program replaces the library's.
 */
#include "node.h"

#include <atomic>
#include <thread>

#include <poll.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include <treadle/registrar.h>

namespace treadle
{

struct Registrar::Ring {
	~Ring() { close(file); }

	int file = eventfd(0, EFD_NONBLOCK | EFD_CLOEXEC);
	Registration *given = nullptr;
};

/* Is the registration done? */
static std::atomic<bool> done;
static std::atomic<int> end_file;

Registrar::Registrar(std::unique_ptr<Ring> ring) noexcept : ring_(std::move(ring)) {}
Registrar::Registrar(Registrar &&) noexcept = default;
Registrar &Registrar::operator=(Registrar &&) noexcept = default;
Registrar::~Registrar() = default;

Result<Registrar> Registrar::create() noexcept
{
	auto ring = std::make_unique<Ring>();

	end_file = ring->file;
	return Registrar(std::move(ring));
}

int Registrar::begin(Registration &registration) noexcept
{
	ring_->given = &registration;
	return 0;
}

Registration *Registrar::next() noexcept
{
	if (!done || !ring_->given)
		return nullptr;
	ring_->given->run();
	return std::exchange(ring_->given, nullptr);
}

/* A registration can't be cut short. */
void Registrar::cancel(Registration &) noexcept {}

int Registrar::wait() noexcept
{
	pollfd end{ring_->file, POLLIN, 0};

	return poll(&end, 1, -1) == 1 ? 0 : -EINTR;
}

int Registrar::file() const noexcept
{
	return ring_->file;
}

} // namespace treadle

namespace
{

TEST(SlowRegistration, TheQueueCanBeReadWhileTheRegionCloses)
{
	Node node(hints_for(FI_MSG | FI_RMA));
	const auto eq = node.eq(FI_WAIT_FD);
	char memory[64];
	fid_mr *mr = nullptr;
	std::atomic<bool> closed = false;
	std::atomic<int> readers = 0;

	ASSERT_EQ(fi_domain_bind(node.domain.get(), &eq->fid, FI_REG_MR), 0);
	ASSERT_EQ(fi_mr_reg(node.domain.get(), memory, sizeof(memory), FI_REMOTE_READ, 0, 1, 0, &mr,
			    nullptr),
		  0);
	ASSERT_EQ(fi_mr_key(mr), FI_KEY_NOTAVAIL) << "by this program's registrar";
	std::thread closer([&] {
		EXPECT_EQ(fi_close(&mr->fid), 0);
		closed = true;
	});
	usleep(200'000); /* gives the read time to wait, which is not required */
	std::thread reader([&] {
		fi_eq_entry entry{};
		std::uint32_t event;

		EXPECT_EQ(fi_eq_read(eq.get(), &event, &entry, sizeof(entry), 0), -FI_EAGAIN);
		++readers;
	});
	for (int ms = 0; !readers && ms < patience; ms += 10)
		usleep(10'000);
	EXPECT_EQ(readers, 1);
	EXPECT_FALSE(closed);
	treadle::done = true;
	EXPECT_EQ(eventfd_write(treadle::end_file, 1), 0);
	closer.join();
	reader.join();
	node.domain.reset();
}

} // namespace
