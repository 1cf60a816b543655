/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/* The headers' inline functions under names a linker can see. Nothing else. */

#include "onramp.h"
#include "orack.h"
#include "orprobe.h"

void ffi_init(struct onramp_flow *flow, const struct onramp_params *params, or_u64 now)
{
	onramp_init(flow, params, now);
}

void ffi_start(struct onramp_flow *flow, const struct onramp_params *params, or_u64 now,
	       or_s64 owd, or_u64 measured_at)
{
	onramp_start(flow, params, now, owd, measured_at);
}

struct onramp_stamp ffi_stamp_packet(struct onramp_flow *flow, or_u64 now)
{
	return onramp_stamp_packet(flow, now);
}

void ffi_acked(struct onramp_flow *flow, const struct onramp_params *params, or_u64 now,
	       struct onramp_stamp stamp, or_s64 owd)
{
	onramp_acked(flow, params, now, stamp, owd);
}

or_u64 ffi_release(const struct onramp_flow *flow, or_u64 ready)
{
	return onramp_release(flow, ready);
}

or_u64 ffi_paused_total(const struct onramp_flow *flow, or_u64 now)
{
	return onramp_paused_total(flow, now);
}

/* Lengths instead of end pointers: a slice has one, and never wraps. */
or_u32 ffi_orack_write(or_u8 *data, or_u64 len, const struct orack *ack)
{
	return orack_write(data, data + len, ack);
}

or_u32 ffi_orack_parse(const or_u8 *data, or_u64 len, struct orack *ack)
{
	return orack_parse(data, data + len, ack);
}

or_u64 ffi_orack_tag(const struct orack *ack, or_u64 k0, or_u64 k1)
{
	return orack_tag(ack, k0, k1);
}

void ffi_orprobe_write(or_u8 *data, const struct orprobe *probe)
{
	orprobe_write(data, probe);
}

or_u32 ffi_orprobe_parse(const or_u8 *data, struct orprobe *probe)
{
	return orprobe_parse(data, probe);
}

or_u64 ffi_orprobe_tag(const struct orprobe *probe, const or_u8 *source, const or_u8 *destination,
		       or_u64 k0, or_u64 k1)
{
	return orprobe_tag(probe, source, destination, k0, k1);
}

/* SipHash-2-4 of @count words and two bytes, for its published vectors. */
or_u64 ffi_siphash(or_u64 k0, or_u64 k1, const or_u64 *words, or_u64 count, or_u64 rest)
{
	struct siphash h;

	siphash_init(&h, k0, k1);
	for (or_u64 i = 0; i < count; i++)
		siphash_word(&h, words[i]);
	return siphash_end(&h, rest);
}
