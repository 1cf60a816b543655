/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* The receiving side: which packets are acknowledged, and how an OR-ACK is made. */
#ifndef RECEIVER_H
#define RECEIVER_H

#define RECEIVER_L4_IPV4 (ETH_HLEN + 20)
#define RECEIVER_L4_IPV6 (ETH_HLEN + 40)
#define RECEIVER_TTL 64
#define RECEIVER_DSCP 0xfc
/* Bytes of a packet that are copied without a thought. */
#define RECEIVER_COPIED 2048

/*
 * Which of the packet's bytes to acknowledge, by the rule of sender_keep_tcp(). Where
 * the kernel has joined packets, one OR-ACK speaks for all: for the last one chosen.
 */
OR_INLINE or_u32 receiver_chosen(struct __sk_buff *skb, const struct or_packet *packet,
				 const struct or_config *config, or_u32 *seq)
{
	or_u32 shift = config->interval_shift & 31, last;

	if (packet->flow.protocol == IPPROTO_UDP) {
		*seq = packet_udp_id(skb, packet->payload_at, skb->gso_size ? skb->gso_size : packet->payload);
		return packet_udp_chosen(*seq, shift);
	}
	last = packet->seq + packet->payload - 1;
	if (packet->push) {
		*seq = last;
		return 1;
	}
	*seq = last & ~((1U << shift) - 1);
	return last - *seq < packet->payload;
}

/*
 * An OR-ACK is made of a clone, which the kernel copies as a whole before it cuts it. Where packets
 * were joined, up to 64 KB, the OR-ACK waits for the ACK that TCP sends at once for two packets or
 * more (RFC 5681, 4.2), and is made of that.
 */
OR_INLINE or_u32 receiver_waits(const struct __sk_buff *skb, const struct or_packet *packet)
{
	return packet->flow.protocol == IPPROTO_TCP && skb->gso_segs > 1 && skb->len > RECEIVER_COPIED;
}

/*
 * Whether the flow gets an OR-ACK now: it has not heard of us lately, and the OR-ACK need not
 * wait. The one that waits is kept; if there is one already, no ACK has come, and none is waited for.
 */
OR_INLINE or_u32 receiver_now(const struct __sk_buff *skb, const struct or_packet *packet,
			      const struct or_config *config, or_u32 seq, or_u64 now)
{
	or_u64 received = clock_fleet(config, clock_arrival(config, now));
	struct heard fresh = { .at = now }, *heard = bpf_map_lookup_elem(&heard_of, &packet->flow);
	struct flow_lock *lock = flow_lock(&packet->flow);
	or_u32 waits = receiver_waits(skb, packet), answer;

	if (!lock)
		return 0;
	if (!heard) {
		if (waits)
			fresh = (struct heard){ now, received, seq, packet->class };
		bpf_map_update_elem(&heard_of, &packet->flow, &fresh, BPF_ANY);
		return !waits;
	}
	bpf_spin_lock(&lock->lock);
	if (now - heard->at < config->gap) {
		answer = 0;
	} else {
		answer = !waits || heard->received;
		heard->at = now;
		heard->received = answer ? 0 : received;
		heard->seq = seq;
		heard->class = packet->class;
	}
	bpf_spin_unlock(&lock->lock);
	return answer;
}

/* Sends an OR-ACK about a packet of @flow, made of a clone of @skb. */
OR_INLINE void receiver_say(struct __sk_buff *skb, const struct or_tuple *flow, const struct heard *what,
			    const struct or_peer *peer, const struct or_config *config, or_u32 away)
{
	or_u32 zero = 0;
	struct scratch *s = bpf_map_lookup_elem(&scratch, &zero);

	if (!s)
		return;
	__builtin_memset(&s->ack, 0, sizeof(s->ack));
	s->ack.time = what->received;
	s->ack.seq = what->seq;
	s->ack.sport = flow->sport;
	s->ack.dport = flow->dport;
	s->ack.protocol = flow->protocol;
	if (address_is_v4(&flow->source)) {
		s->ack.family = ORACK_FAMILY_IPV4;
		__builtin_memcpy(s->ack.saddr, &flow->source.word[3], 4);
		__builtin_memcpy(s->ack.daddr, &flow->destination.word[3], 4);
	} else {
		s->ack.family = ORACK_FAMILY_IPV6;
		__builtin_memcpy(s->ack.saddr, &flow->source, 16);
		__builtin_memcpy(s->ack.daddr, &flow->destination, 16);
	}
	s->key[0] = peer->key[0];
	s->key[1] = peer->key[1];
	s->port = config->port;
	s->class = what->class;
	s->away = away;
	s->ifindex = skb->ifindex;
	if (bpf_clone_redirect(skb, config->acker_ifindex, 0))
		count(OR_ACKS_FAILED, 1);
	s->ifindex = 0;
}

/* A data packet came in. */
OR_INLINE void receiver_data(struct __sk_buff *skb, const struct or_packet *packet,
			     struct or_config *config, or_u64 now)
{
	struct heard what = {};
	struct or_peer *peer;

	if (!packet->payload || !(config->flags & OR_CLOCK_KNOWN))
		return;
	if (!receiver_chosen(skb, packet, config, &what.seq))
		return;
	peer = bpf_map_lookup_elem(&peers, &packet->flow.source);
	if (!peer)
		return;
	count(OR_RECEIVED, 1);
	if (!receiver_now(skb, packet, config, what.seq, now))
		return;
	what.received = clock_fleet(config, clock_arrival(config, now));
	what.class = packet->class;
	receiver_say(skb, &packet->flow, &what, peer, config, 0);
}

/* A packet leaves. If an OR-ACK about its flow's other direction waits, it is made of this one. */
OR_INLINE void receiver_reply(struct __sk_buff *skb)
{
	struct or_config *config;
	struct or_packet packet;
	struct flow_lock *lock;
	struct or_tuple flow;
	struct or_peer *peer;
	struct heard *heard, what;

	if (skb->len > RECEIVER_COPIED || !packet_parse(skb, &packet) || packet.flow.protocol != IPPROTO_TCP)
		return;
	flow = (struct or_tuple){
		.source = packet.flow.destination,
		.destination = packet.flow.source,
		.sport = packet.flow.dport,
		.dport = packet.flow.sport,
		.protocol = IPPROTO_TCP,
	};
	heard = bpf_map_lookup_elem(&heard_of, &flow);
	if (!heard || !heard->received)
		return;
	config = config_at(bpf_ktime_get_ns());
	lock = flow_lock(&flow);
	peer = bpf_map_lookup_elem(&peers, &flow.source);
	if (!config || !lock || !peer)
		return;
	bpf_spin_lock(&lock->lock);
	what = *heard;
	heard->received = 0;
	bpf_spin_unlock(&lock->lock);
	/* On another CPU another packet has taken it. */
	if (!what.received)
		return;
	count(OR_ACKS_WITH_REPLY, 1);
	receiver_say(skb, &flow, &what, peer, config, 1);
}

/* Folds a sum of 16-bit words, as bpf_csum_diff() gives it, into a checksum. */
OR_INLINE or_u16 receiver_fold(or_u32 sum)
{
	sum = (sum & 0xffff) + (sum >> 16);
	sum = (sum & 0xffff) + (sum >> 16);
	return (or_u16)~sum;
}

OR_INLINE or_u32 receiver_sum(void *from, or_u32 size, or_u32 seed)
{
	return (or_u32)bpf_csum_diff(0, 0, from, size, seed);
}

/* UDP header of @length bytes with its payload, both ports the same. */
OR_INLINE void receiver_udp(or_u8 *udp, or_u16 port, or_u16 length)
{
	orack_put16(udp, port);
	orack_put16(udp + 2, port);
	orack_put16(udp + 4, length);
	orack_put16(udp + 6, 0);
}

/*
 * Cuts the clone to @length and reads its Ethernet header into @frame: if it has come
 * in, with the addresses changed, back to where it came from. Not 0 if that fails.
 */
OR_INLINE int receiver_ethernet(struct __sk_buff *skb, const struct scratch *s, or_u8 *frame, or_u32 length)
{
	or_u32 to = s->away ? 0 : ETH_ALEN, from = ETH_ALEN - to;

	return bpf_skb_change_tail(skb, length, 0) || bpf_skb_load_bytes(skb, to, frame, ETH_ALEN) ||
	       bpf_skb_load_bytes(skb, from, frame + ETH_ALEN, ETH_ALEN) ||
	       bpf_skb_load_bytes(skb, 2 * ETH_ALEN, frame + 2 * ETH_ALEN, 2);
}

OR_INLINE int receiver_frame_v4(struct __sk_buff *skb, const struct scratch *s)
{
	or_u8 f[ORACK_WIRE_IPV4] = {};
	or_u8 *ip = f + ETH_HLEN, *udp = f + RECEIVER_L4_IPV4;
	or_u16 sum;

	if (receiver_ethernet(skb, s, f, ORACK_WIRE_IPV4))
		return -1;
	ip[0] = 0x45;
	ip[1] = s->class & RECEIVER_DSCP;
	orack_put16(ip + 2, ORACK_WIRE_IPV4 - ETH_HLEN);
	ip[6] = 0x40; /* do not fragment */
	ip[8] = RECEIVER_TTL;
	ip[9] = IPPROTO_UDP;
	__builtin_memcpy(ip + 12, s->ack.daddr, 4);
	__builtin_memcpy(ip + 16, s->ack.saddr, 4);
	sum = receiver_fold(receiver_sum(ip, 20, 0));
	__builtin_memcpy(ip + 10, &sum, 2);
	/* No UDP checksum: the tag protects more, and IPv4 allows it. */
	receiver_udp(udp, s->port, 8 + ORACK_LEN_IPV4);
	if (!orack_write(udp + 8, udp + 8 + ORACK_LEN_IPV4, &s->ack))
		return -1;
	return bpf_skb_store_bytes(skb, 0, f, sizeof(f), BPF_F_INVALIDATE_HASH) ? -1 : ORACK_WIRE_IPV4;
}

OR_INLINE int receiver_frame_v6(struct __sk_buff *skb, const struct scratch *s)
{
	or_u8 f[ORACK_WIRE_IPV6 + 2] = {};
	or_u8 *ip = f + ETH_HLEN, *udp = f + RECEIVER_L4_IPV6;
	or_u32 pseudo[2] = { bpf_htonl(8 + ORACK_LEN_IPV6), bpf_htonl(IPPROTO_UDP) };
	or_u16 sum;

	if (receiver_ethernet(skb, s, f, ORACK_WIRE_IPV6))
		return -1;
	ip[0] = 0x60 | s->class >> 4;
	ip[1] = (s->class & RECEIVER_DSCP) << 4;
	orack_put16(ip + 4, 8 + ORACK_LEN_IPV6);
	ip[6] = IPPROTO_UDP;
	ip[7] = RECEIVER_TTL;
	__builtin_memcpy(ip + 8, s->ack.daddr, 16);
	__builtin_memcpy(ip + 24, s->ack.saddr, 16);
	receiver_udp(udp, s->port, 8 + ORACK_LEN_IPV6);
	if (!orack_write(udp + 8, udp + 8 + ORACK_LEN_IPV6, &s->ack))
		return -1;
	sum = receiver_fold(receiver_sum(ip + 8, 32 + 8 + ORACK_LEN_IPV6, receiver_sum(pseudo, 8, 0)));
	/* 0 would mean that there is none. */
	if (!sum)
		sum = 0xffff;
	__builtin_memcpy(udp + 6, &sum, 2);
	return bpf_skb_store_bytes(skb, 0, f, ORACK_WIRE_IPV6, BPF_F_INVALIDATE_HASH) ? -1 : ORACK_WIRE_IPV6;
}

/* A clone is on the dummy device: it leaves as an OR-ACK. */
OR_INLINE int receiver_send_orack(struct __sk_buff *skb)
{
	or_u32 zero = 0;
	struct scratch *s = bpf_map_lookup_elem(&scratch, &zero);
	int length;

	/* Somebody else's packet. */
	if (!s || !s->ifindex)
		return TC_ACT_SHOT;
	s->ack.tag = orack_tag(&s->ack, s->key[0], s->key[1]);
	length = s->ack.family == ORACK_FAMILY_IPV4 ? receiver_frame_v4(skb, s) : receiver_frame_v6(skb, s);
	if (length < 0) {
		count(OR_ACKS_FAILED, 1);
		return TC_ACT_SHOT;
	}
	count(OR_ACKS_SENT, 1);
	count(OR_ACKS_SENT_BYTES, length);
	return bpf_redirect(s->ifindex, 0);
}

#endif
