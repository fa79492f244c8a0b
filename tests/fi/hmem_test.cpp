// SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
/*
 * fi_trigger(3), "XPU TRIGGERS", by devices: the provider built with the headers of CUDA and Level
 * Zero (hmem/), and drivers of simulated devices.
 */
#include <chrono>
#include <deque>
#include <filesystem>
#include <thread>
#include <utility>

#include <dlfcn.h>

#include "child.h"
#include <treadle/fi_treadle.h>

#include "hmem/drivers.h"
#include "work.h"
#include "xpu.h"

namespace
{

std::string beside(const char *name)
{
	return std::filesystem::read_symlink("/proc/self/exe").parent_path() / "hmem" / name;
}

/* Before libfabric looks for providers. */
const int provider_path = setenv("FI_PROVIDER_PATH", beside("").c_str(), 1);

struct Device {
	fi_hmem_iface iface;
	int number;
};
const Device devices[] = {{FI_HMEM_CUDA, 0}, {FI_HMEM_CUDA, 1}, {FI_HMEM_ZE, 0}};

void use(fi_trigger_xpu &xpu, const Device &device)
{
	xpu.iface = device.iface;
	(device.iface == FI_HMEM_CUDA ? xpu.device.cuda : xpu.device.ze) = device.number;
}

/* FI_OPT_XPU_TRIGGER */
int option(const Pair &p, const Device &device)
{
	std::size_t size = sizeof(fi_trigger_xpu);
	fi_trigger_xpu xpu{};

	use(xpu, device);
	return fi_getopt(&p.a.ep->fid, FI_OPT_ENDPOINT, FI_OPT_XPU_TRIGGER, &xpu, &size);
}

/*
 * This test is the first: no process has loaded the drivers yet, and the parent has not tried to.
 */
// conformance: fi_trigger(3): iface and device identify the XPU: FI_HMEM_SYSTEM; CUDA and ZE if ...
TEST(Hmem, WithoutADriverThereIsNoDevice)
{
	Child child([](int) {
		const Pair p(hints_for(xpu_caps));
		Log log;

		EXPECT_EQ(option(p, {FI_HMEM_CUDA, 0}), -FI_EOPNOTSUPP);
		EXPECT_TRUE(log.has("libcuda.so.1")) << log.all();
		EXPECT_EQ(option(p, {FI_HMEM_ZE, 0}), -FI_EOPNOTSUPP);
		EXPECT_TRUE(log.has("libze_loader.so.1")) << log.all();
		return 0;
	});
	EXPECT_EQ(child.wait(), 0);
}

/* As an application that uses the drivers. */
Drivers &load()
{
	void *cuda = dlopen(beside("libcuda.so.1").c_str(), RTLD_NOW);

	EXPECT_TRUE(cuda && dlopen(beside("libze_loader.so.1").c_str(), RTLD_NOW)) << dlerror();
	return *static_cast<Drivers *>(dlsym(cuda, drivers_name));
}

class ByDevice : public XpuTriggered
{
protected:
	ByDevice() : drivers(load()) {}

	bool store(const Xpu &xpu) const
	{
		return drivers.store(static_cast<std::uint64_t *>(xpu.var.addr),
				     xpu.var.value.val64);
	}

	Drivers &drivers;
};

/* From the option, by the cell and its store, to the transfer. */
// conformance: fi_trigger(3): requesting and triggering may occur on separate computational ...
// conformance: fi_endpoint(3): FI_OPT_XPU_TRIGGER: the number of variables, and the datatype ...
TEST_F(ByDevice, ADeviceStartsTheTransfer)
{
	std::size_t n = 0;

	for (const Device &device : devices) {
		Xpu xpu;
		int value = 1;

		EXPECT_EQ(option(p, device), 0);
		EXPECT_EQ(drivers.mapped, ++n);
		use(xpu.trigger.xpu, device);
		ASSERT_EQ(send(value, xpu), 0);
		EXPECT_EQ(drivers.mapped, n); /* it was mapped by the option */
		EXPECT_TRUE(is_silent(cq()));
		value = 8;
		EXPECT_TRUE(store(xpu));
		EXPECT_EQ(received(1), std::vector{8});
		EXPECT_EQ(next(cq()).op_context, &xpu);
	}
	EXPECT_EQ(drivers.retained, 2u);
}

// conformance: fi_trigger(3): iface and device identify the XPU: FI_HMEM_SYSTEM; CUDA and ZE if ...
TEST_F(ByDevice, MoreThanOnePageOfVariablesAndInOrder)
{
	constexpr int n = 700;
	std::vector<int> values(n);
	std::deque<Xpu> xpus(n);

	for (int i = 0; i < n; ++i) {
		values[i] = i;
		use(xpus[i].trigger.xpu, devices[i % 2]);
		ASSERT_EQ(send(values[i], xpus[i]), 0);
	}
	EXPECT_EQ(drivers.mapped, 2u);
	for (const Xpu &xpu : xpus)
		ASSERT_TRUE(store(xpu));
	EXPECT_EQ(received(n), values);
	for (int i = 0; i < n; ++i)
		next(cq());
	/* One device's variables don't fit into a page. */
	for (Xpu &xpu : xpus) {
		xpu.offer();
		use(xpu.trigger.xpu, {FI_HMEM_CUDA, 0});
		ASSERT_EQ(send(values[0], xpu), 0);
	}
	EXPECT_EQ(drivers.mapped, 3u);
	EXPECT_EQ(drivers.bytes, 3 * 4096u);
	for (const Xpu &xpu : xpus)
		ASSERT_TRUE(store(xpu));
	received(n);
}

// conformance: fi_trigger(3): iface and device identify the XPU: FI_HMEM_SYSTEM; CUDA and ZE if ...
TEST_F(ByDevice, NothingIsMappedForADeviceThatDoesNotWrite)
{
	const int values[2] = {1, 2};
	Xpu here, there;

	ASSERT_EQ(send(values[0], here), 0);
	EXPECT_EQ(drivers.mapped, 0u);
	use(there.trigger.xpu, {FI_HMEM_CUDA, 1});
	ASSERT_EQ(send(values[1], there), 0);
	EXPECT_EQ(drivers.mapped, 1u);
	EXPECT_FALSE(store(here));
	EXPECT_TRUE(store(there));
	EXPECT_EQ(received(1), std::vector{2});
	here.write();
	EXPECT_EQ(received(1), std::vector{1});
}

// conformance: fi_trigger(3): an operation that waits for an XPU can be canceled to release ...
TEST_F(ByDevice, ItCanBeCanceled)
{
	const int value = 1;
	Xpu xpu;

	use(xpu.trigger.xpu, {FI_HMEM_ZE, 0});
	ASSERT_EQ(send(value, xpu), 0);
	EXPECT_EQ(fi_cancel(&ep()->fid, &xpu), 0);
	EXPECT_EQ(next_error(cq()).err, FI_ECANCELED);
	EXPECT_TRUE(store(xpu));
	EXPECT_TRUE(is_silent(cq()));
}

// conformance: fi_trigger(3): an operation that waits for an XPU can be canceled to release ...
TEST_F(ByDevice, AllMapsGoWithTheDomain)
{
	{
		const Pair other(hints_for(xpu_caps));

		for (const Device &device : devices)
			EXPECT_EQ(option(other, device), 0);
		EXPECT_EQ(option(p, {FI_HMEM_CUDA, 0}), 0);
		EXPECT_EQ(drivers.mapped, 4u);
		EXPECT_EQ(drivers.retained, 3u);
	}
	EXPECT_EQ(drivers.mapped, 1u);
	EXPECT_EQ(drivers.retained, 1u);
}

// conformance: fi_trigger(3): iface and device identify the XPU: FI_HMEM_SYSTEM; CUDA and ZE if ...
// conformance: fi_endpoint(3): FI_OPT_XPU_TRIGGER: the number of variables, and the datatype ...
TEST_F(ByDevice, ADeviceThatIsNotThereIsRefused)
{
	Log log;

	EXPECT_EQ(option(p, {FI_HMEM_CUDA, 2}), -FI_EOPNOTSUPP);
	EXPECT_TRUE(log.has("FI_HMEM_CUDA: device 2: CUresult 101")) << log.all();
	EXPECT_EQ(option(p, {FI_HMEM_ZE, 1}), -FI_EOPNOTSUPP);
	EXPECT_EQ(option(p, {FI_HMEM_ZE, -1}), -FI_EOPNOTSUPP);
	EXPECT_TRUE(log.has("FI_HMEM_ZE: device 1: there are 1")) << log.all();
	EXPECT_EQ(option(p, {FI_HMEM_ROCR, 0}), -FI_EOPNOTSUPP);
	EXPECT_EQ(drivers.mapped, 0u);
	EXPECT_EQ(drivers.retained, 0u);
}

// conformance: fi_trigger(3): iface and device identify the XPU: FI_HMEM_SYSTEM; CUDA and ZE if ...
TEST_F(ByDevice, AFailingDriverLosesNothing)
{
	const int value = 4;

	for (const Device &device : devices) {
		Xpu xpu;
		Log log;

		use(xpu.trigger.xpu, device);
		drivers.full = true;
		EXPECT_EQ(send(value, xpu), -FI_EOPNOTSUPP);
		EXPECT_TRUE(log.has(device.iface == FI_HMEM_CUDA ? "CUresult 2" : "ze_result_t"))
			<< log.all();
		drivers.full = false;
		EXPECT_EQ(drivers.mapped, 0u);
		EXPECT_EQ(drivers.retained, 0u);
	}
	for (const Device &device : devices)
		EXPECT_EQ(option(p, device), 0);
}

/* --- fi_treadle(7): cntr_word, cntr_copy ------------------------------------------------- */

class Counting : public ByDevice
{
protected:
	Counting() : cntr(p.node.cntr())
	{
		void *found = nullptr;

		EXPECT_EQ(fi_open_ops(&p.node.domain->fid, FI_TREADLE_DOMAIN_OPS_1, 0, &found,
				      nullptr),
			  0);
		ops = static_cast<fi_treadle_ops_domain *>(found);
	}

	int word(const Device &device, std::uint64_t *&place)
	{
		fi_trigger_xpu xpu{};

		use(xpu, device);
		return ops->cntr_word(cntr.get(), &xpu, &place);
	}
	int copy(const Device &device, const std::uint64_t *&place)
	{
		fi_trigger_xpu xpu{};

		use(xpu, device);
		return ops->cntr_copy(cntr.get(), &xpu, &place);
	}
	/* The device polls until it sees this. */
	bool sees(const std::uint64_t *place, std::uint64_t value)
	{
		const auto end =
			std::chrono::steady_clock::now() + std::chrono::milliseconds(patience);
		std::uint64_t seen = 0;

		while (drivers.load(place, seen) && seen != value &&
		       std::chrono::steady_clock::now() < end)
			std::this_thread::yield();
		return seen == value;
	}

	Owned<fid_cntr> cntr;
	fi_treadle_ops_domain *ops;
};

TEST_F(Counting, OneStoreOfADeviceStartsAllThatWaits)
{
	constexpr int n = 40;
	std::uint64_t total = 0;

	for (const Device &device : devices) {
		std::vector<int> values(n);
		std::deque<Work> works;
		std::uint64_t *place = nullptr;

		cntr = p.node.cntr();
		ASSERT_EQ(word(device, place), 0);
		total = 0;
		for (int i = 0; i < n; ++i) {
			values[i] = i;
			works.emplace_back(FI_OP_SEND, cntr.get(), 1 + i)
				.message(ep(), &values[i], sizeof(int), p.b_at_a);
			ASSERT_EQ(works.back().queue(p.node), 0);
		}
		EXPECT_EQ(fi_cntr_read(cntr.get()), 0u);
		EXPECT_TRUE(drivers.store(place, total += n));
		EXPECT_EQ(received(n), values);
		EXPECT_EQ(fi_cntr_read(cntr.get()), total);
	}
	EXPECT_EQ(drivers.mapped, std::size(devices));
}

TEST_F(Counting, ADeviceWaitsByACopy)
{
	for (const Device &device : devices) {
		const std::uint64_t *place = nullptr;

		cntr = p.node.cntr();
		ASSERT_EQ(fi_cntr_add(cntr.get(), 3), 0);
		ASSERT_EQ(copy(device, place), 0);
		EXPECT_TRUE(sees(place, 3));
		ASSERT_EQ(fi_cntr_add(cntr.get(), 2), 0);
		ASSERT_EQ(fi_cntr_adderr(cntr.get(), 1), 0);
		EXPECT_TRUE(sees(place, 5));
		EXPECT_TRUE(sees(place + 1, 1));
		ASSERT_EQ(fi_cntr_set(cntr.get(), 1), 0);
		EXPECT_TRUE(sees(place, 1));
	}
}

/* A device adds; the operations that this starts count; it waits for the count. */
TEST_F(Counting, ADeviceNeedsNoProcessor)
{
	const Device device{FI_HMEM_CUDA, 1};
	const Owned<fid_cntr> done = p.node.cntr();
	const std::uint64_t *seen = nullptr;
	std::uint64_t *place = nullptr;
	std::deque<Work> works;

	ASSERT_EQ(word(device, place), 0);
	for (int i = 0; i < 100; ++i) {
		works.emplace_back(FI_OP_CNTR_ADD, cntr.get(), 1 + i, nullptr)
			.counter(done.get(), 1);
		ASSERT_EQ(works.back().queue(p.node), 0);
	}
	fi_trigger_xpu xpu{};
	use(xpu, device);
	ASSERT_EQ(ops->cntr_copy(done.get(), &xpu, &seen), 0);
	for (int i = 1; i <= 10; ++i) {
		EXPECT_TRUE(drivers.store(place, 10 * i));
		EXPECT_TRUE(sees(seen, 10 * i));
	}
	EXPECT_EQ(drivers.mapped, 1u); /* both on one page */
}

/* Each counter has one of each, and one device has it. */
TEST_F(Counting, AnotherDeviceIsRefused)
{
	const std::uint64_t *copied[2]{};
	std::uint64_t *place[2]{};
	Log log;

	ASSERT_EQ(word(devices[0], place[0]), 0);
	ASSERT_EQ(word(devices[0], place[1]), 0);
	EXPECT_EQ(place[0], place[1]);
	EXPECT_EQ(word(devices[1], place[1]), -FI_EBUSY);
	EXPECT_TRUE(log.has("another device")) << log.all();
	ASSERT_EQ(copy(devices[1], copied[0]), 0);
	EXPECT_EQ(copy(devices[0], copied[1]), -FI_EBUSY);
	EXPECT_EQ(copied[1], nullptr);
	drivers.full = true;
	const Owned<fid_cntr> first = std::exchange(cntr, p.node.cntr());
	EXPECT_EQ(word({FI_HMEM_ZE, 0}, place[1]), -FI_EOPNOTSUPP);
	drivers.full = false;
	EXPECT_EQ(word({FI_HMEM_CUDA, 7}, place[1]), -FI_EOPNOTSUPP);
	EXPECT_EQ(word({FI_HMEM_ROCR, 0}, place[1]), -FI_EOPNOTSUPP);
	EXPECT_EQ(ops->cntr_word(nullptr, nullptr, &place[1]), -FI_EINVAL);
	EXPECT_EQ(ops->cntr_word(cntr.get(), nullptr, nullptr), -FI_EINVAL);
	EXPECT_EQ(ops->cntr_copy(cntr.get(), nullptr, nullptr), -FI_EINVAL);
}

/* A counter that can't be closed keeps both; what was stored meanwhile is counted. */
TEST_F(Counting, ClosingReleasesTheWord)
{
	const Device device{FI_HMEM_CUDA, 0};
	const std::uint64_t *copied = nullptr;
	std::uint64_t *place = nullptr, *other = nullptr;
	int value = 1;

	ASSERT_EQ(word(device, place), 0);
	ASSERT_EQ(copy(device, copied), 0);
	Work work(FI_OP_SEND, cntr.get(), 10);
	work.message(ep(), &value, sizeof(value), p.b_at_a);
	ASSERT_EQ(work.queue(p.node), 0);
	for (std::uint64_t i = 1; i < 10; ++i) {
		EXPECT_TRUE(drivers.store(place, i));
		EXPECT_EQ(fi_close(&cntr->fid), -FI_EBUSY);
		EXPECT_TRUE(sees(copied, i));
	}
	EXPECT_TRUE(drivers.store(place, 10));
	EXPECT_EQ(received(1), std::vector{1});
	/* Many counters, one after the other, need no more pages. */
	for (int i = 0; i < 300; ++i) {
		cntr = p.node.cntr();
		ASSERT_EQ(word(device, other), 0);
		EXPECT_TRUE(drivers.store(other, 5));
		EXPECT_TRUE(reaches(cntr.get(), 5));
	}
	EXPECT_EQ(drivers.mapped, 1u);
}

/* It would return memory of its own, which is not the cells, so a store would be lost. */
// conformance: fi_trigger(3): iface and device identify the XPU: FI_HMEM_SYSTEM; CUDA and ZE if ...
TEST_F(ByDevice, AnOldLevelZeroIsRefused)
{
	Log log;

	drivers.old = true;
	EXPECT_EQ(option(p, {FI_HMEM_ZE, 0}), -FI_EOPNOTSUPP);
	drivers.old = false;
	EXPECT_TRUE(log.has("maps no pages of others")) << log.all();
	EXPECT_EQ(drivers.mapped, 0u);
}

} // namespace
