//! Scenarios as a user may write them: broken, mutated, written back.

mod common;

use common::TempFile;
use onramp_sim::scenario::Runner;
use onramp_sim::{Scenario, ScenarioError};
use proptest::prelude::*;
use std::path::{Path, PathBuf};

const GOOD: &str = r#"name = "good"
seed = 3
duration = "1ms"

[network]
kind = "fat-tree"
pods = 2
tors_per_pod = 2
aggs_per_pod = 2
cores = 4
hosts_per_tor = 4

[switch]
buffer = "32MiB"
alpha = [{ rate = "100Gbps", alpha = 0.125 }, { rate = "400Gbps", alpha = 0.5 }]

[host]
payload = "1000B"

[transport]
kind = "dcqcn"
min_rate = "1Gbps"

[onramp]
threshold = "16us"
gain = 0.0625

[clock]
sync = "gaussian"
sigma = "200ns"

[measure]
queues = ["tor0->h0"]
owd = ["h0->h1"]

[[traffic]]
kind = "background"
workload = "WebSearch"
load = 0.4

[[traffic]]
kind = "incast"
fan_out = 8
size = "2KB"
load = 0.02

[[traffic]]
kind = "long"
src = ["h1", "h2"]
dst = "h0"
"#;

fn load(text: &str, set: &[(&str, &str)]) -> Result<Scenario, Vec<ScenarioError>> {
    let set: Vec<_> = set.iter().map(|(k, v)| (k.to_string(), v.to_string())).collect();
    Scenario::load(text, "s.toml", Path::new("/nowhere"), &set).map(|(scenario, _)| scenario)
}

fn lines(text: &str, set: &[(&str, &str)]) -> String {
    match load(text, set) {
        Ok(_) => "no mistake".into(),
        Err(errors) => errors.iter().map(ToString::to_string).collect::<Vec<_>>().join("\n"),
    }
}

/// Text that is replaced, its replacement, and the lines that must come.
const BROKEN: &[(&str, &str, &str)] = &[
    (r#"duration = "1ms""#, r#"durration = "1ms""#, "s.toml:3: durration: is not a known key: did you mean duration?"),
    (
        r#"duration = "1ms""#,
        "duration = 1",
        r#"s.toml:3: duration: 1 is not a time in quotes with its unit, such as "16us""#,
    ),
    (
        r#"duration = "1ms""#,
        r#"duration = "1 hour""#,
        r#"s.toml:3: duration: "1 hour" is not a time: write a number and a unit (s, ms, us, ns, ps), such as "16us""#,
    ),
    (r#"duration = "1ms""#, r#"duration = "0us""#, r#"s.toml:3: duration: must be longer than 0, such as "2ms""#),
    (
        r#"duration = "1ms""#,
        r#"duration = "1ms"
time_limit = "10us""#,
        "s.toml:4: time_limit: 10us ends before duration, 1ms",
    ),
    (
        r#"duration = "1ms""#,
        r#"duration = "1ms"
duration = "2ms""#,
        "s.toml:4: duration: is there twice",
    ),
    (
        "seed = 3",
        "seed = -3",
        "s.toml:2: seed: -3 is not a whole number from 0 to 18446744073709551615 (in quotes from 9223372036854775808)",
    ),
    (
        "seed = 3",
        "seed = 1.5",
        "s.toml:2: seed: 1.5 is not a whole number from 0 to 18446744073709551615 (in quotes from 9223372036854775808)",
    ),
    (
        "seed = 3",
        r#"seed = "x""#,
        r#"s.toml:2: seed: "x" is not a whole number from 0 to 18446744073709551615 (in quotes from 9223372036854775808)"#,
    ),
    (
        "seed = 3",
        "seed = 18446744073709551615",
        "s.toml:2: a whole number is outside -9223372036854775808 to 9223372036854775807: write a seed like that in quotes",
    ),
    ("seed = 3", r#""see\nd" = 3"#, r#"s.toml:2: see\nd: is not a known key: did you mean seed?"#),
    ("[network]", "[network", "s.toml:5: unclosed table, expected `]`"),
    ("[network]", "[nettwork]", "s.toml:5: nettwork: is not a known key: did you mean network?"),
    ("pods = 2", r#"pods = "four""#, r#"s.toml:7: network.pods: "four" is not a whole number"#),
    ("pods = 2", "pods = 2.0", "s.toml:7: network.pods: 2.0 is not a whole number"),
    ("pods = 2", "pods = -2", "s.toml:7: network.pods: -2 is not a whole number from 0 to 4294967295"),
    ("pods = 2", "pods = 0", "s.toml:7: network.pods: must be at least 1"),
    (
        "pods = 2",
        "pods = 1000000000",
        "s.toml:5: network: 16000000000 links are more than the 2097152 a network may have: make it smaller",
    ),
    ("pods = 2", "pods = 5000000000", "s.toml:7: network.pods: 5000000000 is not a whole number from 0 to 4294967295"),
    (
        "pods = 2",
        r#"pods = 2
link_delay = "2s""#,
        "s.toml:8: network.link_delay: 2s is more than 1s",
    ),
    (
        "pods = 2",
        r#"pods = 2
link_delay = "300ms""#,
        "s.toml:5: network: the longest path takes 1800ms one way: at most 1s is possible",
    ),
    (
        "pods = 2",
        r#"pods = 2
host_rate = "10bps""#,
        "s.toml:8: network.host_rate: 10bps is outside 1Mbps to 8Tbps",
    ),
    ("cores = 4", "cores = 5", "s.toml:10: network.cores: 5 is not a multiple of aggs_per_pod, 2"),
    (
        r#"kind = "fat-tree""#,
        r#"kind = "fat_tree""#,
        r#"s.toml:6: network.kind: "fat_tree" is not one of fat-tree, leaf-spine, star, dumbbell, racks, servers, dragonfly, links, hpcc-file, htsim-file, simai-file: did you mean "fat-tree"?"#,
    ),
    (
        r#"kind = "fat-tree"
"#,
        r#"
"#,
        "s.toml:5: network.kind: is missing: write one of fat-tree, leaf-spine, star, dumbbell, racks, servers, dragonfly, links, hpcc-file, htsim-file, simai-file",
    ),
    (
        r#"buffer = "32MiB""#,
        r#"buffer = "100KB""#,
        "s.toml:14: switch.buffer: 100000B must be more than what agg3 sets aside for its 4 ports (reserve and headroom), 616384B",
    ),
    (
        r#"buffer = "32MiB""#,
        r#"buffer = "32Mib""#,
        r#"s.toml:14: switch.buffer: "32Mib" is not a size: write a number and a unit (GiB, GB, MiB, MB, KiB, KB, B), such as "32MiB""#,
    ),
    (
        r#"buffer = "32MiB""#,
        r#"loss = "lossles""#,
        r#"s.toml:14: switch.loss: "lossles" is not one of pfc, lossy, lossy-ingress"#,
    ),
    (
        r#"buffer = "32MiB""#,
        r#"loss = "lossy"
headroom = []"#,
        r#"s.toml:15: switch.headroom: has no effect without loss = "pfc""#,
    ),
    (
        r#"buffer = "32MiB""#,
        r#"trim = "64B"
queue = [{ rate = "100Gbps", bytes = "100KB" }]"#,
        r#"s.toml:14: switch.trim: has no effect without loss = "lossy"
s.toml:15: switch.queue: has no effect without loss = "lossy"
s.toml:15: switch.queue: leaves out links of 400Gbps: list every rate, 100Gbps, 400Gbps"#,
    ),
    (
        r#"buffer = "32MiB""#,
        r#"loss = "lossy"
trim = "40B""#,
        r#"s.toml:15: switch.trim: 40B is outside 64B to 1000B: such as "64B""#,
    ),
    (
        r#"payload = "1000B""#,
        r#"recovery = { kind = "rud", rto = "1ns" }"#,
        r#"s.toml:18: host.recovery.rto: 1ns is below 1us: such as "100us""#,
    ),
    (
        r#"payload = "1000B""#,
        r#"entropy = { kind = "spray", values = 100 }"#,
        "s.toml:18: host.entropy.values: 100 is no power of two from 2 to 65536: such as 128",
    ),
    (
        r#"kind = "dcqcn"
min_rate = "1Gbps""#,
        r#"kind = "nscc"
target = "1ns"
max_cut = 1.0
quick_adapt_gate = 17"#,
        r#"s.toml:22: transport.target: must be at least 1us, such as "12us"
s.toml:23: transport.max_cut: 1 is not between 0 and 1
s.toml:24: transport.quick_adapt_gate: 17 is above 16: such as 3"#,
    ),
    (
        r#"kind = "dcqcn"
min_rate = "1Gbps""#,
        r#"kind = "rccc"
max_window = 0.0
grant = "1B"
rate = 1.5"#,
        r#"s.toml:22: transport.max_window: 0 is outside 0.01 to 1000
s.toml:23: transport.grant: 1B is outside 256B to 1MiB: such as "16KiB"
s.toml:24: transport.rate: 1.5 is not above 0 and at most 1: such as 0.99"#,
    ),
    (
        r#"kind = "dcqcn"
min_rate = "1Gbps""#,
        r#"kind = "nscc"
credit = { base_rtt = "1ns" }"#,
        r#"s.toml:22: transport.credit.base_rtt: must be at least 1us, such as "12us""#,
    ),
    (
        r#"buffer = "32MiB""#,
        r#"pfc_frame = "64KiB""#,
        r#"s.toml:14: switch.pfc_frame: 64KiB is outside 1B to 65535B: such as "43B""#,
    ),
    (
        r#"buffer = "32MiB""#,
        r#"headroom = [{ rate = "100Gbps", bytes = "40KB" }]"#,
        "s.toml:14: switch.headroom: leaves out links of 400Gbps: list every rate, 100Gbps, 400Gbps",
    ),
    (
        r#"buffer = "32MiB""#,
        r#"ecn = [{ rate = "100Gbps", kmin = "9KB", kmax = "4KB", pmax = 2 }, { rate = "400Gbps", kmin = "4KB", kmax = "4KB", pmax = nan }]"#,
        r#"s.toml:14: switch.ecn[0].kmin: 9KB is above kmax, 4KB
s.toml:14: switch.ecn[0].pmax: 2 is outside 0 to 1
s.toml:14: switch.ecn[1].pmax: NaN is outside 0 to 1"#,
    ),
    ("alpha = 0.5", "alpha = inf", "s.toml:15: switch.alpha[1].alpha: inf is outside 0.001 to 1000"),
    ("alpha = 0.5", "alhpa = 0.5", "s.toml:15: switch.alpha[1].alhpa: is not a known key: did you mean alpha?"),
    (
        r#"rate = "400Gbps", alpha"#,
        r#"rate = "40Gbps", alpha"#,
        "s.toml:15: switch.alpha[1].rate: no link has 40Gbps: the rates are 100Gbps, 400Gbps",
    ),
    (
        r#"rate = "400Gbps", alpha"#,
        r#"rate = "100Gbps", alpha"#,
        "s.toml:15: switch.alpha[1].rate: 100Gbps is listed twice: the rates are 100Gbps, 400Gbps",
    ),
    (r#"payload = "1000B""#, r#"payload = "64KB""#, "s.toml:18: host.payload: 64000B is outside 1B to 9000B"),
    (
        r#"payload = "1000B""#,
        r#"rto = "1ns""#,
        r#"s.toml:18: host.rto: 1ns is outside 1us to 100s: such as "16ms", well above the round-trip time"#,
    ),
    ("[host]", "[[host]]", "s.toml:17: host: is no list: write [host], with one bracket"),
    (
        r#"kind = "dcqcn""#,
        r#"kind = "dctpc""#,
        r#"s.toml:21: transport.kind: "dctpc" is not one of dcqcn, timely, dctcp, hpcc, swift, nscc, rccc, rcp, xcp, custom, newreno, cubic, bbr, vegas, dctcp-tcp, custom-tcp: did you mean "dctcp"?"#,
    ),
    (
        r#"kind = "dcqcn""#,
        "kind = 5",
        "s.toml:21: transport.kind: must be in quotes: one of dcqcn, timely, dctcp, hpcc, swift, nscc, rccc, rcp, xcp, custom, newreno, cubic, bbr, vegas, dctcp-tcp, custom-tcp",
    ),
    (
        r#"min_rate = "1Gbps""#,
        r#"min_rate = "200Gbps""#,
        "s.toml:22: transport.min_rate: 200Gbps is above the rate of the fastest host link, 100Gbps",
    ),
    (
        r#"min_rate = "1Gbps""#,
        r#"t_low = "50us""#,
        "s.toml:22: transport.t_low: is not a known key: known are window, min_rate, rate_increase_timer, rate_decrease_timer, alpha_timer, gain, fast_recovery, additive_increase, hyper_increase, clamp_target",
    ),
    (r#"min_rate = "1Gbps""#, r#"window = "yes""#, r#"s.toml:22: transport.window: "yes" is not true or false"#),
    (
        r#"threshold = "16us""#,
        "threshold = 16",
        r#"s.toml:25: onramp.threshold: 16 is not a time in quotes with its unit, such as "16us", or "auto""#,
    ),
    (
        r#"threshold = "16us""#,
        r#"threshold = "auto""#,
        r#"s.toml:25: onramp.threshold: "auto" has no uncertainty to go by with sync = "gaussian": write a time, such as "16us""#,
    ),
    (
        r#"owd = ["h0->h1"]"#,
        r#"rates = ["tor0->h0"]"#,
        "s.toml:34: measure.rates: is recorded with rcp only: leave it out",
    ),
    (
        r#"payload = "1000B""#,
        r#"pacing = "packet""#,
        r#"s.toml:18: host.pacing: "dcqcn" has no window to pace, it sends at a rate"#,
    ),
    (
        r#"payload = "1000B""#,
        r#"max_burst = "15KB""#,
        r#"s.toml:18: host.max_burst: counts with pacing = "burst" only"#,
    ),
    (
        r#"payload = "1000B""#,
        "processing = [{ ring = 4 }]",
        r#"s.toml:18: host.processing[0].time: or rate is needed: such as time = "200ns" or rate = "10Gbps""#,
    ),
    (
        r#"payload = "1000B""#,
        r#"processing = [{ time = "1us", ring = 0 }]"#,
        "s.toml:18: host.processing[0].ring: 0 is outside 1 to 1000000",
    ),
    (
        r#"payload = "1000B""#,
        r#"storms = [{ hosts = ["h0"], start = "2ms", stop = "1ms" }]"#,
        "s.toml:18: host.storms[0].stop: 1ms is not after the start, 2ms",
    ),
    (
        r#"buffer = "32MiB"
alpha = [{ rate = "100Gbps", alpha = 0.125 }, { rate = "400Gbps", alpha = 0.5 }]

[host]"#,
        r#"loss = "lossy"

[host]
storms = [{ hosts = ["h0"] }]"#,
        r#"s.toml:17: host.storms: pauses what has PFC: use an RDMA transport with switch.loss = "pfc""#,
    ),
    (
        r#"owd = ["h0->h1"]"#,
        r#"order = ["h0->tor0"]"#,
        "s.toml:34: measure.order[0]: h0->tor0 is a host's: name a port of a switch",
    ),
    (
        r#"payload = "1000B""#,
        r#"shaper = "caroussel""#,
        r#"s.toml:18: host.shaper: "caroussel" is not one of flow, round-robin, carousel, htb, fq: did you mean "carousel"?"#,
    ),
    (
        r#"payload = "1000B""#,
        r#"shaping = { slot = "1us" }"#,
        r#"s.toml:18: host.shaping.slot: has no effect with shaper = "flow": only with "carousel""#,
    ),
    (
        r#"payload = "1000B""#,
        r#"shaping = { egress = "1Gbps" }"#,
        r#"s.toml:18: host.shaping.egress: has no effect with shaper = "flow": only with "carousel", "htb""#,
    ),
    (
        r#"dst = "h0""#,
        "dst = \"h0\"\ncap = [\"1Mbps\", 5]",
        "s.toml:51: traffic[2].cap[1]: 5 is not a rate in quotes with its unit, such as \"100Gbps\"",
    ),
    (r#"dst = "h0""#, "dst = \"h0\"\ncap = \"0bps\"", "s.toml:51: traffic[2].cap: must be above 0, such as \"10Mbps\""),
    (
        r#"dst = "h0""#,
        "dst = \"h0\"\ntenant = \"web\"",
        r#"s.toml:51: traffic[2].tenant: "web" is not in host.shaping.tenants: write tenants = { web = "10Gbps" } there"#,
    ),
    (r#"owd = ["h0->h1"]"#, "cwnd = true", "s.toml:34: measure.cwnd: is recorded with TCP only: leave it out"),
    (
        "gain = 0.0625",
        r#"threshold_floor = "10us""#,
        r#"s.toml:26: onramp.threshold_floor: has no effect with a fixed threshold: write threshold = "auto""#,
    ),
    (
        r#"threshold = "16us""#,
        r#"threshold = "0us""#,
        r#"s.toml:25: onramp.threshold: 0ps must be above the one-way delay of an empty path, such as "16us""#,
    ),
    (
        r#"threshold = "16us""#,
        r#"treshold = "16us""#,
        "s.toml:25: onramp.treshold: is not a known key: did you mean threshold?",
    ),
    ("gain = 0.0625", r#"gain = "high""#, r#"s.toml:26: onramp.gain: "high" is not a number"#),
    (
        "gain = 0.0625",
        "gain = 0.1",
        "s.toml:26: onramp.gain: 0.1 is not one of 0.25, 0.125, 0.0625, 0.03125, 0.015625 (1/4 to 1/64)",
    ),
    (
        "gain = 0.0625",
        r#"ack = "seperate""#,
        r#"s.toml:26: onramp.ack: "seperate" is not one of transport, separate: did you mean "separate"?"#,
    ),
    ("gain = 0.0625", r#"max_pause = "0us""#, r#"s.toml:26: onramp.max_pause: must be at least 1ns, such as "1ms""#),
    (
        r#"sync = "gaussian"
"#,
        "",
        r#"s.toml:29: clock.sigma: has no effect with sync = "perfect": write sync = "gaussian""#,
    ),
    (
        r#"sync = "gaussian"
"#,
        r#"sync = "gausian"
"#,
        r#"s.toml:29: clock.sync: "gausian" is not one of perfect, gaussian, huygens, ntp: did you mean "gaussian"?"#,
    ),
    (
        r#"sync = "gaussian""#,
        r#"sync = "ntp""#,
        r#"s.toml:30: clock.sigma: has no effect with sync = "ntp": write sync = "gaussian""#,
    ),
    (
        r#"sigma = "200ns""#,
        r#"drift = "30ppm""#,
        r#"s.toml:30: clock.drift: has no effect with sync = "gaussian": write sync = "huygens" or "ntp""#,
    ),
    (
        r#"sync = "gaussian"
sigma = "200ns""#,
        r#"sync = "ntp"
peers = 10"#,
        r#"s.toml:30: clock.peers: has no effect with sync = "ntp": write sync = "huygens""#,
    ),
    (
        r#"sync = "gaussian"
sigma = "200ns""#,
        r#"sync = "huygens"
drift = "30us"
window = "1us"
probe_interval = "1s"
wander = "2ppm"
peers = 0"#,
        r#"s.toml:30: clock.drift: "30us" is not a drift: write a number and a unit (ppm, ppb, ppt), such as "30ppm""#,
    ),
    (
        r#"sync = "gaussian"
sigma = "200ns""#,
        r#"sync = "huygens"
drift = "501ppm"
window = "1us"
wander = "2ppm"
peers = 0"#,
        r#"s.toml:30: clock.drift: 501ppm is more than 500ppm, which NTP can correct: such as "30ppm"
s.toml:31: clock.window: 1us is outside 1ms to 60s: such as "2s"
s.toml:32: clock.wander: 2ppm in a second is more than 1ppm: such as "1ppb"
s.toml:33: clock.peers: must be at least 1, such as 10"#,
    ),
    (
        r#"sync = "gaussian"
sigma = "200ns""#,
        r#"sync = "huygens"
probe_interval = "1s""#,
        r#"s.toml:30: clock.probe_interval: 1s is outside 40us to 250ms: such as "8ms""#,
    ),
    (
        r#"queues = ["tor0->h0"]"#,
        r#"queues = "tor0->h0""#,
        r#"s.toml:33: measure.queues: "tor0->h0" is not a list, such as ["a", "b"]"#,
    ),
    (
        r#"queues = ["tor0->h0"]"#,
        r#"queues = ["tor0->h0", "h0->tor0"]"#,
        "s.toml:33: measure.queues[1]: h0->tor0 is a host's: name a port of a switch",
    ),
    (
        r#"queues = ["tor0->h0"]"#,
        r#"queues = ["tor0-h0", "tro0->h0", "tor0->h9", "tor0->h77"]"#,
        r#"s.toml:33: measure.queues[0]: "tor0-h0" is no link: write two neighbours, such as "tor0->h0"
s.toml:33: measure.queues[1]: "tro0->h0" is no link: there is no "tro0": did you mean "tor0"?
s.toml:33: measure.queues[2]: "tor0->h9" is no link: the neighbours of tor0 are h0, h1, h2, h3, …
s.toml:33: measure.queues[3]: "tor0->h77" is no link: there is no "h77": nodes are h0 to h15, tor0 to tor3, agg0 to agg3, core0 to core3"#,
    ),
    (
        r#"owd = ["h0->h1"]"#,
        r#"owd = ["h0->h0", "h0->tor0"]"#,
        r#"s.toml:34: measure.owd[0]: h0 sends nothing to itself: write two hosts, such as "h0->h1"
s.toml:34: measure.owd[1]: "tor0" is no host: they are h0 to h15"#,
    ),
    (
        r#"owd = ["h0->h1"]"#,
        r#"interval = "99ns""#,
        r#"s.toml:34: measure.interval: 99ns is shorter than 100ns: such as "10us""#,
    ),
    (
        r#"workload = "WebSearch""#,
        r#"workload = "Websearch""#,
        r#"s.toml:38: traffic[0].workload: cannot read "Websearch": No such file or directory (os error 2); built in are "WebSearch", "FB_Hadoop" and "GoogleSearchRPC""#,
    ),
    (
        "load = 0.4",
        "load = 0",
        "s.toml:39: traffic[0].load: 0 is not a share of the link rate: above 0 and at most 10, usually below 1, such as 0.6",
    ),
    (
        "load = 0.4",
        "load = nan",
        "s.toml:39: traffic[0].load: NaN is not a share of the link rate: above 0 and at most 10, usually below 1, such as 0.6",
    ),
    ("load = 0.4", r#"load = "40%""#, r#"s.toml:39: traffic[0].load: "40%" is not a number"#),
    (
        r#"load = 0.4
"#,
        r#"
"#,
        "s.toml:36: traffic[0].load: is missing: write one, such as load = 0.6",
    ),
    (
        r#"kind = "background""#,
        r#"kind = "backround""#,
        r#"s.toml:37: traffic[0].kind: "backround" is not one of background, incast, long, trace, rpc, storage, partition-aggregate, collective, program, custom: did you mean "background"?"#,
    ),
    (
        "fan_out = 8",
        "fan_out = 16",
        "s.toml:43: traffic[1].fan_out: 16 answering servers, but the network has 16 hosts: 1 to 15 are possible",
    ),
    (r#"size = "2KB""#, r#"size = "0B""#, r#"s.toml:44: traffic[1].size: must be larger than 0, such as "2KB""#),
    (
        r#"size = "2KB""#,
        r#"size = "5000GB""#,
        "s.toml:44: traffic[1].size: 5000GB is more than a flow can have, 4294967294KB at 1KB a packet",
    ),
    (
        r#"size = "2KB""#,
        "size = 2000",
        r#"s.toml:44: traffic[1].size: 2000 is not a size in quotes with its unit, such as "32MiB""#,
    ),
    (
        r#"src = ["h1", "h2"]"#,
        r#"src = ["h1", "h0", "h16", 5]"#,
        "s.toml:49: traffic[2].src[3]: 5 is not text in quotes",
    ),
    (
        r#"src = ["h1", "h2"]"#,
        r#"src = ["h1", "h0", "H16"]"#,
        r#"s.toml:49: traffic[2].src[1]: h0 would send to itself
s.toml:49: traffic[2].src[2]: "H16" is no host: they are h0 to h15"#,
    ),
    (r#"src = ["h1", "h2"]"#, r#"src = "h1""#, r#"s.toml:49: traffic[2].src: "h1" is not a list, such as ["a", "b"]"#),
    (
        r#"dst = "h0""#,
        r#"dst = "h0"
start = "2ms""#,
        "s.toml:51: traffic[2].start: 2ms is not before the end of duration, 1ms",
    ),
    (
        r#"dst = "h0""#,
        r#"dst = "h0"
start = "2ms"
stop = "1ms""#,
        "s.toml:51: traffic[2].start: 2ms is not before the stop, 1ms",
    ),
    (
        r#"dst = "h0""#,
        r#"dst = "h0"
[[traffic]]
kind = "trace"
file = "flows.csv""#,
        r#"s.toml:53: traffic[3].file: cannot read "flows.csv": No such file or directory (os error 2)"#,
    ),
    (
        r#"dst = "h0""#,
        r#"dst = "h0"
[[traffic]]
kind = "trace"
file = "/dev/zero""#,
        r#"s.toml:53: traffic[3].file: cannot read "/dev/zero": not a regular file"#,
    ),
    (
        r#"dst = "h0""#,
        r#"dst = "h0"
[[traffic]]"#,
        "s.toml:51: traffic[3].kind: is missing: write one of background, incast, long, trace, rpc, storage, partition-aggregate, collective, program, custom",
    ),
    (
        r#"dst = "h0"
"#,
        r#""a\u001fb" = 1
"#,
        r#"s.toml:47: traffic[2].dst: is missing: write one, such as dst = "h0"
s.toml:50: traffic[2].a\u{1f}b: is not a known key: known are src, dst, start, jitter, stop, transport, class, cap, tenant"#,
    ),
    (
        r#"seed = 3
duration = "1ms"
"#,
        r#"seed = "3x"
"#,
        r#"s.toml:2: seed: "3x" is not a whole number from 0 to 18446744073709551615 (in quotes from 9223372036854775808)
s.toml: duration: is missing: write one, such as duration = "2ms""#,
    ),
    (
        r#"pods = 2
tors_per_pod = 2
aggs_per_pod = 2"#,
        r#"pod = 2
tors_per_pod = "2"
aggs_per_pod = 2.5"#,
        r#"s.toml:7: network.pod: is not a known key: did you mean pods?
s.toml:8: network.tors_per_pod: "2" is not a whole number
s.toml:9: network.aggs_per_pod: 2.5 is not a whole number"#,
    ),
];

#[test]
fn every_mistake_is_the_one_line_that_helps() {
    let mut wrong = String::new();
    for (old, new, expected) in BROKEN {
        assert!(GOOD.contains(old), "{old}");
        let found = lines(&GOOD.replacen(old, new, 1), &[]);
        if found != *expected {
            wrong += &format!("--- {new}\n{found}\n");
        }
    }
    assert!(wrong.is_empty(), "\n{wrong}");
}

#[test]
fn feedback_is_of_one_kind_and_has_one_set_of_parameters() {
    let with = |main: &str, own: &str| {
        let text = GOOD.replace("kind = \"dcqcn\"\nmin_rate = \"1Gbps\"", main);
        lines(&text.replace("load = 0.4\n", &format!("load = 0.4\ntransport = {{ {own} }}\n")), &[])
    };
    let wrong = "s.toml:39: traffic[0].transport.kind: ";
    for (main, own, message) in [
        (
            "kind = \"hpcc\"",
            "kind = \"rcp\"",
            "\"rcp\" does not run beside \"hpcc\": packets have room for one of them",
        ),
        ("kind = \"rcp\"", "kind = \"xcp\"", "\"xcp\" does not run beside \"rcp\": packets have room for one of them"),
        (
            "kind = \"swift\"",
            "kind = \"hpcc\"",
            "\"hpcc\" does not run beside \"swift\": packets have room for one of them",
        ),
        (
            "kind = \"xcp\"",
            "kind = \"xcp\", beta = 0.1",
            "other parameters of \"xcp\" beside it: switches have one set of them",
        ),
    ] {
        assert_eq!(with(main, own), format!("{wrong}{message}"));
    }
    let good = |main: &str, own: &str| {
        let text = GOOD.replace("kind = \"dcqcn\"\nmin_rate = \"1Gbps\"", main);
        load(&text.replace("load = 0.4\n", &format!("load = 0.4\ntransport = {{ {own} }}\n")), &[]).is_ok()
    };
    assert!(good("kind = \"dcqcn\"", "kind = \"rcp\""));
    // What a sender does for itself is no matter of the switches.
    assert!(good("kind = \"xcp\"", "kind = \"xcp\", initial_window = 4.0"));
}

#[test]
fn rates_are_those_of_switches_ports() {
    let text = GOOD.replace("kind = \"dcqcn\"\nmin_rate = \"1Gbps\"", "kind = \"rcp\"");
    let with = |port: &str| text.replace("owd = [\"h0->h1\"]", &format!("rates = [\"{port}\"]"));
    assert!(load(&with("tor0->h0"), &[]).is_ok());
    let message = "s.toml:33: measure.rates[0]: h0->tor0 is a host's: name a port of a switch";
    assert_eq!(lines(&with("h0->tor0"), &[]), message);
}

#[test]
fn background_to_hosts_leaves_someone_to_send() {
    let lines = |more: &str| lines(&GOOD.replace("load = 0.4\n", &format!("load = 0.4\n{more}\n")), &[]);
    assert_eq!(lines("to = [\"h0\"]"), "no mistake");
    assert_eq!(lines("to = [\"h\"]"), "s.toml:40: traffic[0].to: leaves no host to send");
    assert_eq!(lines("to = [\"x\"]"), "s.toml:40: traffic[0].to[0]: \"x\" is no host: they are h0 to h15");
    let itself = "s.toml:41: traffic[0].to: h0 would send to itself: leave it out of hosts";
    assert_eq!(lines("hosts = [\"h1\", \"h0\"]\nto = [\"h0\"]"), itself);
}

/// Values given beside the file, and what must come after "--set: ".
const SET: &[(&str, &str)] = &[
    (
        "traffic.0.load=0",
        "traffic.0.load: 0 is not a share of the link rate: above 0 and at most 10, usually below 1, such as 0.6",
    ),
    ("traffic.0.load=high", "traffic.0.load: \"high\" is not a number"),
    ("traffic.0.laod=1", "traffic.0.laod: is not a known key: did you mean load?"),
    ("traffic.3.load=1", "traffic.3.load: traffic has no element 3: it has 3, traffic.0 to traffic.2"),
    ("traffic.load=1", "traffic.load: traffic has no element load: it has 3, traffic.0 to traffic.2"),
    ("traffic.2.src.1=h99", "traffic.2.src.1: \"h99\" is no host: did you mean \"h9\"? they are h0 to h15"),
    ("switch.alpha.1.rate=40Gbps", "switch.alpha.1.rate: no link has 40Gbps: the rates are 100Gbps, 400Gbps"),
    (
        "switch.ecn=[{ rate = \"1Gbps\", kmin = \"1KB\", kmax = \"1KB\", pmax = 1 }]",
        "switch.ecn.0.rate: no link has 1Gbps: the rates are 100Gbps, 400Gbps",
    ),
    (
        "onramp.threshold=12",
        "onramp.threshold: 12 is not a time in quotes with its unit, such as \"16us\", or \"auto\"",
    ),
    (
        "onramp.threshold=0us",
        "onramp.threshold: 0ps must be above the one-way delay of an empty path, such as \"16us\"",
    ),
    ("name.first=x", "name.first: name is a value, not a section"),
    ("onramp.=x", "onramp.: is not a key, such as onramp.threshold or traffic.0.load"),
    ("=x", "is not a key, such as onramp.threshold or traffic.0.load"),
    (
        "seed=18446744073709551616",
        "seed: \"18446744073709551616\" is not a whole number from 0 to 18446744073709551615 (in quotes from 9223372036854775808)",
    ),
    ("hosts=4", "hosts: is not a known key: did you mean host?"),
    ("network.kind=star", "network.kind"),
];

#[test]
fn what_is_set_beside_the_file_is_named_as_it_was_given() {
    for (set, expected) in SET {
        let found = lines(GOOD, &[set.split_once('=').unwrap()]);
        if *expected == "network.kind" {
            // The keys of a fat tree in the file no longer fit.
            assert!(
                found
                    .lines()
                    .all(|l| l.starts_with("s.toml:") && l.contains("is not a known key") || l.contains("missing")),
                "{found}"
            );
        } else {
            assert_eq!(found, format!("--set: {expected}"), "{set}");
        }
    }
    let seed = load(GOOD, &[("seed", "18446744073709551615"), ("traffic.2.src.0", "h3")]).unwrap();
    assert_eq!(seed.seed, u64::MAX);
}

/// Networks other than the fat tree, and the lines that must come.
const NETWORKS: &[(&str, &str)] = &[
    (
        "kind = \"star\"",
        "s.toml:3: network.hosts: is missing: write one, such as hosts = 9, or for kind = \"links\" [\"h0\", \"h1\"]",
    ),
    ("kind = \"star\"\nhosts = 1", "s.toml:3: network: a network needs at least 2 hosts"),
    (
        "kind = \"star\"\nhosts = 4000000000",
        "s.toml:3: network: 4000000000 links are more than the 2097152 a network may have: make it smaller",
    ),
    (
        "kind = \"dumbbell\"\nleft = 4294967295\nright = 4294967295",
        "s.toml:3: network: 8589934591 links are more than the 2097152 a network may have: make it smaller",
    ),
    ("kind = \"dumbbell\"\nleft = 0", "s.toml:5: network.left: must be at least 1"),
    (
        "kind = \"leaf-spine\"\nleaves = 4294967295\nspines = 4294967295",
        "s.toml:3: network: 18446744133839093745 links are more than the 2097152 a network may have: make it smaller",
    ),
    ("kind = \"links\"\nhosts = [\"a\", \"a\"]\nswitches = []\nlinks = []", "s.toml:3: network: \"a\" names two nodes"),
    (
        "kind = \"links\"\nhosts = [\"a\", \"b->\"]\nswitches = []\nlinks = []",
        "s.toml:5: network.hosts[1]: \"b->\" is no name: not empty and without ->",
    ),
    (
        "kind = \"links\"\nhosts = [\"a\", \"b\"]\nswitches = [\"s\"]\nlinks = [{ a = \"a\", b = \"s\", rate = \"1Gbps\", delay = \"1us\" }]",
        "s.toml:3: network: host b has no link",
    ),
    (
        "kind = \"links\"\nhosts = [\"a\", \"b\"]\nswitches = []\nlinks = [{ a = \"a\", b = \"c\", rate = \"1Gbps\", delay = \"1us\" }]",
        "s.toml:7: network.links[0].b: \"c\" is neither a host nor a switch",
    ),
    (
        "kind = \"links\"\nhosts = [\"a\", \"b\"]\nswitches = []\nlinks = [{ a = \"a\", b = \"b\", rate = \"1Gbps\", delay = \"2s\" }]",
        "s.toml:7: network.links[0].delay: 2s is more than 1s",
    ),
    (
        "kind = \"links\"\nhosts = [\"a\", \"b\"]\nswitches = [\"s\"]\nlinks = [{ a = \"a\", b = \"b\", rate = \"1Gbps\", delay = \"2us\" }]",
        "s.toml:3: network: switch s has no link",
    ),
    (
        "kind = \"hpcc-file\"\nfile = \"nowhere.txt\"",
        "s.toml:5: network.file: cannot read \"nowhere.txt\": No such file or directory (os error 2)",
    ),
    (
        "kind = \"hpcc-file\"\nfile = \"/dev/zero\"",
        "s.toml:5: network.file: cannot read \"/dev/zero\": not a regular file",
    ),
    (
        "kind = \"simai-file\"\nfile = \"nowhere.txt\"",
        "s.toml:5: network.file: cannot read \"nowhere.txt\": No such file or directory (os error 2)",
    ),
];

#[test]
fn impossible_networks_are_refused_before_they_take_memory() {
    for (network, expected) in NETWORKS {
        let text = format!(
            "duration = \"1ms\"\ntransport = {{ kind = \"dcqcn\" }}\n[network]\n{network}\n[[traffic]]\nkind = \"background\"\nworkload = \"WebSearch\"\nload = 0.1\n"
        );
        assert_eq!(lines(&text, &[]), *expected, "{network}");
    }
    let traffic = lines("traffic = 5\n", &[]);
    assert_eq!(
        traffic,
        "s.toml:1: traffic: 5 is not a list, such as [\"a\", \"b\"]\n\
         s.toml: duration: is missing: write one, such as duration = \"2ms\"\n\
         s.toml: network: is missing: write one, such as network = { kind = \"fat-tree\" }\n\
         s.toml: transport: is missing: write one, such as transport = { kind = \"dcqcn\" }"
    );
    assert!(
        lines("[traffic]\nkind = \"long\"\n", &[])
            .starts_with("s.toml:1: traffic: is a list of sections: write [[traffic]]")
    );
}

#[test]
fn mistakes_of_several_sections_come_together_in_the_order_of_the_file() {
    let text = GOOD
        .replace("seed = 3", "seed = -3")
        .replace("gain = 0.0625", "gain = 0.1\nbeta_start = 2")
        .replace("sigma =", "sgima =")
        .replace("load = 0.4", "load = -0.4")
        .replace("fan_out = 8", "fan_out = \"8\"")
        .replace("\"h2\"", "\"x\"");
    let found = lines(&text, &[]);
    let keys: Vec<&str> = found.lines().map(|l| l.split(": ").nth(1).unwrap()).collect();
    assert_eq!(
        keys,
        [
            "seed",
            "onramp.gain",
            "onramp.beta_start",
            "clock.sgima",
            "traffic[0].load",
            "traffic[1].fan_out",
            "traffic[2].src[1]"
        ],
        "{found}"
    );
}

#[test]
fn flows_of_more_packets_than_can_be_numbered_are_refused() {
    let file = TempFile::new("src,dst,bytes,start_ns\nh0,h1,1000000000000,0\n");
    let sizes = TempFile::new("0 0\n1000000000000 100\n");
    let text = GOOD.replace("\"1000B\"", "\"100B\"").replace("\"WebSearch\"", &format!("\"{}\"", sizes.0.display()))
        + &format!("[[traffic]]\nkind = \"trace\"\nfile = \"{}\"\n", file.0.display());
    assert_eq!(
        lines(&text, &[]),
        "s.toml:38: traffic[0].workload: has a flow of 1000GB, more than 429496729400B at 100B a packet: raise host.payload\n\
         s.toml:53: traffic[3].file: has a flow of 1000GB, more than 429496729400B at 100B a packet: raise host.payload"
    );
    assert!(load(&text, &[("host.payload", "1000B")]).is_ok());
}

#[test]
fn files_of_flows_that_meet_nothing_are_refused() {
    let (empty, late) = ("src,dst,bytes,start_ns\n", "src,dst,bytes,start_ns\nh0,h1,5000,1000000\n");
    let said = |text: &str, content: &str| {
        let file = TempFile::new(content);
        let name = file.0.display().to_string();
        lines(&format!("{text}[[traffic]]\nkind = \"trace\"\nfile = \"{name}\"\n"), &[]).replace(&name, "FILE")
    };
    let none = "s.toml:53: traffic[3].file: \"FILE\" has no flow: write at least one, or leave the section out";
    assert_eq!(said(GOOD, empty), none);
    let never = "s.toml:53: traffic[3].file: its first flow starts at 1ms, when the other sections have ended \
                 (duration = 1ms): let its flows start earlier, or write a longer duration";
    assert_eq!(said(GOOD, late), never);
    assert_eq!(said(GOOD, &late.replace("1000000", "999999")), "no mistake");
    // Alone it meets what it likes to.
    let alone = &GOOD[..GOOD.find("[[traffic]]").unwrap()];
    assert_eq!(said(alone, late), "no mistake");
}

#[test]
fn parts_of_a_programs_own_are_refused_where_there_is_none() {
    let text = GOOD
        .replace("kind = \"dcqcn\"\nmin_rate = \"1Gbps\"", "kind = \"custom\"\nname = \"aimd\"")
        .replace("buffer = \"32MiB\"", "paths = { kind = \"custom\", name = \"drill\" }")
        + "[[traffic]]\nkind = \"custom\"\nname = \"shuffle\"\n";
    assert_eq!(lines(&text, &[]), "no mistake");
    let runner = Runner { substrate: None, own_parts: false };
    let errors = Scenario::load_for(runner, &text, "s.toml", Path::new(""), &[]).unwrap_err();
    let said: Vec<_> = errors.iter().map(ToString::to_string).collect();
    let without = "runs only in a program that brings it, such as examples";
    assert_eq!(
        said,
        [
            format!("s.toml:14: switch.paths.name: \"drill\" {without}/paths"),
            format!("s.toml:22: transport.name: \"aimd\" {without}/controller"),
            format!("s.toml:53: traffic[3].name: \"shuffle\" {without}/workload"),
        ]
    );
}

#[test]
fn a_threshold_below_the_empty_networks_delay_is_advised_against() {
    let advice = |set: &[(&str, &str)]| {
        let set: Vec<_> = set.iter().map(|(k, v)| (k.to_string(), v.to_string())).collect();
        let loaded = Scenario::load_for(Runner::default(), GOOD, "s.toml", Path::new(""), &set).unwrap();
        loaded.advice.iter().map(ToString::to_string).collect::<Vec<_>>()
    };
    assert!(advice(&[]).is_empty());
    // Six links of 1 us, and 1048 bytes over two at 100 Gb/s and four at 400.
    let said = advice(&[("onramp.threshold", "6us")]);
    let start = "--set: onramp.threshold: 6us is not above the longest one-way delay of the empty network, 6.25us: ";
    assert!(said.len() == 1 && said[0].starts_with(start) && said[0].contains("\"17us\""), "{said:?}");
    assert!(advice(&[("onramp.threshold", "6us"), ("onramp.enabled", "false")]).is_empty());
}

#[test]
fn what_only_rdma_has_is_advised_against_under_tcp() {
    let advice = |transport: &str| {
        let text = format!(
            "name = \"s\"\nduration = \"1ms\"\nnetwork = {{ kind = \"star\", hosts = 3 }}\n\
             transport = {{ kind = \"{transport}\" }}\nhost = {{ payload = \"4030B\", rto = \"1ms\" }}\n\
             onramp = {{ enabled = false }}\n\
             traffic = [{{ kind = \"background\", workload = \"WebSearch\", load = 0.2 }}]\n"
        );
        let loaded = Scenario::load_for(Runner::default(), &text, "s.toml", Path::new(""), &[]).unwrap();
        loaded.advice.iter().map(ToString::to_string).collect::<Vec<_>>()
    };
    assert!(advice("dcqcn").is_empty());
    let said = advice("cubic");
    assert_eq!(said.len(), 2);
    assert!(said[0].starts_with("s.toml:5: host.payload: has no effect under TCP"), "{said:?}");
    assert!(said[1].starts_with("s.toml:5: host.rto: "), "{said:?}");
}

/// Every kind of network, of transport and of traffic, with everything set somewhere.
fn all_kinds() -> (Vec<TempFile>, Vec<String>) {
    let topology = TempFile::new("4 1 3\n3\n0 3 100Gbps 1us 0\n1 3 100Gbps 1us 0\n2 3 25Gbps 0.001ms 0\n");
    let flows = TempFile::new("1\n0 1 3 100 5000 0.001\n");
    let rows = TempFile::new("src,dst,bytes,start_ns,request\n0,1,5000,10,1\n0,1,5000,10,\n");
    let odd = r#"["q\"uote", "new\nline", "tab\t\u2028\u0001", "ünï 'x' # [a]"]"#;
    let links = [r#"q\"uote"#, r"new\nline", r"tab\t\u2028\u0001", "ünï 'x' # [a]"]
        .map(|h| format!("{{ a = \"{h}\", b = \"s\\\\\", rate = \"10Gbps\", delay = \"1500ns\" }}"));
    let networks = [
        ("h0", "h1", "kind = \"fat-tree\"\npods = 2\nhosts_per_tor = 2\n".to_string()),
        ("h0", "h1", "kind = \"leaf-spine\"\nfabric_rate = \"0.3Tbps\"\n".into()),
        ("h0", "h1", "kind = \"star\"\nhosts = 3\nlink_delay = \"1.0625us\"\n".into()),
        ("h0", "h1", "kind = \"dumbbell\"\nbottleneck_rate = \"12345678bps\"\n".into()),
        (
            r#"q\"uote"#,
            r"new\nline",
            format!("kind = \"links\"\nhosts = {odd}\nswitches = [\"s\\\\\"]\nlinks = [{}]\n", links.join(", ")),
        ),
        ("h0", "h1", format!("kind = \"hpcc-file\"\nfile = \"{}\"\n", topology.0.display())),
    ];
    let transports = [
        "kind = \"dcqcn\"\nclamp_target = true\ngain = 0.1\n",
        "kind = \"timely\"\nbeta = 0.3333333333333333\nadditive_increase = \"1.5Mbps\"\n",
        "kind = \"dctcp\"\nwindow = false\nmin_rate = \"12345678bps\"\n",
        "kind = \"hpcc\"\neta = 1e-3\nmax_stage = 5\n",
        "kind = \"rcp\"\nform = \"refined\"\ninterval = \"5us\"\ntarget_queue = \"2KB\"\n",
        "kind = \"xcp\"\ngamma = 0.05\nmax_interval = \"1ms\"\n",
    ];
    let tail = |a: &str, b: &str| {
        [
            "[[traffic]]\nkind = \"background\"\nworkload = \"FB_Hadoop\"\nload = 0.1\n".to_string(),
            "[[traffic]]\nkind = \"incast\"\nfan_out = 2\nsize = \"1.5KB\"\nload = 1e-7\nscope = \"network\"\n".into(),
            format!("[[traffic]]\nkind = \"long\"\nsrc = [\"{a}\"]\ndst = \"{b}\"\nstart = \"1us\"\ncap = \"1Mbps\"\n"),
            format!("[[traffic]]\nkind = \"long\"\nsrc = [\"{a}\"]\ndst = \"{b}\"\ncap = [\"1Mbps\", \"2.5Gbps\"]\n"),
            format!("[[traffic]]\nkind = \"trace\"\nfile = \"{}\"\n", rows.0.display()),
            format!("[[traffic]]\nkind = \"trace\"\nformat = \"hpcc\"\nfile = \"{}\"\n", flows.0.display()),
        ]
        .concat()
    };
    let extras = [
        "",
        "[switch]\nloss = \"lossy\"\necn = []\n[onramp]\n[clock]\nsync = \"gaussian\"\nsigma = \"0.2us\"\n",
        "[host]\nshaper = \"carousel\"\n[host.shaping]\negress = \"9Gbps\"\ntenants = { b = \"1Gbps\", a = \"2Gbps\" }\ncores = 3\n[measure]\nshaping = true\n",
        "[onramp]\nenabled = false\nversion = \"strawman\"\nack = \"separate\"\nack_every = 7\n[host]\npayload = \"4KiB\"\nack_class = \"control\"\n[measure]\nowd = [\"A->B\"]\nflow_rates = true\n",
    ];
    let mut all = Vec::new();
    for (a, b, network) in &networks {
        for transport in transports {
            for extra in extras {
                let extra = extra.replace("A->B", &format!("{a}->{b}"));
                all.push(format!(
                    "name = \"a \\\"b\\\"\\n'''c\\u0000\"\nduration = \"1234567ns\"\nseed = \"18446744073709551615\"\n[network]\n{network}[transport]\n{transport}{extra}{}",
                    tail(a, b)
                ));
            }
        }
    }
    (vec![topology, flows, rows], all)
}

#[test]
fn a_resolved_scenario_reads_back_as_itself() {
    let (_files, all) = all_kinds();
    for text in all {
        let first = load(&text, &[]).unwrap_or_else(|e| panic!("{}\n{text}", e[0]));
        let written = first.to_toml();
        let second = load(&written, &[]).unwrap_or_else(|e| panic!("{}\n{written}", e[0]));
        assert_eq!(first, second);
        assert_eq!(written, second.to_toml());
    }
}

#[test]
fn every_scenario_of_this_repository_is_good() {
    fn files(folder: &Path) -> Vec<PathBuf> {
        let entries = std::fs::read_dir(folder).unwrap().map(|e| e.unwrap().path());
        entries.flat_map(|p| if p.is_dir() { files(&p) } else { vec![p] }).collect()
    }
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../scenarios");
    let scenarios: Vec<_> = files(&root).into_iter().filter(|p| p.extension().is_some_and(|e| e == "toml")).collect();
    assert!(scenarios.len() > 10);
    for path in scenarios {
        let text = std::fs::read_to_string(&path).unwrap();
        let name = path.display().to_string();
        let (scenario, _) =
            Scenario::load(&text, &name, path.parent().unwrap(), &[]).unwrap_or_else(|e| panic!("{}", e[0]));
        assert!(Scenario::load(&scenario.to_toml(), &name, path.parent().unwrap(), &[]).is_ok());
    }
}

/// One line a mistake, and at least one mistake.
fn well_formed(result: Result<Scenario, Vec<ScenarioError>>) -> Result<(), TestCaseError> {
    if let Err(errors) = result {
        prop_assert!(!errors.is_empty());
        for error in errors {
            let line = error.to_string();
            prop_assert!(!error.message.is_empty() && !line.contains(char::is_control), "{line:?}");
        }
    }
    Ok(())
}

/// Pieces of scenarios, for mutations that get past the TOML reader.
const PIECES: &[&str] = &[
    "0",
    "-1",
    "1e308",
    "nan",
    "inf",
    "\"0us\"",
    "\"4611686018427387903ps\"",
    "\"4611686018427387903B\"",
    "\"8Tbps\"",
    "\"1bps\"",
    "4294967295",
    "9223372036854775807",
    "[]",
    "{}",
    "true",
    "\"\"",
    "\"h0\"",
    "\"lossy\"",
    "\"star\"",
    "\"links\"",
    "\"hpcc\"",
    "\"\\u001f\"",
    "[[]]",
    "[{}]",
    "1979-05-27",
    "\"separate\"",
    "\"network\"",
    "\"control\"",
];

proptest! {
    #![proptest_config(ProptestConfig { cases: 400, ..ProptestConfig::default() })]

    #[test]
    fn arbitrary_text_is_refused_in_good_order(text in "\\PC*|[a-z_\\[\\]=\".{},0-9 \n\u{1f}]*") {
        well_formed(load(&text, &[]))?;
    }

    #[test]
    fn a_scenario_with_other_values_never_panics(
        changes in proptest::collection::vec((any::<prop::sample::Index>(), prop::sample::select(PIECES)), 1..4),
        sets in proptest::collection::vec(("[a-z_]{1,9}(\\.[a-z0-9_]{1,9}){0,2}", "\\PC{0,9}"), 0..2),
    ) {
        let mut all: Vec<String> = GOOD.lines().map(str::to_string).collect();
        for (at, piece) in changes {
            let at = at.index(all.len());
            if let Some((key, _)) = all[at].clone().split_once(" = ") {
                all[at] = format!("{key} = {piece}");
            }
        }
        let sets: Vec<(&str, &str)> = sets.iter().map(|(k, v)| (k.as_str(), v.as_str())).collect();
        well_formed(load(&all.join("\n"), &sets))?;
    }

    #[test]
    fn a_scenario_with_cut_or_doubled_lines_never_panics(
        cuts in proptest::collection::vec((any::<prop::sample::Index>(), any::<prop::sample::Index>(), 0..3u8), 1..5),
    ) {
        let mut all: Vec<String> = GOOD.lines().map(str::to_string).collect();
        for (at, to, how) in cuts {
            let (at, to) = (at.index(all.len()), to.index(all.len()));
            match how {
                0 => drop(all.remove(at)),
                1 => all.insert(to, all[at].clone()),
                _ => {
                    let end = all[at].char_indices().nth(to % 20).map_or(0, |(i, _)| i);
                    all[at].truncate(end);
                }
            }
        }
        well_formed(load(&all.join("\n"), &[]))?;
    }
}

#[test]
fn a_job_file_of_fio_says_which_blocks() {
    let job = TempFile::new("[global]\nioengine=libaio\nbs=64k\niodepth=16\n[reads]\nrw=randrw\nrwmixread=75\n");
    let text = |more: &str| {
        format!(
            "duration = \"1ms\"\nnetwork = {{ kind = \"star\", hosts = 3 }}\ntransport = {{ kind = \"cubic\" }}\n\
             [[traffic]]\nkind = \"storage\"\nfrom = [\"h0\"]\nto = [\"h1\"]\njob = \"{}\"\n{more}",
            job.0.display()
        )
    };
    let resolved = load(&text("depth = 4\n"), &[]).unwrap().to_toml();
    // What is said beside it wins.
    for line in ["block = [\"64KiB\"]", "depth = 4", "writes = 0.25", "connections = 1"] {
        assert!(resolved.contains(line), "{line}: {resolved}");
    }
    assert!(!resolved.contains("job"), "the resolved scenario stands alone");
    let set = lines(&text(""), &[("traffic.0.job", "\"nowhere.fio\"")]);
    assert!(set.starts_with("--set: traffic.0.job: cannot read \"nowhere.fio\""), "{set}");
    let number = lines(&text("").replace(&format!("\"{}\"", job.0.display()), "3"), &[]);
    assert!(number.contains("must be the name of a file, such as \"reads.fio\""), "{number}");
    let large = TempFile::new("[j]\nbs=2m\niodepth=400\n");
    let found = lines(&text(""), &[("traffic.0.job", &format!("\"{}\"", large.0.display()))]);
    assert!(found.contains("traffic[0].block") && found.contains("traffic[0].depth"), "{found}");
}
