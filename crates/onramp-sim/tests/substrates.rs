//! Support of substrates for parts of scenarios, and the section that only Linux has.

use onramp_sim::Scenario;
use onramp_sim::scenario::{Clock, HostQdisc, PortBuffer, Substrate, Threshold};
use std::path::Path;

const STAR: &str = r#"duration = "1ms"

[network]
kind = "star"
hosts = 4
host_rate = "10Gbps"

[transport]
kind = "cubic"

[[traffic]]
kind = "background"
workload = "WebSearch"
load = 0.4
"#;

fn load(on: Option<Substrate>, old: &str, new: &str) -> Result<Scenario, String> {
    assert!(STAR.contains(old), "{old}");
    let loaded = Scenario::load_for(on, &STAR.replacen(old, new, 1), "s.toml", Path::new(""), &[]);
    loaded
        .map(|loaded| loaded.scenario)
        .map_err(|errors| errors.iter().map(ToString::to_string).collect::<Vec<_>>().join("\n"))
}

fn refused(on: Substrate, old: &str, new: &str) -> String {
    load(Some(on), old, new).unwrap_err()
}

#[test]
fn all_of_tcp_runs_on_both() {
    for kind in ["newreno", "cubic", "bbr", "vegas", "dctcp-tcp"] {
        for on in [Substrate::Sim, Substrate::Linux] {
            let scenario = load(Some(on), "cubic", kind).unwrap();
            assert!(scenario.is_tcp() && scenario.linux.is_some(), "{kind}");
            // Defaults that are written out run wherever they did.
            assert!(Scenario::load_for(Some(on), &scenario.to_toml(), "again", Path::new(""), &[]).is_ok(), "{kind}");
        }
    }
    let sysctl = "[linux.sysctl]\n\"net.ipv4.tcp_ecn\" = \"1\"\n\n[[traffic]]";
    assert!(
        refused(Substrate::Sim, "[[traffic]]", sysctl).contains("linux.sysctl: \"net.ipv4.tcp_ecn\" is the kernel's")
    );
    assert!(load(Some(Substrate::Linux), "[[traffic]]", sysctl).is_ok());
}

#[test]
fn windows_are_paced_by_fq_or_tcp_itself_and_by_one_pacer_for_all_only_simulated() {
    let with = |more: &str| format!("[host]\n{more}\n\n[[traffic]]");
    let scenario = load(Some(Substrate::Linux), "[[traffic]]", &with("pacing = \"packet\"")).unwrap();
    let linux = scenario.linux.unwrap();
    assert_eq!((linux.qdisc, linux.gso_max_size.0), (Some(HostQdisc::Fq), 1500));
    assert_eq!(linux.sysctl["net.ipv4.tcp_min_tso_segs"], "1");
    let burst = with("pacing = \"burst\"\nmax_burst = \"6000B\"");
    let linux = load(None, "[[traffic]]", &burst).unwrap().linux.unwrap();
    assert_eq!((linux.gso_max_size.0, &*linux.sysctl["net.ipv4.tcp_min_tso_segs"]), (4 * 1448 + 52, "4"));
    let egress = with("pacing = \"egress\"");
    let linux = load(Some(Substrate::Sim), "[[traffic]]", &egress).unwrap().linux.unwrap();
    assert_eq!(linux.qdisc, Some(HostQdisc::Egress));
    assert!(refused(Substrate::Linux, "[[traffic]]", &egress).contains("host.pacing: \"egress\" is simulated only"));
    let gated = with("pacing = \"egress\"\n\n[onramp]");
    assert!(
        refused(Substrate::Sim, "[[traffic]]", &gated).contains("takes the place of the queue that On-Ramp's gate")
    );
    let both = format!("[linux]\nqdisc = \"fq\"\n\n{egress}");
    assert!(refused(Substrate::Sim, "[[traffic]]", &both).contains("linux.qdisc: goes with host.pacing = \"egress\""));
}

#[test]
fn the_kernels_parameters_are_its_own() {
    let vegas = "vegas\"\nalpha = 3";
    assert!(load(Some(Substrate::Sim), "cubic\"", vegas).is_ok());
    assert!(refused(Substrate::Linux, "cubic\"", vegas).contains("transport: has keys, but the kernel keeps"));
}

#[test]
fn rdma_runs_beside_tcp_where_ports_are_linux_s_and_write_nothing() {
    let beside = |kind: &str| {
        let text = format!("{STAR}transport = {{ kind = \"{kind}\" }}\n");
        Scenario::load(&text, "s.toml", Path::new(""), &[]).map(|_| ()).map_err(|errors| errors[0].to_string())
    };
    for kind in ["dcqcn", "timely", "swift"] {
        assert_eq!(beside(kind), Ok(()), "{kind}");
    }
    let found = beside("hpcc").unwrap_err();
    let expected = "\"hpcc\" reads what switches write, which they do not beside TCP, \"cubic\"";
    assert_eq!(found, format!("s.toml:15: traffic[0].transport.kind: {expected}"));
    let text = format!("{STAR}transport = {{ kind = \"vegas\" }}\n").replacen("\"cubic\"", "\"swift\"", 1);
    let found = Scenario::load(&text, "s.toml", Path::new(""), &[]).unwrap_err();
    let expected = "\"vegas\" beside \"swift\" is TCP beside RDMA: make \"vegas\" the scenario's transport";
    assert_eq!(found[0].to_string(), format!("s.toml:15: traffic[0].transport.kind: {expected}"));
}

#[test]
fn what_only_the_simulator_has_does_not_run_on_linux() {
    assert_eq!(
        refused(Substrate::Linux, "cubic", "hpcc"),
        "s.toml:9: transport.kind: \"hpcc\" is simulated only; use --on sim, or one of newreno, cubic, bbr, vegas, dctcp-tcp"
    );
    let network = "kind = \"star\"\nhosts = 4\nhost_rate = \"10Gbps\"";
    assert!(load(Some(Substrate::Linux), network, "kind = \"fat-tree\"").is_ok());
    assert!(refused(Substrate::Linux, "hosts = 4", "hosts = 4000").contains("at most 512"));
    let leaves = "kind = \"leaf-spine\"\nhost_links = 2";
    assert_eq!(
        refused(Substrate::Linux, network, leaves),
        "s.toml:3: network: h0 has several links; on Linux a host has one"
    );
    assert_eq!(
        refused(Substrate::Linux, network, "kind = \"leaf-spine\"\nfailed = [\"leaf0->spine1\"]"),
        "s.toml:5: network.failed: is simulated only; use --on sim, or leave it out"
    );
    assert!(load(Some(Substrate::Linux), network, "kind = \"leaf-spine\"\nfailed = []\nhost_links = 1").is_ok());
    for sync in ["gaussian", "ntp"] {
        assert_eq!(
            refused(Substrate::Linux, "[[traffic]]", &format!("[clock]\nsync = \"{sync}\"\n\n[[traffic]]")),
            format!("s.toml:12: clock.sync: \"{sync}\" is simulated only; use --on sim, or one of perfect, huygens")
        );
    }
    for (key, value) in [("messages", "true"), ("pauses", "true")] {
        let sampled = format!("[measure]\n{key} = {value}\n\n[[traffic]]");
        let found = refused(Substrate::Linux, "[[traffic]]", &sampled);
        assert!(found.contains(&format!("measure.{key}: is simulated only")), "{found}");
    }
    let sampled = |clock: &str| format!("[measure]\nnext_owd = 10\n{clock}\n[[traffic]]");
    assert!(load(Some(Substrate::Linux), "[[traffic]]", &sampled("")).is_ok());
    let unknown = refused(Substrate::Linux, "[[traffic]]", &sampled("\n[clock]\nsync = \"huygens\"\n"));
    assert!(unknown.contains("measure.next_owd: needs agents"), "{unknown}");
    let watched = sampled("\n[clock]\nsync = \"huygens\"\n\n[onramp]\nthreshold = \"100ms\"\n");
    assert!(load(Some(Substrate::Linux), "[[traffic]]", &watched).is_ok());
}

#[test]
fn huygens_runs_on_both_and_writes_its_defaults_out() {
    let huygens = "[clock]\nsync = \"huygens\"\n\n[onramp]\n\n[[traffic]]";
    let text = STAR.replacen("[[traffic]]", huygens, 1);
    for (on, transport) in [(Substrate::Sim, "dcqcn"), (Substrate::Linux, "cubic")] {
        let text = text.replacen("cubic", transport, 1);
        let s = Scenario::load_for(Some(on), &text, "s.toml", Path::new(""), &[]).unwrap().scenario;
        assert_eq!(s.onramp.threshold, Some(Threshold::Auto));
        assert!(s.onramp.threshold_floor.is_some() && s.clock.window.is_some() && s.clock.stamps.is_some());
        let again = Scenario::load(&s.to_toml(), "again", Path::new(""), &[]).unwrap().0;
        assert_eq!(again.to_toml(), s.to_toml());
    }
    // Where clocks are given, T stays a time, and no key of [clock] appears.
    let plain = load(None, "[[traffic]]", "[onramp]\n\n[[traffic]]").unwrap();
    assert!(matches!(plain.onramp.threshold, Some(Threshold::Fixed(_))));
    assert_eq!(plain.clock, Clock::default());
}

#[test]
fn the_linux_section_is_written_out_with_its_defaults() {
    let scenario = load(None, "[[traffic]]", "[onramp]\n\n[[traffic]]").unwrap();
    let linux = scenario.linux.clone().unwrap();
    assert_eq!(linux.port_buffer(), PortBuffer::Packets(1000));
    assert_eq!(linux.qdisc, Some(HostQdisc::FqCodel));
    let again = Scenario::load(&scenario.to_toml(), "again", Path::new(""), &[]).unwrap().0;
    assert_eq!(again.to_toml(), scenario.to_toml());

    assert_eq!(load(None, "cubic", "bbr").unwrap().linux.unwrap().qdisc, Some(HostQdisc::Fq));
    assert_eq!(load(None, "cubic", "dcqcn").unwrap().linux, None);
}

#[test]
fn on_linux_no_part_of_the_synchronisation_can_be_switched_off() {
    for part in ["coded", "network_effect"] {
        let with = |value| format!("[clock]\nsync = \"huygens\"\n{part} = {value}\n\n[[traffic]]");
        let found = refused(Substrate::Linux, "[[traffic]]", &with(false));
        assert!(found.contains(&format!("clock.{part}: is simulated only")), "{found}");
        assert!(load(Some(Substrate::Linux), "[[traffic]]", &with(true)).is_ok());
    }
}

#[test]
fn mistakes_in_the_linux_section_are_named() {
    let cases = [
        ("buffer = \"1MB\"\nbuffer_packets = 10", "linux.buffer: is given twice"),
        ("buffer = \"100B\"", "linux.buffer: is outside"),
        ("buffer_packets = 0", "linux.buffer_packets: is outside"),
        ("mtu = \"100B\"", "linux.mtu: 100B is outside 576B to 9000B"),
        ("gso_max_size = \"1KB\"", "linux.gso_max_size: 1KB is outside the MTU"),
        ("or_ack_interval = \"10KB\"", "linux.or_ack_interval: 10KB is no power of two"),
        ("qdisc = \"fqcodel\"", "linux.qdisc: \"fqcodel\" is not one of fq_codel, fq, pfifo, egress: did you mean"),
        ("[linux.sysctl]\n\"kernel.panic\" = \"1\"", "linux.sysctl"),
        ("[linux.sysctl]\n\"net.ipv4.tcp_frto\" = \"on\"", "net.ipv4.tcp_frto: \"on\" is not a number from 0 to 2"),
        ("initial_window = 0", "linux.initial_window: 0 is outside 1 to 1000"),
    ];
    for (lines, expected) in cases {
        let found = refused(Substrate::Linux, "[[traffic]]", &format!("[linux]\n{lines}\n\n[[traffic]]"));
        assert!(found.contains(expected) && found.starts_with("s.toml:1"), "{lines}: {found}");
    }
    let without = STAR.replace("cubic", "dcqcn") + "[linux]\n";
    let found = Scenario::load(&without, "s.toml", Path::new(""), &[]).unwrap_err();
    assert!(found[0].to_string().contains("has no effect"), "{}", found[0]);
}
