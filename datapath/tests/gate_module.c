// SPDX-License-Identifier: GPL-2.0-only
/* The gate's module for the test of property.h: its own source, but for its includes of the kernel's headers. */
#include "kernel.h"
#include "module.c"
#include "property.h"

static struct Qdisc *all_gates[GATES], **chosen = all_gates;
#define sch (*chosen)

static void gate_choose(unsigned int gate)
{
	chosen = &all_gates[gate];
}

static unsigned long long gate_taken(void)
{
	return onramp_taken.counter;
}

static u32 bpf_prog_run(struct bpf_prog *prog, struct sk_buff *skb)
{
	return ask((struct packet *)skb);
}

static u32 skb_get_hash(struct sk_buff *skb)
{
	return ((struct packet *)skb)->hash;
}

static struct sock tcp_socket(unsigned long long rate, unsigned int bytes)
{
	return (struct sock){ .sk_pacing_rate = rate, .sk_wmem_queued = bytes, .is_tcp = true };
}

static void test_dropped(struct sk_buff *skb)
{
	drop((struct packet *)skb);
}

static bool test_marks(struct sk_buff *skb)
{
	return false;
}

static void gate_tell(const struct limits *limits, int (*tell)(struct Qdisc *, struct nlattr *, struct netlink_ext_ack *))
{
	struct nlattr options[TCA_ONRAMP_MAX + 1] = {
		[TCA_ONRAMP_LIMIT] = { limits->packets },
		[TCA_ONRAMP_BYTES] = { limits->bytes },
		[TCA_ONRAMP_FLOW_LIMIT] = { limits->flow_packets },
		[TCA_ONRAMP_FLOWS] = { limits->flows },
		[TCA_ONRAMP_QUANTUM] = { limits->quantum },
		[TCA_ONRAMP_MAX_HOLD64] = { MAX_HOLD },
		[TCA_ONRAMP_PROG_FD] = { 3 },
		[TCA_ONRAMP_TARGET64] = { limits->target },
	};

	if (tell(sch, options, NULL))
		fail("the options are refused");
}

static void gate_limit(const struct limits *limits)
{
	gate_tell(limits, onramp_change);
}

static void gate_open(const struct limits *limits)
{
	sch = calloc(1, sizeof(*sch));
	sch->priv = calloc(1, sizeof(struct onramp_sched_data));
	onramp_module_init();
	gate_tell(limits, onramp_init);
}

/* The kernel sets these two to 0 itself, too, and frees what was dropped. */
static void gate_reset(void)
{
	onramp_reset(sch);
}

static void gate_close(void)
{
	onramp_destroy(sch);
	free(sch->priv);
	free(sch);
}

static int gate_enqueue(struct packet *packet)
{
	struct sk_buff *dropped = NULL;

	packet->skb.len = qdisc_pkt_len(&packet->skb) = packet->bytes;
	packet->skb.truesize = packet->ack ? 2 : 1000;
	packet->skb.tstamp = packet->departs;
	return onramp_enqueue(&packet->skb, sch, &dropped) == NET_XMIT_SUCCESS;
}

static struct packet *gate_dequeue(void)
{
	return (struct packet *)onramp_dequeue(sch);
}

static unsigned int gate_length(void)
{
	return sch->q.qlen;
}

static unsigned int gate_backlog(void)
{
	return sch->qstats.backlog;
}

static const struct tc_onramp_xstats *gate_stats(void)
{
	return &((struct onramp_sched_data *)sch->priv)->stats;
}

/* The table may be as small as 64 buckets. */
static unsigned int gate_bucket(unsigned int hash)
{
	return hash_long((unsigned long)hash << 1 | 1, 6);
}
