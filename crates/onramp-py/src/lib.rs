//! The Python module `onramp._sim`: a thin face of [`onramp_sim`].
//!
//! Tables cross as columns of little-endian bytes, which Python wraps without
//! copying; everything long runs without the GIL.

use onramp_sim::clock::accuracy::ClockRecord;
use onramp_sim::measure::trace::Capture;
use onramp_sim::measure::{FlowRecord, NextRecord, RequestRecord, Sample};
use onramp_sim::scenario::Substrate;
use onramp_sim::units::{Ps, US};
use onramp_sim::workload::exchange::ExchangeRecord;
use onramp_sim::{Options, Scenario, ScenarioError};
use pyo3::exceptions::PyValueError;
use pyo3::prelude::*;
use pyo3::types::{PyBytes, PyDict};
use std::path::Path;
use std::time::{Duration, Instant};

pyo3::create_exception!(_sim, ScenarioErrors, PyValueError, "What is wrong with a scenario, one line a mistake.");

fn scenario_errors(errors: Vec<ScenarioError>) -> PyErr {
    let lines: Vec<String> = errors.iter().map(ToString::to_string).collect();
    ScenarioErrors::new_err(lines.join("\n"))
}

/// Checks a scenario, for "sim", "linux" or (None) any of them, and returns it as
/// TOML with every default written out.
#[pyfunction]
#[pyo3(signature = (text, file, base, overrides, on=None))]
fn resolve(
    py: Python<'_>,
    text: &str,
    file: &str,
    base: &str,
    overrides: Vec<(String, String)>,
    on: Option<&str>,
) -> PyResult<String> {
    let known =
        |name| Substrate::named(name).ok_or_else(|| PyValueError::new_err(format!("on: {name} is not sim, linux")));
    let on = on.map(known).transpose()?;
    py.detach(|| Scenario::load_for(on, text, file, Path::new(base), &overrides))
        .map(|(scenario, _)| scenario.to_toml())
        .map_err(scenario_errors)
}

/// The files a resolved scenario refers to, as (dotted key, path as written).
#[pyfunction]
fn input_files(resolved: &str) -> PyResult<Vec<(String, String)>> {
    let scenario = Scenario::from_resolved(resolved).map_err(|e| PyValueError::new_err(e.to_string()))?;
    Ok(scenario.input_files())
}

/// Checks the numbers of flows of a resolved scenario that are to be traced.
#[pyfunction]
fn check_traced(py: Python<'_>, resolved: &str, base: &str, flows: Vec<u64>) -> PyResult<()> {
    let base = Path::new(base);
    py.detach(|| {
        let (scenario, topology) = Scenario::load(resolved, "scenario", base, &[]).map_err(scenario_errors)?;
        scenario.check_traced(&topology, base, &flows).map_err(ScenarioErrors::new_err)
    })
}

/// Version of the simulator.
#[pyfunction]
fn version() -> &'static str {
    env!("CARGO_PKG_VERSION")
}

/// One run of a resolved scenario.
#[pyclass]
struct Simulation {
    sim: onramp_sim::Simulation,
}

#[pymethods]
impl Simulation {
    #[new]
    #[pyo3(signature = (resolved, base, threads=1, traced=Vec::new()))]
    fn new(py: Python<'_>, resolved: &str, base: &str, threads: usize, traced: Vec<u64>) -> PyResult<Self> {
        let base = Path::new(base);
        py.detach(|| {
            let (scenario, topology) = Scenario::load(resolved, "scenario", base, &[]).map_err(scenario_errors)?;
            let options = Options { traced, ..Options::default() };
            let sim = onramp_sim::Simulation::with(&scenario, topology, base, &options);
            let mut sim = sim.map_err(ScenarioErrors::new_err)?;
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
        flow_columns(py, &self.sim.take_flows())
    }

    fn unfinished_flows<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyDict>> {
        flow_columns(py, &self.sim.unfinished_flows())
    }

    fn take_requests<'py>(&mut self, py: Python<'py>) -> PyResult<Bound<'py, PyDict>> {
        let rows = self.sim.take_requests();
        let columns = Columns { py, rows: &rows, dict: PyDict::new(py) };
        columns
            .add("id", |r: &RequestRecord| r.id.to_le_bytes())?
            .add("traffic", |r| r.traffic.to_le_bytes())?
            .add("requester", |r| r.requester.to_le_bytes())?
            .add("flows", |r| r.flows.to_le_bytes())?
            .add("bytes", |r| r.bytes.to_le_bytes())?
            .add("start_ps", |r| r.start_ps.to_le_bytes())?
            .add("rct_ps", |r| r.rct_ps.to_le_bytes())?
            .add("receiver_rct_ps", |r| r.receiver_rct_ps.to_le_bytes())
            .map(|c| c.dict)
    }

    fn take_exchanges<'py>(&mut self, py: Python<'py>) -> PyResult<Bound<'py, PyDict>> {
        let rows = self.sim.take_exchanges();
        let columns = Columns { py, rows: &rows, dict: PyDict::new(py) };
        columns
            .add("traffic", |e: &ExchangeRecord| e.traffic.to_le_bytes())?
            .add("session", |e| e.session.to_le_bytes())?
            .add("number", |e| e.number.to_le_bytes())?
            .add("client", |e| e.client.to_le_bytes())?
            .add("server", |e| e.server.to_le_bytes())?
            .add("bytes", |e| e.bytes.to_le_bytes())?
            .add("write", |e| [u8::from(e.write)])?
            .add("start_ps", |e| e.start_ps.to_le_bytes())?
            .add("latency_ps", |e| e.latency_ps.to_le_bytes())
            .map(|c| c.dict)
    }

    fn take_series<'py>(&mut self, py: Python<'py>) -> PyResult<Bound<'py, PyDict>> {
        let rows = self.sim.take_samples();
        let columns = Columns { py, rows: &rows, dict: PyDict::new(py) };
        columns
            .add("time_ps", |s: &Sample| s.time_ps.to_le_bytes())?
            .add("name", |s| s.series.to_le_bytes())?
            .add("value", |s| s.value.to_le_bytes())
            .map(|c| c.dict)
    }

    fn take_clock<'py>(&mut self, py: Python<'py>) -> PyResult<Bound<'py, PyDict>> {
        let rows = self.sim.take_clock_records();
        let columns = Columns { py, rows: &rows, dict: PyDict::new(py) };
        columns
            .add("time_ps", |c: &ClockRecord| c.time_ps.to_le_bytes())?
            .add("host", |c| c.host.to_le_bytes())?
            .add("error_ns", |c| c.error_ns.to_le_bytes())?
            .add("uncertainty_ns", |c| c.uncertainty_ns.to_le_bytes())
            .map(|c| c.dict)
    }

    fn next_owd<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyDict>> {
        let rows = self.sim.next_records();
        let columns = Columns { py, rows: &rows, dict: PyDict::new(py) };
        columns
            .add("time_ps", |r: &NextRecord| r.time_ps.to_le_bytes())?
            .add("src", |r| r.src.to_le_bytes())?
            .add("dst", |r| r.dst.to_le_bytes())?
            .add("owd_ns", |r| r.owd_ns.to_le_bytes())?
            .add("rtt_ns", |r| r.rtt_ns.to_le_bytes())?
            .add("next_owd_ns", |r| r.next_owd_ns.to_le_bytes())
            .map(|c| c.dict)
    }

    /// Files with the packets of the flows that are traced: name, content, packets left out.
    fn captures<'py>(&self, py: Python<'py>) -> Vec<(String, Bound<'py, PyBytes>, u64)> {
        let captures = py.detach(|| self.sim.captures());
        let file = |c: &Capture| (c.name("sim"), PyBytes::new(py, &c.pcap), c.left_out);
        captures.iter().map(file).collect()
    }

    fn series_names(&self) -> Vec<String> {
        self.sim.series_names().to_vec()
    }

    /// JSON with the parts of summary.json that do not come from flows.
    fn counters(&self) -> String {
        self.sim.counters().to_string()
    }

    fn __repr__(&self) -> String {
        format!("<Simulation at {} us, {} flows done>", self.sim.now() / US, self.sim.flows_finished())
    }
}

/// Rows being turned into columns.
struct Columns<'py, 'a, R> {
    py: Python<'py>,
    rows: &'a [R],
    dict: Bound<'py, PyDict>,
}

impl<R> Columns<'_, '_, R> {
    fn add<const N: usize>(self, name: &str, value: impl Fn(&R) -> [u8; N]) -> PyResult<Self> {
        let column = PyBytes::new_with(self.py, self.rows.len() * N, |bytes| {
            for (slot, row) in bytes.chunks_exact_mut(N).zip(self.rows) {
                slot.copy_from_slice(&value(row));
            }
            Ok(())
        })?;
        self.dict.set_item(name, column)?;
        Ok(self)
    }
}

fn flow_columns<'py>(py: Python<'py>, rows: &[FlowRecord]) -> PyResult<Bound<'py, PyDict>> {
    let columns = Columns { py, rows, dict: PyDict::new(py) };
    columns
        .add("id", |f: &FlowRecord| f.id.to_le_bytes())?
        .add("traffic", |f| f.traffic.to_le_bytes())?
        .add("request", |f| f.request.map_or(-1, |r| r as i64).to_le_bytes())?
        .add("src", |f| f.src.to_le_bytes())?
        .add("dst", |f| f.dst.to_le_bytes())?
        .add("bytes", |f| f.bytes.to_le_bytes())?
        .add("start_ps", |f| f.start_ps.to_le_bytes())?
        .add("fct_ps", |f| f.fct_ps.to_le_bytes())?
        .add("receiver_fct_ps", |f| f.receiver_fct_ps.to_le_bytes())?
        .add("ideal_ps", |f| f.ideal_ps.to_le_bytes())?
        .add("retransmitted", |f| f.retransmitted.to_le_bytes())?
        .add("timeouts", |f| f.timeouts.to_le_bytes())?
        .add("paused_ps", |f| f.paused_ps.to_le_bytes())
        .map(|c| c.dict)
}

/// The module.
#[pymodule]
fn _sim(m: &Bound<'_, PyModule>) -> PyResult<()> {
    m.add("ScenarioError", m.py().get_type::<ScenarioErrors>())?;
    m.add_class::<Simulation>()?;
    m.add_function(wrap_pyfunction!(resolve, m)?)?;
    m.add_function(wrap_pyfunction!(input_files, m)?)?;
    m.add_function(wrap_pyfunction!(check_traced, m)?)?;
    m.add_function(wrap_pyfunction!(version, m)?)?;
    Ok(())
}
