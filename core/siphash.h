/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * SipHash-2-4 (Aumasson, Bernstein, INDOCRYPT 2012) over whole 64-bit words.
 *
 * The message is a sequence of words and a last partial one of up to 56 bits; its
 * length enters the hash, as it must. Freestanding, no loop.
 */
#ifndef SIPHASH_H
#define SIPHASH_H

#include "ortypes.h"

struct siphash {
	or_u64 v0, v1, v2, v3;
	or_u64 bytes;
};

OR_INLINE or_u64 siphash_rotate(or_u64 x, or_u32 by)
{
	return x << by | x >> (64 - by);
}

OR_INLINE void siphash_round(struct siphash *h)
{
	h->v0 += h->v1;
	h->v2 += h->v3;
	h->v1 = siphash_rotate(h->v1, 13) ^ h->v0;
	h->v3 = siphash_rotate(h->v3, 16) ^ h->v2;
	h->v0 = siphash_rotate(h->v0, 32);
	h->v2 += h->v1;
	h->v0 += h->v3;
	h->v1 = siphash_rotate(h->v1, 17) ^ h->v2;
	h->v3 = siphash_rotate(h->v3, 21) ^ h->v0;
	h->v2 = siphash_rotate(h->v2, 32);
}

/* @k0 and @k1 are the key's halves, read as little endian. */
OR_INLINE void siphash_init(struct siphash *h, or_u64 k0, or_u64 k1)
{
	h->v0 = k0 ^ 0x736f6d6570736575ULL;
	h->v1 = k1 ^ 0x646f72616e646f6dULL;
	h->v2 = k0 ^ 0x6c7967656e657261ULL;
	h->v3 = k1 ^ 0x7465646279746573ULL;
	h->bytes = 0;
}

/* Eight bytes of the message, read as little endian. */
OR_INLINE void siphash_word(struct siphash *h, or_u64 word)
{
	h->v3 ^= word;
	siphash_round(h);
	siphash_round(h);
	h->v0 ^= word;
	h->bytes += 8;
}

/* The hash, of a message that ends with the two bytes @rest. */
OR_INLINE or_u64 siphash_end(struct siphash *h, or_u64 rest)
{
	or_u64 bytes = h->bytes + 2;

	siphash_word(h, bytes << 56 | rest);
	h->v2 ^= 0xff;
	siphash_round(h);
	siphash_round(h);
	siphash_round(h);
	siphash_round(h);
	return h->v0 ^ h->v1 ^ h->v2 ^ h->v3;
}

#endif
