/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* Three times: the kernel's, this host's as its stamps show it, and the fleet's. */
#ifndef CLOCK_H
#define CLOCK_H

/* What a clock shows above the one that shows @time. */
OR_INLINE or_s64 clock_at(const struct or_clock *clock, or_u64 time)
{
	or_s64 elapsed = (or_s64)(time - clock->base);

	/* In two halves, so that the product of days and drift fits in 64 bits. */
	return clock->offset + (elapsed >> 16) * (clock->drift >> 16) +
	       ((elapsed & 0xffff) * (clock->drift >> 16) >> 16) +
	       ((elapsed >> 16) * (clock->drift & 0xffff) >> 16);
}

/*
 * How late a time stamp taken in software is: a bell of standard deviation @scale (the
 * sum of four bytes has 148), and one in 64 is later by up to 16 times as much.
 */
OR_INLINE or_s64 clock_noise(or_u32 scale)
{
	or_u32 bell = bpf_get_prandom_u32(), tail = bpf_get_prandom_u32();
	or_s64 sum = (bell & 0xff) + (bell >> 8 & 0xff) + (bell >> 16 & 0xff) + (bell >> 24);
	or_s64 late = (sum - 510) * scale * 443 >> 16;

	if (!(tail & 63))
		late += (or_u64)(tail >> 6 & 0xfff) * scale >> 8;
	return late;
}

/* What this host's clock shows at @now for a packet that arrives. */
OR_INLINE or_u64 clock_arrival(const struct or_config *config, or_u64 now)
{
	now += clock_at(&config->test_clock, now);
	return config->test_noise ? now + clock_noise(config->test_noise) : now;
}

/* The same for one that leaves: that it left was noted too early. */
OR_INLINE or_u64 clock_departure(const struct or_config *config, or_u64 now)
{
	now += clock_at(&config->test_clock, now);
	return config->test_noise ? now - clock_noise(config->test_noise) : now;
}

/* The fleet's time when this host's clock shows @time. */
OR_INLINE or_u64 clock_fleet(const struct or_config *config, or_u64 time)
{
	return time - clock_at(&config->clock, time);
}

#endif
