// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
/* The gate's eBPF program for the test of property.h: its own source, with other maps and kernel functions. */
#define _GNU_SOURCE
#include <linux/bpf.h>
#include "ortypes.h"

/* The decision is the test's: none of what it is made of is needed. */
#define MAPS_H
#define CLOCK_H
#define PACKET_H
#define PROBER_H
#define SCOPE_H
#define SENDER_H
#define SKB_ROOM 128
#define SKB_ARGUMENT struct sk_buff *skb
struct sk_buff;
struct or_skb {
	struct sk_buff *skb;
	struct bpf_dynptr data;
	or_u8 *room;
};
static or_u32 sender_departs(struct or_skb *skb, or_u32 mode, or_u64 now);

#include "../bpf/qdisc.bpf.c"
#include "property.h"

static struct net_device device = { .ifindex = 1, .mtu = 1500, .hard_header_len = 14 };
static struct netdev_queue device_queue = { &device };
static struct Qdisc all_gates[GATES], *chosen = all_gates;
#define sch (*chosen)

static void gate_choose(unsigned int gate)
{
	chosen = &all_gates[gate];
}

static unsigned long long gate_taken(void)
{
	or_u32 zero = 0;

	return *(or_u64 *)bpf_map_lookup_elem(&taken, &zero);
}

static or_u32 sender_departs(struct or_skb *skb, or_u32 mode, or_u64 time)
{
	return ask((struct packet *)skb->skb);
}

or_u32 bpf_skb_get_hash(struct sk_buff *skb)
{
	return ((struct packet *)skb)->hash;
}

static struct sock tcp_socket(unsigned long long rate, unsigned int bytes)
{
	return (struct sock){ .sk_type = SOCK_STREAM_TYPE,
			      .sk_protocol = IPPROTO_TCP,
			      .sk_pacing_rate = rate,
			      .sk_wmem_queued = bytes };
}

static int resetting;

void bpf_kfree_skb(struct sk_buff *skb)
{
	if (resetting)
		free(skb);
	else
		drop((struct packet *)skb);
}

void bpf_qdisc_skb_drop(struct sk_buff *skb, struct bpf_sk_buff_ptr *to_free)
{
	to_free->skb = skb;
}

void bpf_qdisc_watchdog_schedule(struct Qdisc *of, or_u64 expire, or_u64 slack)
{
	timer = expire;
}

void bpf_qdisc_bstats_update(struct Qdisc *of, const struct sk_buff *skb)
{
}

int bpf_dynptr_from_skb(struct sk_buff *skb, or_u64 flags, struct bpf_dynptr *data)
{
	return 0;
}

int bpf_iter_num_new(struct bpf_iter_num___gate *it, int start, int end)
{
	it->opaque = (or_u64)(or_u32)end << 32 | (or_u32)start;
	return 0;
}

int *bpf_iter_num_next(struct bpf_iter_num___gate *it)
{
	static int at;

	at = (or_u32)it->opaque;
	if (at >= (int)(it->opaque >> 32))
		return NULL;
	it->opaque++;
	return &at;
}

void bpf_iter_num_destroy(struct bpf_iter_num___gate *it)
{
}

static void gate_limit(const struct limits *given)
{
	or_u32 zero = 0;
	struct or_limits *l = bpf_map_lookup_elem(&limits, &zero);

	*l = (struct or_limits){ MAX_HOLD, given->packets, given->bytes, given->flow_packets, given->flows,
				 given->quantum, 1, given->target };
}

static void gate_open(const struct limits *given)
{
	gate_limit(given);
	sch = (struct Qdisc){ .dev_queue = &device_queue };
	if (onramp.init(&sch, NULL, NULL))
		fail("no gate");
}

static void gate_reset(void)
{
	resetting = 1;
	onramp.reset(&sch);
	resetting = 0;
}

static void gate_close(void)
{
	gate_reset();
	onramp.destroy(&sch);
}

static int gate_enqueue(struct packet *packet)
{
	struct bpf_sk_buff_ptr dropped = {};

	*(or_u32 *)packet->skb.cb = packet->bytes;
	packet->skb.truesize = packet->ack ? 2 : 1000;
	packet->skb.tstamp = packet->departs;
	return !onramp.enqueue(&packet->skb, &sch, (struct sk_buff **)&dropped);
}

static struct packet *gate_dequeue(void)
{
	return (struct packet *)onramp.dequeue(&sch);
}

static unsigned int gate_length(void)
{
	return sch.q.qlen;
}

static unsigned int gate_backlog(void)
{
	return sch.qstats.backlog;
}

static const struct tc_onramp_xstats *gate_stats(void)
{
	return &instance_at(sch.limit - 1)->gate.stats;
}

static unsigned int gate_bucket(unsigned int hash)
{
	return (or_u32)(((or_u64)hash << 1 | 1) * 0x9e3779b97f4a7c15ULL >> 32) & (qdisc_flows - 1);
}
