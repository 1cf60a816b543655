// SPDX-License-Identifier: GPL-2.0-only
/*
 * A fair queue whose flows an eBPF program may hold.
 *
 * Before a packet leaves, the attached program sees it and answers 0, "it may go", or
 * for how many nanoseconds its flow is to wait; then it is asked again. The question
 * comes at the last moment, not at arrival: a departure time fixed at enqueue would
 * only be a delay line, which a window-based sender fills.
 *
 * A flow is a TCP socket, or what has the same header hash; its packets keep their order
 * whatever the program says. Flows take turns (deficit round robin; flows that were idle first, as
 * in fq_codel). skb->tstamp, a departure time set by TCP's pacing, is waited for. A local
 * flow that was held goes on at its socket's pacing rate for a while, and not with all
 * that has come together meanwhile, if that is much.
 *
 * The program may also have a segment of up to 64 KB cut into packets, which then go one
 * by one. Otherwise each pause would end with 64 KB, whatever has been learnt meanwhile:
 * twelve flows so keep 600 us of queue at 10 Gb/s (docs/datapath.md).
 *
 * Flows that stand for long because of the device, and not for the program, are told by CoDel, as fq_codel does.
 *
 * Pure ACKs of local connections overtake their flow's data: held data must not stop the
 * other direction.
 *
 * What must never happen is that packets stay: a program that holds for too long is
 * overruled, and without a program nothing is held.
 */
#include <linux/bpf.h>
#include <linux/filter.h>
#include <linux/hash.h>
#include <linux/log2.h>
#include <linux/mm.h>
#include <linux/module.h>
#include <linux/rbtree.h>
#include <linux/slab.h>
#include <linux/version.h>
#if LINUX_VERSION_CODE >= KERNEL_VERSION(6, 5, 0)
#include <net/gso.h>
#endif
#include <net/inet_ecn.h>
#include <net/netlink.h>
#include <net/pkt_sched.h>
#include <net/sch_generic.h>
#include <net/sock.h>
#include <net/tcp.h>
#include "gate.h"

/* Memory that all gates have of their limits, see GATE_PIECE. */
static atomic64_t onramp_taken = ATOMIC64_INIT(0);

/* Flows to a bucket of the table, if all flows there may be are there. */
#define ONRAMP_FLOWS_A_BUCKET 4
/* Idle flows looked at when a flow is added. */
#define ONRAMP_COLLECT 8
/**
 * struct onramp_queue - a flow
 * @bucket: in the hash table
 * @node: in one of the turns' lists, or in the list of idle flows
 * @wait: in the tree of throttled flows
 * @key: see onramp_key()
 * @packets: in the flow, as they came: what a segment was cut into is one
 * @cut: packets left at its head of a segment that was cut
 * @idle: it has no packet and no place among the turns
 * @head: first packet
 * @tail: last packet
 * @last_ack: last of the pure ACKs at its head, if there are any
 * @until: throttled until then
 * @idle_since: since when
 * @gate: what the gate remembers of it
 */
struct onramp_queue {
	struct hlist_node bucket;
	struct list_head node;
	struct rb_node wait;
	unsigned long key;
	u32 packets;
	u32 cut;
	bool idle;
	struct sk_buff *head;
	struct sk_buff *tail;
	struct sk_buff *last_ack;
	u64 until;
	u64 idle_since;
	struct gate_flow gate;
};

/**
 * struct onramp_bucket - flows whose keys have one hash
 * @flows: those that have a place of their own
 * @shared: packets in the flow of all others
 */
struct onramp_bucket {
	struct hlist_head flows;
	u32 shared;
};

/**
 * struct onramp_sched_data - a queueing discipline
 * @prog: says who waits
 * @max_hold: see TCA_ONRAMP_MAX_HOLD64, and so on
 * @bytes_limit: see there
 * @flow_limit: see there
 * @flows_limit: see there
 * @quantum: see there
 * @pacing: see there
 * @target: see there
 * @last: when the last dequeue was that found packets
 * @new_flows: those that were idle
 * @old_flows: the others that have packets and wait for nothing but their turn
 * @idle_flows: those without packets, in the order in which they became so
 * @throttled: those that wait, by time
 * @watchdog: for the first of them
 * @stats: as they are dumped
 * @rest: the flow of all packets for which there is no room or memory for another. The
 *   program is not asked about them.
 * @cut: packets in the queue that are there only because segments were cut
 * @granted: memory it has of @onramp_taken
 * @buckets_log: the table has 2^@buckets_log buckets
 * @buckets: the table
 */
struct onramp_sched_data {
	struct bpf_prog *prog;
	u64 max_hold;
	u64 target;
	u64 last;
	u32 bytes_limit;
	u32 flow_limit;
	u32 flows_limit;
	u32 quantum;
	bool pacing;
	struct list_head new_flows;
	struct list_head old_flows;
	struct list_head idle_flows;
	struct rb_root_cached throttled;
	struct qdisc_watchdog watchdog;
	struct tc_onramp_xstats stats;
	struct onramp_queue rest;
	u32 cut;
	u64 granted;
	u32 buckets_log;
	struct onramp_bucket *buckets;
};

/* Of a packet in @rest: its bucket; of others: when they came. No program of ours writes there. */
struct onramp_cb {
	u32 note;
};

static u32 *onramp_note(struct sk_buff *skb)
{
	qdisc_cb_private_validate(skb, sizeof(struct onramp_cb));
	return &((struct onramp_cb *)qdisc_skb_cb(skb)->data)->note;
}

static struct kmem_cache *onramp_queues;

/* Takes an idle flow out of the table. */
static void onramp_forget(struct onramp_sched_data *q, struct onramp_queue *f)
{
	hlist_del(&f->bucket);
	list_del(&f->node);
	kmem_cache_free(onramp_queues, f);
	q->stats.flows--;
	q->stats.idle_flows--;
	q->stats.collected++;
}

/* The idle list is in the order in which flows became idle. */
static void onramp_collect(struct onramp_sched_data *q, u64 now)
{
	struct onramp_queue *f, *next;
	int n = 0;

	list_for_each_entry_safe(f, next, &q->idle_flows, node) {
		bool full = q->stats.flows >= q->flows_limit;

		if (!full && (n++ == ONRAMP_COLLECT || now - f->idle_since < GATE_IDLE_NS))
			break;
		onramp_forget(q, f);
	}
}

static void onramp_init_flow(struct onramp_queue *f)
{
	memset(f, 0, sizeof(*f));
	INIT_LIST_HEAD(&f->node);
	RB_CLEAR_NODE(&f->wait);
	f->idle = true;
}

/*
 * The same for all packets of a flow. A local TCP connection is known by its socket, which its
 * packets keep alive: nothing is read or hashed, and the key stays when TCP changes the hash after
 * a loss. Odd, so unlike a pointer, for all others.
 */
static unsigned long onramp_key(struct sk_buff *skb)
{
	struct sock *sk = skb->sk;

	if (sk && sk_fullsock(sk) && sk_is_tcp(sk) && sk->sk_state != TCP_LISTEN)
		return (unsigned long)sk;
	return (unsigned long)skb_get_hash(skb) << 1 | 1;
}

static struct onramp_queue *onramp_find(struct onramp_sched_data *q, struct sk_buff *skb)
{
	unsigned long key = onramp_key(skb);
	u32 at = hash_long(key, q->buckets_log);
	struct onramp_bucket *bucket = &q->buckets[at];
	struct onramp_queue *f;

	hlist_for_each_entry(f, &bucket->flows, bucket)
		if (f->key == key)
			return f;

	onramp_collect(q, ktime_get_ns());
	f = NULL;
	if (gate_has_place(q->stats.flows, q->flows_limit, bucket->shared))
		f = kmem_cache_alloc(onramp_queues, GFP_ATOMIC | __GFP_NOWARN);
	if (!f) {
		q->stats.no_flow++;
		*onramp_note(skb) = at;
		return &q->rest;
	}
	onramp_init_flow(f);
	f->key = key;
	hlist_add_head(&f->bucket, &bucket->flows);
	list_add_tail(&f->node, &q->idle_flows);
	q->stats.flows++;
	q->stats.idle_flows++;
	return f;
}

/* Adds a packet after another of the flow's, or as its first. */
static void onramp_add_after(struct onramp_queue *f, struct sk_buff *before, struct sk_buff *skb)
{
	struct sk_buff **link = before ? &before->next : &f->head;

	skb->next = *link;
	*link = skb;
	if (!skb->next)
		f->tail = skb;
}

/* Memory of the packets in the queue. */
static u64 onramp_memory(struct Qdisc *sch)
{
	const struct onramp_sched_data *q = qdisc_priv(sch);

	return gate_memory(sch->qstats.backlog, sch->q.qlen - q->cut);
}

static bool onramp_take(struct onramp_sched_data *q, u64 memory)
{
	if (atomic64_add_return(memory, &onramp_taken) > q->bytes_limit) {
		atomic64_sub(memory, &onramp_taken);
		return false;
	}
	q->granted += memory;
	return true;
}

/* Whether so much memory may be used, which is more than was granted, or than the limit is now. */
static noinline bool onramp_grow(struct onramp_sched_data *q, u64 memory)
{
	return memory <= q->bytes_limit &&
	       (onramp_take(q, gate_asks(memory, q->granted)) || onramp_take(q, memory - q->granted));
}

static void onramp_give(struct onramp_sched_data *q, u64 memory)
{
	q->granted -= memory;
	atomic64_sub(memory, &onramp_taken);
}

/* A throttled flow gets a turn again. */
static void onramp_rouse(struct onramp_sched_data *q, struct onramp_queue *f)
{
	rb_erase_cached(&f->wait, &q->throttled);
	RB_CLEAR_NODE(&f->wait);
	q->stats.throttled_flows--;
	list_add_tail(&f->node, &q->old_flows);
}

static int onramp_enqueue(struct sk_buff *skb, struct Qdisc *sch, struct sk_buff **to_free)
{
	struct onramp_sched_data *q = qdisc_priv(sch);
	struct onramp_queue *f;
	u64 memory;

	if (unlikely(sch->q.qlen - q->cut >= sch->limit)) {
		q->stats.limit_drops++;
		return qdisc_drop(skb, sch, to_free);
	}
	memory = onramp_memory(sch) + gate_memory(qdisc_pkt_len(skb), 1);
	if (unlikely(memory > min_t(u64, q->granted, q->bytes_limit)) && !onramp_grow(q, memory)) {
		q->stats.bytes_drops++;
		return qdisc_drop(skb, sch, to_free);
	}
	f = onramp_find(q, skb);
	if (unlikely(f->packets >= q->flow_limit)) {
		q->stats.flow_limit_drops++;
		return qdisc_drop(skb, sch, to_free);
	}

	if (unlikely(f == &q->rest))
		q->buckets[*onramp_note(skb)].shared++;
	else
		*onramp_note(skb) = GATE_STAMP(q->last);
	if (f->idle) {
		f->idle = false;
		f->gate.credit = q->quantum;
		list_move_tail(&f->node, &q->new_flows);
		if (f != &q->rest)
			q->stats.idle_flows--;
	}
	if (skb_is_tcp_pure_ack(skb)) {
		onramp_add_after(f, f->last_ack, skb);
		f->last_ack = skb;
		/* It goes now, even if the data behind it has to wait. */
		if (!RB_EMPTY_NODE(&f->wait))
			onramp_rouse(q, f);
	} else {
		onramp_add_after(f, f->head ? f->tail : NULL, skb);
	}
	f->packets++;
	qdisc_qstats_backlog_inc(sch, skb);
	sch->q.qlen++;
	return NET_XMIT_SUCCESS;
}

static void onramp_throttle(struct onramp_sched_data *q, struct onramp_queue *f, u64 until)
{
	struct rb_node **p = &q->throttled.rb_root.rb_node, *parent = NULL;
	bool leftmost = true;

	while (*p) {
		parent = *p;
		if (until < rb_entry(parent, struct onramp_queue, wait)->until) {
			p = &parent->rb_left;
		} else {
			p = &parent->rb_right;
			leftmost = false;
		}
	}
	list_del_init(&f->node);
	f->until = until;
	f->gate.ready_since = until;
	rb_link_node(&f->wait, parent, p);
	rb_insert_color_cached(&f->wait, &q->throttled, leftmost);
	q->stats.throttled_flows++;
}

/* Flows whose wait is over get a turn again. */
static void onramp_wake(struct onramp_sched_data *q, u64 now)
{
	struct rb_node *first;
	int woken;

	for (woken = 0; woken < GATE_WAKES && (first = rb_first_cached(&q->throttled)); woken++) {
		struct onramp_queue *f = rb_entry(first, struct onramp_queue, wait);

		if (f->until > now)
			return;
		onramp_rouse(q, f);
	}
}

static void onramp_retire(struct onramp_sched_data *q, struct onramp_queue *f, u64 now)
{
	f->idle = true;
	if (f == &q->rest) {
		list_del_init(&f->node);
		return;
	}
	f->idle_since = now;
	list_move_tail(&f->node, &q->idle_flows);
	q->stats.idle_flows++;
}

/* Bytes a second of the packet's socket; 0: as fast as it can. */
static u64 onramp_rate(const struct onramp_sched_data *q, const struct sk_buff *skb)
{
	const struct sock *sk = skb->sk;
	unsigned long rate;

	if (!q->pacing || !sk || !sk_fullsock(sk) || (sk_is_tcp(sk) && READ_ONCE(sk->sk_wmem_queued) <= GATE_SHORT_BYTES))
		return 0;
	rate = READ_ONCE(sk->sk_pacing_rate);
	return rate == ~0UL ? 0 : rate;
}

/* TCP paces itself; what others ask for nobody else sees to. */
static bool onramp_asked(const struct onramp_sched_data *q, const struct onramp_queue *f, const struct sk_buff *skb)
{
	return f != &q->rest && skb->sk && !sk_is_tcp(skb->sk);
}

/* Cuts the flow's first packet, a segment, into the packets it stands for. */
static bool onramp_cut(struct Qdisc *sch, struct onramp_queue *f)
{
	struct onramp_sched_data *q = qdisc_priv(sch);
	struct sk_buff *skb = f->head, *segments, *last;
	unsigned int count = 0, bytes = 0, was = qdisc_pkt_len(skb);

	segments = skb_gso_segment(skb, netif_skb_features(skb) & ~NETIF_F_GSO_MASK);
	if (IS_ERR_OR_NULL(segments))
		return false;
	for (last = segments;; last = last->next) {
		qdisc_skb_cb(last)->pkt_len = last->len;
#if LINUX_VERSION_CODE >= KERNEL_VERSION(6, 19, 0)
		qdisc_skb_cb(last)->pkt_segs = 1;
#endif
		bytes += last->len;
		count++;
		if (!last->next)
			break;
	}
	f->head = segments;
	last->next = skb->next;
	if (f->tail == skb)
		f->tail = last;
	f->cut = count;
	q->cut += count - 1;
	sch->q.qlen += count - 1;
	sch->qstats.backlog += bytes - was;
	qdisc_tree_reduce_backlog(sch, 1 - (int)count, was - bytes);
	q->stats.cut++;
	skb->next = NULL;
	consume_skb(skb);
	return true;
}

static u32 onramp_run(struct onramp_sched_data *q, struct sk_buff *skb)
{
	u32 answer;

	/* Programs expect the Ethernet header first, which is where data points here. */
	bpf_compute_data_pointers(skb);
	rcu_read_lock();
	answer = bpf_prog_run(q->prog, skb);
	rcu_read_unlock();
	return answer;
}

/*
 * When the program lets the flow's first packet leave. A wait counts from when the program
 * has said it: under load, that is long after the dequeue began.
 */
static u64 onramp_ask(struct Qdisc *sch, struct onramp_queue *f, u64 *now)
{
	struct onramp_sched_data *q = qdisc_priv(sch);
	u32 wait;

	if (!q->prog || f == &q->rest)
		return *now;
	wait = onramp_run(q, f->head);
	if (wait & ONRAMP_CUT && skb_is_gso(f->head) && onramp_cut(sch, f))
		wait = onramp_run(q, f->head);
	wait &= ~ONRAMP_CUT;
	if (likely(!wait))
		return *now;
	*now = ktime_get_ns();
	return gate_held(&f->gate, wait, *now, q->max_hold, &q->stats);
}

/* Takes the first packet out. */
static struct sk_buff *onramp_take_out(struct Qdisc *sch, struct onramp_queue *f)
{
	struct onramp_sched_data *q = qdisc_priv(sch);
	struct sk_buff *skb = f->head;
	u64 spare;

	if (unlikely(f == &q->rest))
		q->buckets[*onramp_note(skb)].shared--;
	f->head = skb->next;
	skb_mark_not_on_list(skb);
	if (f->cut > 1 && !f->last_ack) {
		f->cut--;
		q->cut--;
	} else {
		if (!f->last_ack)
			f->cut = 0;
		f->packets--;
	}
	qdisc_qstats_backlog_dec(sch, skb);
	sch->q.qlen--;
	spare = gate_gives(onramp_memory(sch), q->granted);
	if (unlikely(spare))
		onramp_give(q, spare);
	return skb;
}

/* The first packet leaves now. */
static struct sk_buff *onramp_pop(struct Qdisc *sch, struct onramp_queue *f, u64 now)
{
	struct onramp_sched_data *q = qdisc_priv(sch);
	struct sk_buff *skb = onramp_take_out(sch, f);

	f->gate.credit -= qdisc_pkt_len(skb);
	if (f->last_ack) {
		if (f->last_ack == skb)
			f->last_ack = NULL;
		q->stats.acks_first += !!f->packets;
	} else {
		gate_leaves(&f->gate, qdisc_pkt_len(skb), onramp_rate(q, skb), onramp_asked(q, f, skb), now, q->max_hold,
			    &q->stats);
	}
	qdisc_bstats_update(sch, skb);
	return skb;
}

/* CoDel: whether the first packet was dropped. There is one behind it. */
static noinline bool onramp_drops(struct Qdisc *sch, struct onramp_queue *f, u64 now)
{
	struct onramp_sched_data *q = qdisc_priv(sch);
	struct sk_buff *skb = f->head;

	if (!gate_tells(&f->gate, f->packets, *onramp_note(skb), now, q->target))
		return false;
	if (INET_ECN_set_ce(skb)) {
		q->stats.codel_marks++;
		return false;
	}
	gate_dropped(&f->gate, now, &q->stats);
	skb = onramp_take_out(sch, f);
	qdisc_qstats_drop(sch);
	qdisc_tree_reduce_backlog(sch, 1, qdisc_pkt_len(skb));
	kfree_skb(skb);
	return true;
}

static struct sk_buff *onramp_dequeue(struct Qdisc *sch)
{
	struct onramp_sched_data *q = qdisc_priv(sch);
	struct rb_node *first;
	int questions = 0, passes = 0;
	u64 now;

	/* Asked once more after the last packet. Its flow keeps its turn until there is another. */
	if (!sch->q.qlen)
		return NULL;
	now = ktime_get_ns();
	q->last = now;
	onramp_wake(q, now);

	/* Each pass takes a flow off the list, or ends its turn and gives it credit. */
	for (;;) {
		bool is_new = !list_empty(&q->new_flows);
		struct list_head *turn = is_new ? &q->new_flows : &q->old_flows;
		struct onramp_queue *f;
		u64 at;

		if (list_empty(turn))
			break;
		if (unlikely(passes++ == GATE_PASSES)) {
			qdisc_watchdog_schedule_ns(&q->watchdog, now);
			return NULL;
		}
		f = list_first_entry(turn, struct onramp_queue, node);
		switch (gate_turn(&f->gate, !!f->head, is_new, !list_empty(&q->old_flows), q->quantum)) {
		case GATE_RETIRES:
			onramp_retire(q, f, now);
			continue;
		case GATE_GOES_BACK:
			list_move_tail(&f->node, &q->old_flows);
			continue;
		case GATE_SENDS:
			break;
		}
		if (f->last_ack)
			return onramp_pop(sch, f, now);
		at = gate_departure(&f->gate, ktime_to_ns(f->head->tstamp), now, &q->stats);
		if (at <= now) {
			if (f != &q->rest && unlikely(gate_is_late(&f->gate, f->packets, *onramp_note(f->head), now, q->target)) &&
			    onramp_drops(sch, f, now))
				continue;
			if (questions++ == GATE_QUESTIONS) {
				qdisc_watchdog_schedule_ns(&q->watchdog, now);
				return NULL;
			}
			at = onramp_ask(sch, f, &now);
		}
		if (at <= now)
			return onramp_pop(sch, f, now);
		onramp_throttle(q, f, at);
		qdisc_qstats_overlimit(sch);
	}
	first = rb_first_cached(&q->throttled);
	if (first)
		qdisc_watchdog_schedule_ns(&q->watchdog, rb_entry(first, struct onramp_queue, wait)->until);
	return NULL;
}

static const struct nla_policy onramp_policy[TCA_ONRAMP_MAX + 1] = {
	[TCA_ONRAMP_LIMIT] = NLA_POLICY_MIN(NLA_U32, 1),
	[TCA_ONRAMP_BYTES] = NLA_POLICY_MIN(NLA_U32, 1),
	[TCA_ONRAMP_FLOW_LIMIT] = NLA_POLICY_MIN(NLA_U32, 1),
	[TCA_ONRAMP_FLOWS] = NLA_POLICY_MIN(NLA_U32, 1),
	[TCA_ONRAMP_QUANTUM] = NLA_POLICY_MIN(NLA_U32, 256),
	[TCA_ONRAMP_MAX_HOLD64] = { .type = NLA_U64 },
	[TCA_ONRAMP_PROG_FD] = { .type = NLA_S32 },
	[TCA_ONRAMP_PACING] = NLA_POLICY_MAX(NLA_U32, 1),
	[TCA_ONRAMP_TARGET64] = { .type = NLA_U64 },
};

static int onramp_change(struct Qdisc *sch, struct nlattr *opt, struct netlink_ext_ack *extack)
{
	struct onramp_sched_data *q = qdisc_priv(sch);
	struct nlattr *tb[TCA_ONRAMP_MAX + 1];
	struct bpf_prog *prog = NULL, *old = NULL;
	bool change_prog;
	int err;

	err = nla_parse_nested_deprecated(tb, TCA_ONRAMP_MAX, opt, onramp_policy, extack);
	if (err)
		return err;
	change_prog = tb[TCA_ONRAMP_PROG_FD];
	if (change_prog && nla_get_s32(tb[TCA_ONRAMP_PROG_FD]) >= 0) {
		prog = bpf_prog_get_type_dev(nla_get_s32(tb[TCA_ONRAMP_PROG_FD]),
					     BPF_PROG_TYPE_SCHED_CLS, false);
		if (IS_ERR(prog)) {
			NL_SET_ERR_MSG(extack, "not a program of type sched_cls");
			return PTR_ERR(prog);
		}
		/* It runs under the device's lock: one that redirects packets would wait for itself. */
		if (prog->aux->name[0] &&
		    strncmp(prog->aux->name, ONRAMP_PROG_PREFIX, strlen(ONRAMP_PROG_PREFIX))) {
			NL_SET_ERR_MSG(extack, "the program has a name that does not begin with " ONRAMP_PROG_PREFIX);
			bpf_prog_put(prog);
			return -EINVAL;
		}
	}

	sch_tree_lock(sch);
	if (tb[TCA_ONRAMP_LIMIT])
		sch->limit = nla_get_u32(tb[TCA_ONRAMP_LIMIT]);
	if (tb[TCA_ONRAMP_BYTES])
		q->bytes_limit = nla_get_u32(tb[TCA_ONRAMP_BYTES]);
	if (tb[TCA_ONRAMP_FLOW_LIMIT])
		q->flow_limit = nla_get_u32(tb[TCA_ONRAMP_FLOW_LIMIT]);
	if (tb[TCA_ONRAMP_FLOWS])
		q->flows_limit = nla_get_u32(tb[TCA_ONRAMP_FLOWS]);
	if (tb[TCA_ONRAMP_QUANTUM])
		/* credit is signed */
		q->quantum = min(nla_get_u32(tb[TCA_ONRAMP_QUANTUM]), 1u << 20);
	if (tb[TCA_ONRAMP_MAX_HOLD64])
		q->max_hold = nla_get_u64(tb[TCA_ONRAMP_MAX_HOLD64]);
	if (tb[TCA_ONRAMP_PACING])
		q->pacing = nla_get_u32(tb[TCA_ONRAMP_PACING]);
	if (tb[TCA_ONRAMP_TARGET64])
		q->target = min_t(u64, nla_get_u64(tb[TCA_ONRAMP_TARGET64]), GATE_TARGET_MOST);
	if (change_prog) {
		old = q->prog;
		q->prog = prog;
	}
	sch_tree_unlock(sch);
	if (old)
		bpf_prog_put(old);
	return 0;
}

/* Whether @sch would be a class of a qdisc that stops at a class which holds its packets. */
static bool onramp_parent_stops(struct Qdisc *sch)
{
	static const char *const stopping[] = { "drr", "ets", "hfsc", "qfq" };
	struct net_device *dev = qdisc_dev(sch);
	u32 handle = TC_H_MAJ(sch->parent);
	struct Qdisc *root = rtnl_dereference(dev->qdisc), *parent = NULL, *q;
	int i;

	if (sch->parent == TC_H_ROOT || !handle)
		return false;
	if (root && root->handle == handle)
		parent = root;
	hash_for_each_possible(dev->qdisc_hash, q, hash, handle)
		if (q->handle == handle)
			parent = q;
	for (i = 0; parent && i < ARRAY_SIZE(stopping); i++)
		if (!strcmp(parent->ops->id, stopping[i]))
			return true;
	return false;
}

static int onramp_init(struct Qdisc *sch, struct nlattr *opt, struct netlink_ext_ack *extack)
{
	struct onramp_sched_data *q = qdisc_priv(sch);
	int err;

	sch->limit = 10240;
	q->bytes_limit = 64 << 20;
	q->flow_limit = 1024;
	q->flows_limit = 65536;
	q->quantum = 2 * psched_mtu(qdisc_dev(sch));
	q->max_hold = 10 * NSEC_PER_MSEC;
	q->pacing = true;
	q->throttled = RB_ROOT_CACHED;
	INIT_LIST_HEAD(&q->new_flows);
	INIT_LIST_HEAD(&q->old_flows);
	INIT_LIST_HEAD(&q->idle_flows);
	onramp_init_flow(&q->rest);
	qdisc_watchdog_init(&q->watchdog, sch);

	/* Root of a user namespace has no business with what holds packets. */
	if (!capable(CAP_NET_ADMIN))
		return -EPERM;
	if (onramp_parent_stops(sch)) {
		NL_SET_ERR_MSG(extack, "drr, ets, hfsc and qfq stop at a class that holds its packets");
		return -EOPNOTSUPP;
	}
	if (opt) {
		err = onramp_change(sch, opt, extack);
		if (err)
			return err;
	}
	/* The number of buckets stays what it is now. */
	q->buckets_log = ilog2(clamp(q->flows_limit / ONRAMP_FLOWS_A_BUCKET, 64u, 1u << 18));
	q->buckets = kvcalloc(1UL << q->buckets_log, sizeof(*q->buckets), GFP_KERNEL);
	return q->buckets ? 0 : -ENOMEM;
}

/* Forgets all flows and frees their packets. */
static void onramp_reset(struct Qdisc *sch)
{
	struct onramp_sched_data *q = qdisc_priv(sch);
	struct onramp_queue *f;
	struct hlist_node *next;
	u32 i;

	qdisc_watchdog_cancel(&q->watchdog);
	for (i = 0; q->buckets && i < 1U << q->buckets_log; i++) {
		q->buckets[i].shared = 0;
		hlist_for_each_entry_safe(f, next, &q->buckets[i].flows, bucket) {
			rtnl_kfree_skbs(f->head, f->tail);
			hlist_del(&f->bucket);
			kmem_cache_free(onramp_queues, f);
		}
	}
	rtnl_kfree_skbs(q->rest.head, q->rest.tail);
	onramp_init_flow(&q->rest);
	q->throttled = RB_ROOT_CACHED;
	INIT_LIST_HEAD(&q->new_flows);
	INIT_LIST_HEAD(&q->old_flows);
	INIT_LIST_HEAD(&q->idle_flows);
	q->cut = 0;
	onramp_give(q, q->granted);
	q->stats.flows = 0;
	q->stats.idle_flows = 0;
	q->stats.throttled_flows = 0;
	sch->q.qlen = 0;
	sch->qstats.backlog = 0;
}

/* Also called where onramp_init() has failed. */
static void onramp_destroy(struct Qdisc *sch)
{
	struct onramp_sched_data *q = qdisc_priv(sch);

	onramp_reset(sch);
	kvfree(q->buckets);
	if (q->prog)
		bpf_prog_put(q->prog);
}

static int onramp_dump(struct Qdisc *sch, struct sk_buff *skb)
{
	struct onramp_sched_data *q = qdisc_priv(sch);
	struct nlattr *nest = nla_nest_start(skb, TCA_OPTIONS);

	if (!nest)
		return -EMSGSIZE;
	if (nla_put_u32(skb, TCA_ONRAMP_LIMIT, sch->limit) ||
	    nla_put_u32(skb, TCA_ONRAMP_BYTES, q->bytes_limit) ||
	    nla_put_u32(skb, TCA_ONRAMP_FLOW_LIMIT, q->flow_limit) ||
	    nla_put_u32(skb, TCA_ONRAMP_FLOWS, q->flows_limit) ||
	    nla_put_u32(skb, TCA_ONRAMP_QUANTUM, q->quantum) ||
	    nla_put_u32(skb, TCA_ONRAMP_PACING, q->pacing) ||
	    nla_put_u64_64bit(skb, TCA_ONRAMP_MAX_HOLD64, q->max_hold, TCA_ONRAMP_PAD) ||
	    nla_put_u64_64bit(skb, TCA_ONRAMP_TARGET64, q->target, TCA_ONRAMP_PAD))
		goto full;
	if (q->prog && (nla_put_u32(skb, TCA_ONRAMP_PROG_ID, q->prog->aux->id) ||
			nla_put_string(skb, TCA_ONRAMP_PROG_NAME, q->prog->aux->name)))
		goto full;
	return nla_nest_end(skb, nest);
full:
	nla_nest_cancel(skb, nest);
	return -EMSGSIZE;
}

static int onramp_dump_stats(struct Qdisc *sch, struct gnet_dump *d)
{
	struct onramp_sched_data *q = qdisc_priv(sch);
	struct tc_onramp_xstats stats;

	sch_tree_lock(sch);
	stats = q->stats;
	sch_tree_unlock(sch);
	return gnet_stats_copy_app(d, &stats, sizeof(stats));
}

static struct Qdisc_ops onramp_qdisc_ops __read_mostly = {
	.id = "onramp",
	.priv_size = sizeof(struct onramp_sched_data),
	.enqueue = onramp_enqueue,
	.dequeue = onramp_dequeue,
	.peek = qdisc_peek_dequeued,
	.init = onramp_init,
	.reset = onramp_reset,
	.destroy = onramp_destroy,
	.change = onramp_change,
	.dump = onramp_dump,
	.dump_stats = onramp_dump_stats,
	.owner = THIS_MODULE,
};

static int __init onramp_module_init(void)
{
	int err;

	onramp_queues = kmem_cache_create("onramp_queue", sizeof(struct onramp_queue), 0, 0, NULL);
	if (!onramp_queues)
		return -ENOMEM;
	err = register_qdisc(&onramp_qdisc_ops);
	if (err)
		kmem_cache_destroy(onramp_queues);
	return err;
}

static void __exit onramp_module_exit(void)
{
	unregister_qdisc(&onramp_qdisc_ops);
	kmem_cache_destroy(onramp_queues);
}

module_init(onramp_module_init)
module_exit(onramp_module_exit)

MODULE_DESCRIPTION("Fair queue whose flows an eBPF program may hold");
MODULE_LICENSE("GPL");
MODULE_ALIAS("net-sch-onramp");
MODULE_ALIAS("sch_onramp");
