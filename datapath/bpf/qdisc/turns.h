/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * Whose turn it is: flows are in lists by their place. New ones come first, then old ones, round by round
 * (gate_turn() in gate.h decides); idle ones have no packets.
 */
#ifndef QDISC_TURNS_H
#define QDISC_TURNS_H

OR_INLINE struct ends *ends_of(struct instance *of, or_u32 place)
{
	/* What the compiler knows of it the verifier may not. */
	asm volatile("" : "+r"(place));
	return place < PLACES ? &of->places[place] : 0;
}

/* Puts a flow at the end of a list. */
OR_INLINE void list_add(struct instance *of, or_u32 number, or_u32 index, struct queue *f, or_u32 place)
{
	struct ends *ends = ends_of(of, place);
	struct queue *last;

	if (!ends)
		return;
	f->place = place;
	f->next = 0;
	f->previous = ends->last;
	last = ends->last ? queue_at(number, ends->last) : 0;
	if (last)
		last->next = index;
	else
		ends->first = index;
	ends->last = index;
}

/* Takes a flow out of the list of @place, where it is. */
OR_INLINE void list_remove(struct instance *of, or_u32 number, struct queue *f, or_u32 place)
{
	struct ends *ends = ends_of(of, place);
	struct queue *other;

	if (!ends)
		return;
	other = f->previous ? queue_at(number, f->previous) : 0;
	if (other)
		other->next = f->next;
	else
		ends->first = f->next;
	other = f->next ? queue_at(number, f->next) : 0;
	if (other)
		other->previous = f->previous;
	else
		ends->last = f->previous;
}

OR_INLINE void list_move(struct instance *of, or_u32 number, or_u32 index, struct queue *f, or_u32 place)
{
	list_remove(of, number, f, f->place);
	list_add(of, number, index, f, place);
}

/* Bytes a flow sends in its turn. */
OR_INLINE or_u32 quantum_of(const struct instance *of, const struct or_limits *l)
{
	return l->quantum ? l->quantum : of->gate.quantum;
}

OR_INLINE void queue_retire(struct instance *of, or_u32 number, or_u32 index, struct queue *f, or_u64 now)
{
	f->idle_since = now;
	of->gate.stats.idle_flows += index != REST;
	list_move(of, number, index, f, index == REST ? PLACE_REST : PLACE_IDLE);
}

#endif
