//! fio's job files, as far as they say which blocks are asked for (fio 3, HOWTO).

use super::lines::{Lines, quoted};
use std::collections::BTreeMap;
use std::io::BufRead;
use std::path::Path;
use toml::Value;

/// Keys that do not change which blocks are asked for, or when.
const NEEDLESS: &[&str] = &[
    "allow_mounted_write",
    "allrandrepeat",
    "buffered",
    "clat_percentiles",
    "cpus_allowed",
    "cpus_allowed_policy",
    "create_on_open",
    "description",
    "direct",
    "directory",
    "disable_clat",
    "disable_lat",
    "disable_slat",
    "end_fsync",
    "exitall",
    "fallocate",
    "filename",
    "filename_format",
    "filesize",
    "group_reporting",
    "gtod_reduce",
    "hipri",
    "invalidate",
    "io_size",
    "ioengine",
    "lat_percentiles",
    "log_avg_msec",
    "loops",
    "name",
    "new_group",
    "norandommap",
    "nrfiles",
    "numa_cpu_nodes",
    "numa_mem_policy",
    "offset",
    "percentile_list",
    "ramp_time",
    "random_generator",
    "randrepeat",
    "randseed",
    "refill_buffers",
    "runtime",
    "size",
    "slat_percentiles",
    "stonewall",
    "thread",
    "time_based",
    "unlink",
    "verify",
    "wait_for",
    "write_bw_log",
    "write_iops_log",
    "write_lat_log",
    "zero_buffers",
];
/// Keys that are read, with fio's other names for them.
const READ: &[(&str, &str)] = &[
    ("bs", "bs"),
    ("blocksize", "bs"),
    ("bssplit", "bssplit"),
    ("iodepth", "iodepth"),
    ("numjobs", "numjobs"),
    ("rate", "rate"),
    ("rate_iops", "rate_iops"),
    ("readwrite", "rw"),
    ("rw", "rw"),
    ("rwmixread", "rwmixread"),
    ("rwmixwrite", "rwmixwrite"),
];
/// Most sizes that a split is made of.
const MOST_SIZES: u64 = 100;

/// The file's only job, as keys of a storage section.
///
/// # Errors
/// Mistakes in the file, in one line.
pub fn read(file: &str, base: &Path) -> Result<toml::Table, String> {
    Job::read(&mut Lines::open(file, base)?)?.keys().map_err(|message| format!("{file}: {message}"))
}

/// Keys of `[global]` and of the job.
#[derive(Debug, Default)]
struct Job(BTreeMap<&'static str, String>);

impl Job {
    fn read<R: BufRead>(lines: &mut Lines<R>) -> Result<Self, String> {
        let (mut job, mut names) = (Self::default(), Vec::new());
        let mut in_section = false;
        while let Some(line) = lines.next()?.map(str::to_string) {
            if line.starts_with(['#', ';']) {
                continue;
            }
            if let Some(name) = line.strip_prefix('[').and_then(|rest| rest.strip_suffix(']')) {
                in_section = true;
                if name != "global" {
                    names.push(name.to_string());
                }
                if names.len() > 1 {
                    return Err(lines.wrong(format!("[{name}] is a second job: a traffic section plays one")));
                }
                continue;
            }
            let (key, value) =
                line.split_once('=').map_or((line.as_str(), "1"), |(key, value)| (key.trim(), value.trim()));
            if !in_section {
                return Err(lines.wrong("is in no section: begin with [global] or a job's [name]"));
            }
            match READ.iter().find(|(name, _)| *name == key) {
                Some((_, known)) => {
                    job.0.insert(known, value.to_string());
                }
                None if NEEDLESS.contains(&key) => {}
                None => {
                    let known: Vec<_> = READ.iter().map(|(name, _)| *name).collect();
                    return Err(lines.wrong(format!(
                        "{} is not known here: read are {}",
                        quoted(key),
                        known.join(", ")
                    )));
                }
            }
        }
        if names.is_empty() { Err("it has no job: such as [job] and rw=randread".into()) } else { Ok(job) }
    }

    fn keys(&self) -> Result<toml::Table, String> {
        let sizes = self.sizes()?;
        let writes = self.writes()?;
        let (depth, jobs) = (self.count("iodepth")?, self.count("numjobs")?);
        let mut keys = toml::Table::new();
        let texts = sizes.iter().map(|bytes| Value::from(format!("{bytes}B"))).collect();
        keys.insert("block".into(), Value::Array(texts));
        keys.insert("writes".into(), writes.into());
        keys.insert("depth".into(), depth.into());
        keys.insert("connections".into(), jobs.into());
        if let Some(rate) = self.rate(&sizes, writes)? {
            // fio's rate is of each of its jobs, ours of the client.
            keys.insert("rate".into(), format!("{}bps", rate.saturating_mul(8 * jobs as u64)).into());
        }
        Ok(keys)
    }

    /// Equally likely sizes, in bytes.
    fn sizes(&self) -> Result<Vec<u64>, String> {
        let Some(split) = self.0.get("bssplit") else {
            return Ok(vec![self.0.get("bs").map_or(Ok(4096), |text| size("bs", text))?]);
        };
        let wrong = || format!("bssplit: {} is not as \"4k/10:64k/90\"", quoted(split));
        let mut parts = Vec::new();
        for part in split.split(':') {
            let (bytes, percent) = part.split_once('/').ok_or_else(wrong)?;
            let percent = if percent.is_empty() { None } else { Some(percent.parse::<u64>().map_err(|_| wrong())?) };
            parts.push((size("bssplit", bytes)?, percent));
        }
        // What is left of 100% is shared by those that say nothing.
        let said: u64 = parts.iter().filter_map(|(_, percent)| *percent).fold(0, u64::saturating_add);
        let silent = parts.iter().filter(|(_, percent)| percent.is_none()).count() as u64;
        if said > 100 || silent == 0 && said < 100 {
            return Err(format!("bssplit: {} is {said}%, not 100", quoted(split)));
        }
        let shares = parts.iter().map(|&(bytes, percent)| match percent {
            Some(percent) => (bytes, percent * silent.max(1)),
            None => (bytes, 100 - said),
        });
        let divisor = shares.clone().fold(0, |divisor, (_, share)| gcd(divisor, share)).max(1);
        let count: u64 = shares.clone().map(|(_, share)| share / divisor).sum();
        if count > MOST_SIZES {
            return Err(format!("bssplit: {} is too finely divided: {MOST_SIZES} parts at most", quoted(split)));
        }
        Ok(shares.flat_map(|(bytes, share)| std::iter::repeat_n(bytes, (share / divisor) as usize)).collect())
    }

    /// Share of blocks that are written.
    fn writes(&self) -> Result<f64, String> {
        let percent = |key| self.0.get(key).map(|text| whole(key, text, 0, 100)).transpose();
        let (reads, writes) = (percent("rwmixread")?, percent("rwmixwrite")?);
        match self.0.get("rw").map_or("read", String::as_str) {
            "read" | "randread" => Ok(0.0),
            "write" | "randwrite" => Ok(1.0),
            "rw" | "readwrite" | "randrw" => Ok(writes.unwrap_or(100 - reads.unwrap_or(50)) as f64 / 100.0),
            other => Err(format!("rw: {} is none of read, write, rw, randread, randwrite, randrw", quoted(other))),
        }
    }

    /// Bytes in a second of one of fio's jobs.
    fn rate(&self, sizes: &[u64], writes: f64) -> Result<Option<u64>, String> {
        let bytes = self.0.get("rate").map(|text| size("rate", text)).transpose()?;
        let blocks = self.0.get("rate_iops").map(|text| whole("rate_iops", text, 1, 1_000_000_000)).transpose()?;
        if bytes.is_some() && blocks.is_some() {
            return Err("rate and rate_iops: only one of them is read".into());
        }
        let mean = sizes.iter().sum::<u64>() / sizes.len() as u64;
        let rate = bytes.or(blocks.map(|blocks| blocks * mean));
        // fio limits reads and writes each.
        let directions = if writes > 0.0 && writes < 1.0 { 2 } else { 1 };
        Ok(rate.map(|rate| rate * directions))
    }

    fn count(&self, key: &'static str) -> Result<i64, String> {
        self.0.get(key).map_or(Ok(1), |text| whole(key, text, 1, 1 << 20)).map(|count| count as i64)
    }
}

fn whole(key: &str, text: &str, least: u64, most: u64) -> Result<u64, String> {
    let number = text.parse().ok().filter(|number| (least..=most).contains(number));
    number.ok_or_else(|| format!("{key}: {} is no whole number from {least} to {most}", quoted(text)))
}

/// A number with a suffix: as long as `kb_base` is not set, k is 1024.
fn size(key: &str, text: &str) -> Result<u64, String> {
    let lower = text.to_ascii_lowercase();
    let digits = lower.trim_end_matches(|c: char| c.is_ascii_alphabetic());
    let shift = match &lower[digits.len()..] {
        "" | "b" => 0,
        "k" | "kb" => 10,
        "m" | "mb" => 20,
        "g" | "gb" => 30,
        _ => 64,
    };
    let bytes = digits.parse::<u64>().ok().filter(|&n| n > 0 && shift < 64 && n < 1 << (44 - shift));
    bytes.map(|n| n << shift).ok_or_else(|| format!("{key}: {} is no size such as \"4k\" or \"1m\"", quoted(text)))
}

fn gcd(a: u64, b: u64) -> u64 {
    if b == 0 { a } else { gcd(b, a % b) }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn keys(text: &str) -> Result<String, String> {
        let keys = Job::read(&mut Lines::new("job.fio", text.as_bytes())).and_then(|job| job.keys())?;
        Ok(keys.to_string().replace('\n', " ").trim_end().to_string())
    }

    #[test]
    fn a_job_has_what_is_global_and_its_own() {
        let text = "; as its authors have it\n[global]\nioengine=libaio\ndirect=1\nbs=64k\niodepth=8\n\n[reads]\nrw=randread\niodepth=32\nnumjobs=4\ntime_based\nrate=100m\n";
        assert_eq!(
            keys(text).unwrap(),
            "block = [\"65536B\"] connections = 4 depth = 32 rate = \"3355443200bps\" writes = 0.0"
        );
        let split = "[j]\nrw=randrw\nrwmixread=70\nbssplit=4k/10:64k/50:32k/40\nrate_iops=1000\n";
        let sizes = ["4096B"; 1].into_iter().chain(["65536B"; 5]).chain(["32768B"; 4]);
        let sizes: Vec<_> = sizes.map(|size| format!("\"{size}\"")).collect();
        // 1000 reads and 1000 writes in a second, of 46,284 bytes on average.
        let expected =
            format!("block = [{}] connections = 1 depth = 1 rate = \"740544000bps\" writes = 0.3", sizes.join(", "));
        assert_eq!(keys(split).unwrap(), expected);
        assert!(keys("[j]\nbssplit=4k/20:8k/:16k/\n").unwrap().starts_with("block = [\"4096B\", \"8192B\", \"8192B\""));
    }

    #[test]
    fn what_cannot_be_played_is_one_line() {
        for (text, expected) in [
            ("", "it has no job: such as [job] and rw=randread"),
            ("[global]\nbs=4k\n", "it has no job: such as [job] and rw=randread"),
            ("bs=4k\n", "job.fio:1: is in no section: begin with [global] or a job's [name]"),
            ("[a]\nbs=4k\n[b]\n", "job.fio:3: [b] is a second job: a traffic section plays one"),
            ("[a]\nbs=4kib\n", "bs: \"4kib\" is no size such as \"4k\" or \"1m\""),
            ("[a]\nbs=0\n", "bs: \"0\" is no size such as \"4k\" or \"1m\""),
            ("[a]\nbs=99999999999999999999k\n", "bs: \"99999999999999999999k\" is no size such as \"4k\" or \"1m\""),
            ("[a]\niodepth=0\n", "iodepth: \"0\" is no whole number from 1 to 1048576"),
            ("[a]\nrw=trim\n", "rw: \"trim\" is none of read, write, rw, randread, randwrite, randrw"),
            ("[a]\nbssplit=4k/50:8k/49\n", "bssplit: \"4k/50:8k/49\" is 99%, not 100"),
            ("[a]\nbssplit=4k\n", "bssplit: \"4k\" is not as \"4k/10:64k/90\""),
            ("[a]\nrate=1m\nrate_iops=5\n", "rate and rate_iops: only one of them is read"),
        ] {
            assert_eq!(keys(text).unwrap_err(), expected, "{text}");
        }
        assert!(
            keys("[a]\nthinktime=5\n").unwrap_err().starts_with("job.fio:2: \"thinktime\" is not known here: read are")
        );
    }
}
