/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * Fixed-width types and helpers shared by the freestanding headers.
 *
 * A BPF or kernel program includes vmlinux.h or <linux/types.h> first; the two
 * exclude each other, so neither is included here.
 */
#ifndef ORTYPES_H
#define ORTYPES_H

#if defined(__BPF__) || defined(__KERNEL__)
typedef __u8 or_u8;
typedef __u16 or_u16;
typedef __u32 or_u32;
typedef __u64 or_u64;
typedef __s64 or_s64;
#else
#include <stdint.h>
typedef uint8_t or_u8;
typedef uint16_t or_u16;
typedef uint32_t or_u32;
typedef uint64_t or_u64;
typedef int64_t or_s64;
#endif

/* Inlined without exception: BPF allows no calls while a spin lock is held. */
#define OR_INLINE static inline __attribute__((always_inline, unused))

#endif
