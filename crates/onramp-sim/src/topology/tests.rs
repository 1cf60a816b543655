use super::*;
use crate::config::units::{NS, US};

fn paper() -> Topology {
    build(&Network::FatTree(fat_tree::Config::default()), Path::new(".")).unwrap()
}

#[test]
fn the_papers_fat_tree_has_its_published_sizes() {
    let t = paper();
    assert_eq!((t.hosts(), t.nodes(), t.ports().len()), (320, 376, 960));
    assert_eq!(t.base_rtt(0, 1, 1000), 4_160 * NS);
    assert_eq!(t.base_rtt(0, 16, 1000), 8_200 * NS);
    assert_eq!(t.base_rtt(0, 319, 1000), 12_240 * NS);
    assert_eq!(t.max_base_rtt_and_bdp(1000), (12_240 * NS, 153_000));
}

#[test]
fn equal_cost_paths_are_all_used_and_evenly() {
    let t = paper();
    let mut used: HashMap<Vec<u32>, u32> = HashMap::new();
    for hash in 0..=u16::MAX {
        *used.entry(t.path(0, 319, hash).map(|p| p.to).collect()).or_default() += 1;
    }
    assert_eq!(used.len(), 16);
    let (low, high) = (used.values().min().unwrap(), used.values().max().unwrap());
    assert!(*low > 3_700 && *high < 4_500, "{low} to {high} of 4096");
}

#[test]
fn every_path_ends_at_its_host() {
    let t = build(&Network::LeafSpine(leaf_spine::Config::default()), Path::new(".")).unwrap();
    for (a, b) in t.pairs() {
        assert_eq!(t.path(a, b, (a * 31 + b) as u16).last().unwrap().to, b);
    }
}

#[test]
fn impossible_networks_are_refused() {
    let link = |a, b| Link { a, b, rate: Rate(1_000_000_000), delay: Span(US) };
    let refuse = |hosts, links: &[Link]| Topology::new(names(3, &[("s", 1)]), hosts, links).unwrap_err();
    assert!(refuse(3, &[link(0, 3), link(1, 3)]).contains("h2 has no link"));
    assert!(refuse(3, &[link(0, 1), link(1, 0), link(2, 3)]).contains("no path"));
    assert!(refuse(3, &[link(0, 1), link(2, 3)]).contains("no path"));
    assert!(refuse(2, &[link(0, 2), link(1, 3)]).contains("no path"));
}
