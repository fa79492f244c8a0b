// SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
#include <treadle/detail/mapping.h>

#include <cerrno>
#include <mutex>
#include <new>

#include <pthread.h>
#include <sys/mman.h>

namespace treadle::detail
{

struct Mapping::Node {
	~Node();

	void replace() const noexcept;

	void *addr;
	std::size_t length;
	std::uint32_t child_flags;
	Node *next;
	Node **link; /* the pointer to this node */
};

/* All maps of the process. The lock is held over fork(2), so the child finds a whole list. */
struct Mapping::Registry {
	static Registry &get() noexcept
	{
		/* Never destroyed: static objects may own maps, and be destroyed later than ours. */
		alignas(Registry) static std::byte place[sizeof(Registry)];
		static Registry *const registry = new (place) Registry;

		return *registry;
	}

	Registry() noexcept
	{
		pthread_atfork([] { get().lock.lock(); }, [] { get().lock.unlock(); },
			       [] { get().child(); });
	}

	void insert(Node &node) noexcept
	{
		const std::lock_guard guard(lock);

		node.next = head;
		node.link = &head;
		if (head)
			head->link = &node.next;
		head = &node;
	}

	void remove(Node &node) noexcept
	{
		const std::lock_guard guard(lock);

		*node.link = node.next;
		if (node.next)
			node.next->link = node.link;
	}

	void child() noexcept
	{
		for (const Node *node = head; node; node = node->next)
			node->replace();
		lock.unlock();
	}

	std::mutex lock;
	Node *head = nullptr;
};

Mapping::Node::~Node()
{
	Registry::get().remove(*this);
	munmap(addr, length);
}

/*
 * In a child. Must not replace maps that a fork handler of another library may have made there
 * meanwhile. If there is one, only a program that uses its parent's objects is affected.
 */
void Mapping::Node::replace() const noexcept
{
	void *const page = mmap(addr, length, PROT_READ | PROT_WRITE,
				MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED_NOREPLACE, -1, 0);

	if (page == addr && child_flags)
		static_cast<std::uint32_t *>(page)[child_flags_offset / 4] = child_flags;
}

Mapping::Mapping() noexcept = default;
Mapping::Mapping(Mapping &&) noexcept = default;
Mapping &Mapping::operator=(Mapping &&) noexcept = default;
Mapping::~Mapping() = default;

Result<Mapping> Mapping::create(int fd, const treadle_map &map, Access access,
				std::uint32_t child_flags) noexcept
{
	const int prot = access == Access::write ? PROT_READ | PROT_WRITE : PROT_READ;
	void *const addr =
		mmap(nullptr, map.length, prot, MAP_SHARED, fd, static_cast<off_t>(map.offset));
	Mapping mapping;

	/*
	 * EAGAIN: the map would be locked (mlockall(2)), and RLIMIT_MEMLOCK has no room. Another
	 * try would not help.
	 */
	if (addr == MAP_FAILED)
		return std::unexpected(from_errno(errno == EAGAIN ? ENOMEM : errno));
	mapping.node_.reset(new (std::nothrow)
				    Node{addr, map.length, child_flags, nullptr, nullptr});
	if (!mapping.node_) {
		munmap(addr, map.length);
		return std::unexpected(from_errno(ENOMEM));
	}
	Registry::get().insert(*mapping.node_);
	return mapping;
}

std::byte *Mapping::data() const noexcept
{
	return static_cast<std::byte *>(node_->addr);
}

} // namespace treadle::detail
