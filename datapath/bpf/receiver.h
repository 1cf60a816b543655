/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* The receiving side: which packets are acknowledged, and how an OR-ACK is made. */
#ifndef RECEIVER_H
#define RECEIVER_H

#define RECEIVER_L4_IPV4 (ETH_HLEN + 20)
#define RECEIVER_L4_IPV6 (ETH_HLEN + 40)
#define RECEIVER_TTL 64
#define RECEIVER_DSCP 0xfc

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

/* Whether the flow has heard of us lately. If not, it does now. */
OR_INLINE or_u32 receiver_heard(const struct or_tuple *flow, const struct or_config *config, or_u64 now)
{
	or_u64 *last = bpf_map_lookup_elem(&acked, flow);

	if (!last) {
		bpf_map_update_elem(&acked, flow, &now, BPF_ANY);
		return 0;
	}
	if (now - *last < config->gap)
		return 1;
	*last = now;
	return 0;
}

/* A data packet came in. */
OR_INLINE void receiver_data(struct __sk_buff *skb, const struct or_packet *packet,
			     struct or_config *config, or_u64 now)
{
	or_u32 zero = 0, seq;
	struct scratch *s;
	struct or_peer *peer;

	if (!packet->payload || !(config->flags & OR_CLOCK_KNOWN))
		return;
	if (!receiver_chosen(skb, packet, config, &seq))
		return;
	peer = bpf_map_lookup_elem(&peers, &packet->flow.source);
	if (!peer)
		return;
	count(OR_RECEIVED, 1);
	if (receiver_heard(&packet->flow, config, now))
		return;
	s = bpf_map_lookup_elem(&scratch, &zero);
	if (!s)
		return;

	__builtin_memset(&s->ack, 0, sizeof(s->ack));
	s->ack.time = clock_fleet(config, clock_arrival(config, now));
	s->ack.seq = seq;
	s->ack.sport = packet->flow.sport;
	s->ack.dport = packet->flow.dport;
	s->ack.protocol = packet->flow.protocol;
	if (packet_is_v4(packet)) {
		s->ack.family = ORACK_FAMILY_IPV4;
		__builtin_memcpy(s->ack.saddr, &packet->flow.source.word[3], 4);
		__builtin_memcpy(s->ack.daddr, &packet->flow.destination.word[3], 4);
	} else {
		s->ack.family = ORACK_FAMILY_IPV6;
		__builtin_memcpy(s->ack.saddr, &packet->flow.source, 16);
		__builtin_memcpy(s->ack.daddr, &packet->flow.destination, 16);
	}
	s->key[0] = peer->key[0];
	s->key[1] = peer->key[1];
	s->port = config->port;
	s->class = packet->class;
	s->ifindex = skb->ifindex;
	if (bpf_clone_redirect(skb, config->acker_ifindex, 0))
		count(OR_ACKS_FAILED, 1);
	s->ifindex = 0;
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
 * Cuts the clone to @length and reads its Ethernet header into @frame, with the
 * addresses changed: back to where it came from. Not 0 if that fails.
 */
OR_INLINE int receiver_turn_back(struct __sk_buff *skb, or_u8 *frame, or_u32 length)
{
	return bpf_skb_change_tail(skb, length, 0) || bpf_skb_load_bytes(skb, ETH_ALEN, frame, ETH_ALEN) ||
	       bpf_skb_load_bytes(skb, 0, frame + ETH_ALEN, ETH_ALEN) ||
	       bpf_skb_load_bytes(skb, 2 * ETH_ALEN, frame + 2 * ETH_ALEN, 2);
}

OR_INLINE int receiver_frame_v4(struct __sk_buff *skb, const struct scratch *s)
{
	or_u8 f[ORACK_WIRE_IPV4] = {};
	or_u8 *ip = f + ETH_HLEN, *udp = f + RECEIVER_L4_IPV4;
	or_u16 sum;

	if (receiver_turn_back(skb, f, ORACK_WIRE_IPV4))
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

	if (receiver_turn_back(skb, f, ORACK_WIRE_IPV6))
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

/* A clone of the data packet is on the dummy device: it leaves as an OR-ACK. */
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
