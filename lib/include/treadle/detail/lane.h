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
	 * Copies the message at index, each word read once. Its units; 0: it is not one that lies
	 * before the end, or before `end`.
	 */
	std::uint32_t copy(std::uint64_t index, std::uint64_t end,
			   treadle_lane_msg &message) const noexcept
	{
		treadle_lane_msg *const from = at(index);

		message = {load(from->len), load(from->flags), load(from->tag), load(from->data)};
		if (message.len > (message.flags & TREADLE_LANE_PAD ?
					   TREADLE_LANE_UNITS * TREADLE_LANE_UNIT :
					   TREADLE_LANE_LONGEST)) [[unlikely]]
			return 0;
		const std::uint32_t units = units_of(message.len);
		return units <= end - index && units <= TREADLE_LANE_UNITS - slot_of(index) ?
			       units :
			       0;
	}
	bool move_head(std::uint64_t from, std::uint64_t to) const noexcept
	{
		__u64 expected = from;

		return std::atomic_ref(lane_->head)
			.compare_exchange_strong(expected, to, std::memory_order_acq_rel); /* R */
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

		if (tail_ - head_ + pad + units > most_) [[unlikely]] {
			read_head();
			/* also if the receiver has written nonsense there */
			if (tail_ - head_ + pad + units > most_)
				return Put::full;
		}
		if (pad) [[unlikely]]
			write(tail_, TREADLE_LANE_PAD, 0, 0,
			      pad * TREADLE_LANE_UNIT -
				      static_cast<std::uint32_t>(sizeof(treadle_lane_msg)));
		last_ = tail_ + pad;
		treadle_lane_msg *const to = write(last_, flags, tag, data, len);
		if (len == 8) [[likely]]
			std::memcpy(bytes_of(to), bytes, 8);
		else if (len)
			std::memcpy(bytes_of(to), bytes, len);
		tail_ = last_ + units;
		std::atomic_ref(lane_->tail).store(tail_, std::memory_order_release); /* Q */
		std::atomic_thread_fence(std::memory_order_seq_cst);		      /* P */
		if (open()) [[likely]]
			return Put::done;
		shut_ = true;
		return Put::shut;
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
				treadle_lane_msg message;

				units = copy(head, tail_, message);
				if (!units) [[unlikely]]
					break;
				if (!(message.flags & TREADLE_LANE_PAD) && !(shut && head == last_))
					resend(message, bytes_of(at(head)));
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
	treadle_lane_msg *write(std::uint64_t index, std::uint32_t flags, std::uint64_t tag,
				std::uint64_t data, std::uint32_t len) noexcept
	{
		treadle_lane_msg *const message = at(index);

		message->len = len;
		message->flags = flags;
		message->tag = tag;
		message->data = data;
		return message;
	}

	std::uint64_t tail_ = 0, head_ = 0; /* head_: as it was last read */
	std::uint64_t last_ = 0;	    /* where the last message lies */
	std::uint32_t most_ = 0;
	bool shut_ = false;
};

/* The receiver's end: one thread at a time. */
class LaneReader : public LaneMemory
{
public:
	LaneReader() = default;
	explicit LaneReader(std::byte *at) noexcept : LaneMemory(at) {}

	/* A lane that is closed is read to its end afterwards: what is there then is all. */
	void open() noexcept { set_state(TREADLE_LANE_OPEN); }
	void close() noexcept
	{
		set_state(0);
		std::atomic_thread_fence(std::memory_order_seq_cst); /* P */
	}
	/* The sender has closed its end: what is there now is all. */
	bool gone() const noexcept { return load(lane_->gone, std::memory_order_acquire); }
	/* The sender has written what is no message. Nothing can be read any more. */
	bool broken() const noexcept { return broken_; }

	struct Message : treadle_lane_msg {
		const std::byte *bytes; /* change at any time: copy, then take */
		std::uint64_t index;
		std::uint32_t units;
	};
	/*
	 * Looks at the next message. The copies of its fields are right, and its bytes can be
	 * copied, but it may have been taken back: take() tells.
	 */
	bool look(Message &message) noexcept
	{
		if (load(lane_->tail, std::memory_order_acquire) == head_) [[likely]] /* Q */
			return false;
		return find(message);
	}
	/* False: the sender has taken it back, and what was copied means nothing. */
	bool take(const Message &message) noexcept
	{
		if (!move_head(message.index, message.index + message.units)) [[unlikely]]
			return false;
		head_ = message.index + message.units;
		return true;
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
	/* Each pass finds another head, that is, another take-back. */
	bool find(Message &message) noexcept
	{
		for (int passes = 0; !broken_ && passes < 16; ++passes) {
			const std::uint64_t head = load(lane_->head, std::memory_order_acquire);
			const std::uint64_t tail =
				load(lane_->tail, std::memory_order_acquire); /* Q */

			head_ = head;
			if (head == tail)
				return false;
			message.index = head;
			message.units =
				tail - head <= TREADLE_LANE_UNITS ? copy(head, tail, message) : 0;
			message.bytes = bytes_of(at(head));
			if (message.units && !(message.flags & TREADLE_LANE_PAD)) [[likely]]
				return true;
			std::atomic_thread_fence(std::memory_order_acquire);
			if (message.units)
				take(message);
			else if (load(lane_->head) == head)
				broken_ = true;
		}
		return false;
	}

	std::uint64_t head_ = 0; /* as it was last known */
	bool broken_ = false;
};

} // namespace treadle::detail

#endif
