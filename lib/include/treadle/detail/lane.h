// SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
#ifndef TREADLE_DETAIL_LANE_H
#define TREADLE_DETAIL_LANE_H

/*
 * Both ends of a lane (<treadle/lane.h>): indices, barriers, and what is checked, as the other end
 * may write anything at any time. Documentation/lanes.rst says when an end may do what.
 *
 *  sender                               receiver
 *    read head      (R, acquire)          write head        (R, release)
 *    write message
 *    write tail     (Q, release)          read tail         (Q, acquire)
 *                                         read message
 *
 *  sender, after write tail             receiver (hands over)
 *    full barrier   (P)                   write state = 0
 *    read state                           full barrier      (P)
 *    0: take the message back             read tail, take what is there
 */

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <utility>

#include <treadle/lane.h>

namespace treadle::detail
{

/* The map of a lane. */
class LaneMemory
{
protected:
	LaneMemory() = default;
	explicit LaneMemory(std::byte *at) noexcept
		: lane_(reinterpret_cast<treadle_lane *>(at)), units_(at + TREADLE_LANE_BYTES)
	{
	}

	template <class T>
	static T load(T &word, std::memory_order order = std::memory_order_relaxed) noexcept
	{
		return std::atomic_ref(word).load(order);
	}
	static constexpr std::uint32_t units_of(std::uint32_t bytes) noexcept
	{
		return (static_cast<std::uint32_t>(sizeof(treadle_lane_msg)) + bytes +
			TREADLE_LANE_UNIT - 1) /
		       TREADLE_LANE_UNIT;
	}
	static constexpr std::uint32_t slot_of(std::uint64_t index) noexcept
	{
		return static_cast<std::uint32_t>(index) % TREADLE_LANE_UNITS;
	}
	treadle_lane_msg *at(std::uint64_t index) const noexcept
	{
		return reinterpret_cast<treadle_lane_msg *>(units_ + std::size_t{slot_of(index)} *
									     TREADLE_LANE_UNIT);
	}
	static std::byte *bytes_of(treadle_lane_msg *message) noexcept
	{
		return reinterpret_cast<std::byte *>(message + 1);
	}
	/*
	 * The units of what has this many bytes and begins at index. 0: it does not lie before the
	 * end, or before `end`.
	 */
	static std::uint32_t units_within(std::uint64_t index, std::uint64_t end,
					  std::uint32_t bytes) noexcept
	{
		if (bytes > TREADLE_LANE_UNITS * TREADLE_LANE_UNIT) [[unlikely]]
			return 0;
		const std::uint32_t units = units_of(bytes);
		return units <= end - index && units <= TREADLE_LANE_UNITS - slot_of(index) ?
			       units :
			       0;
	}
	/* False: it is not at `from`, but where that says now. */
	bool move_head(std::uint64_t &from, std::uint64_t to) const noexcept
	{
		__u64 expected = from;

		if (std::atomic_ref(lane_->head)
			    .compare_exchange_strong(expected, to,
						     std::memory_order_acq_rel)) /* R */
			[[likely]]
			return true;
		from = expected;
		return false;
	}

	treadle_lane *lane_ = nullptr;
	std::byte *units_ = nullptr;
};

/* The sender's end: one thread at a time. */
class LaneWriter : public LaneMemory
{
public:
	LaneWriter() = default;
	/* most: messages that may lie there at a time, as a take-back has to have room elsewhere */
	LaneWriter(std::byte *at, std::uint32_t most) noexcept
		: LaneMemory(at), most_(most < TREADLE_LANE_UNITS ? most : TREADLE_LANE_UNITS)
	{
	}

	bool open() const noexcept { return load(lane_->state) == TREADLE_LANE_OPEN; }
	/* The receiver has ended. */
	bool closed() const noexcept { return load(lane_->state) == TREADLE_LANE_CLOSED; }
	/* Has all been taken that was written? */
	bool empty() noexcept
	{
		read_head();
		return head_ == tail_;
	}

	enum class Put {
		done,
		full, /* nothing was written */
		shut, /* the receiver has closed the lane meanwhile: take_back() has to follow */
	};
	/* bytes: at most TREADLE_LANE_LONGEST */
	Put put(std::uint32_t flags, std::uint64_t tag, std::uint64_t data, const void *bytes,
		std::uint32_t len) noexcept
	{
		const std::uint32_t units = units_of(len);
		const std::uint32_t left = TREADLE_LANE_UNITS - slot_of(tail_);
		const std::uint32_t pad = units > left ? left : 0;

		if (!has_room(pad + units)) [[unlikely]]
			return Put::full;
		if (pad) [[unlikely]] {
			write(TREADLE_LANE_PAD, 0, 0,
			      pad * TREADLE_LANE_UNIT -
				      static_cast<std::uint32_t>(sizeof(treadle_lane_msg)));
			tail_ += pad;
		}
		treadle_lane_msg *const to = write(flags, tag, data, len);
		if (len)
			std::memcpy(bytes_of(to), bytes, len);
		return publish(units);
	}
	/* The same for a word. */
	[[gnu::always_inline]] Put put_word(std::uint32_t flags, std::uint64_t tag,
					    std::uint64_t data, const void *word) noexcept
	{
		if (!has_room(1)) [[unlikely]]
			return Put::full;
		std::memcpy(bytes_of(write(flags, tag, data, 8)), word, 8);
		return publish(1);
	}

	/*
	 * Takes back what has not been taken, and calls resend(const treadle_lane_msg &, const
	 * std::byte *) for each message, oldest first. If put has just said `shut`, not for its
	 * message: true says that this was taken back too, false that the receiver has it. Else
	 * true.
	 */
	template <class Resend> bool take_back(Resend &&resend) noexcept
	{
		const bool shut = std::exchange(shut_, false);

		/* each pass in vain finds that more was taken */
		for (std::uint32_t passes = 0; passes <= TREADLE_LANE_UNITS && !empty(); ++passes) {
			std::uint64_t head = head_;

			if (tail_ - head > TREADLE_LANE_UNITS) [[unlikely]]
				break; /* nonsense: the receiver spoils what is sent to it */
			if (!move_head(head, tail_))
				continue;
			for (std::uint32_t units; head != tail_; head += units) {
				treadle_lane_msg *const from = at(head);
				const treadle_lane_msg message = {load(from->len),
								  load(from->flags),
								  load(from->tag),
								  load(from->data)};
				const bool pad = message.flags & TREADLE_LANE_PAD;

				units = units_within(head, tail_, message.len);
				if (!units || (!pad && message.len > TREADLE_LANE_LONGEST))
					[[unlikely]]
					break;
				if (!pad && !(shut && head == last_))
					resend(message, bytes_of(from));
			}
			head_ = tail_;
			return true;
		}
		return !shut;
	}
	/* So many messages take_back may find, at most. */
	std::uint32_t waiting() noexcept
	{
		if (empty())
			return 0;
		return tail_ - head_ < most_ ? static_cast<std::uint32_t>(tail_ - head_) : most_;
	}

private:
	void read_head() noexcept { head_ = load(lane_->head, std::memory_order_acquire); } /* R */
	bool has_room(std::uint32_t units) noexcept
	{
		return tail_ + units <= limit_ || find_room(units);
	}
	[[gnu::noinline]] bool find_room(std::uint32_t units) noexcept
	{
		read_head();
		/* none also if the receiver has written nonsense there */
		limit_ = tail_ - head_ <= most_ ? head_ + most_ : tail_;
		return tail_ + units <= limit_;
	}
	/* At tail_. */
	treadle_lane_msg *write(std::uint32_t flags, std::uint64_t tag, std::uint64_t data,
				std::uint32_t len) const noexcept
	{
		treadle_lane_msg *const message = at(tail_);

		message->len = len;
		message->flags = flags;
		message->tag = tag;
		message->data = data;
		return message;
	}
	[[gnu::always_inline]] Put publish(std::uint32_t units) noexcept
	{
		const std::uint64_t tail = tail_ + units;

		tail_ = tail;
		std::atomic_ref(lane_->tail).store(tail, std::memory_order_release); /* Q */
		std::atomic_thread_fence(std::memory_order_seq_cst);		     /* P */
		if (open()) [[likely]]
			return Put::done;
		last_ = tail - units;
		shut_ = true;
		return Put::shut;
	}

	std::uint64_t tail_ = 0, head_ = 0; /* head_: as it was last read */
	std::uint64_t limit_ = 0;	    /* there is room up to here, at least */
	std::uint64_t last_ = 0; /* where the message lies that was put when it was shut */
	std::uint32_t most_ = 0;
	bool shut_ = false;
};

/* The receiver's end: one thread at a time. */
class LaneReader : public LaneMemory
{
public:
	LaneReader() = default;
	explicit LaneReader(std::byte *at) noexcept : LaneMemory(at) {}

	/*
	 * A lane that is closed is read to its end afterwards: what is there then is all. What the
	 * sender has put, and taken back, since is passed over: its bytes belong to no receive. Not
	 * between look and take.
	 */
	void open() noexcept
	{
		head_ = tail_ = load(lane_->head, std::memory_order_acquire); /* R */
		set_state(TREADLE_LANE_OPEN);
	}
	void close() noexcept
	{
		set_state(0);
		std::atomic_thread_fence(std::memory_order_seq_cst); /* P */
	}
	/* The sender has closed its end: what is there now is all. */
	bool gone() const noexcept { return load(lane_->gone, std::memory_order_acquire); }
	/* The sender has written what is no message. */
	bool broken() const noexcept { return broken_; }

	struct Message {
		std::uint32_t len, flags;
		std::uint64_t tag, data;
		const std::byte *bytes; /* change at any time: copy, then take */
		std::uint32_t units;
	};
	/* Sees what is there now. False: nothing. */
	bool refresh() noexcept
	{
		tail_ = load(lane_->tail, std::memory_order_acquire); /* Q */
		return more();
	}
	/* Is there more of what was seen? */
	bool more() const noexcept { return head_ != tail_; }
	/*
	 * Looks at the next message. The copies of its fields are right, and its bytes can be
	 * copied, but it may have been taken back: take() tells. Each word is read once. False:
	 * there is no message: skip() has to follow.
	 */
	[[gnu::always_inline]] bool look(Message &message) const noexcept
	{
		treadle_lane_msg *const from = at(head_);
		const std::uint32_t len = load(from->len), flags = load(from->flags);
		std::uint32_t units = 1;

		if (len != 8) [[unlikely]] { /* a pad never has 8 */
			units = units_within(head_, tail_, len);
			if (!units || len > TREADLE_LANE_LONGEST || flags & TREADLE_LANE_PAD)
				return false;
		}
		message = {.len = len,
			   .flags = flags,
			   .tag = load(from->tag),
			   .data = load(from->data),
			   .bytes = bytes_of(from),
			   .units = units};
		return tail_ - head_ <= TREADLE_LANE_UNITS;
	}
	/*
	 * After look() has said that there is no message. True: a pad was skipped, or messages were
	 * taken back. False: the sender has written nonsense, and nothing can be read.
	 */
	[[gnu::noinline]] bool skip() noexcept
	{
		std::atomic_thread_fence(std::memory_order_acquire);
		std::uint64_t head = load(lane_->head, std::memory_order_acquire);

		if (head == head_) {
			treadle_lane_msg *const pad = at(head);
			std::uint32_t units = 0;

			if (load(pad->flags) & TREADLE_LANE_PAD &&
			    tail_ - head <= TREADLE_LANE_UNITS)
				units = units_within(head, tail_, load(pad->len));
			std::atomic_thread_fence(std::memory_order_acquire);
			broken_ = !units && load(lane_->head) == head;
			if (broken_)
				return false;
			if (units && move_head(head, head + units)) {
				head_ = head + units;
				return true;
			}
		}
		follow(head);
		return true;
	}
	/* False: the sender has taken it back, and what was copied means nothing. */
	bool take(const Message &message) noexcept
	{
		std::uint64_t head = head_;
		const std::uint64_t next = head + message.units;

		if (move_head(head, next)) [[likely]] {
			head_ = next;
			return true;
		}
		follow(head);
		return false;
	}

private:
	void set_state(std::uint32_t state) noexcept
	{
		__u32 now = load(lane_->state);

		/* the kernel's word is final */
		while (now != TREADLE_LANE_CLOSED &&
		       !std::atomic_ref(lane_->state)
				.compare_exchange_weak(now, state, std::memory_order_release))
			;
	}
	/* The head is there: messages were taken back. It only goes on, up to what was seen. */
	[[gnu::noinline]] void follow(std::uint64_t head) noexcept
	{
		if (tail_ - head >= tail_ - head_)
			tail_ = head;
		head_ = head;
	}

	std::uint64_t head_ = 0, tail_ = 0; /* as they were last known */
	bool broken_ = false;
};

} // namespace treadle::detail

#endif
