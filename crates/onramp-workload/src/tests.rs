use super::*;
use onramp_config::units::{MS, SEC, US};
use std::collections::{BTreeMap, BTreeSet};

const BASE: &str = "/nowhere";

/// Traffic sections, and when they load the network.
struct Sections {
    traffic: Vec<Config>,
    span: LoadSpan,
}

impl Sections {
    fn plan(&self, topology: &Topology, base: &Path) -> Result<Plan, SectionError> {
        plan(self.traffic.iter(), self.span, Place { topology, base })
    }
}

/// The traffic sections of a text, resolved for its network.
fn read(base: &Path, duration: &str, seed: u64, text: &str) -> (Sections, Topology) {
    #[derive(serde::Deserialize)]
    struct File {
        network: onramp_topology::Network,
        traffic: Vec<Config>,
    }
    let mut file: File = onramp_config::read(&text.parse().unwrap()).unwrap();
    let topology = onramp_topology::build(&file.network, base).unwrap();
    let (duration, payload) = (duration.parse::<Span>().unwrap(), Bytes(1000));
    let context = Context { duration, payload, transport: "dcqcn", is_tcp: false };
    let (base_rtt, _) = topology.max_base_rtt_and_bdp(payload.0);
    file.traffic.iter_mut().for_each(|config| config.resolve(&context, &Place { topology: &topology, base }, base_rtt));
    (Sections { traffic: file.traffic, span: LoadSpan { seed, warmup: 0, duration: duration.0 } }, topology)
}

/// The given traffic sections on a network of 16 hosts.
fn load(duration: &str, seed: u64, traffic: &str) -> (Sections, Topology) {
    load_from(Path::new(BASE), duration, seed, traffic)
}

fn load_from(base: &Path, duration: &str, seed: u64, traffic: &str) -> (Sections, Topology) {
    read(base, duration, seed, &format!("network = {{ kind = \"star\", hosts = 16 }}\n{traffic}"))
}

/// All arrivals of a source.
fn drain(mut source: Box<dyn Source>) -> Vec<(Ps, NewFlow)> {
    let mut arrivals: Vec<(Ps, NewFlow)> = Vec::new();
    while let Some(at) = source.next_at() {
        assert!(arrivals.last().is_none_or(|(before, _)| *before <= at), "arrivals go back in time");
        let mut flows = Vec::new();
        source.take(&mut flows);
        assert!(!flows.is_empty());
        arrivals.extend(flows.into_iter().map(|flow| (at, flow)));
    }
    arrivals
}

/// All arrivals of some sections, source by source.
fn arrivals(duration: &str, seed: u64, traffic: &str) -> Vec<Vec<(Ps, NewFlow)>> {
    let (sections, topology) = load(duration, seed, traffic);
    sections.plan(&topology, Path::new(BASE)).unwrap().sources.into_iter().map(drain).collect()
}

fn bytes(flow: &NewFlow) -> u64 {
    match flow.size {
        Size::Bytes(bytes) => bytes,
        Size::Until(_) => panic!("a flow without a size"),
    }
}

/// Payload over the capacity of one 100 Gb/s link during `duration`.
fn load_of<'a>(flows: impl Iterator<Item = &'a (Ps, NewFlow)>, duration: Ps) -> f64 {
    let total: u64 = flows.map(|(_, flow)| bytes(flow)).sum();
    total as f64 * 8.0 / (100e9 * duration as f64 / SEC as f64)
}

fn background(workload: &str, load: f64) -> String {
    format!("[[traffic]]\nkind = \"background\"\nworkload = \"{workload}\"\nload = {load}\n")
}

fn incast(fan_out: u32, size: &str, load: f64, scope: &str) -> String {
    format!(
        "[[traffic]]\nkind = \"incast\"\nfan_out = {fan_out}\nsize = \"{size}\"\nload = {load}\nscope = \"{scope}\"\n"
    )
}

#[test]
fn background_brings_its_load_to_every_host() {
    let all = arrivals("5ms", 1, &background("GoogleSearchRPC", 0.6));
    assert_eq!(all.len(), 16);
    let total = load_of(all.iter().flatten(), 5 * MS) / 16.0;
    assert!((total - 0.6).abs() < 0.06, "{total}");
    for (src, flows) in all.iter().enumerate() {
        assert!(flows.iter().all(|(at, f)| f.src as usize == src && *at < 5 * MS && f.request.is_none()));
        // 58.8 ns between two flows: 85 000 of them, give or take 5 of their standard deviations.
        let gap = 5e9 / flows.len() as f64 / 1e3;
        assert!((gap - 58.77).abs() < 58.77 * 5.0 / 85_000f64.sqrt(), "{gap} ns");
    }
}

#[test]
fn background_goes_to_the_hosts_that_are_named() {
    let to = |more: &str| arrivals("5ms", 5, &format!("{}{more}", background("GoogleSearchRPC", 0.04)));
    let all = to("to = [\"h0\"]\n");
    assert!(all.len() == 15 && all.iter().flatten().all(|(_, f)| f.dst == 0 && f.src > 0));
    let total = load_of(all.iter().flatten(), 5 * MS);
    assert!((total - 0.6).abs() < 0.1, "{total}");
    // Whoever is among them sends to the others.
    let all = to("hosts = [\"h0\", \"h4\"]\nto = [\"h0\", \"h1\"]\n");
    let pairs: BTreeSet<_> = all.iter().flatten().map(|(_, f)| (f.src, f.dst)).collect();
    assert_eq!(pairs, BTreeSet::from([(0, 1), (4, 0), (4, 1)]));
}

#[test]
fn background_gaps_are_exponential() {
    let all = arrivals("200ms", 3, &background("FB_Hadoop", 0.6));
    let gaps: Vec<f64> = all.iter().flat_map(|flows| flows.windows(2).map(|w| (w[1].0 - w[0].0) as f64)).collect();
    let mean = gaps.iter().sum::<f64>() / gaps.len() as f64;
    let deviation = (gaps.iter().map(|g| (g - mean).powi(2)).sum::<f64>() / gaps.len() as f64).sqrt();
    let above = gaps.iter().filter(|g| **g > mean).count() as f64 / gaps.len() as f64;
    assert!((mean / 16.06e6 - 1.0).abs() < 0.01, "{mean} ps");
    assert!((deviation / mean - 1.0).abs() < 0.01, "{deviation} ps");
    assert!((above - (-1f64).exp()).abs() < 0.005, "{above}");
}

#[test]
fn background_sizes_follow_the_workload() {
    let all = arrivals("200ms", 4, &background("FB_Hadoop", 0.6));
    let flows: Vec<u64> = all.iter().flatten().map(|(_, f)| bytes(f)).collect();
    let mean = flows.iter().sum::<u64>() as f64 / flows.len() as f64;
    assert!((mean / 120_420.75 - 1.0).abs() < 0.03, "{mean}");
    let small = flows.iter().filter(|b| **b <= 10_000).count() as f64 / flows.len() as f64;
    assert!((small - 0.7026).abs() < 0.005, "{small}");
}

#[test]
fn background_receivers_are_uniform_over_the_other_hosts() {
    for (src, flows) in arrivals("5ms", 5, &background("GoogleSearchRPC", 0.6)).iter().enumerate() {
        let mut counts = [0f64; 16];
        flows.iter().for_each(|(_, f)| counts[f.dst as usize] += 1.0);
        assert_eq!(counts[src], 0.0);
        let expected = flows.len() as f64 / 15.0;
        let chi2: f64 = (0..16).filter(|h| *h != src).map(|h| (counts[h] - expected).powi(2) / expected).sum();
        // 14 degrees of freedom: above 36.1 once in a thousand.
        assert!(chi2 < 36.1, "h{src}: {chi2}");
    }
}

#[test]
fn the_load_is_that_of_each_hosts_own_link() {
    let traffic = background("GoogleSearchRPC", 0.5);
    let text = format!(
        "{traffic}\n\
         [network]\nkind = \"links\"\nhosts = [\"slow\", \"fast\"]\nswitches = [\"s\"]\n\
         links = [\n{{ a = \"slow\", b = \"s\", rate = \"10Gbps\", delay = \"1us\" }},\n\
         {{ a = \"s\", b = \"fast\", rate = \"100Gbps\", delay = \"1us\" }}]\n"
    );
    let (sections, topology) = read(Path::new(BASE), "5ms", 1, &text);
    let all = sections.plan(&topology, Path::new(BASE)).unwrap().sources.into_iter().map(drain);
    let loads: Vec<f64> = all.map(|flows| load_of(flows.iter(), 5 * MS)).collect();
    assert!((loads[0] - 0.05).abs() < 0.02 && (loads[1] - 0.5).abs() < 0.1, "{loads:?}");
}

/// Requests with their time, requester and responders.
fn requests(flows: &[(Ps, NewFlow)]) -> BTreeMap<u64, (Ps, u32, Vec<u32>)> {
    let mut all: BTreeMap<u64, (Ps, u32, Vec<u32>)> = BTreeMap::new();
    for (at, flow) in flows {
        let request = flow.request.unwrap();
        let entry = all.entry(request.number).or_insert((*at, flow.dst, Vec::new()));
        assert_eq!((entry.0, entry.1), (*at, flow.dst), "all flows start together and go to the requester");
        entry.2.push(flow.src);
    }
    all
}

#[test]
fn incast_brings_its_load_to_every_server() {
    let all = arrivals("2s", 6, &incast(10, "2KB", 0.02, "server"));
    assert_eq!(all.len(), 16);
    for (host, flows) in all.iter().enumerate() {
        assert!(flows.iter().all(|(_, f)| f.dst as usize == host && bytes(f) == 2_000));
        let load = load_of(flows.iter(), 2 * SEC);
        // 25 000 requests: five standard deviations are 3 %.
        assert!((load - 0.02).abs() < 0.02 * 0.032, "h{host}: {load}");
    }
}

#[test]
fn incast_responders_are_distinct_and_uniform() {
    for scope in ["server", "network"] {
        let all = arrivals("100ms", 7, &incast(5, "2KB", 0.02, scope)).concat();
        let requests = requests(&all);
        let mut responders = [0f64; 16];
        let mut first = [0f64; 16];
        let mut requesters = [0f64; 16];
        for (_, requester, sources) in requests.values() {
            let distinct: BTreeSet<_> = sources.iter().collect();
            assert_eq!(distinct.len(), 5);
            assert!(!distinct.contains(requester));
            requesters[*requester as usize] += 1.0;
            first[sources[0] as usize] += 1.0;
            sources.iter().for_each(|s| responders[*s as usize] += 1.0);
        }
        let n = requests.len() as f64;
        for (counts, expected) in [(responders, n * 5.0 / 16.0), (first, n / 16.0), (requesters, n / 16.0)] {
            let chi2: f64 = counts.iter().map(|c| (c - expected).powi(2) / expected).sum();
            // 15 degrees of freedom: above 37.7 once in a thousand.
            assert!(chi2 < 37.7, "{scope}: {chi2} {counts:?}");
        }
    }
}

#[test]
fn network_incast_is_one_source_for_the_load_of_all_hosts() {
    // 16 hosts at 100 Gb/s: 2 % of 1.6 Tb/s in requests of 15 · 500 KB, one per 1.875 ms.
    let all = arrivals("20s", 8, &incast(15, "500KB", 0.02, "network"));
    assert_eq!(all.len(), 1);
    let requests = requests(&all[0]);
    let gap = 20e3 / requests.len() as f64;
    assert!((gap / 1.875 - 1.0).abs() < 0.05, "{gap} ms");
}

#[test]
fn incast_can_ask_all_other_hosts() {
    let all = arrivals("10ms", 9, &incast(15, "2KB", 0.1, "server")).concat();
    for (_, requester, mut sources) in requests(&all).into_values() {
        sources.push(requester);
        sources.sort_unstable();
        assert!(sources.into_iter().eq(0..16));
    }
}

#[test]
fn request_numbers_are_unique_in_their_section() {
    for scope in ["server", "network"] {
        let all = arrivals("5ms", 10, &incast(3, "2KB", 0.05, scope)).concat();
        let parts = requests(&all);
        assert_eq!(parts.len() * 3, all.len());
        assert!(parts.values().all(|(_, _, sources)| sources.len() == 3));
        assert!(all.iter().all(|(_, f)| f.request.unwrap().flows == 3));
    }
}

#[test]
fn long_flows_start_within_the_jitter_and_stop_at_the_end() {
    let long = "[[traffic]]\nkind = \"long\"\nsrc = [\"h1\", \"h2\", \"h1\"]\ndst = \"h0\"\n";
    let traffic = format!("{long}start = \"30us\"\njitter = \"0us\"\n");
    let flow = |src, stop| (30 * US, NewFlow { src, dst: 0, size: Size::Until(stop), traffic: 0, request: None });
    assert_eq!(arrivals("2ms", 1, &traffic), [[flow(1, 2 * MS), flow(2, 2 * MS), flow(1, 2 * MS)]]);
    let stopped = format!("{traffic}stop = \"40us\"\n");
    assert_eq!(arrivals("2ms", 1, &stopped)[0][0], flow(1, 40 * US));
    // By default one base RTT of the star, 4.16 us: another for each flow and seed.
    let starts = |seed| arrivals("2ms", seed, long)[0].iter().map(|(at, _)| *at).collect::<Vec<_>>();
    assert!(starts(1).iter().all(|at| *at < 4_160_000) && starts(1)[0] < starts(1)[1]);
    assert_ne!(starts(1), starts(2));
    let both = arrivals("2ms", 1, &(background("WebSearch", 0.1) + long));
    assert_ne!(both[16][0].0, starts(1)[0], "another section has a stream of its own");
}

#[test]
fn load_runs_through_the_warm_up() {
    let text = background("FB_Hadoop", 0.5) + "[[traffic]]\nkind = \"trace\"\nfile = \"flows.csv\"\n";
    let folder = Folder::new("warmup");
    std::fs::write(folder.0.join("flows.csv"), "src,dst,bytes,start_ns\nh1,h2,77,5\n").unwrap();
    let (mut sections, topology) = load_from(&folder.0, "2ms", 1, &text);
    sections.span.warmup = 3 * MS;
    let all: Vec<_> = sections.plan(&topology, &folder.0).unwrap().sources.into_iter().map(drain).collect();
    let count = |from, to| all[..16].iter().flatten().filter(|(at, _)| (from..to).contains(at)).count() as f64;
    let (before, after) = (count(0, 3 * MS), count(3 * MS, 5 * MS));
    assert!((before / after / 1.5 - 1.0).abs() < 0.2, "{before} and {after} flows");
    assert_eq!(count(5 * MS, SEC), 0.0);
    // Files count from time 0.
    assert_eq!(all[16][0].0, 3 * MS + 5_000);
    let long = "[[traffic]]\nkind = \"long\"\nsrc = [\"h1\"]\ndst = \"h0\"\njitter = \"0us\"\n";
    for (start, at) in [("", 0), ("start = \"0us\"\n", 3 * MS), ("start = \"1ms\"\n", 4 * MS)] {
        let (mut sections, topology) = load("2ms", 1, &format!("{long}{start}"));
        sections.span.warmup = 3 * MS;
        let flow = drain(sections.plan(&topology, Path::new(BASE)).unwrap().sources.remove(0))[0];
        assert_eq!((flow.0, flow.1.size), (at, Size::Until(5 * MS)), "{start}");
    }
}

#[test]
fn the_same_seed_gives_the_same_arrivals() {
    let traffic = background("WebSearch", 0.8) + &incast(7, "2KB", 0.05, "server") + &incast(7, "2KB", 0.05, "network");
    assert_eq!(arrivals("20ms", 11, &traffic), arrivals("20ms", 11, &traffic));
    assert_ne!(arrivals("20ms", 11, &traffic), arrivals("20ms", 12, &traffic));
}

#[test]
fn a_longer_run_begins_with_the_shorter() {
    let traffic = background("WebSearch", 0.8);
    for (short, long) in arrivals("5ms", 13, &traffic).iter().zip(arrivals("20ms", 13, &traffic)) {
        assert_eq!(*short, long[..short.len()]);
        assert!(long.get(short.len()).is_none_or(|(at, _)| *at >= 5 * MS));
    }
}

#[test]
fn another_traffic_section_changes_no_arrival() {
    let first = background("FB_Hadoop", 0.6) + &incast(7, "2KB", 0.05, "server");
    let alone = arrivals("5ms", 14, &first);
    let both = arrivals("5ms", 14, &(first + &background("FB_Hadoop", 0.6)));
    assert_eq!(both[..32], alone);
    assert_eq!(both.len(), 48);
    // The same settings in another section are other arrivals.
    let times = |flows: &[(Ps, NewFlow)]| flows.iter().map(|(at, _)| *at).collect::<Vec<_>>();
    assert!((0..16).all(|host| times(&both[host]) != times(&both[32 + host])));
    assert!(both.iter().enumerate().all(|(i, flows)| flows.iter().all(|(_, f)| f.traffic as usize == i / 16)));
}

#[test]
fn hosts_arrive_independently() {
    let all = arrivals("50ms", 15, &background("FB_Hadoop", 0.6));
    let starts: BTreeSet<Ps> = all.iter().map(|flows| flows[0].0).collect();
    assert_eq!(starts.len(), 16);
    // Flows per 1 ms: between two hosts these are not correlated.
    let counts: Vec<Vec<f64>> = all
        .iter()
        .map(|flows| (0..50).map(|ms| flows.iter().filter(|(at, _)| at / MS == ms).count() as f64).collect())
        .collect();
    let deviations = |c: &Vec<f64>| -> Vec<f64> {
        let mean = c.iter().sum::<f64>() / 50.0;
        c.iter().map(|x| x - mean).collect()
    };
    let d: Vec<Vec<f64>> = counts.iter().map(deviations).collect();
    let dot = |a: &[f64], b: &[f64]| a.iter().zip(b).map(|(x, y)| x * y).sum::<f64>();
    for a in 0..16 {
        for b in 0..a {
            let r = dot(&d[a], &d[b]) / (dot(&d[a], &d[a]) * dot(&d[b], &d[b])).sqrt();
            // 120 pairs of 50 samples: 0.6 is more than four standard deviations.
            assert!(r.abs() < 0.6, "h{a} and h{b}: {r}");
        }
    }
}

/// A folder that is removed with its owner.
struct Folder(std::path::PathBuf);

impl Folder {
    fn new(name: &str) -> Self {
        let path = std::env::temp_dir().join(format!("onramp-workload-{}-{name}", std::process::id()));
        std::fs::create_dir_all(&path).unwrap();
        Self(path)
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.0);
    }
}

#[test]
fn files_are_found_from_the_scenarios_folder() {
    let folder = Folder::new("found");
    std::fs::write(folder.0.join("sizes.txt"), "0 0\n2000 100\n").unwrap();
    std::fs::write(folder.0.join("flows.csv"), "src,dst,bytes,start_ns\nh1,h2,77,5\n").unwrap();
    let traffic = background("sizes.txt", 0.1) + "[[traffic]]\nkind = \"trace\"\nfile = \"flows.csv\"\n";
    let (sections, topology) = load_from(&folder.0, "1ms", 1, &traffic);
    let all: Vec<_> = sections.plan(&topology, &folder.0).unwrap().sources.into_iter().map(drain).collect();
    assert!(all[..16].concat().iter().all(|(_, f)| bytes(f) < 2_000));
    let flow = NewFlow { src: 1, dst: 2, size: Size::Bytes(77), traffic: 1, request: None };
    assert_eq!(all[16], [(5_000, flow)]);
}

#[test]
fn a_trace_that_vanishes_or_shrinks_during_the_run_ends() {
    let folder = Folder::new("vanishes");
    let path = folder.0.join("flows.csv");
    let rows = "h1,h2,77,5,1\n".repeat(20_000);
    let traffic = "[[traffic]]\nkind = \"trace\"\nfile = \"flows.csv\"\n";
    for vanish in [true, false] {
        std::fs::write(&path, format!("src,dst,bytes,start_ns,request\n{rows}")).unwrap();
        let (sections, topology) = load_from(&folder.0, "1ms", 1, traffic);
        let mut all = sections.plan(&topology, &folder.0).unwrap().sources;
        if vanish { std::fs::remove_file(&path) } else { std::fs::write(&path, "src") }.unwrap();
        // A file without a name is still there for who has it open; of one that was cut
        // short comes what had been read.
        let taken = drain(all.remove(0)).len();
        assert!(if vanish { taken == 20_000 } else { (1..2_000).contains(&taken) }, "{taken}");
        let error = sections.plan(&topology, &folder.0).err().unwrap().to_string();
        assert!(error.starts_with("traffic[0]: "), "{error}");
    }
}

#[test]
fn a_trace_is_read_as_it_is_taken() {
    let folder = Folder::new("lazy");
    let path = folder.0.join("flows.csv");
    std::fs::write(&path, format!("src,dst,bytes,start_ns\n{}", "h1,h2,77,5\n".repeat(20_000))).unwrap();
    let (sections, topology) = load_from(&folder.0, "1ms", 1, "[[traffic]]\nkind = \"trace\"\nfile = \"flows.csv\"\n");
    let mut all = sections.plan(&topology, &folder.0).unwrap().sources;
    std::fs::OpenOptions::new().write(true).open(&path).unwrap().set_len(0).unwrap();
    let taken = drain(all.remove(0)).len();
    assert!((1..2_000).contains(&taken), "{taken} flows were in memory");
}

#[test]
fn an_impossible_fan_out_is_no_endless_source() {
    let (mut sections, topology) = load("1ms", 1, &incast(15, "2KB", 0.1, "server"));
    for impossible in [0, 16] {
        let Config::Incast(config) = &mut sections.traffic[0] else { panic!() };
        config.fan_out = impossible;
        let error = sections.plan(&topology, Path::new(BASE)).err().unwrap();
        assert_eq!(error.to_string(), "traffic[0]: fan_out must be from 1 to 15, the number of other hosts");
    }
}

#[test]
fn traffic_between_some_hosts_stays_between_them_and_has_its_load() {
    let group = "hosts = [\"h3\", \"h5\", \"h8\", \"h13\"]\n";
    let traffic = background("WebSearch", 0.5) + group + &incast(3, "2KB", 0.1, "server") + group;
    let all: Vec<_> = arrivals("2s", 1, &traffic).into_iter().flatten().collect();
    let members = BTreeSet::from([3, 5, 8, 13]);
    assert!(all.iter().all(|(_, f)| f.src != f.dst && members.contains(&f.src) && members.contains(&f.dst)));
    let met: BTreeSet<_> = all.iter().map(|(_, f)| (f.src, f.dst)).collect();
    assert_eq!(met.len(), 12, "every pair");
    for (section, load) in [(0, 0.5), (1, 0.1)] {
        let measured = load_of(all.iter().filter(|(_, f)| f.traffic == section), 2 * SEC) / 4.0;
        assert!((measured / load - 1.0).abs() < 0.1, "section {section}: {measured}");
    }
}

/// Traffic of some sections in an ideal network of 100 Gb/s, where what was sent arrives 1 us later.
fn ideal(duration: &str, most: u64, traffic: &str) -> ideal::Traffic {
    let (sections, topology) = load(duration, 1, traffic);
    let plan = sections.plan(&topology, Path::new(BASE)).unwrap();
    ideal::traffic(plan, sections.span.duration, most, |_, _, bytes| [bytes * 80, US])
}

#[test]
fn the_traffic_of_flows_is_theirs() {
    let text = background("FB_Hadoop", 0.5) + "[[traffic]]\nkind = \"long\"\nsrc = [\"h0\"]\ndst = \"h1\"\n";
    let found = ideal("5ms", u64::MAX, &text);
    let flows = arrivals("5ms", 1, &text);
    let mut expected: BTreeMap<(u32, u32, u32), ideal::Sent> = BTreeMap::new();
    for (_, flow) in flows.iter().flatten().filter(|(_, flow)| matches!(flow.size, Size::Bytes(_))) {
        let sent = expected.entry((flow.traffic, flow.src, flow.dst)).or_default();
        *sent = ideal::Sent { count: sent.count + 1, bytes: sent.bytes + bytes(flow) };
    }
    assert_eq!((found.sent, found.endless, found.over), (expected, [(1, 1)].into(), None));
    let cut = ideal("5ms", 10, &text);
    assert!(cut.is_cut && (10..20).contains(&cut.sent.values().map(|sent| sent.count).sum::<u64>()));
}

#[test]
fn the_traffic_of_programs_is_what_they_send_where_nothing_waits() {
    let found = ideal(
        "5ms",
        u64::MAX,
        "[[traffic]]\nkind = \"collective\"\noperation = \"all-reduce\"\nalgorithm = \"ring\"\nsize = \"16MB\"\nchunk = \"1MB\"\n",
    );
    // Each rank sends 2 (n - 1) / n of the buffer to the next.
    let ring: BTreeMap<_, _> = (0..16).map(|host| ((0, host, (host + 1) % 16), 30_000_000)).collect();
    assert_eq!(found.sent.iter().map(|(pair, sent)| (*pair, sent.bytes)).collect::<BTreeMap<_, _>>(), ring);
    // 30 steps of 1 MB one after the other.
    assert_eq!(found.over, Some(30 * (80 + 1) * US));

    // A request a time: 1 KB there, 10 KB back, each 1 us on its way.
    let rpc = |most| {
        let text = "[[traffic]]\nkind = \"rpc\"\nfrom = [\"h0\"]\nto = [\"h1\"]\nrequest = \"1KB\"\nresponse = \"10KB\"\ndepth = 1\n";
        ideal("1ms", most, text)
    };
    let found = rpc(u64::MAX);
    let asked = found.sent[&(0, 0, 1)].count;
    assert_eq!(found.sent[&(0, 1, 0)], ideal::Sent { count: asked, bytes: asked * 10_000 });
    // It begins at some time of the first 100 us.
    let each = 1000 * 80 + 10_000 * 80 + 2 * US;
    assert!((900 * US / each..=1000 * US / each + 1).contains(&asked), "{asked}");
    assert!(!found.is_cut && rpc(100).is_cut && rpc(100).sent[&(0, 0, 1)].count == 50);
}
