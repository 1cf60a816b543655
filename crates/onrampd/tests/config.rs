//! Mistakes in a configuration: one line each, with file, line, key and what would be right.

use onrampd::config::quantity::{Threshold, Time};
use onrampd::config::{Attach, Config, Mode, Parent, load};
use onrampd::policy::{Decision, Own};
use proptest::prelude::*;
use std::fs::{self, Permissions};
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};

const MINIMAL: &str = "interface = \"eth0\"\nthreshold = \"50us\"\n";

fn read(text: &str) -> Result<Config, Vec<String>> {
    load(text, "f.toml", Path::new("/etc/onramp")).map_err(|all| all.iter().map(ToString::to_string).collect())
}

/// Messages about a minimal file with `more`.
fn said(more: &str) -> String {
    read(&format!("{MINIMAL}{more}")).map_or_else(|all| all.join("\n"), |_| "nothing".into())
}

#[test]
fn the_packaged_configuration_is_right() {
    let folder = Folder::new("packaged");
    folder.write("onrampd.key", "000102030405060708090a0b0c0d0e0f", 0o640);
    let text = include_str!("../../../packaging/onrampd.toml");
    let config = Config::open(&folder.write("onrampd.toml", text, 0o644));
    assert_eq!(config.unwrap().peers.len(), 1);
}

struct Folder(PathBuf);

impl Folder {
    fn new(name: &str) -> Self {
        let folder = std::env::temp_dir().join(format!("onrampd-{name}-{}", std::process::id()));
        fs::create_dir_all(&folder).unwrap();
        Self(folder)
    }

    fn write(&self, name: &str, text: &str, mode: u32) -> PathBuf {
        let path = self.0.join(name);
        fs::write(&path, text).unwrap();
        fs::set_permissions(&path, Permissions::from_mode(mode)).unwrap();
        path
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.0);
    }
}

#[test]
fn little_must_be_said() {
    let config = read(MINIMAL).unwrap();
    assert_eq!((config.mode, config.parent, config.attach), (Mode::Observe, Parent::Auto, Attach::Auto));
    assert_eq!((config.params.threshold, config.params.max_pause), (50_000, 2_000_000));
    assert_eq!((config.params.gain_shift, config.params.beta_start, config.interval_shift), (4, 16_384, 14));
    assert_eq!((config.port, config.idle, config.line_rate), (9471, 1_000_000, None));
    assert_eq!((config.max_flows, config.max_stamps), (65_536, 131_072));
    assert_eq!(config.socket, Path::new("/run/onrampd/onrampd.sock"));
}

#[test]
fn much_can_be_said() {
    let config = read(
        r#"
        interfaces = ["eth0", "eth1"]
        mode = "enforce"
        parent = "1:a"
        attach = "clsact"
        threshold = "50us"
        max_pause = "1ms"
        gain = 0.25
        version = "strawman"
        beta_start = 1
        max_share = 1
        clock_uncertainty = "3us"
        or_ack_interval = "4KiB"
        port = 7
        line_rate = "10Gbps"
        idle = "2ms"
        key = "000102030405060708090a0b0c0d0e0f"
        peers = ["10.0.0.2", "fd00::2"]
        socket = "/tmp/s"
        state_dir = "state"
        [[peer]]
        address = "10.0.0.3"
        clock_offset = "-12us"
        key = "ffffffffffffffffffffffffffffffff"
        [gate]
        limit = 100
        [test]
        clock_drift = "20ppm"
        "#,
    );
    let config = config.unwrap();
    assert_eq!((config.mode, config.parent, config.interval_shift), (Mode::Enforce, Parent::Class(0x1_000a), 12));
    assert!(config.params.strawman && config.params.gain_shift == 2 && config.params.beta_start == 65_536);
    assert_eq!(config.state_dir, Path::new("/etc/onramp/state"));
    assert_eq!(config.gate.limit, Some(100));
    assert_eq!((config.max_share, config.peers[2].uncertainty), (1.0, 3_000));
    let offsets: Vec<_> = config.peers.iter().map(|p| p.clock_offset).collect();
    assert_eq!(offsets, [None, None, Some(-12_000)]);
    assert_ne!(config.peers[0].keys, config.peers[2].keys);
    let programs = config.for_programs(5, config.own_clock(), config.test_clock(1));
    assert_eq!((programs.acker_ifindex, programs.test_clock.base), (5, 1));
    assert_eq!(programs.segment_rate, (0.8 * 65_536.0) as u32);
    assert_eq!(u32::from(programs.flags), onrampd::abi::OR_CUT | onrampd::abi::OR_CLOCK_KNOWN);
}

const FLEET: &str = "interface = \"eth0\"\n[fleet]\naddress = \"10.0.0.2\"\ncoordinators = [\"10.0.0.1:9472\"]\n";

#[test]
fn a_fleet_needs_little() {
    let config = read(FLEET).unwrap();
    assert!(config.auto_threshold && config.own_clock().is_none());
    assert_eq!(config.params.threshold, 50_000);
    let fleet = config.fleet.unwrap();
    assert_eq!(fleet.folder, Path::new("/etc/onramp/fleet"));
    assert_eq!((fleet.mesh.probes, fleet.mesh.window, fleet.mesh.interval), (10, 2_000_000_000, 8_000_000));
    assert!(!read(&format!("threshold = \"90us\"\n{FLEET}")).unwrap().auto_threshold);
}

#[test]
fn a_policy_is_laid_over_what_a_fleets_host_does_not_say_itself() {
    let config = read(&format!("{FLEET}labels = {{ rack = \"b7\" }}")).unwrap();
    assert_eq!(config.own, Own::default());
    assert_eq!(config.fleet.as_ref().unwrap().labels, [("rack".to_owned(), "b7".to_owned())].into());
    let decision = |mode, threshold| Decision { mode, threshold, why: String::new(), threshold_by: "policy" };
    let with = config.with(&decision(Mode::Enforce, Some(Threshold::Fixed(Time(80_000)))));
    assert_eq!((with.mode, with.params.threshold, with.auto_threshold), (Mode::Enforce, 80_000, false));
    let with = config.with(&decision(Mode::Enforce, Some(Threshold::Auto)));
    assert_eq!((with.params, with.auto_threshold), (config.params, true), "the floor of its own");
    assert_eq!(config.with(&decision(Mode::Observe, None)), config);
    let own = read(&format!("mode = \"observe\"\nthreshold = \"90us\"\n{FLEET}")).unwrap().own;
    assert_eq!(own, Own { mode: Some(Mode::Observe), threshold: Some(Threshold::Fixed(Time(90_000))) });
}

#[test]
fn mistakes_about_a_fleet_are_told() {
    let before = [
        ("clock = \"shared\"", "f.toml:1: clock: is given beside [fleet], which synchronises clocks"),
        ("peers = [\"10.0.0.3\"]", "f.toml:1: peers: has no meaning with [fleet]"),
        ("threshold = \"9us\"\nthreshold_floor = \"1us\"", "f.toml:2: threshold_floor: has no meaning with a fixed"),
        ("threshold = \"often\"", "f.toml:1: threshold: \"often\" is not a time"),
        (
            "threshold = 5",
            "f.toml:1: threshold: 5 is not a time in quotes with its unit, such as \"16us\", or \"auto\"",
        ),
        ("threshold_floor = \"0us\"", "f.toml:1: threshold_floor: must be above 0"),
    ];
    let after = [
        ("window = \"1ms\"", "f.toml:5: fleet.window: is outside 10ms to 60s"),
        ("certificate_life = \"4s\"", "f.toml:5: fleet.certificate_life: is outside 5s to 3650d"),
        ("key_life = \"7s\"", "f.toml:5: fleet.key_life: is outside 8s to 3650d"),
        ("certificate_life = \"90\"", "f.toml:5: fleet.certificate_life: "),
        ("interval = \"1s\"", "f.toml:5: fleet.interval: is outside 100us to a twentieth of the window"),
        ("probes = 0", "f.toml:5: fleet.probes: must be at least 1"),
        ("max_uncertainty = \"0s\"", "f.toml:5: fleet.max_uncertainty: must be above 0"),
        ("listen = \"9472\"", "f.toml:5: fleet.listen: is no address with a port, such as \"10.0.0.1:9472\""),
        ("aliases = [\"::\"]", "f.toml:5: fleet.aliases[0]: ::: no other host can send there"),
        ("aliases = [\"fd00::1\", \"10.0.0.2\"]", "f.toml:5: fleet.aliases[1]: 10.0.0.2 is given twice"),
        ("name = \"a\"", "f.toml:5: fleet.name: is not a known key"),
        ("labels = { rack = \"b 7\" }", "f.toml:5: fleet.labels.rack: \"b 7\": a label's value takes 1 to 63 letters"),
        ("labels = { \"\" = \"b7\" }", "f.toml:5: fleet.labels: \"\": a label's name takes"),
        ("labels = { rack = 7 }", "f.toml:5: fleet.labels.rack: 7 is not"),
        ("label = { rack = \"b7\" }", "f.toml:5: fleet.label: is not a known key: did you mean labels?"),
    ];
    let cases = before.map(|(more, said)| (format!("{more}\n{FLEET}"), said)).into_iter();
    for (text, message) in cases.chain(after.map(|(more, said)| (format!("{FLEET}{more}"), said))) {
        let said = read(&text).unwrap_err().join("\n");
        assert!(said.starts_with(message) && !said.contains('\n'), "{said}");
    }
    for (wrong, message) in [
        ("coordinators = []", "fleet.coordinators: is empty"),
        ("coordinators = [\"10.0.0.1:1\", \"10.0.0.1:1\"]", "fleet.coordinators[1]: 10.0.0.1:1 is given twice"),
        ("", "fleet.coordinators: is missing"),
    ] {
        let said = read(&FLEET.replace("coordinators = [\"10.0.0.1:9472\"]", wrong)).unwrap_err().join("\n");
        assert!(said.contains(message), "{said}");
    }
    let said = read("interface = \"eth0\"\nclock = \"fleet\"\nthreshold = \"auto\"").unwrap_err().join("\n");
    assert!(said.contains("clock: \"fleet\" takes a section [fleet]"), "{said}");
    assert!(said.contains("threshold: \"auto\" takes a [fleet]"), "{said}");
}

#[test]
fn mistakes_say_where_they_are_and_what_would_be_right() {
    let cases = [
        ("threshhold = \"5us\"", "f.toml:3: threshhold: is not a known key: did you mean threshold?"),
        ("colour = 1", "f.toml:3: colour: is not a known key: known are mode, interface"),
        (
            "max_pause = \"150\"",
            "f.toml:3: max_pause: \"150\" is not a time: write a number and a unit (s, ms, us, ns)",
        ),
        ("max_pause = 150", "f.toml:3: max_pause: 150 is not a time in quotes with its unit, such as \"50us\""),
        ("mode = \"on\"", "f.toml:3: mode: \"on\" is not one of observe, enforce"),
        ("gain = 0.1", "f.toml:3: gain: 0.1 is not one of 0.25, 0.125"),
        ("gain = nan", "f.toml:3: gain: NaN is not one of"),
        ("beta_start = 1.5", "f.toml:3: beta_start: 1.5 is outside 0 to 1"),
        ("max_share = 0", "f.toml:3: max_share: is outside 0.1 to 1; 1 is no bound"),
        ("or_ack_interval = \"10KiB\"", "f.toml:3: or_ack_interval: is no power of two from 1KiB to 1MiB"),
        ("parent = \"1:\"", "f.toml:3: parent: \"1:\" is not \"auto\", \"root\", \"mq\" or a class such as \"1:1\""),
        ("port = 0", "f.toml:3: port: 0 is no port"),
        ("port = 70000", "f.toml:3: port: 70000 is not a whole number"),
        ("max_flows = 1", "f.toml:3: max_flows: is outside 16 to"),
        ("peers = [\"10.0.0.2\"]", "f.toml:3: peers[0]: has no key: write key_file = "),
        ("peers = [\n\"10.0.0.2\",\n\"10.0.0\"]", "f.toml:5: peers[1]: is no IP address, such as \"10.0.0.2\""),
        ("key = \"00\"", "f.toml:3: key: is not 32 hex digits: make some with `openssl rand -hex 16`"),
        ("key_file = \"absent\"", "f.toml:3: key_file: cannot read /etc/onramp/absent"),
        ("[gate]\nquantum = \"1B\"", "f.toml:4: gate.quantum: is outside 256B to 1MiB"),
        ("[gate]\nbytes = 100000", "f.toml:4: gate.bytes: 100000 is not a size in quotes with its unit, such as"),
        ("[gate]\nbytes = \"5GiB\"", "f.toml:4: gate.bytes: is outside 64KiB to 4GiB"),
        ("[gate]\ntarget = \"1s\"", "f.toml:4: gate.target: is above 100ms"),
        ("[gate]\nlimit = 0", "f.toml:4: gate.limit: must be at least 1"),
        ("[gate]\nlimit = -5", "f.toml:4: gate.limit: -5 is not a whole number from 0 to 4294967295"),
        ("[gate]\nkind = 3", "f.toml:4: gate.kind: 3 is not one of auto, bpf, module, none"),
        ("[gate]\nkind = \"kernel\"", "f.toml:4: gate.kind: \"kernel\" is not one of auto, bpf, module, none"),
        (
            "parent = \"1:1\"\n[gate]\nkind = \"bpf\"",
            "f.toml:5: gate.kind: \"bpf\" goes to the root or below mq only: it takes \"module\", or another parent",
        ),
        ("[gate]\nlimits = 1", "f.toml:4: gate.limits: is not a known key: did you mean limit?"),
        ("[[peer]]\nclock_offset = \"1us\"", "f.toml:3: peer[0].address: is missing: write one, such as address"),
        ("[[scope]]\nport = 1", "f.toml:3: scope[0].hold: is missing: write one, such as hold = false"),
        ("[[scope]]\nhold = true\nport = \"9-8\"", "f.toml:5: scope[0].port: \"9-8\" is not a port from 1 to 65535"),
        ("[[scope]]\nhold = true\n[[scope]]\nhold = false", "f.toml:5: scope[1]: is never reached, since scope[0]"),
        ("[test]\nclock_drift = \"1s\"", "f.toml:4: test.clock_drift: \"1s\" is not a drift"),
        ("a = [", "f.toml:3: "),
        ("interfaces = [\"eth1\"]", "f.toml:1: interface: is given beside interfaces: keep one of the two"),
    ];
    for (more, message) in cases {
        let said = said(more);
        assert!(said.starts_with(message) && !said.contains('\n'), "{more}: {said}");
    }
    assert_eq!(
        read("threshold = \"1us\"").unwrap_err(),
        ["f.toml: interface: is missing: write one, such as interface = \"eth0\""]
    );
    let empty = read("").unwrap_err().join("\n");
    assert!(empty.contains("threshold: is missing: write one, such as threshold = \"50us\""), "{empty}");
    for name in ["", "a/b", "0123456789abcdef", "..", "onramp0", "a\\nb"] {
        assert!(read(&format!("interface = \"{name}\"\nthreshold = \"1us\"")).is_err(), "{name:?}");
    }
}

#[test]
fn every_mistake_is_told_in_the_order_of_the_file() {
    let all = said("gain = 2\nport = 0\nidle = \"0ns\"\npeers = [\"0.0.0.0\"]");
    let lines: Vec<&str> = all.lines().map(|l| l.split(": ").nth(1).unwrap()).collect();
    assert_eq!(lines, ["gain", "port", "idle", "peers[0]", "peers[0]"]);
}

#[test]
fn mistakes_of_types_are_all_told_beside_those_of_rules() {
    let peers = "[[peer]]\nclock_offset = \"1us\"\n[[peer]]\naddress = \"224.0.0.1\"";
    let all =
        said(&format!("gain = 2\nport = \"x\"\ncolour = 1\n[test]\nclock_drift = \"1s\"\n[gate]\nlimit = -5\n{peers}"));
    let lines: Vec<&str> = all.lines().map(|l| l.split(": ").nth(1).unwrap()).collect();
    assert_eq!(
        lines,
        ["gain", "port", "colour", "test.clock_drift", "gate.limit", "peer[0].address", "peer[1]", "peer[1]"]
    );
    // What hangs on a key that could not be read is no mistake of its own.
    assert_eq!(said("key = 5\npeers = [\"10.0.0.2\"]").lines().count(), 1);
    assert_eq!(read(&FLEET.replace("address = ", "addres = ")).unwrap_err().len(), 1);
}

#[test]
fn peers_are_said_once_and_fit_their_clock() {
    let key = "key = \"000102030405060708090a0b0c0d0e0f\"\n";
    assert!(said(&format!("{key}peers = [\"10.0.0.2\", \"::ffff:10.0.0.2\"]")).contains("is given twice"));
    let both = format!("{key}clock = \"shared\"\n[[peer]]\naddress = \"10.0.0.2\"\nclock_offset = \"1us\"");
    assert!(said(&both).contains("f.toml:7: peer[0].clock_offset: has no meaning with clock = \"shared\""));
    assert!(said(&format!("{key}peers = [\"224.0.0.1\"]")).contains("is not the address of another host"));
}

#[test]
fn secrets_must_not_be_readable_by_everybody() {
    let folder = Folder::new("secrets");
    let digits = "000102030405060708090a0b0c0d0e0f\n";
    folder.write("open", digits, 0o644);
    folder.write("closed", digits, 0o640);
    let with = |name: &str, text: &str, mode| {
        let path = folder.write(name, &format!("{MINIMAL}peers = [\"10.0.0.2\"]\n{text}"), mode);
        Config::open(&path).map_err(|all| all[0].to_string())
    };
    assert!(with("a", "key_file = \"open\"", 0o644).unwrap_err().contains("chmod o-rwx"));
    let config = with("b", "key_file = \"closed\"", 0o644).unwrap();
    assert_eq!(config.peers[0].keys.sign.0[..3], [0, 1, 2]);
    let inline = format!("key = \"{}\"", digits.trim());
    assert!(with("c", &inline, 0o644).unwrap_err().contains("everybody"));
    assert!(with("d", &inline, 0o600).is_ok());
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn any_text_is_a_configuration_or_some_lines(text in "\\PC{0,200}") {
        for line in read(&text).err().into_iter().flatten() {
            prop_assert!(line.starts_with("f.toml") && !line.contains('\n'), "{line}");
        }
    }

    #[test]
    fn any_values_of_known_keys_too(
        lines in proptest::collection::vec((
            prop::sample::select(vec!["mode", "interface", "interfaces", "parent", "threshold", "gain", "port", "peers",
                "peer", "gate", "test", "key", "key_file", "line_rate", "or_ack_interval", "gate.limit", "max_flows"]),
            prop::sample::select(vec!["1", "-1", "0.5", "\"\"", "\"1us\"", "\"1:1\"", "[]", "[1]", "[\"a\"]", "{}",
                "[{}]", "nan", "1979-05-27", "\"10.0.0.2\"", "[\"10.0.0.2\"]", "true", "\"16KiB\"", "\"\\u0007\""]),
        ), 0..6),
    ) {
        let text: String = lines.iter().map(|(key, value)| format!("{key} = {value}\n")).collect();
        for line in read(&text).err().into_iter().flatten() {
            prop_assert!(line.starts_with("f.toml") && !line.contains('\n'), "{line}");
        }
    }
}
