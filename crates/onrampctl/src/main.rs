//! The command line of onrampctl, the client of the agent and of a fleet's coordinator.
//!
//! It takes from the agent's library what both know: the configuration, certificates, the
//! protocols, and the programs, which the doctor has the kernel check.

mod agent;
mod arguments;
mod compare;
mod coordinator;
mod dashboard;
mod doctor;
mod documents;
mod exporter;
mod hosts;
mod http;
mod node_labels;
mod owd;
mod policy;
mod record;
mod replay;
mod report;
mod rollout;
mod scope;
mod setup;
mod status;
mod tokens;
mod top;

use clap::{Args, CommandFactory as _, Parser, Subcommand};
use ipnet::IpNet;
use nix::unistd::geteuid;
use onrampd::agent::off;
use onrampd::config::quantity::{Life, Share, Size, Threshold};
use onrampd::config::{Config, Fleet, Mode};
use onrampd::fleet::tokens::{Terms, today};
use onrampd::fleet::wire;
use onrampd::scope::Rule;
use onrampd::{DEFAULT_CONFIG, DEFAULT_SOCKET, DEFAULT_STATE_DIR};
use std::fmt::Display;
use std::io::{self, Write as _};
use std::net::{IpAddr, SocketAddr};
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::time::Duration;

use agent::Client;
use owd::{Matrix, heatmap, table};
use setup::Host;

/// Commands for On-Ramp's agents: sets hosts up, asks agents and coordinators.
#[derive(Parser)]
#[command(version)]
struct Cli {
    #[command(subcommand)]
    command: Command,
}

#[derive(Subcommand)]
enum Command {
    /// Found a fleet: write certificates and a configuration with this host as coordinator,
    /// and print the commands that start it and that other hosts join with.
    Init {
        #[command(flatten)]
        host: HostArguments,
        /// This host's address, by which the others send to it.
        #[arg(long, value_parser = arguments::address)]
        address: IpAddr,
        /// TCP port of the coordinator.
        #[arg(long, default_value_t = 9472, value_parser = clap::value_parser!(u16).range(1..))]
        port: u16,
        /// Have the agent run the coordinator in its own process, which then reads from strangers and has
        /// the authority's key beside the agent's privileges: for a trial with few hosts.
        #[arg(long)]
        in_agent: bool,
        /// The address is another host's: what is written is for that one, as the Helm chart takes it.
        #[arg(long)]
        elsewhere: bool,
        #[command(flatten)]
        terms: TermsArguments,
    },
    /// Join a fleet: fetch a certificate and write a configuration.
    Join {
        /// Token that `onrampctl init` or `onrampctl token create` printed on the coordinator. Other
        /// users of this host see it here: --token-file or the environment keep it from them.
        #[arg(env = "ONRAMP_TOKEN", hide_env_values = true)]
        token: Option<String>,
        /// A file with the token; - is standard input.
        #[arg(long, value_name = "FILE", conflicts_with = "token")]
        token_file: Option<PathBuf>,
        #[command(flatten)]
        host: HostArguments,
        /// This host's address, by which the others send to it. Default: the one on the way to
        /// the coordinator.
        #[arg(long, value_parser = arguments::address)]
        address: Option<IpAddr>,
    },
    /// On the coordinator: make, list and withdraw the tokens that hosts join with.
    Token {
        #[command(subcommand)]
        what: TokenCommand,
    },
    /// Tell how the fleet's clocks are, as its coordinator knows it; or remove a host, or vouch for its aliases, or list them.
    #[command(args_conflicts_with_subcommands = true)]
    Fleet {
        #[command(subcommand)]
        what: Option<FleetCommand>,
        /// Configuration (TOML).
        #[arg(long, value_name = "FILE", default_value = DEFAULT_CONFIG)]
        config: PathBuf,
        /// JSON.
        #[arg(long)]
        json: bool,
    },
    /// The fleet's policy: which hosts hold packets, and at which T. `show` asks the coordinator; the others are for
    /// the coordinator's host.
    Policy {
        #[command(subcommand)]
        what: PolicyCommand,
    },
    /// Have hosts enforce step by step; go on where their traffic is as the guard asks, compared with before and with
    /// the other hosts, and back where it is not. Exit status 1: it went back. On the coordinator's host.
    #[command(group = clap::ArgGroup::new("who").args(["labels", "steps"]).required(true).multiple(true))]
    Rollout {
        /// Hosts that enforce first: those with this label, or with all of these.
        #[arg(long = "label", value_name = "KEY=VALUE", value_parser = rollout::plan::label)]
        labels: Vec<(String, String)>,
        /// Steps after that, or the only ones: shares of all hosts, such as 25%,50%,100%. Hosts that a rule of the
        /// policy is about stay as it says.
        #[arg(long, value_name = "SHARES", value_parser = rollout::plan::steps)]
        steps: Option<Steps>,
        /// T; default: each host's own.
        #[arg(long, value_name = "TIME|auto")]
        threshold: Option<Threshold>,
        /// Conditions for each step: retransmissions, timeouts, goodput, owd pN, each below or above a multiple of its
        /// value without holding.
        #[arg(long, value_name = "GUARD", default_value = rollout::guard::DEFAULT, value_parser = rollout::guard::parse)]
        guard: Guards,
        /// How long each step is watched, and hosts before the first: 20s to 1d.
        #[arg(long = "for", value_name = "TIME", default_value = "10min", value_parser = rollout::plan::lasting)]
        lasts: Life,
        /// Action after a step in which too little was seen to say whether the guard holds.
        #[arg(long, value_enum, value_name = "WHAT", default_value = "back")]
        if_open: IfOpen,
        /// Reason, for history and log.
        #[arg(long, value_name = "TEXT")]
        message: Option<String>,
        /// Configuration (TOML).
        #[arg(long, value_name = "FILE", default_value = DEFAULT_CONFIG)]
        config: PathBuf,
    },
    /// Hold nothing any more, at once and until --end: on this host, as `onrampd off` does, or in the whole fleet.
    StopHolding {
        /// On the coordinator: on every host of the fleet that it reaches, whatever the policy says.
        #[arg(long)]
        fleet: bool,
        /// End it: hosts hold again as policy and configuration say.
        #[arg(long)]
        end: bool,
        /// Reason, for history, status and log.
        #[arg(long, value_name = "TEXT")]
        message: Option<String>,
        /// Configuration (TOML), for --fleet.
        #[arg(long, value_name = "FILE", default_value = DEFAULT_CONFIG)]
        config: PathBuf,
        /// Without --fleet: where the agent remembers what it has done.
        #[arg(long, value_name = "DIR", conflicts_with = "fleet", default_value = DEFAULT_STATE_DIR)]
        state_dir: PathBuf,
    },
    /// Show the one-way delays between the fleet's hosts, as its coordinator knows them.
    Owd {
        /// Configuration (TOML).
        #[arg(long, value_name = "FILE", default_value = DEFAULT_CONFIG)]
        config: PathBuf,
        /// JSON.
        #[arg(long)]
        json: bool,
        /// Also write them as a picture.
        #[arg(long, value_name = "FILE")]
        png: Option<PathBuf>,
    },
    /// Fit and solve again what agents kept of their probes (`fleet.log`): each window's clocks.
    Replay {
        /// Logs of the same time, from one or several hosts.
        #[arg(required = true)]
        files: Vec<PathBuf>,
        /// JSON.
        #[arg(long)]
        json: bool,
    },
    /// Say what is wrong with a configuration, one line a mistake.
    CheckConfig {
        /// Configuration (TOML).
        file: PathBuf,
    },
    /// Say for each requirement whether this host meets it, and how to mend what does not.
    /// Changes nothing.
    Doctor {
        /// Also look at what this configuration needs.
        #[arg(long, value_name = "FILE")]
        config: Option<PathBuf>,
        /// JSON.
        #[arg(long)]
        json: bool,
    },
    /// Tell what the running agent measures and does, to root and the group onrampd.
    Status {
        /// One line of JSON.
        #[arg(long)]
        json: bool,
        /// Also the flows held longest.
        #[arg(long, value_name = "N", num_args = 0..=1, default_missing_value = "20", value_parser = arguments::count)]
        flows: Option<usize>,
        /// The agent's socket.
        #[arg(long, value_name = "PATH", default_value = DEFAULT_SOCKET)]
        socket: PathBuf,
    },
    /// Tell the rules that say what is held, and what each has matched; or with --dry-run what other rules would hold. To
    /// root and the group onrampd.
    Scope {
        /// Count for a while what the rules ([[scope]]) of this file match and would hold; nothing else changes. It may be
        /// a whole configuration.
        #[arg(long, value_name = "FILE")]
        dry_run: Option<PathBuf>,
        /// For so long.
        #[arg(long = "for", value_name = "TIME", default_value = "10s", requires = "dry_run", value_parser = arguments::lasting)]
        lasts: Life,
        /// JSON.
        #[arg(long)]
        json: bool,
        /// The agent's socket.
        #[arg(long, value_name = "PATH", default_value = DEFAULT_SOCKET)]
        socket: PathBuf,
    },
    /// Watch paths and flows live, as root or in the group onrampd.
    Top {
        /// The agent's socket.
        #[arg(long, value_name = "PATH", default_value = DEFAULT_SOCKET)]
        socket: PathBuf,
    },
    /// Compare what traffic met while the agent observed with while it enforced: delays, retransmissions, RTOs, time held,
    /// with 95% intervals, from what it has kept of the last 24 hours. As root or in the group onrampd.
    Report {
        /// From so long ago on, such as 1h or 30min; or @ and seconds since 1970.
        #[arg(long, value_name = "TIME")]
        since: String,
        /// Until so long ago; default: now.
        #[arg(long, value_name = "TIME")]
        until: Option<String>,
        /// Paths to these peers only.
        #[arg(long, value_name = "ADDRESS", value_parser = arguments::address)]
        peer: Vec<IpAddr>,
        /// One line of JSON.
        #[arg(long)]
        json: bool,
        /// Also write a page.
        #[arg(long, value_name = "FILE")]
        html: Option<PathBuf>,
        /// The agent's socket.
        #[arg(long, value_name = "PATH", default_value = DEFAULT_SOCKET)]
        socket: PathBuf,
    },
    /// Serve the agent's state to Prometheus, as OpenMetrics at /metrics, until SIGINT or SIGTERM. Needs no
    /// privileges but the group onrampd.
    Exporter {
        /// Where it listens. Who can reach it sees peers and delays, but no flows.
        #[arg(long, value_name = "ADDRESS:PORT", default_value = exporter::LISTEN, value_parser = arguments::listen)]
        listen: SocketAddr,
        /// Most paths told of one by one, those with the lowest addresses; the others together, as peer "others".
        #[arg(long, value_name = "N", default_value_t = 32, value_parser = arguments::count)]
        max_paths: usize,
        /// The agent's socket.
        #[arg(long, value_name = "PATH", default_value = DEFAULT_SOCKET)]
        socket: PathBuf,
    },
    /// Serve a page that shows the agent's state of the last quarter of an hour, until SIGINT or SIGTERM: is the clock
    /// synchronised, are packets held, which paths are congested. As root or in the group onrampd.
    Dashboard {
        /// Where it listens. Who can reach it sees peers and delays, but no flows.
        #[arg(long, value_name = "ADDRESS:PORT", default_value = dashboard::LISTEN, value_parser = arguments::listen)]
        listen: SocketAddr,
        /// The agent's socket; default: the configuration's.
        #[arg(long, value_name = "PATH")]
        socket: Option<PathBuf>,
        /// Configuration (TOML), by which the fleet's coordinator is asked; default: /etc/onrampd/onrampd.toml, if it
        /// is there.
        #[arg(long, value_name = "FILE")]
        config: Option<PathBuf>,
    },
    /// Record when this host sends how much to whom by TCP, for `onramp forecast`; as root. Holds nothing and reads no
    /// payload.
    Record {
        /// The recording; it must not be there yet.
        #[arg(long, value_name = "FILE")]
        out: PathBuf,
        /// Until so long is over; default: until SIGINT or SIGTERM.
        #[arg(long = "for", value_name = "TIME", value_parser = arguments::lasting)]
        lasts: Option<Life>,
        /// It ends when the recording is so large: some 80 bytes for each flow sent, and each write that
        /// came.
        #[arg(long, value_name = "SIZE", default_value = "64MB")]
        max_size: Size,
        /// Write hashes in the place of addresses, by the key in this file: the same on all hosts.
        #[arg(long, value_name = "FILE")]
        hash_addresses: Option<PathBuf>,
        /// Interfaces to look at; default: those of the configuration.
        #[arg(long, value_name = "NAME")]
        interface: Vec<String>,
        /// Configuration of this host's agent, whose clock recordings share: the fleet's. Without an agent it is the
        /// system's clock.
        #[arg(long, value_name = "FILE", default_value = DEFAULT_CONFIG)]
        config: PathBuf,
    },
    /// In a pod of the Helm chart: print labels of its Kubernetes node as TOML. Those that the node lacks are left out.
    NodeLabels {
        /// Keys of the labels, such as topology.kubernetes.io/zone.
        #[arg(required = true)]
        keys: Vec<String>,
        /// Folder with the service account's token and ca.crt.
        #[arg(long, value_name = "DIR", default_value = node_labels::ACCOUNT)]
        account: PathBuf,
    },
    /// Write manual pages and the completions of bash, zsh and fish, for packages.
    #[command(hide = true)]
    Documents {
        /// Where `man`, `bash`, `zsh` and `fish` are to be.
        folder: PathBuf,
    },
}

#[derive(Subcommand)]
enum FleetCommand {
    /// On the coordinator: remove a host. Its certificate is worth nothing from now on, and the
    /// others stop talking to it at once.
    Remove {
        /// Its address.
        #[arg(value_parser = arguments::address)]
        address: IpAddr,
        /// Configuration (TOML).
        #[arg(long, value_name = "FILE", default_value = DEFAULT_CONFIG)]
        config: PathBuf,
    },
    /// On the coordinator: vouch for a host's other addresses, which its configuration lists as aliases.
    /// They replace those named before; none: it has no others.
    Alias {
        /// The host's address.
        #[arg(value_parser = arguments::address)]
        address: IpAddr,
        /// Its other addresses, or networks of them, such as its pods'.
        #[arg(value_name = "ADDRESS|NETWORK", value_parser = arguments::network)]
        aliases: Vec<IpNet>,
        /// Configuration (TOML).
        #[arg(long, value_name = "FILE", default_value = DEFAULT_CONFIG)]
        config: PathBuf,
    },
    /// On the coordinator: list the hosts whose other addresses it vouches for, and these.
    Aliases {
        /// JSON.
        #[arg(long)]
        json: bool,
        /// Configuration (TOML).
        #[arg(long, value_name = "FILE", default_value = DEFAULT_CONFIG)]
        config: PathBuf,
    },
}

#[derive(Subcommand)]
enum PolicyCommand {
    /// Show the policy, which hosts have confirmed it, their modes and why.
    Show {
        /// JSON.
        #[arg(long)]
        json: bool,
        /// Configuration (TOML).
        #[arg(long, value_name = "FILE", default_value = DEFAULT_CONFIG)]
        config: PathBuf,
    },
    /// Show what changes between two policies. Without arguments: what the present version changed; with one version:
    /// from that to the present one; with one file: what setting it would change.
    Diff {
        /// A version, 0 for none, or a file.
        #[arg(value_name = "VERSION|FILE")]
        a: Option<String>,
        /// Another one.
        #[arg(value_name = "VERSION|FILE")]
        b: Option<String>,
        /// Configuration (TOML).
        #[arg(long, value_name = "FILE", default_value = DEFAULT_CONFIG)]
        config: PathBuf,
    },
    /// Make a file the fleet's policy: its next version, which hosts follow at once.
    Set {
        /// The policy (TOML).
        file: PathBuf,
        /// Reason, for history and log.
        #[arg(long, value_name = "TEXT")]
        message: Option<String>,
        /// Configuration (TOML).
        #[arg(long, value_name = "FILE", default_value = DEFAULT_CONFIG)]
        config: PathBuf,
    },
    /// List the last 100 versions: who made them, from where, when and what for.
    History {
        /// JSON.
        #[arg(long)]
        json: bool,
        /// Configuration (TOML).
        #[arg(long, value_name = "FILE", default_value = DEFAULT_CONFIG)]
        config: PathBuf,
    },
    /// Make an old version's policy the newest one. Default: the one before the present policy.
    Rollback {
        /// The old version; 0: no policy, each host's own configuration counts.
        #[arg(value_parser = arguments::version)]
        version: Option<u64>,
        /// Reason, for history and log.
        #[arg(long, value_name = "TEXT")]
        message: Option<String>,
        /// Configuration (TOML).
        #[arg(long, value_name = "FILE", default_value = DEFAULT_CONFIG)]
        config: PathBuf,
    },
}

/// Lists that one argument has: clap would take a list for many arguments.
type Steps = Vec<Share>;
type Guards = Vec<rollout::guard::Guard>;

/// Action after a step whose guards are neither held nor broken.
#[derive(Clone, Copy, PartialEq, Eq, clap::ValueEnum)]
enum IfOpen {
    /// Go back.
    Back,
    /// Go on.
    GoOn,
}

#[derive(Subcommand)]
enum TokenCommand {
    /// Make a token and print it.
    Create {
        #[command(flatten)]
        terms: TermsArguments,
        /// Configuration (TOML).
        #[arg(long, value_name = "FILE", default_value = DEFAULT_CONFIG)]
        config: PathBuf,
    },
    /// List the tokens that still admit hosts.
    List {
        /// JSON.
        #[arg(long)]
        json: bool,
        /// Configuration (TOML).
        #[arg(long, value_name = "FILE", default_value = DEFAULT_CONFIG)]
        config: PathBuf,
    },
    /// Have a token admit nobody from now on.
    Revoke {
        /// Its name, as `list` shows it.
        id: String,
        /// Configuration (TOML).
        #[arg(long, value_name = "FILE", default_value = DEFAULT_CONFIG)]
        config: PathBuf,
    },
}

/// Terms of a new token.
#[derive(Args)]
struct TermsArguments {
    /// How many hosts the token admits.
    #[arg(long, value_name = "N", default_value_t = 1, value_parser = clap::value_parser!(u32).range(1..))]
    uses: u32,
    /// For how long: 90s, 30min, 2h, 7d.
    #[arg(long, value_name = "TIME", default_value = "1h", value_parser = arguments::lasting)]
    expires: Life,
    /// Hosts with this address, or an address of this network, only.
    #[arg(long, value_name = "ADDRESS|NETWORK", value_parser = arguments::network)]
    within: Option<IpNet>,
}

impl From<TermsArguments> for Terms {
    fn from(a: TermsArguments) -> Self {
        Self { uses: a.uses, expires: today().saturating_add(a.expires.0), within: a.within }
    }
}

#[derive(Args)]
struct HostArguments {
    /// The interface that packets leave by.
    #[arg(long)]
    interface: String,
    /// Hold packets at once, instead of only watching.
    #[arg(long)]
    enforce: bool,
    /// The configuration to write; certificates go to the folder `fleet` beside it.
    #[arg(long, value_name = "FILE", default_value = DEFAULT_CONFIG)]
    config: PathBuf,
}

impl From<HostArguments> for Host {
    fn from(a: HostArguments) -> Self {
        let mode = if a.enforce { Mode::Enforce } else { Mode::Observe };
        Self { config: a.config, interface: a.interface, mode }
    }
}

fn main() -> ExitCode {
    match Cli::parse().command {
        Command::Init { host, address, port, in_agent, elsewhere, terms } => {
            let host: Host = host.into();
            let founded = setup::init(&host, SocketAddr::new(address, port), in_agent, elsewhere, terms.into());
            done(founded.map(|token| tokens::founded(&token, &host.config, in_agent)))
        }
        Command::Join { token, token_file, host, address } => {
            let host: Host = host.into();
            let joined = setup::given(token, token_file.as_deref()).and_then(|t| setup::join(&host, &t, address));
            done(joined.map(|address| tokens::joined(address, &host.config)))
        }
        Command::Token { what: TokenCommand::Create { terms, config } } => {
            with_config(&config, |config| done(setup::token(config, terms.into()).map(|token| format!("{token}\n"))))
        }
        Command::Token { what: TokenCommand::List { json, config } } => with_config(&config, |config| {
            done(setup::tokens(config).and_then(|kept| kept.list(today())).and_then(|found| tokens::show(&found, json)))
        }),
        Command::Token { what: TokenCommand::Revoke { id, config } } => with_config(&config, |config| {
            done(setup::tokens(config).and_then(|kept| kept.revoke(&id)).map(|()| String::new()))
        }),
        Command::Fleet { what: Some(FleetCommand::Remove { address, config }), .. } => {
            with_config(&config, |config| done(setup::remove(config, address).map(|()| tokens::removed(address))))
        }
        Command::Fleet { what: Some(FleetCommand::Alias { address, aliases, config }), .. } => {
            let text = tokens::vouched(address, &aliases);
            with_config(&config, |config| done(setup::vouch(config, address, aliases).map(|()| text)))
        }
        Command::Fleet { what: Some(FleetCommand::Aliases { json, config }), .. } => {
            with_config(&config, |config| {
                done(setup::aliases(config).and_then(|all| {
                    if json { Ok(serde_json::to_string(&all)? + "\n") } else { Ok(tokens::aliases(&all)) }
                }))
            })
        }
        Command::Fleet { what: None, config, json } => {
            ask(&config, |fleet| if json { Ok(serde_json::to_string(fleet)? + "\n") } else { Ok(hosts::show(fleet)) })
        }
        Command::Policy { what } => change_policy(what),
        Command::Rollout { labels, steps, threshold, guard, lasts, if_open, message, config } => {
            let order = rollout::Order {
                steps: rollout::plan::all(labels, steps.unwrap_or_default()),
                threshold,
                guards: guard,
                lasts,
                open_is_fine: if_open == IfOpen::GoOn,
                message,
            };
            with_config(&config, |config| match rollout::run(config, &order) {
                Ok(rollout::End::Done) => ExitCode::SUCCESS,
                Ok(rollout::End::Back) => ExitCode::FAILURE,
                Err(e) => done(Err(e)),
            })
        }
        Command::StopHolding { fleet: true, end, message, config, .. } => {
            with_config(&config, |config| done(policy::stop_holding(config, end, message)))
        }
        Command::StopHolding { end, state_dir, message, .. } => done(stop_here(&state_dir, end, message.as_deref())),
        Command::Owd { config, json, png } => ask(&config, |fleet| delays(fleet, json, png.as_deref())),
        Command::Replay { files, json } => done(replay::run(&files).and_then(|windows| {
            if json { Ok(serde_json::to_string(&windows)? + "\n") } else { Ok(replay::show(&windows)) }
        })),
        Command::CheckConfig { file } => with_config(&file, |_| ExitCode::SUCCESS),
        Command::Doctor { config, json } => diagnose(config.as_deref(), json),
        Command::Status { json, flows, socket } => asked(&socket, show_status(json, flows.unwrap_or(0), &socket)),
        Command::Scope { dry_run: None, json, socket, .. } => asked(&socket, show_scope(json, &socket)),
        Command::Scope { dry_run: Some(file), lasts, json, socket } => match scope::read(&file) {
            Ok(rules) => asked(&socket, dry_run(rules, Duration::from_secs(lasts.0), json, &socket)),
            Err(errors) => {
                errors.iter().for_each(|e| eprintln!("{e}"));
                ExitCode::from(2)
            }
        },
        Command::Top { socket } => asked(&socket, top::run(&socket)),
        Command::Report { since, until, peer, json, html, socket } => {
            done(report::run(&report::Order { socket, since, until, peers: peer, json, html }))
        }
        Command::Exporter { listen, max_paths, socket } => {
            exporter::run(listen, max_paths, &socket).map_or_else(fail, |()| ExitCode::SUCCESS)
        }
        Command::Dashboard { listen, socket, config } => {
            let run =
                |socket: &Path, fleet| dashboard::run(listen, socket, fleet).map_or_else(fail, |()| ExitCode::SUCCESS);
            // Without its file the agent can still be asked.
            let Some(config) = config else {
                let (default, fleet) = dashboard::unasked(Path::new(DEFAULT_CONFIG));
                return run(&socket.unwrap_or(default), fleet);
            };
            with_config(&config, |found| run(socket.as_ref().unwrap_or(&found.socket), dashboard::fleet(found)))
        }
        Command::Record { out, lasts, max_size, hash_addresses: key, interface, config } => {
            let lasts = lasts.map(|lasts| lasts.0.saturating_mul(1_000_000_000));
            let order = |interfaces, socket, coordinators, port| record::Order {
                interfaces,
                socket,
                coordinators,
                port,
                out,
                most: max_size.0,
                lasts,
                key,
            };
            if !interface.is_empty() && !config.exists() {
                return done(record::run(&order(interface, DEFAULT_SOCKET.into(), Vec::new(), 0)));
            }
            with_config(&config, |found| {
                let interfaces = if interface.is_empty() { found.interfaces.clone() } else { interface };
                let coordinators = found.fleet.as_ref().map_or(Vec::new(), |fleet| fleet.coordinators.clone());
                done(record::run(&order(interfaces, found.socket.clone(), coordinators, found.port)))
            })
        }
        Command::NodeLabels { keys, account } => done(node_labels::run(&keys, &account)),
        Command::Documents { folder } => done(documents::write(Cli::command(), &folder).map(|()| String::new())),
    }
}

fn change_policy(what: PolicyCommand) -> ExitCode {
    match what {
        PolicyCommand::Show { json, config } => with_config(&config, |config| done(policy::show(config, json))),
        PolicyCommand::Diff { a, b, config } => {
            with_config(&config, |config| done(policy::diff(config, a.as_deref(), b.as_deref())))
        }
        PolicyCommand::Set { file, message, config } => with_config(&config, |config| match policy::read(&file) {
            Ok(policy) => done(policy::set(config, policy, message)),
            Err(errors) => {
                errors.iter().for_each(|e| eprintln!("onrampctl: {e}"));
                ExitCode::from(2)
            }
        }),
        PolicyCommand::History { json, config } => with_config(&config, |config| done(policy::history(config, json))),
        PolicyCommand::Rollback { version, message, config } => {
            with_config(&config, |config| done(policy::rollback(config, version, message)))
        }
    }
}

/// Stops holding on this host, or ends that.
fn stop_here(state_dir: &Path, end: bool, message: Option<&str>) -> io::Result<String> {
    if end {
        let was = off::on(state_dir)?;
        return Ok(if was {
            "this host holds again as policy and configuration say\n"
        } else {
            "holding was not stopped\n"
        }
        .into());
    }
    off::off(state_dir, message)?;
    Ok("this host holds nothing until onrampctl stop-holding --end or a reboot\n".into())
}

fn done(text: io::Result<String>) -> ExitCode {
    match text {
        Ok(text) => {
            // A reader that has seen enough does not make it a failure.
            let _ = io::stdout().write_all(text.as_bytes());
            ExitCode::SUCCESS
        }
        Err(e) if e.kind() == io::ErrorKind::InvalidInput => {
            eprintln!("onrampctl: {e}");
            ExitCode::from(2)
        }
        Err(e) => fail(e),
    }
}

fn with_config(file: &Path, work: impl FnOnce(&Config) -> ExitCode) -> ExitCode {
    match Config::open(file) {
        Ok(config) => work(&config),
        Err(errors) => {
            errors.iter().for_each(|e| eprintln!("{}", with_remedy(e.to_string())));
            ExitCode::from(2)
        }
    }
}

/// Appends the remedy to an error that says that the system refuses this user.
fn with_remedy(e: String) -> String {
    let is_refused = ["Permission denied", "Operation not permitted"].iter().any(|refusal| e.contains(refusal));
    if is_refused && !geteuid().is_root() { e + ": run it as root" } else { e }
}

/// Prints what `show` makes of the state of the configuration's fleet.
fn ask(config: &Path, show: impl FnOnce(&wire::Fleet) -> io::Result<String>) -> ExitCode {
    with_fleet(config, |fleet| {
        done(coordinator::fleet(&fleet.coordinators, &fleet.folder).and_then(|found| show(&found)))
    })
}

fn with_fleet(config: &Path, work: impl FnOnce(&Fleet) -> ExitCode) -> ExitCode {
    with_config(config, |checked| match &checked.fleet {
        Some(fleet) => work(fleet),
        None => {
            eprintln!("{}: has no [fleet]: `onrampctl init` or `onrampctl join` writes one", config.display());
            ExitCode::from(2)
        }
    })
}

fn delays(fleet: &wire::Fleet, json: bool, png: Option<&Path>) -> io::Result<String> {
    let matrix = Matrix::of(fleet);
    if let Some(path) = png {
        let written = std::fs::write(path, heatmap::png(&matrix)?);
        written.map_err(|e| io::Error::new(e.kind(), format!("{}: {e}", path.display())))?;
    }
    if json { Ok(serde_json::to_string(&matrix)? + "\n") } else { Ok(table::show(&matrix)) }
}

fn fail(e: impl Display) -> ExitCode {
    eprintln!("onrampctl: {}", with_remedy(e.to_string()));
    ExitCode::FAILURE
}

/// The end of a command that asks the agent.
fn asked(socket: &Path, done: io::Result<()>) -> ExitCode {
    match done {
        Ok(()) => ExitCode::SUCCESS,
        // The reader has seen enough.
        Err(e) if e.kind() == io::ErrorKind::BrokenPipe => ExitCode::SUCCESS,
        Err(e) => fail(agent::unanswered(socket, &e)),
    }
}

fn diagnose(config: Option<&Path>, json: bool) -> ExitCode {
    let report = doctor::examine(config);
    let text = if json { serde_json::json!(report).to_string() + "\n" } else { report.text() };
    // A reader that has seen enough does not change the verdict.
    let _ = io::stdout().write_all(text.as_bytes());
    if report.ok { ExitCode::SUCCESS } else { ExitCode::FAILURE }
}

fn show_scope(json: bool, socket: &Path) -> io::Result<()> {
    let rows = Client::connect(socket)?.status(0, false)?.scope;
    let text = if json { serde_json::to_string(&rows)? } else { scope::lines(&rows).join("\n") };
    writeln!(io::stdout(), "{text}")
}

fn dry_run(rules: Vec<Rule>, lasts: Duration, json: bool, socket: &Path) -> io::Result<()> {
    let run = scope::dry_run(socket, rules, lasts)?;
    let text = if json { serde_json::to_string(&run)? + "\n" } else { scope::show(&run, lasts) };
    io::stdout().write_all(text.as_bytes())
}

fn show_status(json: bool, flows: usize, socket: &Path) -> io::Result<()> {
    let mut client = Client::connect(socket)?;
    let text = if json { client.line(flows, false)? } else { status::show(&client.status(flows, false)?) };
    io::stdout().write_all(text.as_bytes())
}
