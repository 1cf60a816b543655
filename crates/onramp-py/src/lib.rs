//! The Python module `onramp._sim`: a thin face of [`onramp_sim`].
//!
//! Tables cross as columns of little-endian bytes, which Python wraps without
//! copying; everything long runs without the GIL.

use onramp_sim::measure::trace::Capture;
use onramp_sim::records::{self, Column, Record};
use onramp_sim::scenario::{self, Runner, Substrate};
use onramp_sim::topology::Topology;
use onramp_sim::units::{Ps, US};
use onramp_sim::{Options, Scenario, ScenarioError};
use pyo3::exceptions::PyValueError;
use pyo3::prelude::*;
use pyo3::types::{PyBytes, PyDict};
use serde_json::{Value, json};
use std::path::PathBuf;
use std::sync::Arc;
use std::time::{Duration, Instant};

/// Exceptions of the Python package.
mod errors {
    pyo3::import_exception!(onramp.errors, ScenarioError);
}

fn scenario_errors(errors: Vec<ScenarioError>) -> PyErr {
    let lines: Vec<String> = errors.iter().map(ToString::to_string).collect();
    errors::ScenarioError::new_err(lines.join("\n"))
}

/// A checked scenario in which every value is written out, and its network.
#[pyclass(frozen)]
struct Loaded {
    scenario: Scenario,
    topology: Arc<Topology>,
    base: PathBuf,
    advice: Vec<String>,
}

#[pymethods]
impl Loaded {
    /// Checks a scenario, for "sim", "linux" or (None) any of them; one without a name is called `name`.
    #[new]
    #[pyo3(signature = (text, file, base, overrides=Vec::new(), on=None, name="scenario"))]
    fn new(
        py: Python<'_>,
        text: &str,
        file: &str,
        base: PathBuf,
        overrides: Vec<(String, String)>,
        on: Option<&str>,
        name: &str,
    ) -> PyResult<Self> {
        let known =
            |name| Substrate::named(name).ok_or_else(|| PyValueError::new_err(format!("on: {name} is not sim, linux")));
        let on = on.map(known).transpose()?;
        let runner = Runner { substrate: on, own_parts: false };
        let loaded = py.detach(|| Scenario::load_for(runner, text, file, &base, &overrides));
        let scenario::Loaded { mut scenario, topology, advice } = loaded.map_err(scenario_errors)?;
        if scenario.name.is_empty() {
            scenario.name = name.into();
        }
        let advice = advice.iter().map(ToString::to_string).collect();
        Ok(Self { scenario, topology: Arc::new(topology), base, advice })
    }

    /// The scenario as TOML.
    #[getter]
    fn text(&self) -> String {
        self.scenario.to_toml()
    }

    /// Names of the network's hosts, in order.
    #[getter]
    fn hosts(&self) -> Vec<String> {
        (0..self.topology.hosts() as u32).map(|host| self.topology.name(host).to_string()).collect()
    }

    /// Names of all nodes, hosts first, in order.
    #[getter]
    fn nodes(&self) -> Vec<String> {
        (0..self.topology.nodes() as u32).map(|node| self.topology.name(node).to_string()).collect()
    }

    /// Values that are possible, but hardly meant: a line each.
    #[getter]
    fn advice(&self) -> Vec<String> {
        self.advice.clone()
    }

    /// Facts of the scenario before its run, as JSON.
    fn explain(&self, py: Python<'_>) -> PyResult<String> {
        let found = py.detach(|| self.scenario.explain(&self.topology, &self.base));
        let found = found.map_err(|e| errors::ScenarioError::new_err(e.to_string()))?;
        serde_json::to_string(&found).map_err(|e| PyValueError::new_err(e.to_string()))
    }

    /// Numbers of the flows of a request.
    fn flows_of(&self, py: Python<'_>, request: u64) -> PyResult<Vec<u64>> {
        let found = py.detach(|| self.scenario.flows_of(&self.topology, &self.base, request));
        found.map_err(|e| errors::ScenarioError::new_err(e.to_string()))
    }

    /// Checks the numbers of flows that are to be traced.
    fn check_traced(&self, py: Python<'_>, flows: Vec<u64>) -> PyResult<()> {
        let checked = py.detach(|| self.scenario.check_traced(&self.topology, &self.base, &flows));
        checked.map_err(|e| errors::ScenarioError::new_err(e.to_string()))
    }
}

/// A resolved scenario whose input files are elsewhere: by dotted key their paths.
#[pyfunction]
fn with_input_files(resolved: &str, paths: Vec<(String, String)>) -> PyResult<String> {
    let moved = Scenario::with_input_files(resolved, &paths);
    moved.map(|scenario| scenario.to_toml()).map_err(|e| PyValueError::new_err(e.to_string()))
}

/// The files a resolved scenario refers to, as (dotted key, path as written).
#[pyfunction]
fn input_files(resolved: &str) -> PyResult<Vec<(String, String)>> {
    let scenario = Scenario::from_resolved(resolved).map_err(|e| PyValueError::new_err(e.to_string()))?;
    Ok(scenario.input_files())
}

/// Ranks of a program's file; a file that does not say how many has `usual`. `None` if its name is that of no program.
#[pyfunction]
fn ranks(py: Python<'_>, file: &str, usual: u32) -> PyResult<Option<usize>> {
    let read = py.detach(|| onramp_sim::workload::formats::ranks(file, usual));
    read.map_err(PyValueError::new_err)
}

/// How the results of a resolved scenario's sections are summed up, as JSON: a list of groups, and the sections whose
/// flows end when the scenario says.
#[pyfunction]
fn groups(resolved: &str) -> PyResult<String> {
    let scenario = Scenario::from_resolved(resolved).map_err(|e| PyValueError::new_err(e.to_string()))?;
    Ok(json!({"groups": scenario.groups(), "endless": scenario.endless()}).to_string())
}

/// Files of the crate that controllers in libraries of their own are written with: path, content.
#[pyfunction]
fn controller_crate() -> Vec<(&'static str, &'static str)> {
    vec![
        ("src/abi.rs", include_str!("../../onramp-controller/src/abi.rs")),
        ("src/int.rs", include_str!("../../onramp-controller/src/int.rs")),
        ("src/keys.rs", include_str!("../../onramp-controller/src/keys.rs")),
        ("src/lib.rs", include_str!("../../onramp-controller/src/lib.rs")),
    ]
}

/// Version of the simulator.
#[pyfunction]
fn version() -> &'static str {
    env!("CARGO_PKG_VERSION")
}

/// One run of a scenario.
#[pyclass]
struct Simulation {
    sim: onramp_sim::Simulation,
}

#[pymethods]
impl Simulation {
    #[new]
    #[pyo3(signature = (loaded, threads=1, traced=Vec::new(), ways=false, timeline=false, skip=true))]
    fn new(
        py: Python<'_>,
        loaded: &Loaded,
        threads: usize,
        traced: Vec<u64>,
        ways: bool,
        timeline: bool,
        skip: bool,
    ) -> PyResult<Self> {
        py.detach(|| {
            let options = Options { traced, ways, timeline, no_skip: !skip, ..Options::default() };
            let topology = Arc::clone(&loaded.topology);
            let sim = onramp_sim::Simulation::with(&loaded.scenario, topology, &loaded.base, &options);
            let mut sim = sim.map_err(|e| errors::ScenarioError::new_err(e.to_string()))?;
            sim.set_threads(threads);
            Ok(Self { sim })
        })
    }

    /// Simulates for about `wall_ms` of wall time; true when the run is over.
    fn advance(&mut self, py: Python<'_>, wall_ms: u64) -> bool {
        // Some ten milliseconds: far more than it takes to start threads.
        const EVENTS: u64 = 300_000;
        let end = Instant::now() + Duration::from_millis(wall_ms);
        py.detach(|| {
            loop {
                if self.sim.run(Ps::MAX, EVENTS) {
                    return true;
                }
                if Instant::now() >= end {
                    return false;
                }
            }
        })
    }

    /// How a controller of a library failed, if one has: then there are no results.
    #[getter]
    fn failure(&self) -> Option<String> {
        self.sim.failure()
    }

    /// A line that says how many iterations were skipped, or why none was; None where nothing repeats.
    #[getter]
    fn skipping(&self) -> Option<String> {
        self.sim.skipping()
    }

    #[getter]
    fn progress(&self) -> f64 {
        self.sim.progress()
    }

    #[getter]
    fn now_ps(&self) -> u64 {
        self.sim.now()
    }

    #[getter]
    fn packet_hops(&self) -> u64 {
        self.sim.packet_hops()
    }

    #[getter]
    fn flows_started(&self) -> u64 {
        self.sim.flows_started()
    }

    #[getter]
    fn flows_done(&self) -> u64 {
        self.sim.flows_finished()
    }

    fn take_flows<'py>(&mut self, py: Python<'py>) -> PyResult<Bound<'py, PyDict>> {
        columns(py, &self.sim.take_flows())
    }

    fn unfinished_flows<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyDict>> {
        columns(py, &self.sim.unfinished_flows())
    }

    fn take_requests<'py>(&mut self, py: Python<'py>) -> PyResult<Bound<'py, PyDict>> {
        columns(py, &self.sim.take_requests())
    }

    fn take_exchanges<'py>(&mut self, py: Python<'py>) -> PyResult<Bound<'py, PyDict>> {
        columns(py, &self.sim.take_exchanges())
    }

    fn take_operations<'py>(&mut self, py: Python<'py>) -> PyResult<Bound<'py, PyDict>> {
        columns(py, &self.sim.take_operations())
    }

    fn take_collectives<'py>(&mut self, py: Python<'py>) -> PyResult<Bound<'py, PyDict>> {
        columns(py, &self.sim.take_collectives())
    }

    fn take_series<'py>(&mut self, py: Python<'py>) -> PyResult<Bound<'py, PyDict>> {
        columns(py, &self.sim.take_samples())
    }

    fn take_clock<'py>(&mut self, py: Python<'py>) -> PyResult<Bound<'py, PyDict>> {
        columns(py, &self.sim.take_clock_records())
    }

    fn take_messages<'py>(&mut self, py: Python<'py>) -> PyResult<Bound<'py, PyDict>> {
        columns(py, &self.sim.take_messages())
    }

    fn take_pauses<'py>(&mut self, py: Python<'py>) -> PyResult<Bound<'py, PyDict>> {
        columns(py, &self.sim.take_pauses())
    }

    fn pauses_under_way<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyDict>> {
        columns(py, &self.sim.pauses_under_way())
    }

    fn goodput<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyDict>> {
        columns(py, &self.sim.goodput())
    }

    fn links<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyDict>> {
        columns(py, &self.sim.links())
    }

    fn next_owd<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyDict>> {
        columns(py, &self.sim.next_records())
    }

    /// Files with the packets of the flows that are traced: name, content, packets left out.
    fn captures<'py>(&self, py: Python<'py>) -> Vec<(String, Bound<'py, PyBytes>, u64)> {
        let captures = py.detach(|| self.sim.captures());
        let file = |c: &Capture| (c.name("sim"), PyBytes::new(py, &c.pcap), c.left_out);
        captures.iter().map(file).collect()
    }

    /// Ways of the packets of the flows that are traced, as JSON.
    fn ways(&self, py: Python<'_>) -> PyResult<String> {
        py.detach(|| serde_json::to_string(&self.sim.ways())).map_err(|e| PyValueError::new_err(e.to_string()))
    }

    /// The network over time so far as JSON; null without a timeline.
    fn picture(&self, py: Python<'_>) -> PyResult<String> {
        py.detach(|| serde_json::to_string(&self.sim.picture())).map_err(|e| PyValueError::new_err(e.to_string()))
    }

    fn series_names(&self) -> Vec<String> {
        self.sim.series_names().to_vec()
    }

    /// JSON with the parts of summary.json that do not come from flows.
    fn counters(&self) -> String {
        // By way of a value, keys are sorted.
        json!(self.sim.counters()).to_string()
    }

    fn __repr__(&self) -> String {
        format!("<Simulation at {} us, {} flows done>", self.sim.now() / US, self.sim.flows_finished())
    }
}

/// Rows as columns, by name.
fn columns<'py, R: Record>(py: Python<'py>, rows: &[R]) -> PyResult<Bound<'py, PyDict>> {
    let columns = PyDict::new(py);
    for (column, bytes) in R::COLUMNS.iter().zip(R::columns(rows)) {
        columns.set_item(column.name, PyBytes::new(py, &bytes))?;
    }
    Ok(columns)
}

/// The tables of a run as JSON: by name a list of columns with name, kind, unit, meaning, nullable.
#[pyfunction]
fn schemas() -> String {
    let column = |c: &Column| json!({"name": c.name, "kind": c.kind, "unit": c.unit, "meaning": c.meaning, "nullable": c.nullable});
    let table = |(name, columns): (&str, &[Column])| (name.to_string(), columns.iter().map(column).collect::<Value>());
    Value::Object(records::tables().into_iter().map(table).collect()).to_string()
}

/// The module.
#[pymodule]
fn _sim(m: &Bound<'_, PyModule>) -> PyResult<()> {
    m.add_class::<Loaded>()?;
    m.add_class::<Simulation>()?;
    m.add_function(wrap_pyfunction!(with_input_files, m)?)?;
    m.add_function(wrap_pyfunction!(input_files, m)?)?;
    m.add_function(wrap_pyfunction!(ranks, m)?)?;
    m.add_function(wrap_pyfunction!(groups, m)?)?;
    m.add_function(wrap_pyfunction!(schemas, m)?)?;
    m.add_function(wrap_pyfunction!(controller_crate, m)?)?;
    m.add_function(wrap_pyfunction!(version, m)?)?;
    Ok(())
}
