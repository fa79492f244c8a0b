// SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
/*
 * doctor: why does treadle not work here? Each line is one check. A problem keeps programs from
 * using treadle, a note limits what they can do; both say what to do. Nothing is changed, and
 * nothing waits longer than 5 s for libfabric or the firewall.
 */
#include <algorithm>
#include <filesystem>
#include <fstream>
#include <set>
#include <sstream>
#include <system_error>

#include <rdma/fabric.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/utsname.h>
#include <unistd.h>

#include <treadle/context.h>
#include <treadle/treadle.h>

#include "child.h"
#include "firewall.h"
#include "verbs.h"

namespace ctl
{

namespace fs = std::filesystem;

namespace
{

class Findings
{
public:
	void ok(const char *check, std::string found)
	{
		add(check, Value("ok", Tone::good), std::move(found), {});
	}
	void note(const char *check, std::string found, const char *advice)
	{
		add(check, Value("note", Tone::warning), std::move(found), advice);
	}
	void problem(const char *check, std::string found, const char *advice)
	{
		add(check, Value("PROBLEM", Tone::bad), std::move(found), advice);
		problems_ = true;
	}
	bool problems() const { return problems_; }
	const Value::List &lines() const { return lines_; }

private:
	void add(const char *check, Value result, std::string found, Value advice)
	{
		lines_.emplace_back(Value::Fields{{"result", std::move(result)},
						  {"check", check},
						  {"found", std::move(found)},
						  {"advice", std::move(advice)}});
	}
	Value::List lines_;
	bool problems_ = false;
};

} // namespace

/* The first line of a file; empty if it can't be read. */
static std::string line_of(const fs::path &path)
{
	std::ifstream file(path);
	std::string line;

	std::getline(file, line);
	return line;
}

static bool exists(const fs::path &path)
{
	std::error_code error;
	return fs::exists(path, error);
}

static std::vector<std::string> names_in(const fs::path &dir)
{
	std::vector<std::string> names;
	std::error_code error;

	for (fs::directory_iterator at(dir, error), end; !error && at != end; at.increment(error))
		names.push_back(at->path().filename());
	std::ranges::sort(names);
	return names;
}

/* --- the module ------------------------------------------------------------------- */

/* Is it installed for the running kernel, in whatever directory and compression? */
static bool installed(const std::string &release)
{
	std::ifstream index("/lib/modules/" + release + "/modules.dep");

	for (std::string line; std::getline(index, line);)
		if (const auto end = line.find(".ko");
		    end != line.npos && line.substr(0, end).ends_with("/treadle"))
			return true;
	return false;
}

/* A setting of the kernel, from the file that its package installs; empty if it is not known. */
static std::string setting(const std::string &release, const std::string &option)
{
	for (const auto &path : {"/boot/config-" + release, "/lib/modules/" + release + "/config",
				 "/lib/modules/" + release + "/build/.config"}) {
		std::ifstream file(path);
		for (std::string line; std::getline(file, line);) {
			if (line.starts_with(option + "="))
				return line.substr(option.size() + 1);
			if (line == "# " + option + " is not set")
				return "n";
		}
	}
	return "";
}

static void kernel(Findings &found, const std::string &release)
{
	for (const char *option :
	     {"CONFIG_MODULES", "CONFIG_64BIT", "CONFIG_MMU_NOTIFIER", "CONFIG_CRYPTO_LIB_SHA256"})
		if (setting(release, option) == "n")
			return found.problem("kernel", "Linux " + release + " has no " + option,
					     "use a kernel that has it: treadle needs it");
	if (line_of("/proc/sys/kernel/modules_disabled") == "1")
		return found.problem("kernel", "no more modules can be loaded until the next start",
				     "load treadle at the start of the machine: "
				     "/etc/modules-load.d/treadle.conf");
	const std::string lockdown = line_of("/sys/kernel/security/lockdown");
	if (!lockdown.empty() && lockdown.find("[none]") == lockdown.npos)
		return found.note("kernel", "only signed modules can be loaded (Secure Boot)",
				  "sign treadle.ko with a key that the machine knows: mokutil(1)");
	found.ok("kernel", "Linux " + release);
}

static bool module(Findings &found, const std::string &release)
{
	if (exists("/sys/module/treadle")) {
		const std::string version = line_of("/sys/module/treadle/version");
		if (version == treadle::version())
			found.ok("module", "treadle " + version + " is loaded");
		else
			found.note("module",
				   "treadle " + version + " is loaded, the tools are of " +
					   treadle::version(),
				   "install both of one release, then modprobe -r treadle_rdma "
				   "treadle; modprobe treadle");
		return true;
	}
	kernel(found, release);
	if (installed(release))
		found.problem("module", "treadle is installed, and not loaded",
			      "sudo modprobe treadle (dmesg says why, if that fails)");
	else
		found.problem("module", "treadle is not installed for Linux " + release,
			      "install treadle, and this kernel's headers; then sudo dkms "
			      "autoinstall && sudo modprobe treadle");
	return false;
}

static void device(Findings &found)
{
	struct stat st;
	const auto query = treadle::Context::query();

	if (query)
		return found.ok("device", std::string(TREADLE_DEVICE) +
						  " can be opened, ABI version " +
						  std::to_string(query->abi_version));
	const std::error_code error = query.error();
	if (error == std::errc::protocol_error)
		return found.problem("device", "module and library have different ABIs",
				     "install both of one release, then modprobe -r treadle_rdma "
				     "treadle; modprobe treadle");
	if (error == std::errc::no_such_file_or_directory)
		return found.problem("device", "there is no " TREADLE_DEVICE,
				     "in a container: give it the device (--device " TREADLE_DEVICE
				     "); else: udevadm trigger --name-match=treadle");
	if ((error == std::errc::permission_denied ||
	     error == std::errc::operation_not_permitted) &&
	    !stat(TREADLE_DEVICE, &st)) {
		char mode[8];
		std::snprintf(mode, sizeof(mode), "%04o", st.st_mode & 07777U);
		return found.problem(
			"device",
			"user " + std::to_string(geteuid()) +
				" may not open " TREADLE_DEVICE " (mode " + mode + ", group " +
				std::to_string(st.st_gid) + ")",
			"become a member of that group, or sudo chmod 666 " TREADLE_DEVICE
			"; a udev rule keeps that; containers: allow the device");
	}
	found.problem("device", TREADLE_DEVICE ": " + error.message(),
		      "is it treadle's device? ls -l " TREADLE_DEVICE
		      "; cat /sys/class/misc/treadle/dev, /proc/devices");
}

static void limits(Findings &found)
{
	constexpr rlim_t enough = 64 << 20, files = 1024;
	rlimit limit{};

	getrlimit(RLIMIT_MEMLOCK, &limit);
	if (limit.rlim_cur == RLIM_INFINITY || limit.rlim_cur >= enough || !geteuid())
		found.ok("locked memory",
			 limit.rlim_cur == RLIM_INFINITY ?
				 "no limit" :
				 bytes(static_cast<double>(limit.rlim_cur)) +
					 (geteuid() ? "" : ", which root may exceed"));
	else
		found.note("locked memory",
			   bytes(static_cast<double>(limit.rlim_cur)) +
				   ": larger pinned regions fail with ENOMEM",
			   "ulimit -l unlimited, after raising memlock in "
			   "/etc/security/limits.conf (of a service: LimitMEMLOCK=)");
	getrlimit(RLIMIT_NOFILE, &limit);
	if (limit.rlim_cur >= files)
		found.ok("open files", std::to_string(limit.rlim_cur));
	else
		found.note("open files", std::to_string(limit.rlim_cur) + " is few",
			   "ulimit -n 1024 or more (of a service: LimitNOFILE=)");
}

/* --- libfabric -------------------------------------------------------------------- */

/* A line for each provider that is offered, in libfabric's order. */
static int print_providers()
{
	fi_info *all = nullptr;
	std::set<std::string> told;
	const int ret = fi_getinfo(FI_VERSION(1, 11), nullptr, nullptr, 0, nullptr, &all);

	for (const fi_info *one = all; one; one = one->next)
		if (told.insert(one->fabric_attr->prov_name).second)
			std::printf("%s\n", one->fabric_attr->prov_name);
	return ret ? 1 : 0;
}

static void provider(Findings &found, bool usable)
{
	const char *const name = std::getenv("FI_PROVIDER");
	const bool chosen = name && std::string(name).find("treadle") != std::string::npos;
	const auto told = in_child(print_providers);
	std::vector<std::string> offered;

	if (!told)
		return found.problem("libfabric", "fi_getinfo has not ended in 5 s",
				     "FI_PROVIDER=treadle leaves out the other providers, of which "
				     "one hangs");
	std::istringstream lines(told->text);
	for (std::string line; std::getline(lines, line);)
		offered.push_back(line);
	const auto own = std::ranges::find(offered, "treadle");
	std::string others;
	for (const std::string &one : offered)
		if (one != "treadle")
			others += (others.empty() ? "" : ", ") + one;
	if (others.empty())
		others = "none";
	if (own == offered.end() && name && !chosen)
		return found.problem("libfabric",
				     "FI_PROVIDER=" + std::string(name) +
					     " leaves out treadle; programs take: " + others,
				     "FI_PROVIDER=treadle, or unset it");
	if (own == offered.end() && !usable)
		return found.note("libfabric", "treadle offers nothing; programs take: " + others,
				  "solve the problems above");
	if (own == offered.end())
		return found.problem("libfabric",
				     "treadle is not offered; programs take: " + others,
				     "FI_PROVIDER_PATH=DIRECTORY of libtreadle-fi.so, or install "
				     "it; FI_LOG_LEVEL=warn FI_PROVIDER=treadle fi_info says why");
	if (own == offered.begin())
		return found.ok("libfabric", "programs take treadle; other providers: " + others);
	found.note("libfabric",
		   "treadle is offered, but programs that name no provider take " + offered[0] +
			   "; in order: " + others,
		   "FI_PROVIDER=treadle");
}

/* --- other nodes ------------------------------------------------------------------ */

/* Names of RDMA devices with a port that is up. */
static std::string rdma_devices(bool &up)
{
	std::string text;

	for (const std::string &name : names_in("/sys/class/infiniband")) {
		const fs::path ports = "/sys/class/infiniband/" + name + "/ports";
		bool active = false;
		for (const std::string &port : names_in(ports))
			active |=
				line_of(ports / port / "state").find("ACTIVE") != std::string::npos;
		up |= active;
		text += (text.empty() ? "" : ", ") + name + (active ? " is up" : " is down");
	}
	return text;
}

static void other_nodes(Findings &found)
{
	const bool loaded = exists("/sys/module/treadle_rdma");
	bool up = false;
	const std::string devices = rdma_devices(up);

	if (devices.empty())
		found.note("RDMA devices",
			   "there is none: only processes of this machine are reached",
			   "for other nodes: rdma link add rxe0 type rxe netdev INTERFACE");
	else if (!up)
		found.note("RDMA devices", devices,
			   "set its network interface up: ip link; rdma link");
	else
		found.ok("RDMA devices", devices);
	if (!loaded)
		return found.note("other nodes", "treadle_rdma is not loaded: none is reached",
				  "for other nodes: modprobe treadle_rdma listen=ADDRESS "
				  "secret=FILE");
	const auto query = treadle::Context::query();
	if (query && !query->node.family)
		return found.note("other nodes",
				  "treadle_rdma is loaded, and does not listen in this network "
				  "namespace",
				  "use the initial network namespace; dmesg | grep treadle_rdma "
				  "says more");
	found.ok("other nodes", "treadle_rdma " + line_of("/sys/module/treadle_rdma/version") +
					" is loaded; treadlectl peers shows them");
}

static void firewall(Findings &found)
{
	const Verdict verdict = firewall_verdict();

	switch (verdict.port) {
	case Verdict::open:
		return found.ok("firewall", "no rule against UDP port 4791 (RoCE) is seen");
	case Verdict::unknown:
		return found.note("firewall", "its rules can't be seen" + verdict.why,
				  "run this as root, or look: UDP port 4791 (RoCE) must be let "
				  "through for other nodes");
	case Verdict::closed:
		return found.note("firewall",
				  "UDP port 4791 (RoCE) seems to be closed: " + verdict.why,
				  "for other nodes: nft add rule …, or iptables -I INPUT -p udp "
				  "--dport 4791 -j ACCEPT");
	}
}

/* --- what it finds ---------------------------------------------------------------- */

static std::string sentences(const Findings &found)
{
	std::string out;

	for (const Value &line : found.lines()) {
		std::string result = line["result"].text(), check = line["check"].text();
		result.resize(9, ' ');
		check.resize(15, ' ');
		out += paint(result, line["result"].tone(), coloured()) + check +
		       wrapped(line["found"].text(), 24) + "\n";
		if (!line["advice"].null())
			out += std::string(24, ' ') + wrapped("-> " + line["advice"].text(), 27) +
			       "\n";
	}
	return out;
}

int doctor(int argc, char **argv)
{
	const Call call = parse(argc, argv);
	Findings found;
	utsname system{};

	uname(&system);
	const bool loaded = module(found, system.release);
	if (loaded)
		device(found);
	limits(found);
	provider(found, !found.problems());
	other_nodes(found);
	firewall(found);
	if (call.json)
		print(Value::Fields{{"works", !found.problems()}, {"checks", found.lines()}}, true);
	else
		write(sentences(found));
	return found.problems();
}

} // namespace ctl
