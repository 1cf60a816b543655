// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
/*
 * What TCP did to peers, by the kernel's own counters of each connection (RFC 4898). Two programs:
 *
 *   onramp_walk   sees all connections of the network namespace whenever the agent reads its iterator
 *   onramp_ended  sees each connection once more before it goes, so that short ones count too
 *
 * Each adds what has grown since the connection was last seen. The kernel locks the connection for both.
 * No packet passes here, and the data path does without.
 */
#include <linux/bpf.h>
#include <bpf/bpf_core_read.h>
#include <bpf/bpf_endian.h>
#include <bpf/bpf_helpers.h>
#include <bpf/bpf_tracing.h>
#include "effects_abi.h"

#define KERNEL_TYPE __attribute__((preserve_access_index))
#define AF_INET 2
#define AF_INET6 10

struct ns_common {
	unsigned int inum;
} KERNEL_TYPE;

struct net {
	struct ns_common ns;
} KERNEL_TYPE;

typedef struct {
	struct net *net;
} KERNEL_TYPE possible_net_t;

struct in6_addr {
	or_u8 bytes[16];
};

struct sock_common {
	or_u32 skc_daddr;
	unsigned short skc_family;
	possible_net_t skc_net;
	struct in6_addr skc_v6_daddr;
} KERNEL_TYPE;

struct sock {
	struct sock_common __sk_common;
} KERNEL_TYPE;

struct tcp_sock {
	or_u32 data_segs_out;
	or_u32 total_retrans;
	or_u64 bytes_acked;
	or_u16 total_rto;
} KERNEL_TYPE;

struct bpf_iter__tcp {
	struct sock_common *sk_common;
} KERNEL_TYPE;

/* A connection as it was last seen, in which walk. */
struct seen {
	or_u64 walk;
	or_u64 acked_bytes;
	or_u32 segments;
	or_u32 retransmitted;
	or_u32 timeouts;
	or_u32 reserved;
};

/* By the socket's cookie. Sockets have storage of their own, but not on every processor (Linux 7, kmalloc_nolock). */
struct {
	__uint(type, BPF_MAP_TYPE_HASH);
	__uint(map_flags, BPF_F_NO_PREALLOC);
	__uint(max_entries, 1 << 20);
	__type(key, or_u64);
	__type(value, struct seen);
} connections SEC(".maps");

/* The agent says of whom. */
struct {
	__uint(type, BPF_MAP_TYPE_HASH);
	__uint(max_entries, 4096);
	__type(key, struct or_address);
	__type(value, struct or_tcp);
} tcp SEC(".maps");

struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, 1);
	__type(key, or_u32);
	__type(value, struct or_walk);
} walk SEC(".maps");

OR_INLINE struct or_walk *present_walk(void)
{
	or_u32 zero = 0;

	return bpf_map_lookup_elem(&walk, &zero);
}

OR_INLINE or_u32 remote_address(const struct sock_common *common, struct or_address *to)
{
	if (common->skc_family == AF_INET)
		*to = (struct or_address){ { 0, 0, bpf_htonl(0xffff), common->skc_daddr } };
	else if (common->skc_family == AF_INET6)
		__builtin_memcpy(to, &common->skc_v6_daddr, sizeof(*to));
	else
		return 0;
	return 1;
}

/* Adds what a connection did since it was last seen. One that a peer's first walk finds may be old: it counts from there. */
OR_INLINE void count_connection(struct tcp_sock *connection, struct or_tcp *peer, or_u64 number, or_u64 cookie, or_u32 goes_on)
{
	struct seen new = {
		.walk = number,
		.acked_bytes = connection->bytes_acked,
		.segments = connection->data_segs_out,
		.retransmitted = connection->total_retrans,
	}, before = {}, *found = bpf_map_lookup_elem(&connections, &cookie);

	if (bpf_core_field_exists(struct tcp_sock, total_rto))
		new.timeouts = connection->total_rto;
	if (found)
		before = *found;
	/* What cannot be remembered would count again. */
	if (goes_on && bpf_map_update_elem(&connections, &cookie, &new, BPF_ANY))
		return;
	if (found ? before.walk < peer->since : number <= peer->since)
		return;
	__sync_fetch_and_add(&peer->segments, (or_u32)(new.segments - before.segments));
	__sync_fetch_and_add(&peer->retransmitted, (or_u32)(new.retransmitted - before.retransmitted));
	__sync_fetch_and_add(&peer->timeouts, (or_u16)(new.timeouts - before.timeouts));
	__sync_fetch_and_add(&peer->acked_bytes, new.acked_bytes - before.acked_bytes);
}

SEC("iter/tcp")
int onramp_walk(struct bpf_iter__tcp *context)
{
	struct sock_common *common = context->sk_common;
	struct or_walk *present = present_walk();
	struct tcp_sock *connection;
	struct or_address remote;
	struct or_tcp *peer;

	if (!present)
		return 0;
	if (!common) {
		/* The end. */
		if (bpf_core_field_exists(struct tcp_sock, total_rto))
			present->flags = OR_WALK_TIMEOUTS;
		return 0;
	}
	if (!remote_address(common, &remote))
		return 0;
	peer = bpf_map_lookup_elem(&tcp, &remote);
	connection = peer ? bpf_skc_to_tcp_sock(common) : 0;
	if (connection)
		count_connection(connection, peer, present->number, bpf_get_socket_cookie(common), 1);
	return 0;
}

SEC("tp_btf/tcp_destroy_sock")
int BPF_PROG(onramp_ended, struct sock *sk)
{
	struct or_walk *present = present_walk();
	struct tcp_sock *connection;
	struct or_address remote;
	struct or_tcp *peer;
	or_u64 cookie;

	if (!present || sk->__sk_common.skc_net.net->ns.inum != present->netns)
		return 0;
	cookie = bpf_get_socket_cookie(sk);
	peer = remote_address(&sk->__sk_common, &remote) ? bpf_map_lookup_elem(&tcp, &remote) : 0;
	connection = peer ? bpf_skc_to_tcp_sock(sk) : 0;
	if (connection)
		count_connection(connection, peer, present->number, cookie, 0);
	bpf_map_delete_elem(&connections, &cookie);
	return 0;
}

char LICENSE[] SEC("license") = "Dual BSD/GPL";
