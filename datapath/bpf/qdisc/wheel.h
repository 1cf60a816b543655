/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* The timing wheel: flows that wait until a time are in the list of that time's slot. */
#ifndef QDISC_WHEEL_H
#define QDISC_WHEEL_H

/* A flow waits until then; it has a turn. */
SUBPROGRAM int wheel_add(or_u32 number, or_u32 index, or_u64 until, or_u64 now)
{
	or_u64 slot = until >> WHEEL_SHIFT, last = (now >> WHEEL_SHIFT) + WHEEL_SLOTS - 1;
	struct instance *of = instance_at(number);
	struct queue *f = queue_at(number, index);
	or_u64 earliest = slot <= last ? until : last << WHEEL_SHIFT;
	or_u32 at = (slot <= last ? slot : last) & (WHEEL_SLOTS - 1);

	if (!of || !f)
		return 0;
	f->until = until;
	list_move(of, number, index, f, PLACE_WHEEL + at);
	if (!f->previous || earliest < of->earliest[at])
		of->earliest[at] = earliest;
	of->filled[at / 64] |= 1ULL << (at & 63);
	/* While nobody waits, the wheel stands still. */
	if (!of->gate.stats.throttled_flows++)
		of->looked_at = now >> WHEEL_SHIFT;
	return 0;
}

/* A flow that waits gets a turn again. */
SUBPROGRAM int wheel_remove(or_u32 number, or_u32 index)
{
	struct instance *of = instance_at(number);
	struct queue *f = queue_at(number, index);
	or_u32 at = f ? f->place - PLACE_WHEEL : WHEEL_SLOTS;
	struct ends *slot;

	if (!of || !f || at >= WHEEL_SLOTS)
		return 0;
	slot = ends_of(of, PLACE_WHEEL + at);
	list_move(of, number, index, f, PLACE_OLD);
	if (slot && !slot->first)
		of->filled[at / 64] &= ~(1ULL << (at & 63));
	of->gate.stats.throttled_flows--;
	return 0;
}

/* The first slot from that of @from on which has flows, as its time in units of slots; 0 if none has. */
SUBPROGRAM or_u64 wheel_first(or_u32 number, or_u64 from)
{
	struct instance *of = instance_at(number);
	or_u32 i, word;

	if (!of)
		return 0;
	or_for(word, WHEEL_SLOTS / 64 + 1) {
		or_u32 at = from & (WHEEL_SLOTS - 1);
		or_u64 bits = of->filled[at / 64] >> (at & 63);

		if (bits) {
			or_u32 shift = 0;

			for (i = 32; i; i /= 2) {
				if (!(bits & ((1ULL << i) - 1))) {
					bits >>= i;
					shift += i;
				}
			}
			return from + shift;
		}
		from = (from | 63) + 1;
	}
	return 0;
}

/* Flows whose wait is over get a turn again. */
SUBPROGRAM int wheel_turn(or_u32 number, or_u64 now)
{
	struct instance *of = instance_at(number);
	or_u64 slot, today = now >> WHEEL_SHIFT;
	or_u32 i, j;

	if (!of)
		return 0;
	or_for(i, GATE_PASSES) {
		or_u32 index, last, at;
		or_u64 earliest = ~0ULL;

		slot = wheel_first(number, of->looked_at);
		if (!slot || slot > today) {
			of->looked_at = today;
			break;
		}
		of->looked_at = slot;
		at = slot & (WHEEL_SLOTS - 1);
		index = of->places[PLACE_WHEEL + at].first;
		last = of->places[PLACE_WHEEL + at].last;
		or_for(j, GATE_PASSES) {
			struct queue *f = index ? queue_at(number, index) : 0;
			or_u32 next;

			if (!f)
				break;
			next = index == last ? 0 : f->next;
			if (f->until <= now) {
				wheel_remove(number, index);
			} else if (f->until >> WHEEL_SHIFT != slot) {
				wheel_remove(number, index);
				wheel_add(number, index, f->until, now);
			} else if (f->until < earliest) {
				earliest = f->until;
			}
			index = next;
		}
		/* So many at once: the others in the next turn, at once. */
		if (index) {
			of->looked_at = slot;
			of->earliest[at] = now;
			break;
		}
		if (slot == today) {
			of->earliest[at] = earliest;
			break;
		}
		/* Who is there now waits for nearly a whole turn. */
		if (of->places[PLACE_WHEEL + at].first)
			of->looked_at = slot + 1;
	}
	return 0;
}

#endif
