/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* In place of libbpf's, for gate_program.c: programs are functions, maps are arrays. */
#ifndef TESTS_BPF_HELPERS_H
#define TESTS_BPF_HELPERS_H

#include <stdlib.h>

#define SEC(name)
#define __kptr
#define __ksym
#define __uint(name, value) int (*name)[value]
#define __type(name, value) typeof(value) *name
#define BPF_PROG(name, arguments...) name(arguments)
/* A field that is no parameter holds the values. */
#define bpf_map_lookup_elem(map, key) \
	map_at((void **)&(map)->type, *(key), sizeof(*(map)->max_entries) / sizeof(int), sizeof(*(map)->value))
#define bpf_kptr_xchg(place, value)           \
	({                                    \
		typeof(*(place)) was = *(place); \
		*(place) = (value);           \
		was;                          \
	})

static unsigned long long now, work;

static inline void *map_at(void **values, unsigned int key, unsigned int entries, unsigned int size)
{
	work++;
	if (!*values)
		*values = calloc(entries, size);
	return key < entries ? (char *)*values + (unsigned long)key * size : NULL;
}

static inline unsigned long long bpf_ktime_get_ns(void)
{
	return now;
}

#endif
