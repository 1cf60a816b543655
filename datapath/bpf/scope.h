/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * Rules that say which packets are held. Their meaning in Rust, by which this one is tested: onrampd's src/scope.
 *
 * A packet has the same place in the gate whatever rule it matches, behind those of its flow that came before: rules change
 * only how long the gate has the flow's first packet wait. So a change of rules overtakes nothing. A packet that is
 * already waiting does so to the end of its pause (max_pause at most), is asked for again, and leaves; and those behind it
 * follow in their order.
 */
#ifndef SCOPE_H
#define SCOPE_H

/* Of what scope_match() returns: the packet is held. Below it, the rule's number; OR_RULES: none. */
#define SCOPE_HOLDS 0x100
#define SCOPE_RULE 0xff

/**
 * struct scope - the rules that a packet matches, as scope_match() returns them
 * @tables: see struct or_config
 * @rule: of those in force
 * @dry_run: of those of a dry run
 */
struct scope {
	or_u32 tables;
	or_u32 rule;
	or_u32 dry_run;
};

/* Not 0 where @port is not between the two. */
OR_INLINE or_u32 scope_outside(or_u32 port, const struct or_place *p)
{
	return (port - p->first | p->last - port) >> 31;
}

/* 0 if all holds that needs only headers. Without branches, each of which the verifier would follow for each place. */
OR_INLINE or_u64 scope_differs(const struct or_packet *packet, or_u32 kind, const struct or_place *p)
{
	const struct or_address *to = &packet->flow.destination;
	or_u32 differs = ((to->word[0] ^ p->network.word[0]) & p->mask.word[0]) |
			 ((to->word[1] ^ p->network.word[1]) & p->mask.word[1]) |
			 ((to->word[2] ^ p->network.word[2]) & p->mask.word[2]) |
			 ((to->word[3] ^ p->network.word[3]) & p->mask.word[3]);

	differs |= (kind ^ p->kind) & p->kind_mask;
	differs |= scope_outside(packet->flow.sport, p) & scope_outside(packet->flow.dport, p);
	return differs | (~(p->dscps >> (packet->class >> 2 & 63)) & 1);
}

SKB_FUNCTION or_u32 scope_match(SKB_ARGUMENT, const struct or_packet *packet, or_u32 table)
{
	struct or_scope *scope;
	or_u32 i, kind;

	if (!packet)
		return SCOPE_HOLDS | OR_RULES;
	kind = packet->flow.protocol << 8 | (address_is_v4(&packet->flow.destination) ? 4 : 6);
	table--;
	scope = bpf_map_lookup_elem(&scopes, &table);
	if (!scope)
		return SCOPE_HOLDS | OR_RULES;
	or_for(i, OR_PLACES) {
		const struct or_place *p;
		or_u32 rule;

		if (i >= OR_PLACES || i >= scope->places)
			break;
		p = &scope->place[i];
		if (scope_differs(packet, kind, p) || (p->cgroup && skb_cgroup_above(skb, p->level) != p->cgroup))
			continue;
		rule = p->rule & (OR_RULES - 1);
		return rule | (scope->holds >> rule & 1 ? SCOPE_HOLDS : 0);
	}
	return SCOPE_HOLDS | OR_RULES;
}

/* What the rules say of a packet that may be held, if there are any. */
OR_INLINE struct scope scope_of(struct or_skb *skb, const struct or_packet *packet, const struct or_config *config)
{
	struct scope scope = { .tables = config->scopes, .rule = SCOPE_HOLDS };

	if (scope.tables & 0xff)
		scope.rule = scope_match(skb_argument(skb), packet, scope.tables & 0xff);
	if (scope.tables >> 8)
		scope.dry_run = scope_match(skb_argument(skb), packet, scope.tables >> 8);
	return scope;
}

OR_INLINE void scope_add(or_u32 table, or_u32 rule, or_u32 bytes, or_u32 paused, or_u64 time)
{
	or_u32 at = (table - 1) * (OR_RULES + 1) + (rule & SCOPE_RULE);
	struct or_scoped *counts = table ? bpf_map_lookup_elem(&scoped, &at) : 0;

	if (!counts)
		return;
	counts->packets++;
	counts->bytes += bytes;
	if (paused) {
		counts->paused++;
		counts->paused_bytes += bytes;
	}
	counts->paused_time += time;
}

/* A packet leaves, which was @paused, or would have been; before it ended a pause of so much @time. */
OR_INLINE void scope_count(const struct scope *scope, or_u32 bytes, or_u32 paused, or_u64 time)
{
	if (!scope->tables)
		return;
	scope_add(scope->tables & 0xff, scope->rule, bytes, paused, time);
	scope_add(scope->tables >> 8, scope->dry_run, bytes, paused, time);
}

#endif
