/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * Reads a packet's headers: Ethernet, IPv4 or IPv6, TCP or UDP. Anything else, and
 * every fragment, is not for us. Nothing outside the packet is read, whatever its
 * length fields say.
 */
#ifndef PACKET_H
#define PACKET_H

#define IP_MORE_OR_OFFSET 0x3fff /* more fragments follow, or this is not the first */

/* Headers looked at: Ethernet 14, IPv4 20, UDP 8 at least; Ethernet 14, IPv6 40, TCP 20 at most. */
#define PACKET_LEAST 42
#define PACKET_HEADERS 74

#ifdef OR_QDISC
#include "skb_qdisc.h"
#else
#include "skb_tc.h"
#endif

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

OR_INLINE or_u32 address_is_v4(const struct or_address *a)
{
	return !a->word[0] && !a->word[1] && a->word[2] == bpf_htonl(0xffff);
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

/* TCP or UDP from @l4 on; @length bytes from there belong to the packet, as IP says. */
OR_INLINE or_u32 packet_parse_l4(struct or_packet *packet, const void *l4, const void *end, or_u32 length)
{
	const struct tcphdr *tcp = l4;
	const struct udphdr *udp = l4;
	or_u32 header = sizeof(*udp);

	if ((void *)(udp + 1) > end)
		return 0;
	packet->flow.sport = bpf_ntohs(udp->source);
	packet->flow.dport = bpf_ntohs(udp->dest);
	if (packet->flow.protocol == IPPROTO_TCP) {
		header = sizeof(*tcp);
		if ((void *)(tcp + 1) > end || tcp->doff * 4 < header)
			return 0;
		header = tcp->doff * 4;
		packet->seq = bpf_ntohl(tcp->seq);
		packet->push = tcp->psh;
	} else if (packet->flow.protocol != IPPROTO_UDP || packet_is_tunnel(packet->flow.dport)) {
		return 0;
	}
	if (header > length)
		return 0;
	packet->payload = length - header;
	packet->payload_at += header;
	return 1;
}

OR_INLINE or_u32 packet_parse_v4(or_u32 present, struct or_packet *packet, const struct iphdr *ip, const void *end)
{
	/* 0 in segments above 64 KB (BIG TCP). */
	or_u32 length = bpf_ntohs(ip->tot_len) ? bpf_ntohs(ip->tot_len) : present;

	/* IP options are as rare as fragments. */
	if (ip->version != 4 || ip->ihl != 5 || ip->frag_off & bpf_htons(IP_MORE_OR_OFFSET))
		return 0;
	if (length < sizeof(*ip) || length > present)
		return 0;
	packet->class = ip->tos;
	packet->flow.protocol = ip->protocol;
	packet->flow.source = address_v4(ip->saddr);
	packet->flow.destination = address_v4(ip->daddr);
	packet->payload_at = ETH_HLEN + sizeof(*ip);
	return packet_parse_l4(packet, ip + 1, end, length - sizeof(*ip));
}

OR_INLINE or_u32 packet_parse_v6(or_u32 present, struct or_packet *packet, const struct ipv6hdr *ip, const void *end)
{
	or_u32 behind = present - sizeof(*ip);
	or_u32 length = bpf_ntohs(ip->payload_len) ? bpf_ntohs(ip->payload_len) : behind;

	if (ip->version != 6 || length > behind)
		return 0;
	packet->class = ip->priority << 4 | ip->flow_lbl[0] >> 4;
	packet->flow.protocol = ip->nexthdr;
	__builtin_memcpy(&packet->flow.source, &ip->saddr, 16);
	__builtin_memcpy(&packet->flow.destination, &ip->daddr, 16);
	packet->payload_at = ETH_HLEN + sizeof(*ip);
	return packet_parse_l4(packet, ip + 1, end, length);
}

/* Whether the packet is one that @packet can describe. */
OR_INLINE or_u32 packet_parse(struct or_skb *skb, struct or_packet *packet)
{
	const struct ethhdr *eth;
	const void *at, *end, *ip;

	skb_headers(skb, PACKET_LEAST, PACKET_HEADERS, &at, &end);
	if (!at)
		return 0;
	__builtin_memset(packet, 0, sizeof(*packet));
	eth = at;
	ip = eth + 1;
	if (eth->h_proto == bpf_htons(ETH_P_IP))
		return packet_parse_v4(skb_length(skb) - ETH_HLEN, packet, ip, end);
	if (eth->h_proto == bpf_htons(ETH_P_IPV6) && ip + sizeof(struct ipv6hdr) <= end)
		return packet_parse_v6(skb_length(skb) - ETH_HLEN, packet, ip, end);
	return 0;
}

/* An OR-ACK or a probe. */
OR_INLINE or_u32 packet_is_ours(const struct or_packet *packet, const struct or_config *config)
{
	return packet->flow.protocol == IPPROTO_UDP && packet->flow.dport == config->port;
}

/* DNS, NTP, PTP (events, general), BFD (one hop, echo, several hops). */
OR_INLINE or_u32 packet_is_urgent_port(or_u16 port)
{
	return port == 53 || port == 123 || port == 319 || port == 320 || port == 3784 || port == 3785 || port == 4784;
}

/* What keeps time, names and links going is neither held nor measured: a pause would do it harm. */
OR_INLINE or_u32 packet_is_urgent(const struct or_packet *packet)
{
	return packet->flow.protocol == IPPROTO_UDP &&
	       (packet_is_urgent_port(packet->flow.dport) || packet_is_urgent_port(packet->flow.sport));
}

/*
 * UDP has no sequence number: a packet is known by a hash of how its payload begins
 * (QUIC's packet number, encrypted, is in it) and its length. 0 if it is too short.
 */
OR_INLINE or_u32 packet_udp_id(struct or_skb *skb, or_u32 at, or_u32 length)
{
	or_u64 sample[PACKET_UDP_SAMPLE / 8] = {};
	or_u64 hash;

	if (length < PACKET_UDP_SAMPLE || skb_read(skb, at, sample, PACKET_UDP_SAMPLE))
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
