/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * What the queueing discipline reads of the kernel's structures, found by name in the running
 * kernel's BTF, and the functions that the kernel has for it (Linux 6.17, net/sched/bpf_qdisc.c).
 */
#ifndef KERNEL_H
#define KERNEL_H

#define KERNEL_TYPE __attribute__((preserve_access_index))

struct sock_common {
	volatile unsigned char skc_state;
} KERNEL_TYPE;

struct kernfs_node {
	or_u64 id;
} KERNEL_TYPE;

struct cgroup_subsys_state {
	struct cgroup *cgroup;
	struct cgroup_subsys_state *parent;
} KERNEL_TYPE;

struct cgroup {
	struct cgroup_subsys_state self;
	int level;
	struct kernfs_node *kn;
} KERNEL_TYPE;

/* Deeper ones are not looked at. */
#define CGROUP_DEPTH 256

struct sock_cgroup_data {
	struct cgroup *cgroup;
} KERNEL_TYPE;

struct sock {
	struct sock_common __sk_common;
	struct sock_cgroup_data sk_cgrp_data;
	or_u16 sk_type;
	or_u16 sk_protocol;
	unsigned long sk_pacing_rate;
	int sk_wmem_queued;
} KERNEL_TYPE;

struct sk_buff {
	struct net_device *dev;
	struct sock *sk;
	or_s64 tstamp;
	char cb[48];
	unsigned int len;
	unsigned int end;
	unsigned char *head;
	unsigned int truesize;
	int skb_iif;
} KERNEL_TYPE;

struct skb_shared_info {
	or_u16 gso_size;
	or_u16 gso_segs;
} KERNEL_TYPE;

struct qdisc_skb_head {
	or_u32 qlen;
} KERNEL_TYPE;

struct gnet_stats_queue {
	or_u32 backlog;
	or_u32 drops;
	or_u32 overlimits;
} KERNEL_TYPE;

struct net_device {
	int ifindex;
	unsigned int mtu;
	unsigned short hard_header_len;
} KERNEL_TYPE;

struct netdev_queue {
	struct net_device *dev;
} KERNEL_TYPE;

struct Qdisc {
	or_u32 limit;
	or_u32 parent;
	struct netdev_queue *dev_queue;
	struct qdisc_skb_head q;
	struct gnet_stats_queue qstats;
} KERNEL_TYPE;

struct nlattr;
struct netlink_ext_ack;
struct bpf_sk_buff_ptr {
	struct sk_buff *skb;
} KERNEL_TYPE;

struct Qdisc_ops {
	char id[16];
	int (*enqueue)(struct sk_buff *skb, struct Qdisc *sch, struct sk_buff **to_free);
	struct sk_buff *(*dequeue)(struct Qdisc *sch);
	int (*init)(struct Qdisc *sch, struct nlattr *arg, struct netlink_ext_ack *extack);
	void (*reset)(struct Qdisc *sch);
	void (*destroy)(struct Qdisc *sch);
} KERNEL_TYPE;

extern or_u32 bpf_skb_get_hash(struct sk_buff *skb) __ksym;
extern void bpf_kfree_skb(struct sk_buff *skb) __ksym;
extern void bpf_qdisc_skb_drop(struct sk_buff *skb, struct bpf_sk_buff_ptr *to_free) __ksym;
extern void bpf_qdisc_watchdog_schedule(struct Qdisc *sch, or_u64 expire, or_u64 slack) __ksym;
extern void bpf_qdisc_bstats_update(struct Qdisc *sch, const struct sk_buff *skb) __ksym;
extern int bpf_dynptr_from_skb(struct sk_buff *skb, or_u64 flags, struct bpf_dynptr *ptr) __ksym;
extern void *bpf_dynptr_slice(const struct bpf_dynptr *ptr, or_u32 at, void *buffer, or_u32 buffer__szk) __ksym;
extern void *bpf_rdonly_cast(const void *object, or_u32 btf_id) __ksym;

#define TCP_TIME_WAIT_STATE 6
#define TCP_NEW_SYN_RECV_STATE 12

/* Others have only what is common to all sockets. */
OR_INLINE or_u32 sk_is_full(const struct sock *sk)
{
	return sk && sk->__sk_common.skc_state != TCP_TIME_WAIT_STATE &&
	       sk->__sk_common.skc_state != TCP_NEW_SYN_RECV_STATE;
}

/* Newer headers have it without the ending, which the loader leaves off. */
struct bpf_iter_num___gate {
	or_u64 opaque;
};
extern int bpf_iter_num_new(struct bpf_iter_num___gate *it, int start, int end) __ksym;
extern int *bpf_iter_num_next(struct bpf_iter_num___gate *it) __ksym;
extern void bpf_iter_num_destroy(struct bpf_iter_num___gate *it) __ksym;

/*
 * Goes round @times at most, @i from 0 on: the verifier follows such a loop until it learns nothing new,
 * whatever its bound. So nothing it knows the value of may change each time.
 */
#define or_for(i, times) \
	for (struct bpf_iter_num___gate it __attribute__((aligned(8), cleanup(bpf_iter_num_destroy))), \
	     *made __attribute__((unused)) = (bpf_iter_num_new(&it, 0, (times)), (void)bpf_iter_num_destroy, (void *)0); \
	     ({ int *next = bpf_iter_num_next(&it); (i) = next ? *next : 0; next; });)

#endif
