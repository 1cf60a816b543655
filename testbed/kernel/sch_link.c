// SPDX-License-Identifier: GPL-2.0-only
/*
 * A wire with a rate and a delay, behind whatever queue is grafted onto it.
 *
 * The child is the queue: a drop-tail FIFO in a switch, fq or the On-Ramp gate in a
 * host. Packets are taken from it one at a time as the wire becomes free, so that
 * its length and its decisions are those of a real port; segments larger than the
 * MTU leave as packets of their own, as from a NIC with TSO. The other end of a veth
 * pair gets a packet when its last bit has arrived.
 *
 * netem has a rate and a delay, too, but counts its queue in packets only, and the
 * ones still under way along with those that wait.
 */
#include <linux/bitmap.h>
#include <linux/hash.h>
#include <linux/interrupt.h>
#include <linux/list.h>
#include <linux/math64.h>
#include <linux/module.h>
#include <linux/random.h>
#include <net/gso.h>
#include <net/netlink.h>
#include <net/pkt_sched.h>
#include <net/sch_generic.h>
#include "pkt_link.h"

/**
 * struct link_sched_data - a wire
 * @rate: in bits per second
 * @delay: in nanoseconds
 * @queue: the child
 * @lazy: the child is a plain FIFO. What leaves it, and when, is then known without
 *   looking at every instant: it is caught up with at the next arrival or delivery,
 *   which spares a timer per packet.
 * @free_at: the wire is in use until then
 * @fraction: what rounding left of @free_at, in units of 1/@rate ns
 * @wire: packets under way, in order
 * @due: its place among the links of which a packet arrives now
 * @sch: the qdisc that this belongs to
 * @order: what is counted of it, if wanted
 */
struct link_sched_data {
	u64 rate;
	u64 delay;
	struct Qdisc *queue;
	bool lazy;
	u64 free_at;
	u64 fraction;
	struct sk_buff_head wire;
	struct qdisc_watchdog watchdog;
	struct list_head due;
	struct Qdisc *sch;
	struct tc_link_xstats stats;
	struct link_order *order;
};

/* Arrivals are early or late by this at most. */
#define LINK_JITTER_NS 1u

/* Flows are told apart by as many bits of their hash. */
#define LINK_FLOW_BITS 12

/**
 * struct link_order - how flows' packets follow each other
 * @slot_ns: length of a slot
 * @slot: the present one's number
 * @came: packets that have come in it
 * @last: the flow of the last packet on the wire
 * @full: bytes in the queue at the last drop of an event that is not over
 * @hit: the flows that it hit
 */
struct link_order {
	u64 slot_ns;
	u64 slot;
	u32 came;
	u32 last;
	u32 full;
	DECLARE_BITMAP(hit, 1 << LINK_FLOW_BITS);
};

struct link_skb_cb {
	u64 deliver_at;
};

static struct link_skb_cb *link_skb_cb(struct sk_buff *skb)
{
	qdisc_cb_private_validate(skb, sizeof(struct link_skb_cb));
	return (struct link_skb_cb *)qdisc_skb_cb(skb)->data;
}

/*
 * Links of which a packet arrives at this instant, in random order. Timers of one instant end in the order in
 * which they were set, which is that of the packets before: without this, who was first among 16 senders in step
 * was first again in one of three slots, and had three packets through where it should have one.
 */
static LIST_HEAD(link_due);
static DEFINE_SPINLOCK(link_due_lock);
static u32 link_due_count;

static void link_deliver(struct tasklet_struct *tasklet)
{
	struct link_sched_data *q;

	rcu_read_lock();
	do {
		spin_lock_irq(&link_due_lock);
		q = list_first_entry_or_null(&link_due, struct link_sched_data, due);
		if (q) {
			list_del_init(&q->due);
			link_due_count--;
		}
		spin_unlock_irq(&link_due_lock);
		if (q)
			__netif_schedule(qdisc_root(q->sch));
	} while (q);
	rcu_read_unlock();
}

static DECLARE_TASKLET(link_tasklet, link_deliver);

/* A packet arrives. All timers of this instant end before the tasklet runs. */
static enum hrtimer_restart link_timer(struct hrtimer *timer)
{
	struct link_sched_data *q = container_of(timer, struct link_sched_data, watchdog.timer);
	struct list_head *before = &link_due;
	unsigned long flags;

	spin_lock_irqsave(&link_due_lock, flags);
	if (list_empty(&q->due)) {
		for (u32 place = get_random_u32_below(++link_due_count); place; place--)
			before = before->next;
		list_add(&q->due, before);
	}
	spin_unlock_irqrestore(&link_due_lock, flags);
	tasklet_hi_schedule(&link_tasklet);
	return HRTIMER_NORESTART;
}

static void link_timer_cancel(struct link_sched_data *q)
{
	unsigned long flags;

	qdisc_watchdog_cancel(&q->watchdog);
	spin_lock_irqsave(&link_due_lock, flags);
	if (!list_empty(&q->due)) {
		list_del_init(&q->due);
		link_due_count--;
	}
	spin_unlock_irqrestore(&link_due_lock, flags);
}

static u64 link_duration(const struct link_sched_data *q, u64 bytes)
{
	return mul_u64_u64_div_u64(bytes, 8 * NSEC_PER_SEC, q->rate);
}

static void link_count_wait(struct link_sched_data *q, u64 wait)
{
	u32 bucket = 0;

	if (wait >> LINK_WAIT_FIRST_SHIFT) {
		u32 octave = ilog2(wait) - LINK_WAIT_FIRST_SHIFT;
		u32 part = wait >> (octave + LINK_WAIT_FIRST_SHIFT - LINK_WAIT_SUB_SHIFT);

		bucket = min((octave << LINK_WAIT_SUB_SHIFT) + (part & ((1 << LINK_WAIT_SUB_SHIFT) - 1)),
			     LINK_WAIT_BUCKETS - 1u);
	}
	q->stats.wait[bucket]++;
	q->stats.wait_sum_ns += wait;
	q->stats.wait_max_ns = max(q->stats.wait_max_ns, wait);
}

static u32 link_flow(struct sk_buff *skb)
{
	return hash_32(skb_get_hash(skb), LINK_FLOW_BITS);
}

/* A packet with data comes. */
static void link_order_comes(struct link_sched_data *q, u64 now)
{
	u64 slot = div64_u64(now, q->order->slot_ns);

	if (q->order->came && slot > q->order->slot) {
		q->stats.slots[min(q->order->came, LINK_ORDER_SLOTS - 1u)]++;
		q->stats.slots[0] += slot - q->order->slot - 1;
		q->order->came = 0;
	}
	q->order->slot = slot;
	q->order->came++;
}

/* There is room for it, or there was none. */
static void link_order_taken(struct link_sched_data *q, u32 backlog)
{
	u32 flows;

	if (!q->order->full || 2 * backlog > q->order->full)
		return;
	flows = bitmap_weight(q->order->hit, 1 << LINK_FLOW_BITS);
	q->stats.events[min(flows >> LINK_ORDER_EVENT_SHIFT, LINK_ORDER_EVENTS - 1u)]++;
	bitmap_zero(q->order->hit, 1 << LINK_FLOW_BITS);
	q->order->full = 0;
}

static void link_order_dropped(struct link_sched_data *q, u32 flow, u32 backlog)
{
	q->order->full = max(backlog, 1u);
	__set_bit(flow, q->order->hit);
}

/*
 * When the packet that is sent last arrives: to a nanosecond at random, behind the one before. Flows that share
 * a link send in step with it; without this, arrivals of one instant always came in the same order, and the same
 * flows found the queue full (traffic phase effects, Floyd and Jacobson 1991).
 */
static u64 link_arrival(const struct link_sched_data *q)
{
	struct sk_buff *before = skb_peek_tail(&q->wire);
	u64 at = q->free_at + q->delay + get_random_u32_below(2 * LINK_JITTER_NS + 1);

	at = max(at, q->free_at + LINK_JITTER_NS) - LINK_JITTER_NS;
	return before ? max(at, link_skb_cb(before)->deliver_at) : at;
}

/* The wire takes @skb at @start. */
static void link_transmit(struct link_sched_data *q, struct sk_buff *skb, u64 start)
{
	u64 bits_ns, duration;

	/* Those that begin at one instant stay in step. */
	if (start > q->free_at)
		q->fraction = 0;
	bits_ns = (u64)skb->len * 8 * NSEC_PER_SEC + q->fraction;
	duration = div64_u64_rem(bits_ns, q->rate, &q->fraction);
	q->free_at = start + duration;
	q->stats.packets++;
	q->stats.busy_ns += duration;
	if (q->order && skb->len > LINK_ORDER_HEADERS) {
		u32 flow = link_flow(skb);

		q->stats.changes += q->stats.data && flow != q->order->last;
		q->stats.data++;
		q->order->last = flow;
	}
	link_skb_cb(skb)->deliver_at = link_arrival(q);
	__skb_queue_tail(&q->wire, skb);
}

/* Takes the next packet from the queue at @start; false if there is none. */
static bool link_pull(struct Qdisc *sch, u64 start)
{
	struct link_sched_data *q = qdisc_priv(sch);
	struct sk_buff *skb = q->queue->dequeue(q->queue), *segments, *next;
	unsigned int count = 0;

	if (!skb)
		return false;
	if (!skb_is_gso(skb)) {
		link_transmit(q, skb, start);
		return true;
	}
	segments = skb_gso_segment(skb, netif_skb_features(skb) & ~NETIF_F_GSO_MASK);
	if (IS_ERR_OR_NULL(segments)) {
		qdisc_qstats_drop(sch);
		sch->q.qlen--;
		kfree_skb(skb);
		return true;
	}
	skb_list_walk_safe(segments, segments, next) {
		skb_mark_not_on_list(segments);
		qdisc_skb_cb(segments)->pkt_len = segments->len;
		qdisc_skb_cb(segments)->pkt_segs = 1;
		link_transmit(q, segments, count++ ? q->free_at : start);
	}
	sch->q.qlen += count - 1;
	consume_skb(skb);
	return true;
}

/*
 * Brings the wire up to @now. A queue that is caught up with late had a packet
 * waiting all the time, so the wire took it the moment it was free; any other is
 * asked at that very moment.
 */
static void link_advance(struct Qdisc *sch, u64 now)
{
	struct link_sched_data *q = qdisc_priv(sch);

	if (q->lazy)
		while (q->free_at <= now && q->queue->q.qlen && link_pull(sch, q->free_at))
			;
	else
		while (q->free_at <= now && link_pull(sch, now))
			;
}

static int link_enqueue(struct sk_buff *skb, struct Qdisc *sch, struct sk_buff **to_free)
{
	struct link_sched_data *q = qdisc_priv(sch);
	u64 now = ktime_get_ns(), wait = 0;
	bool counts = q->lazy && q->order && skb->len > LINK_ORDER_HEADERS;
	u32 backlog, flow = 0;
	int ret;

	if (q->lazy) {
		link_advance(sch, now);
		if (q->free_at > now) {
			wait = q->free_at - now + link_duration(q, q->queue->qstats.backlog);
		} else if (q->free_at < now) {
			q->free_at = now;
			q->fraction = 0;
		}
	}
	backlog = q->queue->qstats.backlog;
	if (counts) {
		flow = link_flow(skb);
		link_order_comes(q, now);
	}
	ret = qdisc_enqueue(skb, q->queue, to_free);
	if (ret != NET_XMIT_SUCCESS) {
		if (net_xmit_drop_count(ret))
			qdisc_qstats_drop(sch);
		if (counts)
			link_order_dropped(q, flow, backlog);
		return ret;
	}
	if (counts)
		link_order_taken(q, backlog);
	if (q->lazy)
		link_count_wait(q, wait);
	sch->q.qlen++;
	return NET_XMIT_SUCCESS;
}

static struct sk_buff *link_dequeue(struct Qdisc *sch)
{
	struct link_sched_data *q = qdisc_priv(sch);
	u64 now = ktime_get_ns(), wake = U64_MAX;
	struct sk_buff *skb;

	link_advance(sch, now);
	skb = skb_peek(&q->wire);
	if (skb && link_skb_cb(skb)->deliver_at <= now) {
		__skb_unlink(skb, &q->wire);
		/*
		 * Bits on a wire carry no hash. With the sender's own, which changes when it
		 * times out, all switches of a path would choose alike.
		 */
		skb_clear_hash(skb);
		sch->q.qlen--;
		qdisc_bstats_update(sch, skb);
		return skb;
	}
	if (skb)
		wake = link_skb_cb(skb)->deliver_at;
	if (!q->lazy && q->queue->q.qlen && q->free_at > now)
		wake = min(wake, q->free_at);
	if (wake != U64_MAX)
		qdisc_watchdog_schedule_ns(&q->watchdog, wake);
	return NULL;
}

static const struct nla_policy link_policy[TCA_LINK_MAX + 1] = {
	[TCA_LINK_RATE64] = NLA_POLICY_MIN(NLA_U64, 1),
	[TCA_LINK_DELAY64] = { .type = NLA_U64 },
	[TCA_LINK_ORDER] = { .type = NLA_FLAG },
};

static int link_change(struct Qdisc *sch, struct nlattr *opt, struct netlink_ext_ack *extack)
{
	struct link_sched_data *q = qdisc_priv(sch);
	struct nlattr *tb[TCA_LINK_MAX + 1];
	int err;

	err = nla_parse_nested_deprecated(tb, TCA_LINK_MAX, opt, link_policy, extack);
	if (err)
		return err;
	if (!tb[TCA_LINK_RATE64]) {
		NL_SET_ERR_MSG(extack, "a link needs a rate");
		return -EINVAL;
	}
	if (tb[TCA_LINK_ORDER] && !q->order) {
		q->order = kzalloc(sizeof(*q->order), GFP_KERNEL);
		if (!q->order)
			return -ENOMEM;
	}
	sch_tree_lock(sch);
	q->rate = nla_get_u64(tb[TCA_LINK_RATE64]);
	q->fraction = 0;
	if (tb[TCA_LINK_DELAY64])
		q->delay = nla_get_u64(tb[TCA_LINK_DELAY64]);
	if (q->order)
		q->order->slot_ns = max(link_duration(q, LINK_ORDER_PACKET), 1ull);
	sch_tree_unlock(sch);
	return 0;
}

static void link_set_queue(struct link_sched_data *q)
{
	const char *id = q->queue->ops->id;

	q->lazy = !strcmp(id, "bfifo") || !strcmp(id, "pfifo") || !strcmp(id, "red");
}

static int link_init(struct Qdisc *sch, struct nlattr *opt, struct netlink_ext_ack *extack)
{
	struct link_sched_data *q = qdisc_priv(sch);
	int err;

	qdisc_watchdog_init(&q->watchdog, sch);
	hrtimer_setup(&q->watchdog.timer, link_timer, CLOCK_MONOTONIC, HRTIMER_MODE_ABS_PINNED);
	INIT_LIST_HEAD(&q->due);
	q->sch = sch;
	__skb_queue_head_init(&q->wire);
	q->queue = &noop_qdisc;
	if (!opt) {
		NL_SET_ERR_MSG(extack, "a link needs a rate");
		return -EINVAL;
	}
	err = link_change(sch, opt, extack);
	if (err)
		return err;
	q->queue = qdisc_create_dflt(sch->dev_queue, &pfifo_qdisc_ops, TC_H_MAKE(sch->handle, 1), extack);
	if (!q->queue) {
		q->queue = &noop_qdisc;
		return -ENOMEM;
	}
	qdisc_hash_add(q->queue, true);
	link_set_queue(q);
	return 0;
}

static void link_reset(struct Qdisc *sch)
{
	struct link_sched_data *q = qdisc_priv(sch);

	link_timer_cancel(q);
	qdisc_reset(q->queue);
	__skb_queue_purge(&q->wire);
	q->free_at = 0;
	q->fraction = 0;
}

static void link_destroy(struct Qdisc *sch)
{
	struct link_sched_data *q = qdisc_priv(sch);

	link_timer_cancel(q);
	__skb_queue_purge(&q->wire);
	kfree(q->order);
	qdisc_put(q->queue);
}

static int link_dump(struct Qdisc *sch, struct sk_buff *skb)
{
	struct link_sched_data *q = qdisc_priv(sch);
	struct nlattr *nest = nla_nest_start(skb, TCA_OPTIONS);

	if (!nest)
		return -EMSGSIZE;
	if (nla_put_u64_64bit(skb, TCA_LINK_RATE64, q->rate, TCA_LINK_PAD) ||
	    nla_put_u64_64bit(skb, TCA_LINK_DELAY64, q->delay, TCA_LINK_PAD)) {
		nla_nest_cancel(skb, nest);
		return -EMSGSIZE;
	}
	return nla_nest_end(skb, nest);
}

static int link_dump_stats(struct Qdisc *sch, struct gnet_dump *d)
{
	struct link_sched_data *q = qdisc_priv(sch);

	return gnet_stats_copy_app(d, &q->stats, sizeof(q->stats));
}

static int link_graft(struct Qdisc *sch, unsigned long arg, struct Qdisc *new, struct Qdisc **old,
		      struct netlink_ext_ack *extack)
{
	struct link_sched_data *q = qdisc_priv(sch);

	*old = qdisc_replace(sch, new ?: &noop_qdisc, &q->queue);
	sch_tree_lock(sch);
	link_set_queue(q);
	sch_tree_unlock(sch);
	return 0;
}

static struct Qdisc *link_leaf(struct Qdisc *sch, unsigned long arg)
{
	struct link_sched_data *q = qdisc_priv(sch);

	return q->queue;
}

static unsigned long link_find(struct Qdisc *sch, u32 classid)
{
	return TC_H_MIN(classid) == 1;
}

static void link_walk(struct Qdisc *sch, struct qdisc_walker *walker)
{
	if (!walker->stop)
		tc_qdisc_stats_dump(sch, 1, walker);
}

static int link_dump_class(struct Qdisc *sch, unsigned long class, struct sk_buff *skb, struct tcmsg *tcm)
{
	struct link_sched_data *q = qdisc_priv(sch);

	tcm->tcm_handle |= TC_H_MIN(1);
	tcm->tcm_info = q->queue->handle;
	return 0;
}

static const struct Qdisc_class_ops link_class_ops = {
	.graft = link_graft,
	.leaf = link_leaf,
	.find = link_find,
	.walk = link_walk,
	.dump = link_dump_class,
};

static struct Qdisc_ops link_qdisc_ops __read_mostly = {
	.id = "link",
	.cl_ops = &link_class_ops,
	.priv_size = sizeof(struct link_sched_data),
	.enqueue = link_enqueue,
	.dequeue = link_dequeue,
	.peek = qdisc_peek_dequeued,
	.init = link_init,
	.reset = link_reset,
	.destroy = link_destroy,
	.change = link_change,
	.dump = link_dump,
	.dump_stats = link_dump_stats,
	.owner = THIS_MODULE,
};

static int __init link_module_init(void)
{
	return register_qdisc(&link_qdisc_ops);
}
device_initcall(link_module_init);

MODULE_DESCRIPTION("A wire with a rate and a delay");
MODULE_LICENSE("GPL");
