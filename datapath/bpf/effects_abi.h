/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* What the TCP counting programs and the agent share. */
#ifndef EFFECTS_ABI_H
#define EFFECTS_ABI_H

#include "onramp_abi.h"

/**
 * struct or_tcp - map "tcp", by peer: what this host's connections to it did
 * @segments: data segments sent, retransmitted ones too
 * @retransmitted: segments retransmitted
 * @timeouts: retransmission timeouts (RTOs)
 * @acked_bytes: bytes the peer acknowledged
 * @since: number of the first walk since it is a peer; what its connections did before does not count
 */
struct or_tcp {
	or_u64 segments;
	or_u64 retransmitted;
	or_u64 timeouts;
	or_u64 acked_bytes;
	or_u64 since;
};

/* The kernel counts timeouts by connection: Linux 6.7 or newer. */
#define OR_WALK_TIMEOUTS 1

/**
 * struct or_walk - map "walk", one value
 * @number: of the walk over all connections that goes on, or of the next one
 * @netns: inode of the network namespace whose connections are counted
 * @flags: OR_WALK_*, by the program
 */
struct or_walk {
	or_u64 number;
	or_u32 netns;
	or_u32 flags;
};

#endif
