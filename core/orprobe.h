/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * Probe wire format: the payload of a UDP datagram between two hosts that compare
 * their clocks, of its answer, and of what follows an answer.
 *
 *    0        1        2                 4                 8
 *    +--------+--------+-----------------+-----------------+
 *    |ver|kind| second | 0               | pair            |
 *    +--------+--------+-----------------+-----------------+
 *  8 | sent (8 bytes)                                      |
 * 16 | received (8 bytes)                                  |
 * 24 | returned (8 bytes)                                  |
 * 32 | keyed tag (8 bytes)                                 |
 *    +-----------------------------------------------------+
 *
 * Big endian. Probes go in pairs; "second" tells the two apart. Times are those of a host's
 * uncorrected clock, taken where it stamps data packets: "received" as the probe arrives,
 * "returned" as the answer leaves. When the probe left and when its answer came back the
 * probing host keeps to itself; "sent" is when it made the probe, by which it knows it again.
 *
 * An answer whose tag is 0 has not left its host yet. One whose "returned" is 0 left where
 * nothing can be written into packets: a follow-up with the time comes after it, as in the
 * two steps of IEEE 1588.
 *
 * The tag is SipHash-2-4 over everything else and over both addresses, keyed by a
 * secret of the two hosts: a probe cannot be returned as an answer, nor sent on to
 * somebody else.
 *
 * Freestanding, no libc.
 */
#ifndef ORPROBE_H
#define ORPROBE_H

#include "orack.h"

#define ORPROBE_LEN 40

/* Low half of the first byte, where an OR-ACK has 4 or 6. The high half is the version. */
#define ORPROBE_PROBE 1
#define ORPROBE_ANSWER 2
#define ORPROBE_FOLLOW_UP 3

#define ORPROBE_AT_VERSION 0
#define ORPROBE_AT_SECOND 1
#define ORPROBE_AT_ZERO 2
#define ORPROBE_AT_PAIR 4
#define ORPROBE_AT_SENT 8
#define ORPROBE_AT_RECEIVED 16
#define ORPROBE_AT_RETURNED 24
#define ORPROBE_AT_TAG 32

/**
 * struct orprobe - a probe, its answer or its follow-up in host byte order
 * @sent: when the probe was made, ns of the probing host's clock
 * @received: when it arrived, ns of the probed host's clock
 * @returned: when the answer left, ns of the probed host's clock; 0: see its follow-up
 * @tag: keyed tag over the rest; 0: has not left yet
 * @pair: number of the pair
 * @kind: ORPROBE_*
 * @second: 0 or 1
 * @reserved: 0
 */
struct orprobe {
	or_u64 sent;
	or_u64 received;
	or_u64 returned;
	or_u64 tag;
	or_u32 pair;
	or_u8 kind;
	or_u8 second;
	or_u8 reserved[2];
};

/* Writes @probe into the ORPROBE_LEN bytes at @data. */
OR_INLINE void orprobe_write(or_u8 *data, const struct orprobe *probe)
{
	data[ORPROBE_AT_VERSION] = ORACK_VERSION << 4 | probe->kind;
	data[ORPROBE_AT_SECOND] = probe->second;
	orack_put16(data + ORPROBE_AT_ZERO, 0);
	orack_put32(data + ORPROBE_AT_PAIR, probe->pair);
	orack_put64(data + ORPROBE_AT_SENT, probe->sent);
	orack_put64(data + ORPROBE_AT_RECEIVED, probe->received);
	orack_put64(data + ORPROBE_AT_RETURNED, probe->returned);
	orack_put64(data + ORPROBE_AT_TAG, probe->tag);
}

/*
 * Reads the ORPROBE_LEN bytes at @data. Returns whether they are one of the three;
 * anything not understood is none.
 */
OR_INLINE or_u32 orprobe_parse(const or_u8 *data, struct orprobe *probe)
{
	or_u8 kind = data[ORPROBE_AT_VERSION] & ORACK_FAMILY_MASK;

	if (data[ORPROBE_AT_VERSION] >> 4 != ORACK_VERSION)
		return 0;
	if (kind < ORPROBE_PROBE || kind > ORPROBE_FOLLOW_UP)
		return 0;
	if (data[ORPROBE_AT_SECOND] > 1 || orack_get16(data + ORPROBE_AT_ZERO))
		return 0;
	__builtin_memset(probe, 0, sizeof(*probe));
	probe->kind = kind;
	probe->second = data[ORPROBE_AT_SECOND];
	probe->pair = orack_get32(data + ORPROBE_AT_PAIR);
	probe->sent = orack_get64(data + ORPROBE_AT_SENT);
	probe->received = orack_get64(data + ORPROBE_AT_RECEIVED);
	probe->returned = orack_get64(data + ORPROBE_AT_RETURNED);
	probe->tag = orack_get64(data + ORPROBE_AT_TAG);
	return 1;
}

/*
 * The tag that @probe must carry under the key @k0, @k1 from @source to @destination,
 * 16 bytes each as on the wire, IPv4 as ::ffff:a.b.c.d. Never 0.
 */
OR_INLINE or_u64 orprobe_tag(const struct orprobe *probe, const void *source, const void *destination,
			     or_u64 k0, or_u64 k1)
{
	struct siphash h;
	or_u64 address[4], tag;

	__builtin_memcpy(address, source, 16);
	__builtin_memcpy(address + 2, destination, 16);
	siphash_init(&h, k0, k1);
	siphash_word(&h, (or_u64)probe->pair << 16 | (or_u64)probe->kind << 8 | probe->second);
	siphash_word(&h, probe->sent);
	siphash_word(&h, probe->received);
	siphash_word(&h, probe->returned);
	siphash_word(&h, ORACK_LE64(address[0]));
	siphash_word(&h, ORACK_LE64(address[1]));
	siphash_word(&h, ORACK_LE64(address[2]));
	siphash_word(&h, ORACK_LE64(address[3]));
	tag = siphash_end(&h, 0);
	return tag ? tag : 1;
}

#endif
