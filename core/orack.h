/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * OR-ACK wire format: the payload of a UDP datagram from receiver to sender.
 *
 *    0        1        2                 4                 8        10
 *    +--------+--------+-----------------+-----------------+--------+--------+
 *    |ver|fam |protocol| sport           | sequence number | scrap  | dport  |
 *    +--------+--------+-----------------+-----------------+--------+--------+
 * 12 | receive time (8 bytes)            | keyed tag (8 bytes, from 20 on)   |
 *    +-----------------------------------+-----------------------------------+
 * 28 | source address (4 or 16 bytes), then destination address              |
 *    +-----------------------------------------------------------------------+
 *
 * Big endian. The first byte has the version in its high half and the IP version
 * of the flow, 4 or 6, in its low half. Ports, protocol and addresses are those of
 * the acknowledged data packet, so the source is the host that receives the OR-ACK.
 *
 * "scrap" is where a TCP header has its checksum, behind a UDP header. An OR-ACK is
 * made from a clone of a data packet; where that one came in with its checksum
 * still to be filled in (CHECKSUM_PARTIAL: virtual devices), the sending device
 * fills in these two bytes. Written as 0, not covered by the tag, never read.
 *
 * The tag is SipHash-2-4 over everything else, keyed by a secret of the two hosts.
 *
 * Freestanding, no libc.
 */
#ifndef ORACK_H
#define ORACK_H

#include "ortypes.h"
#include "siphash.h"

#define ORACK_VERSION 1

/* Payload */
#define ORACK_LEN_IPV4 36
#define ORACK_LEN_IPV6 60
/* Frame without FCS: Ethernet 14, IP 20 or 40, UDP 8, payload. */
#define ORACK_WIRE_IPV4 78
#define ORACK_WIRE_IPV6 122

#define ORACK_FAMILY_MASK 0x0f
#define ORACK_FAMILY_IPV4 4
#define ORACK_FAMILY_IPV6 6

/* Why a payload is not an OR-ACK. */
#define ORACK_OK 0
#define ORACK_BAD_LENGTH 1
#define ORACK_BAD_VERSION 2
#define ORACK_BAD_FAMILY 3

#define ORACK_AT_VERSION 0
#define ORACK_AT_PROTOCOL 1
#define ORACK_AT_SPORT 2
#define ORACK_AT_SEQ 4
#define ORACK_AT_SCRAP 8
#define ORACK_AT_DPORT 10
#define ORACK_AT_TIME 12
#define ORACK_AT_TAG 20
#define ORACK_AT_ADDRESSES 28

/**
 * struct orack - an OR-ACK in host byte order
 * @time: when the data packet was received, ns of the receiver's clock
 * @tag: keyed tag over the rest
 * @saddr: address of the data packet's source, as on the wire; IPv4 takes the
 *         first four bytes and the others are 0
 * @daddr: the same for its destination
 * @seq: sequence number of the data packet
 * @sport: source port
 * @dport: destination port
 * @protocol: IP protocol number
 * @family: ORACK_FAMILY_IPV4 or ORACK_FAMILY_IPV6
 * @reserved: 0
 */
struct orack {
	or_u64 time;
	or_u64 tag;
	or_u8 saddr[16];
	or_u8 daddr[16];
	or_u32 seq;
	or_u16 sport;
	or_u16 dport;
	or_u8 protocol;
	or_u8 family;
	or_u8 reserved[6];
};

#if __BYTE_ORDER__ == __ORDER_LITTLE_ENDIAN__
#define ORACK_BE16(x) __builtin_bswap16(x)
#define ORACK_BE32(x) __builtin_bswap32(x)
#define ORACK_BE64(x) __builtin_bswap64(x)
#define ORACK_LE64(x) (x)
#else
#define ORACK_BE16(x) (x)
#define ORACK_BE32(x) (x)
#define ORACK_BE64(x) (x)
#define ORACK_LE64(x) __builtin_bswap64(x)
#endif

OR_INLINE void orack_put16(or_u8 *at, or_u16 x)
{
	x = ORACK_BE16(x);
	__builtin_memcpy(at, &x, sizeof(x));
}

OR_INLINE void orack_put32(or_u8 *at, or_u32 x)
{
	x = ORACK_BE32(x);
	__builtin_memcpy(at, &x, sizeof(x));
}

OR_INLINE void orack_put64(or_u8 *at, or_u64 x)
{
	x = ORACK_BE64(x);
	__builtin_memcpy(at, &x, sizeof(x));
}

OR_INLINE or_u16 orack_get16(const or_u8 *at)
{
	or_u16 x;

	__builtin_memcpy(&x, at, sizeof(x));
	return ORACK_BE16(x);
}

OR_INLINE or_u32 orack_get32(const or_u8 *at)
{
	or_u32 x;

	__builtin_memcpy(&x, at, sizeof(x));
	return ORACK_BE32(x);
}

OR_INLINE or_u64 orack_get64(const or_u8 *at)
{
	or_u64 x;

	__builtin_memcpy(&x, at, sizeof(x));
	return ORACK_BE64(x);
}

/*
 * Writes @ack at @data. Returns its length, or 0 with nothing written if it
 * does not fit before @data_end or the family is unknown.
 */
OR_INLINE or_u32 orack_write(void *data, const void *data_end, const struct orack *ack)
{
	or_u8 *p = data;

	/* The shorter length first: BPF wants each access below a checked bound. */
	if (p + ORACK_LEN_IPV4 > (const or_u8 *)data_end)
		return 0;
	if (ack->family == ORACK_FAMILY_IPV6) {
		if (p + ORACK_LEN_IPV6 > (const or_u8 *)data_end)
			return 0;
		__builtin_memcpy(p + ORACK_AT_ADDRESSES, ack->saddr, 16);
		__builtin_memcpy(p + ORACK_AT_ADDRESSES + 16, ack->daddr, 16);
	} else if (ack->family == ORACK_FAMILY_IPV4) {
		__builtin_memcpy(p + ORACK_AT_ADDRESSES, ack->saddr, 4);
		__builtin_memcpy(p + ORACK_AT_ADDRESSES + 4, ack->daddr, 4);
	} else {
		return 0;
	}
	p[ORACK_AT_VERSION] = ORACK_VERSION << 4 | ack->family;
	p[ORACK_AT_PROTOCOL] = ack->protocol;
	orack_put16(p + ORACK_AT_SPORT, ack->sport);
	orack_put32(p + ORACK_AT_SEQ, ack->seq);
	orack_put16(p + ORACK_AT_SCRAP, 0);
	orack_put16(p + ORACK_AT_DPORT, ack->dport);
	orack_put64(p + ORACK_AT_TIME, ack->time);
	orack_put64(p + ORACK_AT_TAG, ack->tag);
	return ack->family == ORACK_FAMILY_IPV6 ? ORACK_LEN_IPV6 : ORACK_LEN_IPV4;
}

/*
 * Reads the payload between @data and @data_end. Returns ORACK_OK, or why it is
 * refused; @ack is then not valid. Anything not understood is refused, trailing
 * bytes too.
 */
OR_INLINE or_u32 orack_parse(const void *data, const void *data_end, struct orack *ack)
{
	const or_u8 *p = data, *end = data_end;
	or_u8 family;

	if (p + ORACK_LEN_IPV4 > end)
		return ORACK_BAD_LENGTH;
	if (p[ORACK_AT_VERSION] >> 4 != ORACK_VERSION)
		return ORACK_BAD_VERSION;
	family = p[ORACK_AT_VERSION] & ORACK_FAMILY_MASK;

	__builtin_memset(ack, 0, sizeof(*ack));
	if (family == ORACK_FAMILY_IPV6) {
		if (p + ORACK_LEN_IPV6 > end || p + ORACK_LEN_IPV6 < end)
			return ORACK_BAD_LENGTH;
		__builtin_memcpy(ack->saddr, p + ORACK_AT_ADDRESSES, 16);
		__builtin_memcpy(ack->daddr, p + ORACK_AT_ADDRESSES + 16, 16);
	} else if (family == ORACK_FAMILY_IPV4) {
		if (p + ORACK_LEN_IPV4 < end)
			return ORACK_BAD_LENGTH;
		__builtin_memcpy(ack->saddr, p + ORACK_AT_ADDRESSES, 4);
		__builtin_memcpy(ack->daddr, p + ORACK_AT_ADDRESSES + 4, 4);
	} else {
		return ORACK_BAD_FAMILY;
	}
	ack->family = family;
	ack->protocol = p[ORACK_AT_PROTOCOL];
	ack->sport = orack_get16(p + ORACK_AT_SPORT);
	ack->dport = orack_get16(p + ORACK_AT_DPORT);
	ack->seq = orack_get32(p + ORACK_AT_SEQ);
	ack->time = orack_get64(p + ORACK_AT_TIME);
	ack->tag = orack_get64(p + ORACK_AT_TAG);
	return ORACK_OK;
}

/*
 * The tag that @ack must carry under the key @k0, @k1: SipHash-2-4 of the flow,
 * the sequence number and the receive time.
 */
OR_INLINE or_u64 orack_tag(const struct orack *ack, or_u64 k0, or_u64 k1)
{
	struct siphash h;
	or_u64 address[4];

	__builtin_memcpy(address, ack->saddr, 16);
	__builtin_memcpy(address + 2, ack->daddr, 16);
	siphash_init(&h, k0, k1);
	siphash_word(&h, (or_u64)ack->seq << 32 | (or_u64)ack->sport << 16 | ack->dport);
	siphash_word(&h, ack->time);
	siphash_word(&h, ORACK_LE64(address[0]));
	siphash_word(&h, ORACK_LE64(address[2]));
	if (ack->family == ORACK_FAMILY_IPV6) {
		siphash_word(&h, ORACK_LE64(address[1]));
		siphash_word(&h, ORACK_LE64(address[3]));
	}
	return siphash_end(&h, (or_u64)ack->protocol << 8 | ack->family);
}

#endif
