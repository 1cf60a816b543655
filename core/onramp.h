/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * On-Ramp: when may a flow send its next packet?
 *
 * After "Breaking the Transience-Equilibrium Nexus: A New Approach to
 * Datacenter Packet Transport", NSDI'21, section 3; equation numbers in this
 * file are that paper's. It is the only implementation: the eBPF data path,
 * the simulator and the tests all compile this file.
 *
 * Freestanding: integers only, no libc, no loop, no signed division, nothing
 * allocated. Needs 64-bit unsigned division, so a 64-bit target in the kernel.
 *
 * All times are nanoseconds of one sender clock that should not go back
 * (CLOCK_MONOTONIC). If it does, totals stay valid and no call asserts a pause
 * longer than the maximum. One-way delays are measured between two clocks and
 * may be negative.
 *
 * Callers serialise the calls on one flow.
 */
#ifndef ONRAMP_H
#define ONRAMP_H

#include "ortypes.h"

/* beta is a fraction in Q16: this is 1. */
#define ONRAMP_BETA_ONE 65536

/* The EWMA gain g is 2^-gain_shift. */
#define ONRAMP_GAIN_SHIFT_MIN 2
#define ONRAMP_GAIN_SHIFT_MAX 6
/* 1/16, the paper's choice (section 3.2). */
#define ONRAMP_GAIN_SHIFT_DEFAULT 4

/*
 * 1/4. The paper does not say. Mean RCT of its main scenario, beta starting at
 * 0, 1/4, 1/2, 1: DCQCN 43.9, 44.1, 45.4, 48.4 us; TIMELY 48.2, 48.4, 51.8,
 * 58.0 us; and from 1/4 large flows finish 3% sooner than from 0
 * (docs/algorithm.md).
 */
#define ONRAMP_BETA_START_DEFAULT 16384

/* Eq. 2 in place of eq. 4: beta is held at 0. */
#define ONRAMP_STRAWMAN 1
/*
 * An old OR-ACK counts, too. The paper does not say. Where paths keep the order
 * there is none and both choices give the same results to the byte; where they
 * do not, its delay is older news than what t_next already follows
 * (docs/algorithm.md).
 */
#define ONRAMP_COUNT_OLD 2
/*
 * A pause, once begun, lasts as long as was decided: an OR-ACK that comes during it
 * still updates beta, but does not move t_next. Not the paper's rule. With it, what was
 * under way when the pause began cannot prolong it, and a flow with a low beta is not
 * held several times as long as one with a high beta (docs/algorithm.md).
 */
#define ONRAMP_KEEP_PAUSE 4

/**
 * struct onramp_params - what an operator chooses, shared by many flows
 * @threshold: T, the one-way delay above which a flow pauses
 * @max_pause: no uninterrupted pause lasts longer. At most a few times T: a flow
 *   that is held for long sends nothing, learns nothing, and resumes blind. Twelve
 *   DCQCN flows at 100 Gb/s with T = 30 us settle around T with 100 us and mostly swing
 *   by a millisecond with 500 us (docs/algorithm.md).
 * @gain_shift: g = 2^-gain_shift, between the two limits above
 * @flags: ONRAMP_*
 * @beta_start: beta of a new flow, Q16
 * @reserved: 0
 */
struct onramp_params {
	or_u64 threshold;
	or_u64 max_pause;
	or_u32 gain_shift;
	or_u32 flags;
	or_u32 beta_start;
	or_u32 reserved;
};

/**
 * struct onramp_flow - one flow; a cache line
 * @t_next: the flow is paused while now < t_next
 * @paused: time spent paused up to @as_of
 * @as_of: latest time seen
 * @since: start of the present uninterrupted pause, if there is one
 * @last_owd: O_B, one-way delay of the black packet (the last one acked)
 * @last_paused: pause total when the black packet was sent
 * @last_sent: when the black packet was sent
 * @beta: gain of the control, Q16, at most ONRAMP_BETA_ONE
 * @seen: there is a black packet
 */
struct onramp_flow {
	or_u64 t_next;
	or_u64 paused;
	or_u64 as_of;
	or_u64 since;
	or_s64 last_owd;
	or_u64 last_paused;
	or_u64 last_sent;
	or_u32 beta;
	or_u32 seen;
};

/**
 * struct onramp_stamp - what the sender remembers of a packet it sent
 * @time: when it was sent
 * @paused: the flow's pause total at that time
 */
struct onramp_stamp {
	or_u64 time;
	or_u64 paused;
};

OR_INLINE or_u64 onramp_min(or_u64 a, or_u64 b)
{
	return a < b ? a : b;
}

OR_INLINE or_u64 onramp_sat_add(or_u64 a, or_u64 b)
{
	return a + b < a ? ~(or_u64)0 : a + b;
}

OR_INLINE or_u64 onramp_sat_sub(or_u64 a, or_u64 b)
{
	return a > b ? a - b : 0;
}

/*
 * x * beta, rounded down. Split in two so that the product of any x and a beta
 * of at most 1 fits in 64 bits.
 */
OR_INLINE or_u64 onramp_scale(or_u64 x, or_u32 beta)
{
	return (x >> 16) * beta + (((x & 0xffff) * beta) >> 16);
}

/* Time spent paused up to @now. Its differences are P_BG and P_LastPktRTT. */
OR_INLINE or_u64 onramp_paused_total(const struct onramp_flow *flow, or_u64 now)
{
	return flow->paused + onramp_sat_sub(onramp_min(now, flow->t_next), flow->as_of);
}

/*
 * Settles the total up to @now. Must come before any change of t_next: what is
 * past stays counted, whichever way t_next moves. A @now before as_of adds
 * nothing, so the total never shrinks.
 */
OR_INLINE void onramp_accrue(struct onramp_flow *flow, or_u64 now)
{
	flow->paused = onramp_paused_total(flow, now);
	if (now > flow->as_of)
		flow->as_of = now;
}

/*
 * Moves t_next to @until, or to the end of the longest allowed pause.
 *
 * A pause that starts in the instant the last one ends prolongs it. Where the
 * clock went back behind the start of the pause, the pause starts over.
 */
OR_INLINE void onramp_pause_until(struct onramp_flow *flow, const struct onramp_params *params,
				  or_u64 now, or_u64 until)
{
	onramp_accrue(flow, now);
	if (flow->t_next < now || now < flow->since)
		flow->since = now;
	flow->t_next = onramp_min(until, onramp_sat_add(flow->since, params->max_pause));
}

/* A new flow; not paused. */
OR_INLINE void onramp_init(struct onramp_flow *flow, const struct onramp_params *params, or_u64 now)
{
	flow->t_next = 0;
	flow->paused = 0;
	flow->as_of = now;
	flow->since = now;
	flow->last_owd = 0;
	flow->last_paused = 0;
	flow->last_sent = 0;
	flow->beta = params->flags & ONRAMP_STRAWMAN ? 0 :
		     (or_u32)onramp_min(params->beta_start, ONRAMP_BETA_ONE);
	flow->seen = 0;
}

/*
 * Gives a new flow what its path already knows: the one-way delay @owd, learnt
 * at @measured_at. The pause is the one eq. 2 would have asserted then; what is
 * left of it applies. Spares the first packets of an incast from going out
 * blind.
 */
OR_INLINE void onramp_start(struct onramp_flow *flow, const struct onramp_params *params,
			    or_u64 now, or_s64 owd, or_u64 measured_at)
{
	or_u64 until;

	if (owd <= 0 || (or_u64)owd <= params->threshold)
		return;
	until = onramp_sat_add(onramp_min(measured_at, now), (or_u64)owd - params->threshold);
	if (until > now)
		onramp_pause_until(flow, params, now, until);
}

/* To be kept for every packet whose OR-ACK may come back. Call when it leaves. */
OR_INLINE struct onramp_stamp onramp_stamp_packet(struct onramp_flow *flow, or_u64 now)
{
	struct onramp_stamp stamp;

	onramp_accrue(flow, now);
	stamp.time = now;
	stamp.paused = flow->paused;
	return stamp;
}

/*
 * beta_m = (O_B - O_G) / P_BG in Q16, clamped to [0, 1]; @p_bg > 0.
 *
 * Unsigned subtraction gives the exact difference of two signed numbers whose
 * order is known. A numerator too large to shift has its divisor shifted the
 * other way instead; the result is still at most 1.
 */
OR_INLINE or_u32 onramp_beta_m(or_s64 o_b, or_s64 o_g, or_u64 p_bg)
{
	or_u64 drop = (or_u64)o_b - (or_u64)o_g;

	if (o_b <= o_g)
		return 0;
	if (drop >= p_bg)
		return ONRAMP_BETA_ONE;
	if (drop >> 48)
		return (or_u32)(drop / (p_bg >> 16));
	return (or_u32)((drop << 16) / p_bg);
}

/*
 * Eq. 3: beta <- (1 - g) beta + g beta_m. The step is rounded towards 0, so
 * beta stays between its old value and beta_m.
 */
OR_INLINE or_u32 onramp_beta_step(or_u32 beta, or_u32 beta_m, or_u32 gain_shift)
{
	gain_shift &= 31; /* a shift by more is undefined */
	if (beta_m > beta)
		return beta + ((beta_m - beta) >> gain_shift);
	return beta - ((beta - beta_m) >> gain_shift);
}

/*
 * Is this OR-ACK no news? Either its packet was sent before the black one, or
 * it is the black packet's own OR-ACK again: same send time, same delay. (The
 * send time alone does not tell: a burst may be stamped in one nanosecond.)
 */
OR_INLINE or_u32 onramp_is_old(const struct onramp_flow *flow, struct onramp_stamp stamp, or_s64 owd)
{
	if (!flow->seen)
		return 0;
	return stamp.time < flow->last_sent ||
	       (stamp.time == flow->last_sent && owd == flow->last_owd);
}

/*
 * An OR-ACK came back at @now for the (green) packet sent with @stamp, whose
 * one-way delay was @owd. Updates beta by eq. 3, then t_next by eq. 4 (eq. 2
 * for the strawman). t_next may move either way: a newer measurement replaces
 * the older one's verdict. (Not so during a pause with ONRAMP_KEEP_PAUSE.)
 *
 * An old OR-ACK says nothing about the present beta: it is dropped, or with
 * ONRAMP_COUNT_OLD goes through eq. 4 only.
 */
OR_INLINE void onramp_acked(struct onramp_flow *flow, const struct onramp_params *params,
			    or_u64 now, struct onramp_stamp stamp, or_s64 owd)
{
	or_u64 until, excess, p_rtt, p_bg;
	or_u32 old, keep;

	onramp_accrue(flow, now);

	/* Acked before it was sent: the clock went back, send times are void. */
	if (now < flow->last_sent)
		flow->seen = 0;

	old = onramp_is_old(flow, stamp, owd);
	if (!old) {
		p_bg = onramp_sat_sub(stamp.paused, flow->last_paused);
		if (flow->seen && p_bg)
			flow->beta = onramp_beta_step(flow->beta,
						      onramp_beta_m(flow->last_owd, owd, p_bg),
						      params->gain_shift);
		flow->last_owd = owd;
		flow->last_paused = stamp.paused;
		flow->last_sent = stamp.time;
		flow->seen = 1;
	}
	if (params->flags & ONRAMP_STRAWMAN)
		flow->beta = 0;

	until = flow->t_next;
	keep = params->flags & ONRAMP_KEEP_PAUSE && now < flow->t_next;
	if (owd > 0 && !keep && (!old || params->flags & ONRAMP_COUNT_OLD)) {
		p_rtt = onramp_sat_sub(flow->paused, stamp.paused);
		excess = onramp_sat_sub((or_u64)owd, onramp_scale(p_rtt, flow->beta));
		if (excess > params->threshold)
			until = onramp_sat_add(now, excess - params->threshold);
	}
	onramp_pause_until(flow, params, now, until);
}

/* When a packet that may otherwise leave at @ready is let go. */
OR_INLINE or_u64 onramp_release(const struct onramp_flow *flow, or_u64 ready)
{
	return ready > flow->t_next ? ready : flow->t_next;
}

#endif
