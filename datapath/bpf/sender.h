/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* The sending side: what leaves. */
#ifndef SENDER_H
#define SENDER_H

/* Packets chosen in one segment: 64 KiB of TCP at the shortest interval, and its end. */
#define SENDER_MAX_STAMPS 65

/* Nanoseconds after the start of a segment at which its byte @offset leaves. */
OR_INLINE or_u64 sender_lag(const struct or_config *config, or_u32 offset)
{
	return (or_u64)offset * config->segment_rate >> 16;
}

/* A packet sent again within this time makes its OR-ACK ambiguous: it may be for either (RFC 6298 §3). */
#define SENDER_AMBIGUOUS 100000000ULL

/* Remembers the stamp of the packet that @seq names; returns how many are kept: 1, or 0. */
OR_INLINE or_u32 sender_keep(struct or_stamp_key *key, or_u32 seq, const struct onramp_stamp *stamp, or_u64 lag)
{
	struct onramp_stamp kept = { .time = stamp->time + lag, .paused = stamp->paused };
	struct onramp_stamp *before;
	long failed;

	key->seq = seq;
	before = bpf_map_lookup_elem(&stamps, key);
	if (before && kept.time - before->time < SENDER_AMBIGUOUS)
		kept.paused = OR_SENT_AGAIN;
	failed = bpf_map_update_elem(&stamps, key, &kept, BPF_ANY);
	if (failed)
		count(OR_TABLE_FULL, 1);
	/* Not by a branch: the verifier would follow a loop of these for every number that they may add up to. */
	return 1 + (failed >> 63);
}

/*
 * Keeps the stamps of those packets of a segment that the receiver will acknowledge.
 * Sender and receiver choose alike without a word: bytes at multiples of the
 * interval, and the last byte of a burst. A few hundred stamps so cover megabytes.
 * Returns how many were kept.
 */
OR_INLINE or_u32 sender_keep_tcp(const struct or_packet *packet, const struct or_config *config,
				 const struct onramp_stamp *stamp)
{
	or_u32 shift = config->interval_shift & 31;
	or_u32 at = packet_next_multiple(packet->seq, shift), last = packet->payload - 1, kept = 0;
	struct or_stamp_key key;
	int i;

	if (at > last && !packet->push)
		return 0;
	key.flow = packet->flow;
	or_for(i, SENDER_MAX_STAMPS) {
		or_u32 here = at + ((or_u32)i << shift);

		if (here > last)
			break;
		kept += sender_keep(&key, packet->seq + here, stamp, sender_lag(config, here));
	}
	if (packet->push && (packet->seq + last) & ((1U << shift) - 1))
		kept += sender_keep(&key, packet->seq + last, stamp, sender_lag(config, last));
	return kept;
}

OR_INLINE or_u32 sender_keep_udp(struct or_skb *skb, const struct or_packet *packet,
				 const struct or_config *config, const struct onramp_stamp *stamp)
{
	or_u32 size = skb_gso_size(skb) ? skb_gso_size(skb) : packet->payload;
	or_u32 kept = 0, id;
	struct or_stamp_key key = { .flow = packet->flow };
	int i;

	or_for(i, SENDER_MAX_STAMPS) {
		or_u32 at = i * size, length = packet->payload - at < size ? packet->payload - at : size;

		if (at >= packet->payload)
			break;
		id = packet_udp_id(skb, packet->payload_at + at, length);
		if (packet_udp_chosen(id, config->interval_shift))
			kept += sender_keep(&key, id, stamp, sender_lag(config, at));
	}
	return kept;
}

/* The path's present window. */
OR_INLINE struct or_window *path_window(struct or_path *path, or_u64 now)
{
	or_u64 number = now >> OR_WINDOW_SHIFT;
	struct or_window *window = &path->windows[number & 1];

	if (window->number != number)
		*window = (struct or_window){ .number = number };
	return window;
}

/*
 * A flow to it has to wait until @release, if that is to come: time in which several do counts once. Not inline, and by its
 * number: the verifier follows it once, for whatever it is given.
 */
__attribute__((noinline)) int path_held(or_u32 number, or_u64 release, or_u64 now)
{
	struct or_path *path = bpf_map_lookup_elem(&paths, &number);

	if (!path || release <= now || release <= path->held_until)
		return 0;
	path_window(path, now)->held += release - (path->held_until > now ? path->held_until : now);
	path->held_until = release;
	return 0;
}

/* The algorithm's parameters on a path: T follows its least delay and what clocks are good for. */
OR_INLINE struct onramp_params sender_params(const struct or_config *config, const struct or_peer *peer,
					     const struct or_path *path)
{
	struct onramp_params params = config->params;
	or_u64 threshold = (path->least > 0 ? (or_u64)path->least : 0) + peer->uncertainty;

	if (config->flags & OR_T_FOLLOWS && path->or_acks && threshold > params.threshold)
		params.threshold = threshold;
	return params;
}

/* A new flow, or one that starts anew: it takes up what its path knows. */
OR_INLINE void sender_start(struct onramp_flow *state, const struct onramp_params *params,
			    const struct or_path *path, or_u64 now)
{
	onramp_start(state, params, now, path->owd, path->owd_at);
}

OR_INLINE struct or_flow *sender_flow(struct or_skb *skb, const struct or_packet *packet,
				      const struct onramp_params *params, const struct or_path *path, or_u64 now)
{
	struct or_flow *flow = bpf_map_lookup_elem(&flows, &packet->flow);
	struct or_flow own, *fresh = skb_room(skb, &own);

	if (flow)
		return flow;
	__builtin_memset(fresh, 0, sizeof(*fresh));
	onramp_init(&fresh->state, params, now);
	sender_start(&fresh->state, params, path, now);
	fresh->last_sent = now;
	if (bpf_map_update_elem(&flows, &packet->flow, fresh, BPF_NOEXIST))
		count(OR_TABLE_FULL, 1);
	return bpf_map_lookup_elem(&flows, &packet->flow);
}

/*
 * No pause is asserted or unsettled, and the flow was not idle: a stamp can be taken without
 * a change of its state, and so without its lock. The gate alone writes the other fields.
 */
OR_INLINE or_u32 sender_is_free(const struct or_flow *flow, const struct or_config *config, or_u64 now)
{
	return flow->state.t_next <= flow->state.as_of && !flow->held_since && now - flow->last_sent <= config->idle;
}

/* Whether the segment is to leave in packets: it has some, and its path is congested. */
OR_INLINE or_u32 sender_cuts(const struct or_skb *skb, const struct or_config *config,
			     const struct onramp_params *params, const struct or_path *path, or_u64 now)
{
	return SKB_CAN_BE_CUT && config->flags & OR_CUT && skb_gso_segs(skb) > 1 && path->owd > 0 &&
	       (or_u64)path->owd > params->threshold && now - path->owd_at < config->idle;
}

/*
 * A packet is about to leave, @now. Returns for how long it has to wait, or that it has to be
 * cut; 0 if it leaves now, in which case it has been stamped.
 */
OR_INLINE or_u32 sender_departs(struct or_skb *skb, or_u32 mode, or_u64 now)
{
	or_u64 release, pause = 0;
	struct or_config *config = config_at(now);
	struct onramp_params params;
	struct onramp_stamp stamp;
	struct or_packet packet;
	struct flow_lock *lock;
	struct scope scope;
	struct or_flow *flow;
	struct or_peer *peer;
	struct or_path *path;
	or_u32 stopped = 0, paused = 0, in_scope, holds;

	if (!config)
		return 0;
	if (!packet_parse(skb, &packet)) {
		count(OR_UNPARSED, 1);
		return 0;
	}
	if (packet_is_ours(&packet, config)) {
		prober_departs(skb, &packet, config, now);
		return 0;
	}
	/* What carries no data says nothing of congestion, and may not be held: ACKs. */
	if (!packet.payload || packet_is_urgent(&packet) || !(config->flags & OR_CLOCK_KNOWN))
		return 0;
	peer = bpf_map_lookup_elem(&peers, &packet.flow.destination);
	if (!peer || !(peer->flags & OR_PEER_CLOCK_KNOWN))
		return 0;
	path = bpf_map_lookup_elem(&paths, &peer->path);
	if (!path)
		return 0;
	params = sender_params(config, peer, path);
	scope = scope_of(skb, &packet, config);
	in_scope = scope.rule & SCOPE_HOLDS;
	holds = in_scope && mode == OR_MODE_ENFORCE && config->mode == OR_MODE_ENFORCE && !(peer->flags & OR_PEER_FREE);
	if (holds && sender_cuts(skb, config, &params, path, now))
		return ONRAMP_CUT;
	flow = sender_flow(skb, &packet, &params, path, now);
	if (!flow)
		return 0;
	if (sender_is_free(flow, config, now)) {
		stamp = (struct onramp_stamp){ .time = now, .paused = flow->state.paused };
		flow->last_sent = now;
		flow->bytes += packet.payload;
		goto left;
	}
	lock = flow_lock(&packet.flow);
	if (!lock)
		return 0;

	bpf_spin_lock(&lock->lock);
	if (now - flow->last_sent > config->idle && now > flow->state.t_next && !flow->held_since)
		sender_start(&flow->state, &params, path, now);
	release = onramp_release(&flow->state, now);
	flow->free = !in_scope;
	if (release > now && !flow->held_since) {
		flow->held_since = now;
		flow->pauses += stopped = !!in_scope;
	}
	if (release > now && holds) {
		bpf_spin_unlock(&lock->lock);
		path_held(peer->path, release, now);
		if (stopped)
			count(OR_HELD, 1);
		/* A pause is far shorter than the 2 s that fit. */
		return release - now >= ONRAMP_CUT ? ONRAMP_CUT - 1 : (or_u32)(release - now);
	}
	paused = release > now || (holds && flow->held_since);
	if (flow->held_since && release <= now) {
		/* While only watching, the pause is over before a packet comes that tells. */
		pause = onramp_sat_sub(holds ? now : flow->state.t_next, flow->held_since);
		if (in_scope)
			flow->held += pause;
		flow->held_since = 0;
	}
	stamp = onramp_stamp_packet(&flow->state, now);
	flow->last_sent = now;
	flow->bytes += packet.payload;
	bpf_spin_unlock(&lock->lock);

	if (stopped)
		count(OR_HELD, 1);
	/* What a rule lets go is not held in vain: bounds.rs judges the path by the others. */
	if (in_scope)
		path_held(peer->path, release, now);
left:
	scope_count(&scope, packet.payload, paused, pause);
	count_sent(packet.payload, packet.flow.protocol == IPPROTO_TCP ?
		   sender_keep_tcp(&packet, config, &stamp) : sender_keep_udp(skb, &packet, config, &stamp));
	return 0;
}

#endif
