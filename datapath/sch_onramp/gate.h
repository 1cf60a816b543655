/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * What the gate decides about a flow, apart from how its packets are kept: whose turn it is,
 * when a packet may leave, at what pace it goes on after a hold, and how long a program is
 * obeyed. The module and the eBPF program are both built on it.
 *
 * Pure: time comes in as @now. Times are nanoseconds of CLOCK_MONOTONIC. Freestanding.
 */
#ifndef GATE_H
#define GATE_H

#include <linux/types.h>
#include "pkt_sched_onramp.h"

#define GATE_INLINE static inline __attribute__((always_inline))
/* Machines of 32 bits have no such instruction. */
#ifdef __KERNEL__
#include <linux/math64.h>
#define gate_divide(a, b) div64_u64(a, b)
#else
#define gate_divide(a, b) ((a) / (b))
#endif

/* A flow without packets is forgotten after this. */
#define GATE_IDLE_NS 3000000000ULL
/* A flow is paced until it has not been held for so long: many round trips. */
#define GATE_PACED_NS 10000000ULL
/* TCP is not paced while it keeps no more memory for what it sends (sk_wmem_queued). Its rate is its window in a round
 * trip. What is so short may be an answer, whose round trips include the time until the application's next request. */
#define GATE_SHORT_BYTES (32 << 10)
/* A socket that asked for a rate (SO_MAX_PACING_RATE) waits no longer between two packets, as with fq. */
#define GATE_GAP_NS 1000000000ULL
/* A departure time further ahead is a receive stamp in the wall clock's time, not a
 * departure time: forwarded packets may carry one. */
#define GATE_HORIZON_NS 10000000000ULL
/* Memory that a packet counts with beside its bytes: the kernel's structures for it. */
#define GATE_PACKET_BYTES 768
/* All gates of a host share one limit on memory. Each takes of it in such pieces, so that what they have in common is
 * not written for every packet, and keeps two at most when it needs less: these it has when another took the rest. */
#define GATE_PIECE (64U << 10)
/* Questions, flows that get a turn again, and flows passed over, in one dequeue, which holds the
 * device's lock; the rest follow in the next. */
#define GATE_QUESTIONS 32
#define GATE_WAKES 64
#define GATE_PASSES 1024

/**
 * struct gate_flow - what is remembered of a flow
 * @held_since: the program has held the first data packet since then; 0: it has not
 * @free_until: the program is not obeyed until then
 * @paced_until: its packets are paced until then
 * @next_at: while they are, the next one leaves no sooner
 * @ready_since: it waits for nothing but its turn and the device since then
 * @late_at: CoDel: packets have stood for too long if the one that is first then has; 0: the last one had not
 * @drop_at: while it drops, the next packet is dropped then
 * @dropping: it does
 * @dropped: packets, since it began to drop
 * @dropped_before: as many when it began last
 * @root: 2^32 / sqrt(@dropped)
 * @credit: bytes it may still send in this turn
 */
struct gate_flow {
	__u64 held_since;
	__u64 free_until;
	__u64 paced_until;
	__u64 next_at;
	__u64 ready_since;
	__u64 late_at;
	__u64 drop_at;
	__u32 dropped;
	__u32 dropped_before;
	__u32 root;
	__u32 dropping;
	__s32 credit;
};

/*
 * Whether a new flow gets a place of its own, with @flows of at most @most there. If not, it shares the one of all
 * such flows, where @shared packets are of flows with its hash: one may be its own, which must not be overtaken.
 */
GATE_INLINE int gate_has_place(__u32 flows, __u32 most, __u32 shared)
{
	return flows < most && !shared;
}

/* What so many packets of so many bytes count with. */
GATE_INLINE __u64 gate_memory(__u64 bytes, __u64 packets)
{
	return bytes + packets * GATE_PACKET_BYTES;
}

/* What a gate with @granted asks for first, where it needs @memory. If there is less, it asks for what it needs. */
GATE_INLINE __u64 gate_asks(__u64 memory, __u64 granted)
{
	return (memory - granted + GATE_PIECE - 1) / GATE_PIECE * GATE_PIECE;
}

/* What a gate with @granted gives back, where it needs @memory. */
GATE_INLINE __u64 gate_gives(__u64 memory, __u64 granted)
{
	return granted > memory + 2 * GATE_PIECE ? granted - memory - GATE_PIECE : 0;
}

/* What becomes of the flow at the head of its list. */
enum gate_turn {
	GATE_SENDS,
	GATE_GOES_BACK, /* to the end of the flows that were there before */
	GATE_RETIRES,
};

/*
 * Deficit round robin; flows that were idle first, as in fq_codel. A flow without packets loses
 * its place: a new one among the old, if there are @others, so that coming and going does not put
 * it before them every time; an old one altogether.
 */
GATE_INLINE enum gate_turn gate_turn(struct gate_flow *f, int packets, int is_new, int others, __u32 quantum)
{
	if (!packets)
		return is_new && others ? GATE_GOES_BACK : GATE_RETIRES;
	if (f->credit > 0)
		return GATE_SENDS;
	f->credit += quantum;
	return GATE_GOES_BACK;
}

/*
 * CoDel (RFC 8289), where packets of a flow stand for longer than a target because of the device: not while program or
 * pacing have them wait. Times of packets are in units of 1024 ns, and those of the dequeue before they came: until then they
 * cannot have stood, and it costs no look at the clock.
 */
#define GATE_STAMP(now) ((__u32)((now) >> 10))
#define GATE_INTERVAL(target) (20 * (target))
/* The interval's square root law in 64 bits takes no more. */
#define GATE_TARGET_MOST 100000000ULL

/* For how long the first packet has stood, which came at @stamp. */
GATE_INLINE __u64 gate_stood(const struct gate_flow *f, __u32 stamp, __u64 now)
{
	__u64 stood = (__u64)(GATE_STAMP(now) - stamp) << 10, ready = now > f->ready_since ? now - f->ready_since : 0;

	return ready < stood ? ready : stood;
}

/* Whether the flow's first packet, of @packets, is for CoDel to see. */
GATE_INLINE int gate_is_late(const struct gate_flow *f, __u32 packets, __u32 stamp, __u64 now, __u64 target)
{
	return target && (f->late_at || (packets > 1 && gate_stood(f, stamp, now) >= target));
}

/* @dropped has changed: one step of Newton's for the root, as in the kernel's codel_impl.h. */
GATE_INLINE void gate_root(struct gate_flow *f)
{
	__u64 square = (__u64)f->root * f->root >> 32;

	f->root = ((3ULL << 32) - f->dropped * square) / 4 * f->root >> 31;
}

/* Whether such a packet is to be dropped, or marked. */
GATE_INLINE int gate_tells(struct gate_flow *f, __u32 packets, __u32 stamp, __u64 now, __u64 target)
{
	__u32 lately = f->dropped - f->dropped_before;

	/* The last packet has nobody behind it. */
	if (packets <= 1 || gate_stood(f, stamp, now) < target) {
		f->late_at = 0;
		f->dropping = 0;
		return 0;
	}
	if (!f->late_at) {
		f->late_at = now + GATE_INTERVAL(target);
		return 0;
	}
	if (now < f->late_at)
		return 0;
	if (f->dropping) {
		if (now < f->drop_at)
			return 0;
		f->dropped++;
		gate_root(f);
	} else {
		f->dropping = 1;
		/* It goes on at the pace at which it ended, if that is not long ago. */
		if (lately > 1 && now - f->drop_at < 16 * GATE_INTERVAL(target)) {
			f->dropped = lately;
			gate_root(f);
		} else {
			f->dropped = 1;
			f->root = ~0U;
		}
		f->dropped_before = f->dropped;
		f->drop_at = now;
	}
	f->drop_at += GATE_INTERVAL(target) * f->root >> 32;
	return 1;
}

/* The first packet is dropped: for the next one a hold begins anew. */
GATE_INLINE void gate_dropped(struct gate_flow *f, __u64 now, struct tc_onramp_xstats *stats)
{
	stats->codel_drops++;
	if (f->held_since)
		stats->held_ns += now - f->held_since;
	f->held_since = 0;
}

/* When the first packet, with a departure time of @at or 0, may leave as far as its pacing goes. */
GATE_INLINE __u64 gate_departure(const struct gate_flow *f, __u64 at, __u64 now, struct tc_onramp_xstats *stats)
{
	if (at > now && at - now > GATE_HORIZON_NS) {
		stats->no_time++;
		at = 0;
	}
	if (at < f->next_at)
		at = f->next_at;
	return at > now ? at : now;
}

/* When the first packet leaves, which the program would have wait for @wait > 0 from @now on. */
GATE_INLINE __u64 gate_held(struct gate_flow *f, __u32 wait, __u64 now, __u64 max_hold, struct tc_onramp_xstats *stats)
{
	__u64 until;

	if (now < f->free_until)
		return now;
	if (!f->held_since) {
		f->held_since = now;
		stats->held++;
	}
	if (now - f->held_since >= max_hold) {
		/* Or a program that always holds would let go of one packet each max_hold. */
		f->free_until = now + max_hold;
		stats->max_hold++;
		return now;
	}
	until = now + wait;
	return until < f->held_since + max_hold ? until : f->held_since + max_hold;
}

/*
 * The first packet, of so many @bytes, leaves @now; @rate is its socket's pacing rate in bytes a
 * second, or 0. The next one of a flow that was held, or whose socket @asked for it, follows at that rate.
 */
GATE_INLINE void gate_leaves(struct gate_flow *f, __u32 bytes, __u64 rate, int asked, __u64 now,
			     __u64 max_hold, struct tc_onramp_xstats *stats)
{
	__u64 held_since = f->held_since, gap, late;

	if (held_since) {
		f->paced_until = now + GATE_PACED_NS;
		stats->held_ns += now - held_since;
		f->held_since = 0;
	}
	if (!rate || (!asked && now >= f->paced_until))
		return;
	if (asked)
		max_hold = GATE_GAP_NS;
	gap = gate_divide((__u64)bytes * 1000000000ULL, rate);
	if (gap > max_hold)
		gap = max_hold;
	/* A timer that fired late is made up for, a hold is not. */
	late = f->next_at && !held_since ? now - f->next_at : 0;
	f->next_at = now + gap - (late < gap / 2 ? late : gap / 2);
}

#endif
