//! The guest's side: the only process of a freshly booted kernel.

mod agents;
mod capture;
mod clocks;
mod cluster;
mod connections;
mod counters;
mod edges;
mod exec;
mod files;
mod load;
mod next_owd;
mod nvme;
mod programs;
mod results;
mod series;

use crate::sys;
use crate::task::{FOLDER, Said, TASK, Task, Work};
use cluster::Cluster;
use onramp_sim::Scenario;
use onramp_sim::scenario::Substrate;
use std::fmt::Display;
use std::io::Write;
use std::path::{Path, PathBuf};

/// Error in one line.
type Result<T> = std::result::Result<T, String>;

/// The result folder in the guest.
const OUT: &str = "/run/out";
/// The host's files in the guest, also where the guest has others of its own.
const HOST: &str = "/run/host";

/// Puts the place before an error.
fn at<E: Display>(place: impl Display) -> impl FnOnce(E) -> String {
    move |error| format!("{place}: {error}")
}

/// Says a line on the console.
fn say(said: &Said) {
    let line = serde_json::to_string(said).expect("all it says is JSON");
    // Nobody would hear of an error here either.
    let _ = writeln!(std::io::stdout(), "{line}");
    let _ = std::io::stdout().flush();
}

/// Does the task and switches the machine off.
pub fn main() -> ! {
    std::panic::set_hook(Box::new(|panic| say(&Said::Error(format!("the cluster's load failed: {panic}")))));
    let done = std::panic::catch_unwind(|| work().unwrap_or_else(Said::Error));
    if let Ok(said) = done {
        say(&said);
    }
    sys::power_off()
}

fn work() -> Result<Said> {
    files::mount_all(&std::env::var(FOLDER).map_err(at(FOLDER))?)?;
    let out = Path::new(OUT);
    let task = std::fs::read(out.join(TASK)).map_err(at(TASK))?;
    let task: Task = serde_json::from_slice(&task).map_err(at(TASK))?;
    let base = on_host(&task.base);
    let loaded = Scenario::load_for(Some(Substrate::Linux), &task.scenario, "scenario", &base, &[])
        .map_err(|errors| errors[0].to_string())?;
    let (scenario, topology) = (loaded.scenario, loaded.topology);
    let mut cluster = Cluster::new(&scenario, &topology)?;
    let agents = match &task.agent {
        Some(program) => agents::start(&on_host(program), &scenario, &topology, &cluster)?,
        None => agents::Agents::default(),
    };
    match task.work {
        Work::Run(jobs) => {
            let beside = exec::start(&jobs, &topology, &cluster, out)?;
            let said = load::run(&scenario, &topology, &base, &mut cluster, agents, &task.traced, out)?;
            beside.finish(out)?;
            Ok(said)
        }
        Work::Exec(jobs) => {
            let status = exec::start(&jobs, &topology, &cluster, out).and_then(|running| running.finish(out));
            agents.stop()?;
            Ok(Said::Done { complete: true, status: status? })
        }
    }
}

/// A path of the host as it is seen in the guest.
fn on_host(path: &Path) -> PathBuf {
    Path::new(HOST).join(path.strip_prefix("/").unwrap_or(path))
}
