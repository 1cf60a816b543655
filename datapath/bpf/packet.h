/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * Reads a packet's headers: Ethernet, IPv4 or IPv6, TCP or UDP. Anything else, and
 * every fragment, is not for us. Nothing outside the packet is read, whatever its
 * length fields say.
 */
#ifndef PACKET_H
#define PACKET_H

#define IP_MORE_OR_OFFSET 0x3fff /* more fragments follow, or this is not the first */

/* Longest headers looked at: Ethernet 14, IPv6 40, TCP 20. */
#define PACKET_HEADERS 74
/* Bytes of a UDP payload that tell its packets apart. */
#define PACKET_UDP_SAMPLE 16

/**
 * struct or_packet - what is known of a packet, or of a segment of many packets
 * @flow: as the packet has it
 * @seq: TCP: sequence number of the first payload byte
 * @payload: bytes of payload
 * @payload_at: where they begin
 * @push: TCP: ends a burst
 * @class: DSCP and ECN, as in IPv4's second byte
 */
struct or_packet {
	struct or_tuple flow;
	or_u32 seq;
	or_u32 payload;
	or_u32 payload_at;
	or_u32 push;
	or_u32 class;
};

OR_INLINE struct or_address address_v4(or_u32 be)
{
	return (struct or_address){ { 0, 0, bpf_htonl(0xffff), be } };
}

OR_INLINE or_u32 address_equal(const struct or_address *a, const struct or_address *b)
{
	return a->word[0] == b->word[0] && a->word[1] == b->word[1] && a->word[2] == b->word[2] &&
	       a->word[3] == b->word[3];
}

OR_INLINE or_u32 packet_is_v4(const struct or_packet *packet)
{
	const or_u32 *word = packet->flow.source.word;

	return !word[0] && !word[1] && word[2] == bpf_htonl(0xffff);
}

OR_INLINE or_u32 get32(const or_u8 *at)
{
	or_u32 x;

	__builtin_memcpy(&x, at, sizeof(x));
	return x;
}

/*
 * VXLAN, also by Linux's old number, and GENEVE: what tells UDP packets apart is the same in
 * all of a tunnel's packets, so that each stamp would replace the last one.
 */
OR_INLINE or_u32 packet_is_tunnel(or_u16 dport)
{
	return dport == 4789 || dport == 8472 || dport == 6081;
}

/* TCP or UDP from @l4 on, a constant; @end is where IP says the packet ends. */
OR_INLINE or_u32 packet_parse_l4(struct or_packet *packet, const or_u8 *h, or_u32 l4, or_u32 end, or_u32 have)
{
	or_u32 header;

	if (l4 + 8 > have)
		return 0;
	packet->flow.sport = orack_get16(h + l4);
	packet->flow.dport = orack_get16(h + l4 + 2);
	if (packet->flow.protocol == IPPROTO_UDP) {
		if (packet_is_tunnel(packet->flow.dport))
			return 0;
		header = 8;
	} else if (packet->flow.protocol == IPPROTO_TCP) {
		if (l4 + 20 > have)
			return 0;
		packet->seq = orack_get32(h + l4 + 4);
		header = (h[l4 + 12] >> 4) * 4;
		packet->push = h[l4 + 13] & 8;
		if (header < 20)
			return 0;
	} else {
		return 0;
	}
	packet->payload_at = l4 + header;
	if (packet->payload_at > end)
		return 0;
	packet->payload = end - packet->payload_at;
	return 1;
}

/* Whether the packet is one that @packet can describe. */
OR_INLINE or_u32 packet_parse(struct __sk_buff *skb, struct or_packet *packet)
{
	or_u8 h[PACKET_HEADERS] = {};
	or_u32 have = skb->len, end, total;

	if (have < ETH_HLEN + 20 + 8)
		return 0;
	if (have > PACKET_HEADERS)
		have = PACKET_HEADERS;
	if (bpf_skb_load_bytes(skb, 0, h, have))
		return 0;
	__builtin_memset(packet, 0, sizeof(*packet));

	if (h[12] == 0x08 && h[13] == 0x00) {
		/* IP options are as rare as fragments. */
		if (h[14] != 0x45 || (orack_get16(h + 20) & IP_MORE_OR_OFFSET))
			return 0;
		total = orack_get16(h + 16);
		packet->class = h[15];
		packet->flow.protocol = h[23];
		packet->flow.source = address_v4(get32(h + 26));
		packet->flow.destination = address_v4(get32(h + 30));
		/* 0 in segments above 64 KB (BIG TCP). */
		end = total ? ETH_HLEN + total : skb->len;
		if (end > skb->len)
			return 0;
		return packet_parse_l4(packet, h, ETH_HLEN + 20, end, have);
	}
	if (h[12] == 0x86 && h[13] == 0xdd) {
		if (h[14] >> 4 != 6)
			return 0;
		total = orack_get16(h + 18);
		packet->class = (h[14] & 0xf) << 4 | h[15] >> 4;
		packet->flow.protocol = h[20];
		__builtin_memcpy(&packet->flow.source, h + 22, 16);
		__builtin_memcpy(&packet->flow.destination, h + 38, 16);
		end = total ? ETH_HLEN + 40 + total : skb->len;
		if (end > skb->len)
			return 0;
		return packet_parse_l4(packet, h, ETH_HLEN + 40, end, have);
	}
	return 0;
}

/* An OR-ACK or a probe. */
OR_INLINE or_u32 packet_is_ours(const struct or_packet *packet, const struct or_config *config)
{
	return packet->flow.protocol == IPPROTO_UDP && packet->flow.dport == config->port;
}

/*
 * UDP has no sequence number: a packet is known by a hash of how its payload begins
 * (QUIC's packet number, encrypted, is in it) and its length. 0 if it is too short.
 */
OR_INLINE or_u32 packet_udp_id(struct __sk_buff *skb, or_u32 at, or_u32 length)
{
	or_u64 sample[PACKET_UDP_SAMPLE / 8] = {};
	or_u64 hash;

	if (length < PACKET_UDP_SAMPLE || bpf_skb_load_bytes(skb, at, sample, PACKET_UDP_SAMPLE))
		return 0;
	hash = (sample[0] ^ length) * 0x9e3779b97f4a7c15ULL;
	hash ^= hash >> 32;
	hash = (hash ^ sample[1]) * 0x9e3779b97f4a7c15ULL;
	hash = (hash ^ hash >> 29) * 0xbf58476d1ce4e5b9ULL;
	return (or_u32)(hash >> 32);
}

/*
 * Whether sender and receiver choose that UDP packet: at 16 KiB one in eight, which is
 * every 11 KB of full packets.
 */
OR_INLINE or_u32 packet_udp_chosen(or_u32 id, or_u32 interval_shift)
{
	or_u32 bits = interval_shift > OR_INTERVAL_SHIFT_MIN ? interval_shift - OR_INTERVAL_SHIFT_MIN - 1 : 0;

	return id && !(id & ((1U << (bits & 31)) - 1));
}

/*
 * The first byte at or after @seq whose sequence number is a multiple of
 * 2^interval_shift, as a distance from @seq.
 */
OR_INLINE or_u32 packet_next_multiple(or_u32 seq, or_u32 interval_shift)
{
	return -seq & ((1U << interval_shift) - 1);
}

#endif
