// SPDX-License-Identifier: GPL-2.0-only
/*
 * Gives each packet its departure time, a gap after that of the packet before it from the
 * same port and address, as TCP's pacing would; see throttled.sh and held.sh. The gap in microseconds
 * is the packets' priority.
 */
#include <linux/bpf.h>
#include <linux/pkt_cls.h>
#include <bpf/bpf_helpers.h>

struct {
	__uint(type, BPF_MAP_TYPE_HASH);
	__uint(max_entries, 262144);
	__type(key, __u64);
	__type(value, __u64);
} last SEC(".maps");

/* When it is to leave: at its own time, or with all others of the same @unit nanoseconds, at their end. */
static __always_inline int pace_by(struct __sk_buff *skb, __u64 unit)
{
	__u64 now = bpf_ktime_get_ns(), at = now, *known;
	__u32 address = 0;
	__u16 port = 0;
	__u64 key;

	bpf_skb_load_bytes(skb, 26, &address, sizeof(address));
	bpf_skb_load_bytes(skb, 34, &port, sizeof(port));
	key = (__u64)address << 16 | port;
	known = bpf_map_lookup_elem(&last, &key);
	if (known && *known > now)
		at = *known;
	at += skb->priority * 1000ULL;
	if (known)
		*known = at;
	else
		bpf_map_update_elem(&last, &key, &at, BPF_ANY);
	skb->tstamp = (at + unit - 1) / unit * unit;
	return TC_ACT_OK;
}

SEC("tc")
int paced_each(struct __sk_buff *skb)
{
	return pace_by(skb, 1);
}

SEC("together")
int paced_together(struct __sk_buff *skb)
{
	return pace_by(skb, skb->priority * 1000ULL);
}

char _license[] SEC("license") = "GPL";
