//! The noise of time stamps.
//!
//! A NIC stamps at the wire, with a few nanoseconds of noise either way. The
//! kernel stamps a departure early and an arrival late: by what its shortest way
//! to the wire takes, which differs from host to host and cannot be averaged
//! away, and by what varies. Programs stamp earlier and later still. The shares
//! of the kernel's are such that synchronised clocks end up 100 to 200 ns off
//! (one standard deviation), as the paper found in two clouds (§5.1.3).

use super::config::Stamps;
use rand_pcg::Pcg64Mcg;

/// One of the ways to take stamps; all in nanoseconds.
#[derive(Clone, Copy, Debug)]
struct Noise {
    /// Standard deviation of what varies either way.
    normal: f64,
    /// Range of the part that a host always has, in each direction.
    fixed: (f64, f64),
    /// Median of the lognormal part, and the standard deviation of its logarithm.
    varying: (f64, f64),
    /// How often a stamp is held up (an interrupt, the scheduler), and the mean of it.
    held_up: (f64, f64),
}

const NONE: Noise = Noise { normal: 0.0, fixed: (0.0, 0.0), varying: (0.0, 0.0), held_up: (0.0, 0.0) };
const HARDWARE: Noise = Noise { normal: 5.0, ..NONE };
const SOFTWARE: Noise = Noise { fixed: (100.0, 900.0), varying: (200.0, 0.6), held_up: (0.02, 5_000.0), ..NONE };
const USER_SPACE: Noise =
    Noise { fixed: (5_000.0, 15_000.0), varying: (10_000.0, 0.8), held_up: (0.05, 100_000.0), ..NONE };

/// Source of one host's timestamps, with their noise.
#[derive(Debug)]
pub struct Stamper {
    noise: Noise,
    departure: f64,
    arrival: f64,
    random: Pcg64Mcg,
}

impl Stamper {
    /// A host's stamps of its packets.
    pub fn new(stamps: Stamps, seed: u64, host: u32) -> Self {
        let noise = match stamps {
            Stamps::Exact => NONE,
            Stamps::Hardware => HARDWARE,
            Stamps::Software => SOFTWARE,
        };
        Self::with(noise, onramp_random::stream(seed, "stamps", u64::from(host)))
    }

    /// The stamps of a program at a host, such as an NTP daemon.
    pub fn in_user_space(stamps: Stamps, seed: u64, host: u32) -> Self {
        let noise = if stamps == Stamps::Exact { NONE } else { USER_SPACE };
        Self::with(noise, onramp_random::stream(seed, "stamps in user space", u64::from(host)))
    }

    fn with(noise: Noise, mut random: Pcg64Mcg) -> Self {
        let (least, most) = noise.fixed;
        let mut fixed = || least + (most - least) * onramp_random::uniform(&mut random);
        let (departure, arrival) = (fixed(), fixed());
        Self { noise, departure, arrival, random }
    }

    /// How much a departure's stamp differs from its time, in nanoseconds.
    #[inline]
    pub fn departure(&mut self) -> i64 {
        -libm::rint(self.departure + self.varying()) as i64
    }

    /// How much an arrival's stamp differs from its time, in nanoseconds.
    #[inline]
    pub fn arrival(&mut self) -> i64 {
        libm::rint(self.arrival + self.varying()) as i64
    }

    fn varying(&mut self) -> f64 {
        let Noise { normal, varying: (median, spread), held_up: (often, mean), .. } = self.noise;
        let random = &mut self.random;
        if normal > 0.0 {
            return normal * onramp_random::normal(random);
        }
        if median == 0.0 {
            return 0.0;
        }
        let usual = median * libm::exp(spread * onramp_random::normal(random));
        let late = if onramp_random::uniform(random) < often { mean * onramp_random::exponential(random) } else { 0.0 };
        usual + late
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn sorted(mut stamp: impl FnMut() -> i64) -> Vec<i64> {
        let mut all: Vec<i64> = (0..20_000).map(|_| stamp()).collect();
        all.sort_unstable();
        all
    }

    #[test]
    fn exact_stamps_have_no_noise() {
        let mut exact = Stamper::new(Stamps::Exact, 1, 0);
        assert!((0..100).all(|_| exact.departure() == 0 && exact.arrival() == 0));
    }

    #[test]
    fn hardware_is_off_by_nanoseconds_either_way() {
        let mut hardware = Stamper::new(Stamps::Hardware, 1, 0);
        let all = sorted(|| hardware.arrival());
        assert!(all[10_000].abs() <= 1, "{}", all[10_000]);
        // 84% of a normal distribution lies below one standard deviation.
        assert!((4..=6).contains(&all[16_827]), "{}", all[16_827]);
    }

    #[test]
    fn software_stamps_departures_early_and_arrivals_late_with_a_heavy_tail() {
        let mut software = Stamper::new(Stamps::Software, 1, 0);
        let late = sorted(|| software.arrival());
        let early = sorted(|| software.departure());
        assert!(late[0] >= 100 && early[19_999] <= -100);
        assert!((300..1_100).contains(&late[10_000]), "{}", late[10_000]);
        assert!(late[19_980] > 5_000, "{}", late[19_980]);
    }

    #[test]
    fn hosts_differ_in_what_they_always_add() {
        let least = |host| sorted(|| Stamper::new(Stamps::Software, 1, host).arrival())[0];
        assert!(least(1).abs_diff(least(2)) > 10);
    }
}
