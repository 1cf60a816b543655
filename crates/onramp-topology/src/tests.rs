use super::*;
use onramp_config::units::{NS, US};

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
    let no_path = |hosts, links: &[Link]| matches!(refuse(hosts, links), TopologyError::NoPath { .. });
    assert_eq!(refuse(3, &[link(0, 3), link(1, 3)]), TopologyError::NoLink { host: true, node: "h2".into() });
    assert!(no_path(3, &[link(0, 1), link(1, 0), link(2, 3)]));
    assert!(no_path(3, &[link(0, 1), link(2, 3)]));
    assert_eq!(refuse(2, &[link(0, 2), link(1, 3)]).to_string(), "no path leads from h1 to h0");
}

#[test]
fn racks_have_hosts_with_roles() {
    let group = |role: &str, hosts| racks::Group { role: role.into(), hosts, rate: Rate(25_000_000_000) };
    let shape = |racks: Vec<Vec<racks::Group>>| {
        Shape::Racks(racks::Config { racks, spines: 3, fabric_rate: Rate(100_000_000_000), link_delay: Span(US) })
    };
    let t = shape(vec![vec![group("web", 2), group("disk", 1)], vec![group("web", 2)]]);
    let t = build(&t.into(), Path::new(".")).unwrap();
    let names: Vec<_> = (0..t.nodes() as u32).map(|node| t.name(node)).collect();
    assert_eq!(names, ["web0", "web1", "disk0", "web2", "web3", "tor0", "tor1", "spine0", "spine1", "spine2"]);
    let named = |names: &[&str]| t.hosts_named(&names.iter().map(|n| n.to_string()).collect::<Vec<_>>());
    assert_eq!(named(&["disk", "web"]), Ok(vec![2, 0, 1, 3, 4]));
    assert_eq!(named(&["web3", "disk0"]), Ok(vec![4, 2]));
    assert_eq!(named(&["web", "web3", "tor"]).unwrap_err().iter().map(|(i, _)| *i).collect::<Vec<_>>(), [1, 2]);
    // From rack to rack there are as many ways as spines, and as far.
    assert_eq!(t.path(0, 3, 0).count(), 4);
    let wrong = |racks| build(&shape(racks).into(), Path::new(".")).unwrap_err();
    assert_eq!(wrong(vec![vec![group("Web1", 2)]]).key, "network.racks[0][0].role");
    assert_eq!(wrong(vec![]).key, "network.racks");
}

proptest::proptest! {
    /// Every switch uses exactly the ports whose far ends are nearer to the host, in networks of any form: also where
    /// switches have the same neighbours, so that one's routes are taken from another's.
    #[test]
    fn routes_are_all_shortest_paths(
        switches in 1u32..9,
        homes in proptest::collection::vec((0u32..9, 0u32..9, 0u32..6), 2..12),
        fabric in proptest::collection::vec((0u32..9, 0u32..9), 0..24),
    ) {
        let hosts = homes.len() as u32;
        let at = |switch: u32| hosts + switch % switches;
        let link = |a, b| Link { a, b, rate: Rate(1_000_000_000), delay: Span(US) };
        let mut links: Vec<Link> = Vec::new();
        for (host, &(first, second, both)) in (0..).zip(&homes) {
            links.push(link(host, at(first)));
            // One in six has two links.
            links.extend((both == 0 && at(first) != at(second)).then(|| link(host, at(second))));
        }
        links.extend(fabric.iter().filter(|(a, b)| at(*a) != at(*b)).map(|&(a, b)| link(at(a), at(b))));
        let names = names(hosts, &[("s", switches)]);
        let Ok(t) = Topology::assemble(names, hosts as usize, &links, true) else { return Ok(()) };
        for host in 0..hosts {
            let home: BTreeSet<NodeId> = t.neighbours(host).collect();
            let distance = t.distances_to(&home.iter().copied().collect::<Vec<_>>(), &vec![false; t.nodes()]);
            for switch in 0..switches as usize {
                let found: BTreeSet<NodeId> =
                    t.routes().ports(switch, host).iter().map(|&port| t.ports[port as usize].to).collect();
                let own = distance[switch];
                let nearer = |&node: &NodeId| {
                    if own == 0 { node == host } else { !t.is_host(node) && distance[(node - hosts) as usize] < own }
                };
                let expected: BTreeSet<NodeId> = t.neighbours(hosts + switch as u32).filter(nearer).collect();
                proptest::prop_assert_eq!(found, expected, "h{} at s{}", host, switch);
            }
        }
    }
}

#[test]
fn servers_talk_over_nvlink_inside_and_by_their_rail_outside() {
    let of = |config: servers::Config| build(&Shape::Servers(config).into(), Path::new(".")).unwrap();
    let config = servers::Config { servers: 4, gpus: 4, segment: Some(2), ..Default::default() };
    let t = of(config.clone());
    let names = |t: &Topology, a, b| t.path(a, b, 7).map(|p| t.group(p.to).to_string()).collect::<Vec<_>>();
    // Leaves of two segments with four rails each.
    assert_eq!((t.hosts(), t.nodes()), (16, 16 + 4 + 8 + 8));
    assert_eq!(names(&t, 0, 3), ["nvswitch", "h"]);
    assert_eq!(names(&t, 1, 5), ["leaf", "h"], "the same rail of a segment");
    assert_eq!(names(&t, 1, 6), ["leaf", "spine", "leaf", "h"], "another rail");
    assert_eq!(names(&t, 1, 9), ["leaf", "spine", "leaf", "h"], "another segment");
    assert_eq!(t.host_rate(), config.host_rate);
    // In a rack the way by NVLink is as short as that by the leaf, and faster.
    let racks = of(servers::Config { wiring: servers::Wiring::Racks, ..config.clone() });
    for hash in 0..64 {
        assert!(racks.path(0, 3, hash).all(|p| p.rate == config.nvlink_rate));
    }
    assert_eq!(names(&racks, 0, 7), ["leaf", "h"]);
    // Planes do not meet, unless they share their spines.
    let reach = |t: &Topology| {
        let spines = |hash: u16| t.path(0, 15, hash).map(|p| p.to).collect::<Vec<_>>();
        (0..2000).map(spines).collect::<BTreeSet<_>>().len()
    };
    let two = servers::Config { planes: 2, spines: 2, ..config };
    assert_eq!(reach(&of(two.clone())), 4);
    // Two leaves on either side and two spines.
    assert_eq!(reach(&of(servers::Config { shared_spines: true, ..two })), 8);
}

#[test]
fn a_nic_that_joins_its_ports_takes_all_that_are_up() {
    let config = servers::Config { servers: 4, gpus: 2, planes: 4, bond: true, spines: 1, ..Default::default() };
    let build = |config: &servers::Config| build(&Shape::Servers(config.clone()).into(), Path::new(".")).unwrap();
    for shared_spines in [false, true] {
        let t = build(&servers::Config { shared_spines, ..config.clone() });
        assert_eq!(t.host_rate(), Rate(4 * config.host_rate.0));
        let names = |t: &Topology, a, b, hash| t.path(a, b, hash).map(|p| t.name(p.to).to_string()).collect::<Vec<_>>();
        assert_eq!(names(&t, 0, 1, 3), ["nvswitch0", "h1"]);
        let leaves = |t: &Topology| (0..2000).map(|hash| names(t, 0, 2, hash)).collect::<BTreeSet<_>>();
        let by = |leaves: &[u32]| -> BTreeSet<Vec<String>> {
            leaves.iter().map(|i| ["nic0", &format!("leaf{i}"), "nic2", "h2"].map(String::from).to_vec()).collect()
        };
        assert_eq!(leaves(&t), by(&[0, 1, 2, 3]));
        // A port of the receiver fails: senders take the others, and never another NIC's.
        let dead = t.port_named("nic2->leaf1").unwrap();
        let down = BTreeSet::from([dead, t.ports()[dead as usize].reverse]);
        let left = t.without(&down).unwrap();
        assert_eq!(leaves(&left), by(&[0, 2, 3]));
        // What is on its way in the plane that has no other one is lost where the link was.
        let leaf1 = (0..t.nodes() as u32).find(|node| t.name(*node) == "leaf1").unwrap();
        let next: Vec<_> = left.next_ports(leaf1, 2).map(|port| left.port_name(port)).collect();
        assert_eq!(next, [if shared_spines { "leaf1->spine0" } else { "leaf1->nic2" }]);
    }
    let error = |config: servers::Config| super::build(&Shape::Servers(config).into(), Path::new(".")).unwrap_err();
    let fast = error(servers::Config { planes: 16, ..config });
    assert_eq!((&*fast.key, &*fast.message), ("network.nvlink_rate", "3600Gbps is not above a NIC's rate, 6400Gbps"));
}

#[test]
fn dragonflies_have_a_link_between_every_two_groups() {
    let t = build(&Shape::Dragonfly(dragonfly::Config::default()).into(), Path::new(".")).unwrap();
    assert_eq!((t.hosts(), t.nodes()), (72, 108));
    let degree = |node| t.ports_of(node).len();
    // Two hosts, three routers of the group, two of the eight other groups.
    assert!((72..108).all(|node| degree(node) == 7), "balanced");
    assert!(t.pairs().all(|(a, b)| t.path(a, b, 3).count() <= 5), "at most one link between groups");
}

#[test]
fn servers_are_cells_of_some_gpus_and_routers_with_hosts_one_cell() {
    let cells = |shape: Shape| Cells::several(&build(&shape.into(), Path::new(".")).unwrap());
    let found = cells(Shape::Servers(servers::Config { servers: 32, ..servers::Config::default() }));
    let hosts: Vec<usize> = found.parts.iter().map(|part| part.hosts.len()).filter(|hosts| *hosts > 0).collect();
    assert_eq!((hosts, found.window), (vec![64; 4], 500 * NS));
    // All of a server's GPUs are in its cell, with its NVSwitch.
    assert!((0..256).all(|gpu| found.of(gpu) == gpu as usize / 64 && found.of(256 + gpu / 8) == found.of(gpu)));
    for small in [1, 8] {
        let config = servers::Config { servers: small, ..servers::Config::default() };
        assert_eq!(cells(Shape::Servers(config)).parts.len(), 1);
    }
    let wide = dragonfly::Config { hosts_per_router: 20, ..dragonfly::Config::default() };
    assert_eq!(cells(Shape::Dragonfly(wide)).parts.len(), 1);
}

#[test]
fn compressed_files_are_told() {
    let file = std::env::temp_dir().join(format!("onramp-topology-{}.gz", std::process::id()));
    std::fs::write(&file, [0x1f, 0x8b, 8, 0]).unwrap();
    let name = file.display();
    for kind in ["hpcc-file", "htsim-file", "simai-file"] {
        let text = format!("kind = \"{kind}\"\nfile = \"{name}\"\n");
        let table: toml::Table = text.parse().unwrap();
        let network = onramp_config::read::<Network>(&table).unwrap_or_else(|e| panic!("{e:?}"));
        let wrong = build(&network, Path::new(".")).unwrap_err();
        assert_eq!(wrong.message, format!("cannot read \"{name}\": it is compressed, gunzip it first"));
    }
    std::fs::remove_file(&file).unwrap();
}
