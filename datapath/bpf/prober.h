/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * Probes compare clocks. The agent makes them; here they get their time stamps, at the place
 * where data packets get theirs. What comes in is in probed.h.
 */
#ifndef PROBER_H
#define PROBER_H

struct prober {
	struct orprobe probe;
	or_u8 payload[ORPROBE_LEN];
};

/* Reads a probe, an answer or a follow-up; 0 if the packet is none, whosever. */
OR_INLINE struct orprobe *prober_read(struct or_skb *skb, const struct or_packet *packet,
				      const struct or_config *config, struct prober *own)
{
	struct prober *room = skb_room(skb, own);

	if (packet->payload != ORPROBE_LEN || packet->flow.sport != config->port ||
	    skb_read(skb, packet->payload_at, room->payload, ORPROBE_LEN) ||
	    !orprobe_parse(room->payload, &room->probe))
		return 0;
	return &room->probe;
}

OR_INLINE long prober_write(struct or_skb *skb, const struct or_packet *packet, const struct orprobe *probe)
{
	or_u8 payload[ORPROBE_LEN];

	orprobe_write(payload, probe);
	return skb_write(skb, packet->payload_at, payload, ORPROBE_LEN);
}

OR_INLINE or_u64 prober_tag(const struct orprobe *probe, const struct or_address *source,
			    const struct or_address *destination, const or_u64 *key)
{
	return orprobe_tag(probe, source, destination, key[0], key[1]);
}

/* Tells the agent, which looks every now and then: nobody has to be woken. Not 0 if that fails. */
OR_INLINE long prober_report(const struct orprobe *probe, const struct or_address *peer, or_u64 at, or_u64 came)
{
	struct or_exchange *exchange = bpf_ringbuf_reserve(&exchanges, sizeof(*exchange), 0);

	if (!exchange) {
		count(OR_TABLE_FULL, 1);
		return -1;
	}
	exchange->peer = *peer;
	exchange->at = at;
	exchange->probe = *probe;
	exchange->came = came;
	bpf_ringbuf_submit(exchange, BPF_RB_NO_WAKEUP);
	return 0;
}

/*
 * A probe or an answer leaves. An answer is given its time here if that can be; of all else the
 * agent is told. What only passes through this host has no tag of ours. An answer without a tag gets one only where
 * it was turned back: else any local program could have signed what it likes.
 */
OR_INLINE void prober_departs(struct or_skb *skb, const struct or_packet *packet,
			      const struct or_config *config, or_u64 now)
{
	struct prober own;
	struct orprobe *probe = prober_read(skb, packet, config, &own);
	struct or_peer *peer = bpf_map_lookup_elem(&peers, &packet->flow.destination);
	or_u64 at, tag;
	long failed;

	if (!probe || !peer || probe->returned)
		return;
	at = clock_departure(config, now);
	if (!probe->tag) {
		if (!skb_turned_back(skb))
			return;
		probe->returned = at;
	}
	tag = prober_tag(probe, &packet->flow.source, &packet->flow.destination, peer->key);
	if (probe->returned) {
		probe->tag = tag;
		failed = probe->kind != ORPROBE_ANSWER || prober_write(skb, packet, probe);
	} else {
		failed = probe->tag != tag || prober_report(probe, &packet->flow.destination, at, 0);
	}
	if (!failed)
		count(probe->kind == ORPROBE_PROBE ? OR_PROBES_SENT : OR_PROBES_ANSWERED, 1);
}

#endif
