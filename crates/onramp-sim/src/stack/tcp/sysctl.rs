//! Settings of TCP by the kernel's names for them (Documentation/networking/ip-sysctl), within the kernel's bounds.

use super::Params;

/// A setting: its name, the least and the largest value of each of its numbers, and what it changes.
type Setting = (&'static str, &'static [(u64, u64)], fn(&mut Params, &[u64]));

const FLAG: &[(u64, u64)] = &[(0, 1)];
const NANOSECONDS: &[(u64, u64)] = &[(0, 1_000_000_000)];
const RATIO: &[(u64, u64)] = &[(1, 1000)];
const MEMORY: (u64, u64) = (1, i32::MAX as u64);

/// Settings `net.ipv4.tcp_*` that the simulator has.
const SETTINGS: &[Setting] = &[
    ("slow_start_after_idle", FLAG, |p, v| p.slow_start_after_idle = v[0] > 0),
    ("early_retrans", &[(0, 4)], |p, v| p.loss_probe = v[0] >= 3),
    ("frto", &[(0, 2)], |p, v| p.frto = v[0] > 0),
    ("rto_min_us", &[(1, i32::MAX as u64)], |p, v| p.rto_min_us = v[0] as u32),
    ("rto_max_ms", &[(1000, 120_000)], |p, v| p.rto_max_us = v[0] as u32 * 1000),
    ("reordering", &[(1, 300)], |p, v| p.reordering = v[0] as u32),
    ("limit_output_bytes", &[(4096, i32::MAX as u64)], |p, v| p.limit_output = v[0] as u32),
    ("pacing_ss_ratio", RATIO, |p, v| p.pacing_ratios[0] = v[0] as u32),
    ("pacing_ca_ratio", RATIO, |p, v| p.pacing_ratios[1] = v[0] as u32),
    ("min_tso_segs", &[(1, 44)], |p, v| p.least_segment = v[0] as u32),
    ("tso_win_divisor", &[(1, 255)], |p, v| p.segment_divisor = v[0]),
    ("tso_rtt_log", &[(0, 31)], |p, v| p.segment_rtt_log = v[0] as u32),
    ("comp_sack_nr", &[(0, 255)], |p, v| p.compressed_acks = v[0] as u32),
    ("comp_sack_rtt_percent", &[(1, 1000)], |p, v| p.compressed_rtt_percent = v[0]),
    ("comp_sack_delay_ns", NANOSECONDS, |p, v| p.compressed_ns = v[0]),
    ("comp_sack_slack_ns", NANOSECONDS, |p, v| p.compressed_slack_ns = v[0]),
    ("rmem", &[MEMORY; 3], |p, v| (p.receive_buffer, p.most_receive_buffer) = (v[1] as u32, v[2] as u32)),
];

/// The names that the simulator knows.
pub fn names() -> impl Iterator<Item = String> {
    SETTINGS.iter().map(|(name, ..)| format!("net.ipv4.tcp_{name}"))
}

/// True if the simulator has this setting.
pub fn is_known(name: &str) -> bool {
    names().any(|known| known == name)
}

impl Params {
    /// Changes a setting; one that is not known changes nothing.
    ///
    /// # Errors
    /// Says what the value should be.
    pub fn set(&mut self, name: &str, value: &str) -> Result<(), String> {
        let Some((_, bounds, set)) =
            SETTINGS.iter().find(|(known, ..)| name.strip_prefix("net.ipv4.tcp_") == Some(known))
        else {
            return Ok(());
        };
        let words: Vec<&str> = value.split_whitespace().collect();
        let numbers: Vec<u64> = words.iter().filter_map(|word| word.parse().ok()).collect();
        let fits = |(number, (least, most)): (&u64, &(u64, u64))| (least..=most).contains(&number);
        if words.len() != bounds.len() || numbers.len() != bounds.len() || !numbers.iter().zip(*bounds).all(fits) {
            let (least, most) = bounds[0];
            let count = if bounds.len() > 1 { format!("{} numbers", bounds.len()) } else { "a number".into() };
            return Err(format!("\"{value}\" is not {count} from {least} to {most}"));
        }
        set(self, &numbers);
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn settings_are_taken_by_the_kernels_names() {
        let mut params = Params::default();
        params.set("net.ipv4.tcp_rto_min_us", "5000").unwrap();
        params.set("net.ipv4.tcp_rmem", "4096\t131072 6291456").unwrap();
        params.set("net.ipv4.tcp_early_retrans", "0").unwrap();
        params.set("net.core.somaxconn", "words").unwrap();
        assert_eq!((params.rto_min_us, params.receive_buffer, params.most_receive_buffer), (5000, 131_072, 6_291_456));
        assert!(!params.loss_probe && !is_known("net.core.somaxconn") && is_known("net.ipv4.tcp_frto"));
    }

    #[test]
    fn values_that_the_kernel_refuses_are_refused() {
        let refused =
            |name: &str, value: &str| Params::default().set(&format!("net.ipv4.tcp_{name}"), value).unwrap_err();
        assert_eq!(refused("frto", "3"), "\"3\" is not a number from 0 to 2");
        assert_eq!(refused("frto", "on"), "\"on\" is not a number from 0 to 2");
        assert_eq!(refused("rmem", "4096"), "\"4096\" is not 3 numbers from 1 to 2147483647");
        refused("pacing_ss_ratio", "1001");
        refused("reordering", "");
    }

    #[test]
    fn defaults_are_the_kernels() {
        let own = format!("{:?}", Params::default());
        let mut params = Params::default();
        for (name, value) in [
            ("slow_start_after_idle", "1"),
            ("early_retrans", "3"),
            ("frto", "2"),
            ("rto_min_us", "200000"),
            ("rto_max_ms", "120000"),
            ("reordering", "3"),
            ("limit_output_bytes", "4194304"),
            ("pacing_ss_ratio", "200"),
            ("pacing_ca_ratio", "120"),
            ("min_tso_segs", "2"),
            ("tso_win_divisor", "3"),
            ("tso_rtt_log", "9"),
            ("comp_sack_nr", "44"),
            ("comp_sack_rtt_percent", "33"),
            ("comp_sack_delay_ns", "1000000"),
            ("comp_sack_slack_ns", "10000"),
            ("rmem", "4096 131072 33554432"),
        ] {
            params.set(&format!("net.ipv4.tcp_{name}"), value).unwrap();
        }
        assert_eq!(format!("{params:?}"), own);
    }
}
