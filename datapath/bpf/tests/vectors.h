/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* What vectors.bpf.c and its caller share. */
#ifndef VECTORS_H
#define VECTORS_H

#include "onramp.h"

#define VECTOR_INIT 0
#define VECTOR_START 1
#define VECTOR_STAMP 2
#define VECTOR_ACKED 3
#define VECTOR_RELEASE 4
#define VECTOR_TOTAL 5

/**
 * struct vector_call - one call: arguments in, flow and result out
 * @flow: before, then after
 * @params: of the flow
 * @stamp: of the acknowledged packet, or the one taken; start: its time is that of the measurement
 * @now: the time, or release's ready time
 * @owd: one-way delay
 * @result: of release and total, and the total after acked
 * @call: VECTOR_*
 * @reserved: 0
 */
struct vector_call {
	struct onramp_flow flow;
	struct onramp_params params;
	struct onramp_stamp stamp;
	or_u64 now;
	or_s64 owd;
	or_u64 result;
	or_u32 call;
	or_u32 reserved;
};

#endif
