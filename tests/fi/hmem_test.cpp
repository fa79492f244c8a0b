// SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
/*
 * fi_trigger(3), "XPU TRIGGERS", by devices: the provider built with the headers of CUDA and Level
 * Zero (hmem/), and drivers of simulated devices.
 */
#include <deque>
#include <filesystem>

#include <dlfcn.h>

#include "child.h"
#include "hmem/drivers.h"
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
