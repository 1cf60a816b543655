// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
/*
 * On-Ramp in the kernel. Five programs:
 *
 *   onramp_gate     run by the qdisc "onramp" before a packet leaves: may it?
 *   onramp_egress   the same at TC egress, for watching only: it never holds
 *   onramp_ingress  TC ingress: stamps data and has it OR-ACKed, takes in OR-ACKs,
 *                   answers probes
 *   onramp_reply    TC egress: makes OR-ACKs that wait of small packets that leave
 *   onramp_acker    TC egress of a dummy device: turns a clone into an OR-ACK
 *
 * Whatever is not understood, not known or out of date goes through as if On-Ramp
 * were not there.
 */
#include <linux/bpf.h>
#include <linux/if_ether.h>
#include <linux/in.h>
#include <linux/ip.h>
#include <linux/ipv6.h>
#include <linux/pkt_cls.h>
#include <linux/tcp.h>
#include <linux/udp.h>
#include <bpf/bpf_endian.h>
#include <bpf/bpf_helpers.h>
#include "../sch_onramp/pkt_sched_onramp.h"
#include "onramp_abi.h"
#include "maps.h"
#include "clock.h"
#include "packet.h"
#include "prober.h"
#include "probed.h"
#include "scope.h"
#include "sender.h"
#include "acked.h"
#include "receiver.h"

/* Nanoseconds to wait, 0 to go, or ONRAMP_CUT. */
SEC("classifier")
int onramp_gate(struct __sk_buff *skb)
{
	return sender_departs(skb, OR_MODE_ENFORCE, bpf_ktime_get_ns());
}

SEC("classifier")
int onramp_egress(struct __sk_buff *skb)
{
	sender_departs(skb, OR_MODE_OBSERVE, bpf_ktime_get_ns());
	return TC_ACT_UNSPEC;
}

SEC("classifier")
int onramp_ingress(struct __sk_buff *skb)
{
	or_u64 now = bpf_ktime_get_ns();
	struct or_config *config = config_at(now);
	struct or_packet packet;
	struct orprobe *probe;
	struct prober own;

	if (!config)
		return TC_ACT_UNSPEC;
	if (!packet_parse(skb, &packet)) {
		count(OR_UNPARSED, 1);
		return TC_ACT_UNSPEC;
	}
	if (packet_is_ours(&packet, config)) {
		probe = prober_read(skb, &packet, config, &own);
		if (probe)
			return probed_arrives(skb, &packet, config, probe, now);
		return sender_acked(skb, &packet, config, now);
	}
	receiver_data(skb, &packet, config, now);
	return TC_ACT_UNSPEC;
}

SEC("classifier")
int onramp_reply(struct __sk_buff *skb)
{
	receiver_reply(skb);
	return TC_ACT_UNSPEC;
}

SEC("classifier")
int onramp_acker(struct __sk_buff *skb)
{
	return receiver_send_orack(skb);
}

char LICENSE[] SEC("license") = "Dual BSD/GPL";
