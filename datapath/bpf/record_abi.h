/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* What the recording programs and `onrampd record` share. Times are of CLOCK_MONOTONIC. */
#ifndef RECORD_ABI_H
#define RECORD_ABI_H

#include "onramp_abi.h"

/* None yet; something is outstanding; all was acknowledged, and it is over unless more follows at once. */
#define OR_BUSY_NOT 0
#define OR_BUSY_OPEN 1
#define OR_BUSY_ACKED 2

/* What follows within this time, with no data from the other side between, is of the same flow. */
#define OR_BUSY_GAP 20000ULL

/* A receiver tells of data that ended no write if none followed for so long. Packets of a slow link are less apart. */
#define OR_CAME_GAP 10000000ULL

/**
 * struct or_busy - map "busy", by tuple: what this host sends on a connection
 * @began: when its present flow began, or the last one
 * @last: when data was last seen
 * @acked: when all of it was acknowledged
 * @heard: when a packet last came back
 * @bytes: payload of the flow, each byte once
 * @again: bytes that were sent again
 * @packets: that were seen, those sent again too
 * @next: sequence number after the last byte seen
 * @state: OR_BUSY_*
 * @flags: OR_BUSY_*, below
 */
struct or_busy {
	or_u64 began;
	or_u64 last;
	or_u64 acked;
	or_u64 heard;
	or_u64 bytes;
	or_u64 again;
	or_u32 packets;
	or_u32 next;
	or_u32 state;
	or_u32 flags;
};

/* Data came from the other side since the flow was acknowledged. */
#define OR_BUSY_ANSWERED 1
/* The connection sends no more. */
#define OR_BUSY_CLOSING 2
/* The last byte ended a write. */
#define OR_BUSY_PUSHED 4
/* The connection's socket is seen. */
#define OR_BUSY_SEEN 8
/* Nothing else had been written when the last byte left. */
#define OR_BUSY_DRAINED 16

/**
 * struct or_came - map "came", by tuple: what this host receives on a connection
 * @last: when data came last; 0: all that came was told of
 * @next: sequence number after the last byte
 * @most: payload of the largest packet
 */
struct or_came {
	or_u64 last;
	or_u32 next;
	or_u32 most;
};

/*
 * Its last byte was acknowledged; the connection was reset; still open when the recording ended; another flow followed
 * before it was acknowledged. Or no flow that was sent: data came that ended a write, or none followed for OR_CAME_GAP.
 * By its @next a flow of another host is known that ended with it; of several the last counts.
 */
#define OR_ENDED_ACKED 0
#define OR_ENDED_RESET 1
#define OR_ENDED_OPEN 2
#define OR_ENDED_FOLLOWED 3
#define OR_ENDED_CAME 4

/**
 * struct or_recorded - ring buffer "recorded": a flow that has ended
 * @flow: its tuple, in the direction of its data
 * @how: OR_ENDED_*
 * @reserved: 0
 * @ended: when
 * @busy: what it was
 */
struct or_recorded {
	struct or_tuple flow;
	or_u32 how;
	or_u32 reserved;
	or_u64 ended;
	struct or_busy busy;
};

/* Map "record_counters", per CPU: an array of OR_RECORD_COUNTERS. */
enum or_record_counter {
	OR_RECORD_LOST, /* flows for which the ring buffer had no room */
	OR_RECORD_UDP, /* packets of UDP */
	OR_RECORD_UDP_BYTES, /* their payload */
	OR_RECORD_UNPARSED, /* neither plain TCP nor plain UDP */
	OR_RECORD_COUNTERS,
};

#endif
