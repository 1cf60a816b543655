/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* The sending side: what comes back about what has left. */
#ifndef ACKED_H
#define ACKED_H

OR_INLINE or_u32 sender_bucket(or_s64 owd)
{
	or_u64 x = owd < 0 ? 0 : (or_u64)owd;
	or_u32 octave = 0;

	if (x < 1ULL << OR_OWD_FIRST_SHIFT)
		return 0;
	x >>= OR_OWD_FIRST_SHIFT - OR_OWD_SUB_SHIFT;
	if (x >> (16 + OR_OWD_SUB_SHIFT))
		x >>= 16, octave += 16;
	if (x >> (8 + OR_OWD_SUB_SHIFT))
		x >>= 8, octave += 8;
	if (x >> (4 + OR_OWD_SUB_SHIFT))
		x >>= 4, octave += 4;
	if (x >> (2 + OR_OWD_SUB_SHIFT))
		x >>= 2, octave += 2;
	if (x >> (1 + OR_OWD_SUB_SHIFT))
		x >>= 1, octave += 1;
	octave = (octave << OR_OWD_SUB_SHIFT) + (x & ((1 << OR_OWD_SUB_SHIFT) - 1));
	return octave < OR_OWD_BUCKETS ? octave : OR_OWD_BUCKETS - 1;
}

/*
 * Whether a delay can be: it ended before its OR-ACK came, @took after the packet had left, and no
 * packet is faster than the path. Both up to what the clocks are good for. Returns the counter of
 * what is wrong with it, or OR_ACKS_RECEIVED.
 */
OR_INLINE enum or_counter sender_believes(struct or_path *path, const struct or_peer *peer, or_s64 owd,
					  or_u64 took, or_u64 now)
{
	or_s64 uncertainty = peer->uncertainty;

	if (owd > (or_s64)took + uncertainty)
		return OR_ACKS_TOO_LONG;
	if (owd + uncertainty < 0)
		return OR_ACKS_TOO_SHORT;
	if (path->renewed == peer->renewed && now - path->least_since > OR_LEAST_SETTLED &&
	    owd + uncertainty < path->least) {
		if (++path->shorter < OR_SHORTER)
			return OR_ACKS_TOO_SHORT;
	} else {
		path->shorter = 0;
	}
	return OR_ACKS_RECEIVED;
}

/* Counts are approximate where two CPUs learn of one path at once. */
OR_INLINE void sender_learn(struct or_path *path, const struct or_peer *peer, or_s64 owd, or_u64 now)
{
	struct or_window *window = path_window(path, now);
	or_u32 bucket = sender_bucket(owd);

	path->owd = owd;
	path->owd_at = now;
	if (!path->or_acks++ || path->renewed != peer->renewed || owd < path->least) {
		path->least = owd;
		path->least_since = now;
		path->renewed = peer->renewed;
	}
	path->owd_sum += owd;
	if (!window->or_acks++ || owd < window->least)
		window->least = owd;
	if (bucket < OR_OWD_BUCKETS)
		path->histogram[bucket]++;
}

/* The flow of an OR-ACK, as its data packets had it. */
OR_INLINE struct or_tuple sender_tuple(const struct orack *ack)
{
	struct or_tuple t = {
		.sport = ack->sport,
		.dport = ack->dport,
		.protocol = ack->protocol,
	};

	if (ack->family == ORACK_FAMILY_IPV4) {
		t.source = address_v4(get32(ack->saddr));
		t.destination = address_v4(get32(ack->daddr));
	} else {
		__builtin_memcpy(&t.source, ack->saddr, 16);
		__builtin_memcpy(&t.destination, ack->daddr, 16);
	}
	return t;
}

/*
 * An OR-ACK may have come in. It has an effect only if it says the truth about a packet
 * that was sent and not acknowledged before: from a known host, to which the packet went,
 * with its tag right. Returns what becomes of the packet: without the right tag it is
 * somebody else's.
 */
OR_INLINE int sender_acked(struct __sk_buff *skb, const struct or_packet *packet,
			   struct or_config *config, or_u64 now)
{
	struct or_stamp_key key = {};
	struct onramp_stamp stamp, *kept;
	struct onramp_params params;
	or_u8 payload[ORACK_LEN_IPV6];
	struct flow_lock *lock;
	struct or_flow *flow;
	struct or_peer *peer;
	struct or_path *path;
	struct orack ack;
	enum or_counter verdict;
	or_s64 owd;
	or_u32 wrong;

	peer = bpf_map_lookup_elem(&peers, &packet->flow.source);
	if (!peer) {
		count(OR_ACKS_UNKNOWN_PEER, 1);
		return TC_ACT_UNSPEC;
	}
	if (packet->payload == ORACK_LEN_IPV4) {
		if (bpf_skb_load_bytes(skb, packet->payload_at, payload, ORACK_LEN_IPV4))
			return TC_ACT_UNSPEC;
		wrong = orack_parse(payload, payload + ORACK_LEN_IPV4, &ack);
	} else if (packet->payload == ORACK_LEN_IPV6) {
		if (bpf_skb_load_bytes(skb, packet->payload_at, payload, ORACK_LEN_IPV6))
			return TC_ACT_UNSPEC;
		wrong = orack_parse(payload, payload + ORACK_LEN_IPV6, &ack);
	} else {
		wrong = ORACK_BAD_LENGTH;
	}
	if (wrong) {
		count(OR_ACKS_MALFORMED, 1);
		return TC_ACT_UNSPEC;
	}
	if (orack_tag(&ack, peer->key[0], peer->key[1]) != ack.tag &&
	    (!(peer->flags & OR_PEER_TWO_KEYS) || orack_tag(&ack, peer->other_key[0], peer->other_key[1]) != ack.tag)) {
		count(OR_ACKS_BAD_TAG, 1);
		return TC_ACT_UNSPEC;
	}
	key.flow = sender_tuple(&ack);
	key.seq = ack.seq;
	kept = bpf_map_lookup_elem(&stamps, &key);
	/* Only the host that got a packet can tell when. */
	if (!kept || !address_equal(&key.flow.destination, &packet->flow.source)) {
		count(OR_ACKS_NO_STAMP, 1);
		return TC_ACT_SHOT;
	}
	stamp = *kept;
	/* Once only: of two copies, also on two CPUs, one finds nothing to delete. */
	if (bpf_map_delete_elem(&stamps, &key)) {
		count(OR_ACKS_NO_STAMP, 1);
		return TC_ACT_SHOT;
	}
	if (!(peer->flags & OR_PEER_CLOCK_KNOWN) || !(config->flags & OR_CLOCK_KNOWN)) {
		count(OR_ACKS_NO_CLOCK, 1);
		return TC_ACT_SHOT;
	}
	if (stamp.paused == OR_SENT_AGAIN) {
		count(OR_ACKS_AMBIGUOUS, 1);
		return TC_ACT_SHOT;
	}
	path = bpf_map_lookup_elem(&paths, &peer->path);
	if (!path)
		return TC_ACT_SHOT;
	owd = (or_s64)(ack.time - clock_fleet(config, clock_departure(config, stamp.time))) -
	      clock_at(&peer->clock, ack.time);

	verdict = sender_believes(path, peer, owd, onramp_sat_sub(now, stamp.time), now);
	count(verdict, 1);
	if (verdict != OR_ACKS_RECEIVED) {
		path_window(path, now)->refused++;
		return TC_ACT_SHOT;
	}
	sender_learn(path, peer, owd, now);
	params = sender_params(config, peer, path);
	flow = bpf_map_lookup_elem(&flows, &key.flow);
	lock = flow_lock(&key.flow);
	if (!flow || !lock)
		return TC_ACT_SHOT;
	bpf_spin_lock(&lock->lock);
	onramp_acked(&flow->state, &params, now, stamp, owd);
	flow->or_acks++;
	bpf_spin_unlock(&lock->lock);
	return TC_ACT_SHOT;
}

#endif
