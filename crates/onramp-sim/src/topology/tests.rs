use super::*;
use crate::config::units::{NS, US};

fn paper() -> Topology {
    build(&Shape::FatTree(fat_tree::Config::default()).into(), Path::new(".")).unwrap()
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
fn every_path_is_joined_up_and_as_short_as_can_be() {
    let hops_of = |shape: Shape, hops: fn(u32, u32) -> usize| {
        let t = build(&shape.into(), Path::new(".")).unwrap();
        for (a, b) in t.pairs() {
            for hash in [0, 1, (a * 31 + b) as u16, u16::MAX] {
                let path: Vec<&Port> = t.path(a, b, hash).take(20).collect();
                assert_eq!((path[0].from, path.len()), (a, hops(a, b)), "h{a} to h{b}");
                assert!(path.windows(2).all(|w| w[0].to == w[1].from), "{path:?}");
                assert!(path.iter().all(|p| t.ports[p.reverse as usize].to == p.from), "{path:?}");
            }
        }
    };
    hops_of(Shape::LeafSpine(leaf_spine::Config::default()), |a, b| if a / 16 == b / 16 { 2 } else { 4 });
    hops_of(Shape::FatTree(fat_tree::Config::default()), |a, b| match () {
        () if a / 16 == b / 16 => 2,
        () if a / 64 == b / 64 => 4,
        () => 6,
    });
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
