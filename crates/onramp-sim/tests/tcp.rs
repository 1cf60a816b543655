//! TCP in the simulator: what theory says of it.

mod common;

use common::{build, build_with, star, trace};

const RENO: &str = "kind = \"newreno\"";
/// Ten times slower than the default, as the cluster's hosts are.
const SLOW: &str = "duration = \"1ms\"\nnetwork = { kind = \"star\", hosts = 4, host_rate = \"10Gbps\" }\n";

fn us(ps: u64) -> f64 {
    ps as f64 / 1e6
}

#[test]
fn one_packet_takes_what_its_bits_and_the_links_take() {
    let (_file, traffic) = trace(&["0,1,1000,0"]);
    let mut sim = build(&format!("{SLOW}{traffic}"), RENO);
    sim.run_to_end();
    let flows = sim.take_flows();
    // Two links: 1066 B at 10 Gb/s and 1 us each.
    assert_eq!((flows.len(), flows[0].fct_ps), (1, 2 * (852_800 + 1_000_000)));
    assert_eq!(flows[0].fct_ps, flows[0].ideal_ps);
}

#[test]
fn a_long_flow_fills_the_link() {
    let (_file, traffic) = trace(&["0,1,30000000,0"]);
    let mut sim = build(&format!("{SLOW}{traffic}"), RENO);
    sim.run_to_end();
    let flow = sim.take_flows()[0];
    let slow = flow.fct_ps as f64 / flow.ideal_ps as f64;
    println!("{} us, {slow} of the ideal, {} resent", us(flow.fct_ps), flow.retransmitted);
    assert!((1.0..1.02).contains(&slow), "{slow}");
    assert_eq!(flow.retransmitted, 0);
}

#[test]
fn flows_share_a_link_and_lose_nothing_but_packets() {
    let (_file, traffic) = trace(&["0,3,20000000,0", "1,3,20000000,0", "2,3,20000000,0"]);
    let mut sim = build_with(&format!("{SLOW}{traffic}"), RENO, &[("linux.buffer_packets", "100")]);
    sim.run_to_end();
    let flows = sim.take_flows();
    assert_eq!(flows.len(), 3);
    let last = flows.iter().map(|flow| flow.fct_ps).max().unwrap();
    let drops = sim.counters()["network"]["drops"].as_u64().unwrap();
    let resent: u32 = flows.iter().map(|flow| flow.retransmitted).sum();
    println!(
        "{:?}, {drops} dropped, {resent} resent",
        flows.iter().map(|f| (us(f.fct_ps), f.timeouts)).collect::<Vec<_>>()
    );
    assert!(drops > 0 && u64::from(resent) >= drops);
    assert!((flows[0].ideal_ps * 3..flows[0].ideal_ps * 33 / 10).contains(&last), "{}", us(last));
    let _ = star;
}
