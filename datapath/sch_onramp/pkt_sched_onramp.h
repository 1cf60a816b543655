/* SPDX-License-Identifier: GPL-2.0-only WITH Linux-syscall-note */
/*
 * Netlink interface of the qdisc "onramp".
 */
#ifndef PKT_SCHED_ONRAMP_H
#define PKT_SCHED_ONRAMP_H

#include <linux/types.h>

enum {
	TCA_ONRAMP_UNSPEC,
	TCA_ONRAMP_PAD,
	TCA_ONRAMP_LIMIT, /* u32, packets in all, segments uncut; default 10240 */
	TCA_ONRAMP_BYTES, /* u32, memory of all gates of the host, 768 bytes for each packet included; default 64 MiB */
	TCA_ONRAMP_FLOW_LIMIT, /* u32, packets of a flow; default 1024 */
	TCA_ONRAMP_FLOWS, /* u32, flows, idle ones included; default 65536; others share one */
	TCA_ONRAMP_QUANTUM, /* u32, bytes a flow sends in its turn; default two MTUs */
	TCA_ONRAMP_MAX_HOLD64, /* u64, ns; no packet is held for longer; default 10 ms */
	TCA_ONRAMP_PROG_FD, /* s32, a program of type sched_cls; -1: none; not in dumps */
	TCA_ONRAMP_PROG_ID, /* u32, its id; dumps only */
	TCA_ONRAMP_PROG_NAME, /* string, its name; dumps only */
	TCA_ONRAMP_PACING, /* u32, 1: local flows that were held leave at their pacing rate; default 1 */
	TCA_ONRAMP_TARGET64, /* u64, ns, at most 100 ms; CoDel's target, its interval is 20 times that; default 0: none */
	__TCA_ONRAMP_MAX,
};
#define TCA_ONRAMP_MAX (__TCA_ONRAMP_MAX - 1)

/*
 * The program's answer: for how many nanoseconds the packet's flow waits before it is
 * asked again, 0 to let the packet go; with this bit, a segment is first cut into the
 * packets it stands for, and the first of them is asked for.
 */
#define ONRAMP_CUT 0x80000000U

/* Programs made for this qdisc say so by their name, if they have one. */
#define ONRAMP_PROG_PREFIX "onramp_gate"

/**
 * struct tc_onramp_xstats - what TCA_STATS_APP carries
 * @held: times the program held a flow whose packet was about to leave
 * @held_ns: time flows were held, up to their last release
 * @max_hold: packets let go because they were held for the longest time allowed
 * @limit_drops: packets dropped for the limit on all packets
 * @bytes_drops: for the limit on the memory of all gates
 * @flow_limit_drops: for the limit on a flow's packets
 * @no_flow: packets that shared a flow for want of room or memory for another
 * @cut: segments cut into packets
 * @no_time: packets whose departure time was over 10 s ahead, and so was ignored
 * @collected: idle flows forgotten
 * @acks_first: pure ACKs that left before other packets of their flow
 * @codel_drops: packets dropped since their flow stood for too long
 * @codel_marks: ECN-marked for the same
 * @flows: flows, idle ones included
 * @idle_flows: flows without a packet
 * @throttled_flows: flows waiting: held, or for their packet's departure time
 * @reserved: 0
 */
struct tc_onramp_xstats {
	__u64 held;
	__u64 held_ns;
	__u64 max_hold;
	__u64 limit_drops;
	__u64 bytes_drops;
	__u64 flow_limit_drops;
	__u64 no_flow;
	__u64 cut;
	__u64 no_time;
	__u64 collected;
	__u64 acks_first;
	__u64 codel_drops;
	__u64 codel_marks;
	__u32 flows;
	__u32 idle_flows;
	__u32 throttled_flows;
	__u32 reserved;
};

#endif
