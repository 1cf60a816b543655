/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* What the gate's program (qdisc.bpf.c) and the agent share beside onramp_abi.h. */
#ifndef QDISC_H
#define QDISC_H

#include "onramp_abi.h"
#include "../sch_onramp/pkt_sched_onramp.h"

/**
 * struct or_limits - map "limits", one: what sch_onramp's options are, by the same names there
 * @max_hold: TCA_ONRAMP_MAX_HOLD64; 0 lets everything go
 * @packets: TCA_ONRAMP_LIMIT
 * @bytes: TCA_ONRAMP_BYTES, of all of these gates
 * @flow_packets: TCA_ONRAMP_FLOW_LIMIT
 * @flows: TCA_ONRAMP_FLOWS
 * @quantum: TCA_ONRAMP_QUANTUM; 0: two MTUs
 * @pacing: TCA_ONRAMP_PACING
 * @target: TCA_ONRAMP_TARGET64
 * @build: of the program; another one's gates cannot be taken over
 */
struct or_limits {
	or_u64 max_hold;
	or_u32 packets;
	or_u32 bytes;
	or_u32 flow_packets;
	or_u32 flows;
	or_u32 quantum;
	or_u32 pacing;
	or_u64 target;
	or_u64 build;
};

/**
 * struct or_gate - how each value of map "instances" begins: a queueing discipline
 * @used: by one
 * @ifindex: of its interface
 * @parent: its place there
 * @quantum: bytes a flow sends in its turn, unless the limits say
 * @stats: as sch_onramp's
 */
struct or_gate {
	or_u32 used;
	or_u32 ifindex;
	or_u32 parent;
	or_u32 quantum;
	struct tc_onramp_xstats stats;
};

#endif
