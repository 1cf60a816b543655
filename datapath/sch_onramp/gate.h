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
/* A socket that asked for a rate (SO_MAX_PACING_RATE) waits no longer between two packets, as with fq. */
#define GATE_GAP_NS 1000000000ULL
/* A departure time further ahead is a receive stamp in the wall clock's time, not a
 * departure time: forwarded packets may carry one. */
#define GATE_HORIZON_NS 10000000000ULL
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
 * @credit: bytes it may still send in this turn
 */
struct gate_flow {
	__u64 held_since;
	__u64 free_until;
	__u64 paced_until;
	__u64 next_at;
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
