/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * Netlink interface of the qdisc "link": a wire with a rate and a delay.
 */
#ifndef PKT_LINK_H
#define PKT_LINK_H

#include <linux/types.h>

enum {
	TCA_LINK_UNSPEC,
	TCA_LINK_PAD,
	TCA_LINK_RATE64, /* u64, bits per second; required, above 0 */
	TCA_LINK_DELAY64, /* u64, nanoseconds; default 0 */
	TCA_LINK_ORDER, /* flag: the order of flows' packets is counted, where the queue is a plain FIFO */
	__TCA_LINK_MAX,
};
#define TCA_LINK_MAX (__TCA_LINK_MAX - 1)

/* A histogram with 16 buckets an octave, from 64 ns on; the first one also has what is less. */
#define LINK_WAIT_FIRST_SHIFT 6
#define LINK_WAIT_SUB_SHIFT 4
#define LINK_WAIT_BUCKETS (20 << LINK_WAIT_SUB_SHIFT)

/* Packets with data are larger than this. */
#define LINK_ORDER_HEADERS 128
/* Slots are as long as a packet of so many bytes takes; those with as many packets and more share the last place. */
#define LINK_ORDER_PACKET 1514
#define LINK_ORDER_SLOTS 17
/* Drop events by the flows that they hit, eight numbers a place. */
#define LINK_ORDER_EVENT_SHIFT 3
#define LINK_ORDER_EVENTS 64

/**
 * struct tc_link_xstats - what TCA_STATS_APP carries, and TCA_XSTATS again: twice this and what tc has has to fit in
 *   a message of NLMSG_GOODSIZE
 * @packets: packets put on the wire
 * @busy_ns: time the wire was in use
 * @wait_sum_ns: sum over packets of the time between arrival and the wire
 * @wait_max_ns: the longest of them
 * @wait: their histogram. Bucket i with octave o = i / 16 and part p = i % 16 begins at
 *   (16 + p) << (o + 2) ns
 * @data: packets with data put on the wire
 * @changes: those that followed one of another flow
 * @slots: time slots by the packets with data that came in them
 * @events: drop events, which last until the queue is half of what it was at the last drop
 */
struct tc_link_xstats {
	__u64 packets;
	__u64 busy_ns;
	__u64 wait_sum_ns;
	__u64 wait_max_ns;
	__u32 wait[LINK_WAIT_BUCKETS];
	__u64 data;
	__u64 changes;
	__u32 slots[LINK_ORDER_SLOTS];
	__u32 events[LINK_ORDER_EVENTS];
};

#endif
