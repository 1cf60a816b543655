/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* In place of the kernel's headers, for gate_module.c: what sch_onramp uses of them, as simple as it can be. */
#ifndef TESTS_KERNEL_H
#define TESTS_KERNEL_H

#include <errno.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

typedef uint32_t u32;
typedef uint64_t u64;
typedef uint64_t ktime_t;
static unsigned long long now, timer;

#define KERNEL_VERSION(a, b, c) ((a) << 16 | (b) << 8 | (c))
#define LINUX_VERSION_CODE KERNEL_VERSION(6, 12, 0)
#define NSEC_PER_MSEC 1000000L
#define GFP_ATOMIC 0
#define GFP_KERNEL 0
#define __GFP_NOWARN 0
#define __read_mostly
#define __init
#define __exit
#define THIS_MODULE NULL
#define MODULE_DESCRIPTION(x)
#define MODULE_LICENSE(x)
#define MODULE_ALIAS(x)
#define module_init(f)
#define module_exit(f)
#define likely(x) (x)
#define unlikely(x) (x)
#define min(a, b) ((a) < (b) ? (a) : (b))
#define min_t(type, a, b) min((type)(a), (type)(b))
#define noinline
#define clamp(x, low, high) ((x) < (low) ? (low) : (x) > (high) ? (high) : (x))
#define ARRAY_SIZE(a) (sizeof(a) / sizeof(*(a)))
#define READ_ONCE(x) (x)
#define container_of(p, type, field) ((type *)((char *)(p) - offsetof(type, field)))
#define IS_ERR(p) ((uintptr_t)(p) >= (uintptr_t)-4095)
#define IS_ERR_OR_NULL(p) (!(p) || IS_ERR(p))
#define PTR_ERR(p) ((intptr_t)(p))
#define ktime_to_ns(t) (t)
#define ilog2(n) (31 - __builtin_clz(n))
#define hash_long(value, bits) ((value) * 0x61C8864680B583EBULL >> (64 - (bits)))
#define capable(what) true
#define rcu_read_lock()
#define rcu_read_unlock()

static inline u64 ktime_get_ns(void)
{
	return now;
}

typedef struct {
	int64_t counter;
} atomic64_t;
#define ATOMIC64_INIT(n) { n }
#define atomic64_add_return(n, v) ((v)->counter += (n))
#define atomic64_sub(n, v) ((v)->counter -= (n))

struct kmem_cache;
#define kmem_cache_create(name, size, align, flags, constructor) ((struct kmem_cache *)(size_t)(size))
#define kmem_cache_destroy(cache)
#define kmem_cache_alloc(cache, flags) malloc((size_t)(cache))
#define kmem_cache_free(cache, p) free(p)
#define kvcalloc(n, size, flags) calloc(n, size)
#define kvfree(p) free(p)

/* Lists. */
struct list_head {
	struct list_head *next, *prev;
};
struct hlist_node {
	struct hlist_node *next, **pprev;
};
struct hlist_head {
	struct hlist_node *first;
};
#define list_entry container_of
#define list_first_entry(head, type, field) container_of((head)->next, type, field)
#define list_for_each_entry_safe(p, n, head, field)                                                      \
	for (p = container_of((head)->next, typeof(*p), field), n = container_of(p->field.next, typeof(*p), field); \
	     &p->field != (head); p = n, n = container_of(n->field.next, typeof(*n), field))
#define hlist_of(node, type, field) ((node) ? container_of(node, type, field) : NULL)
#define hlist_for_each_entry(p, head, field) \
	for (p = hlist_of((head)->first, typeof(*p), field); p; p = hlist_of(p->field.next, typeof(*p), field))
#define hlist_for_each_entry_safe(p, n, head, field) \
	for (p = hlist_of((head)->first, typeof(*p), field); p && (n = p->field.next, 1); p = hlist_of(n, typeof(*p), field))

static inline void INIT_LIST_HEAD(struct list_head *l)
{
	l->next = l->prev = l;
}

static inline bool list_empty(const struct list_head *l)
{
	return l->next == l;
}

static inline void list_add_tail(struct list_head *l, struct list_head *head)
{
	l->next = head;
	l->prev = head->prev;
	l->prev->next = head->prev = l;
}

static inline void list_del(struct list_head *l)
{
	l->prev->next = l->next;
	l->next->prev = l->prev;
}

static inline void list_del_init(struct list_head *l)
{
	list_del(l);
	INIT_LIST_HEAD(l);
}

static inline void list_move_tail(struct list_head *l, struct list_head *head)
{
	list_del(l);
	list_add_tail(l, head);
}

static inline void hlist_add_head(struct hlist_node *n, struct hlist_head *head)
{
	n->next = head->first;
	n->pprev = &head->first;
	if (n->next)
		n->next->pprev = &n->next;
	head->first = n;
}

static inline void hlist_del(struct hlist_node *n)
{
	*n->pprev = n->next;
	if (n->next)
		n->next->pprev = n->pprev;
}

/* A tree without colours. */
struct rb_node {
	struct rb_node *parent, *rb_left, *rb_right;
};
struct rb_root {
	struct rb_node *rb_node;
};
struct rb_root_cached {
	struct rb_root rb_root;
};
#define rb_entry container_of
#define RB_ROOT_CACHED ((struct rb_root_cached){})
#define RB_CLEAR_NODE(n) ((n)->parent = (n))
#define RB_EMPTY_NODE(n) ((n)->parent == (n))

static inline struct rb_node *rb_first_cached(const struct rb_root_cached *root)
{
	struct rb_node *n = root->rb_root.rb_node;

	while (n && n->rb_left)
		n = n->rb_left;
	return n;
}

static inline void rb_link_node(struct rb_node *n, struct rb_node *parent, struct rb_node **link)
{
	*n = (struct rb_node){ .parent = parent };
	*link = n;
}

static inline void rb_insert_color_cached(struct rb_node *n, struct rb_root_cached *root, bool leftmost)
{
}

static inline void rb_put(struct rb_node *old, struct rb_node *n, struct rb_root_cached *root)
{
	struct rb_node **link = &root->rb_root.rb_node;

	if (old->parent)
		link = old->parent->rb_left == old ? &old->parent->rb_left : &old->parent->rb_right;
	*link = n;
	if (n)
		n->parent = old->parent;
}

static inline void rb_erase_cached(struct rb_node *n, struct rb_root_cached *root)
{
	struct rb_node *next = n->rb_right;

	if (!n->rb_left || !next) {
		rb_put(n, next ? next : n->rb_left, root);
		return;
	}
	while (next->rb_left)
		next = next->rb_left;
	rb_put(next, next->rb_right, root);
	*next = *n;
	rb_put(n, next, root);
	next->rb_left->parent = next;
	if (next->rb_right)
		next->rb_right->parent = next;
}

/* Packets and sockets. */
struct sock {
	u64 sk_pacing_rate;
	int sk_wmem_queued;
	int sk_state;
	bool is_tcp;
};
#define TCP_LISTEN 10
#define sk_fullsock(sk) true
#define sk_is_tcp(sk) ((sk)->is_tcp)
struct sk_buff {
	struct sk_buff *next;
	struct sock *sk;
	ktime_t tstamp;
	u32 len, truesize;
	unsigned char cb[48] __attribute__((aligned(8)));
};
struct qdisc_skb_cb {
	u32 pkt_len;
	u32 others;
	unsigned char data[20];
};
#define qdisc_skb_cb(skb) ((struct qdisc_skb_cb *)(skb)->cb)
#define qdisc_pkt_len(skb) (qdisc_skb_cb(skb)->pkt_len)
#define qdisc_cb_private_validate(skb, size) ((void)(skb))
#define skb_is_tcp_pure_ack(skb) ((skb)->truesize == 2)
#define skb_mark_not_on_list(skb) ((skb)->next = NULL)
#define skb_is_gso(skb) false
#define skb_gso_segment(skb, features) NULL
#define netif_skb_features(skb) 0
#define NETIF_F_GSO_MASK 0
#define consume_skb(skb) free(skb)
#define kfree_skb(skb) test_dropped(skb)
#define INET_ECN_set_ce(skb) test_marks(skb)
static void test_dropped(struct sk_buff *skb);
static bool test_marks(struct sk_buff *skb);
static u32 skb_get_hash(struct sk_buff *skb);

static inline void rtnl_kfree_skbs(struct sk_buff *head, struct sk_buff *tail)
{
	while (head) {
		struct sk_buff *next = head->next;

		free(head);
		head = next;
	}
}

/* Queueing disciplines. */
struct netlink_ext_ack;
struct gnet_dump;
struct Qdisc;
struct net_device {
	struct Qdisc *qdisc;
	int qdisc_hash;
};
struct nlattr {
	u64 value;
};
struct Qdisc_ops;
struct Qdisc {
	const struct Qdisc_ops *ops;
	u32 limit, handle, parent;
	struct {
		u32 qlen;
	} q;
	struct {
		u32 backlog, drops, overlimits;
	} qstats;
	void *priv;
};
struct Qdisc_ops {
	const char *id;
	size_t priv_size;
	int (*enqueue)(struct sk_buff *skb, struct Qdisc *sch, struct sk_buff **to_free);
	struct sk_buff *(*dequeue)(struct Qdisc *sch);
	struct sk_buff *(*peek)(struct Qdisc *sch);
	int (*init)(struct Qdisc *sch, struct nlattr *opt, struct netlink_ext_ack *extack);
	void (*reset)(struct Qdisc *sch);
	void (*destroy)(struct Qdisc *sch);
	int (*change)(struct Qdisc *sch, struct nlattr *opt, struct netlink_ext_ack *extack);
	int (*dump)(struct Qdisc *sch, struct sk_buff *skb);
	int (*dump_stats)(struct Qdisc *sch, struct gnet_dump *d);
	void *owner;
};
struct qdisc_watchdog {
	struct Qdisc *of;
};
static struct net_device device;
#define NET_XMIT_SUCCESS 0
#define NET_XMIT_DROP 1
#define qdisc_priv(sch) ((sch)->priv)
#define qdisc_dev(sch) (&device)
#define psched_mtu(dev) 1514
#define sch_tree_lock(sch)
#define sch_tree_unlock(sch)
#define qdisc_watchdog_init(w, sch) ((w)->of = (sch))
#define qdisc_watchdog_cancel(w) (timer = ~0ULL)
#define qdisc_watchdog_schedule_ns(w, at) (timer = (at))
#define qdisc_qstats_backlog_inc(sch, skb) ((sch)->qstats.backlog += qdisc_pkt_len(skb))
#define qdisc_qstats_backlog_dec(sch, skb) ((sch)->qstats.backlog -= qdisc_pkt_len(skb))
#define qdisc_qstats_drop(sch) ((sch)->qstats.drops++)
#define qdisc_qstats_overlimit(sch) ((sch)->qstats.overlimits++)
#define qdisc_bstats_update(sch, skb)
#define qdisc_tree_reduce_backlog(sch, n, bytes)
#define qdisc_peek_dequeued NULL
#define register_qdisc(ops) ((void)(ops), 0)
#define unregister_qdisc(ops) ((void)(ops))
#define gnet_stats_copy_app(d, stats, size) ((void)(stats), 0)

static inline int qdisc_drop(struct sk_buff *skb, struct Qdisc *sch, struct sk_buff **to_free)
{
	sch->qstats.drops++;
	skb->next = *to_free;
	*to_free = skb;
	return NET_XMIT_DROP;
}

/* The program, which the test is. */
struct bpf_prog {
	struct {
		u32 id;
		char name[16];
	} *aux;
};
#define BPF_PROG_TYPE_SCHED_CLS 0
static struct bpf_prog program = { &(typeof(*program.aux)){} };
#define bpf_prog_get_type_dev(fd, type, drv) (&program)
#define bpf_prog_put(prog)
#define bpf_compute_data_pointers(skb)
static u32 bpf_prog_run(struct bpf_prog *prog, struct sk_buff *skb);

/* Options come as an array with a value for each that is given. */
struct nla_policy {
	int type;
};
#define NLA_U32 1
#define NLA_U64 2
#define NLA_S32 3
#define NLA_POLICY_MIN(kind, least) { .type = kind }
#define NLA_POLICY_MAX(kind, most) { .type = kind }
#define NL_SET_ERR_MSG(extack, text)
#define nla_get_u32(a) ((u32)(a)->value)
#define nla_get_s32(a) ((int)(a)->value)
#define nla_get_u64(a) ((a)->value)
#define nla_nest_start(skb, kind) ((struct nlattr *)NULL)
#define nla_nest_end(skb, nest) 0
#define nla_nest_cancel(skb, nest)
#define nla_put_u32(skb, kind, value) 0
#define nla_put_u64_64bit(skb, kind, value, pad) 0
#define nla_put_string(skb, kind, text) 0
#define nla_parse_nested_deprecated(tb, most, options, policy, extack) \
	({                                                             \
		(void)(policy);                                        \
		for (int kind = 0; kind <= (most); kind++)             \
			(tb)[kind] = (options)[kind].value ? &(options)[kind] : NULL; \
		0;                                                     \
	})
/* Nothing is above it. */
#define TC_H_ROOT 0
#define TC_H_MAJ(handle) (handle)
#define rtnl_dereference(p) (p)
#define hash_for_each_possible(table, p, field, key) for (p = NULL; p;)

#endif
