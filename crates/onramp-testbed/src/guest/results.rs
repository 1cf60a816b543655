//! The files the guest leaves: records of a fixed length, one after the other, as
//! Python reads them.

use super::{Result, at};
use onramp_sim::clock::accuracy::ClockRecord;
use onramp_sim::measure::trace::Capture;
use onramp_sim::measure::{FlowRecord, RequestRecord, Sample};
use onramp_sim::workload::exchange::ExchangeRecord;
use serde_json::json;
use std::collections::BTreeMap;
use std::fs::File;
use std::io::{BufWriter, Write};
use std::path::Path;

fn flow(f: &FlowRecord) -> Vec<u8> {
    let mut bytes = Vec::new();
    bytes.extend(f.id.to_le_bytes());
    bytes.extend(f.traffic.to_le_bytes());
    bytes.extend(f.request.map_or(-1, |r| r as i64).to_le_bytes());
    bytes.extend(f.src.to_le_bytes());
    bytes.extend(f.dst.to_le_bytes());
    for value in [f.bytes, f.start_ps, f.fct_ps, f.receiver_fct_ps, f.ideal_ps] {
        bytes.extend(value.to_le_bytes());
    }
    bytes.extend(f.retransmitted.to_le_bytes());
    bytes.extend(f.timeouts.to_le_bytes());
    bytes.extend(f.paused_ps.to_le_bytes());
    bytes
}

fn request(r: &RequestRecord) -> Vec<u8> {
    let mut bytes = Vec::new();
    bytes.extend(r.id.to_le_bytes());
    for value in [r.traffic, r.requester, r.flows] {
        bytes.extend(value.to_le_bytes());
    }
    for value in [r.bytes, r.start_ps, r.rct_ps, r.receiver_rct_ps] {
        bytes.extend(value.to_le_bytes());
    }
    bytes
}

fn sample(s: &Sample) -> Vec<u8> {
    let mut bytes = Vec::new();
    bytes.extend(s.time_ps.to_le_bytes());
    bytes.extend(s.series.to_le_bytes());
    bytes.extend(s.value.to_le_bytes());
    bytes
}

fn clock(c: &ClockRecord) -> Vec<u8> {
    let mut bytes = Vec::new();
    bytes.extend(c.time_ps.to_le_bytes());
    bytes.extend(c.host.to_le_bytes());
    bytes.extend(c.error_ns.to_le_bytes());
    bytes.extend(c.uncertainty_ns.to_le_bytes());
    bytes
}

fn exchange(e: &ExchangeRecord) -> Vec<u8> {
    let mut bytes = Vec::new();
    bytes.extend([e.traffic, e.session].into_iter().flat_map(u32::to_le_bytes));
    bytes.extend(e.number.to_le_bytes());
    bytes.extend([e.client, e.server].into_iter().flat_map(u32::to_le_bytes));
    bytes.extend(e.bytes.to_le_bytes());
    bytes.push(e.write.into());
    bytes.extend([e.start_ps, e.latency_ps].into_iter().flat_map(u64::to_le_bytes));
    bytes
}

/// Everything a run yields.
#[derive(Debug, Default)]
pub struct Results {
    /// Completed flows.
    pub flows: Vec<FlowRecord>,
    /// Flows that were alive at the end.
    pub unfinished: Vec<FlowRecord>,
    /// Completed requests.
    pub requests: Vec<RequestRecord>,
    /// Exchanges that are over.
    pub exchanges: Vec<ExchangeRecord>,
    /// Values over time.
    pub samples: Vec<Sample>,
    /// Errors of the clocks.
    pub clocks: Vec<ClockRecord>,
    /// Packets of single flows.
    pub captures: Vec<Capture>,
    /// The parts of summary.json that do not come from flows, and names of series.
    pub counters: serde_json::Value,
}

impl Results {
    /// Writes the files; they are on the host when this returns.
    pub fn write(&self, folder: &Path) -> Result<()> {
        let save = |name: &str, records: &mut dyn Iterator<Item = Vec<u8>>| {
            let write = || {
                let mut file = BufWriter::with_capacity(1 << 20, File::create(folder.join(name))?);
                for record in records {
                    file.write_all(&record)?;
                }
                file.into_inner()?.sync_all()
            };
            write().map_err(at(name))
        };
        let left_out: BTreeMap<_, _> = self.captures.iter().map(|c| (c.name("linux"), c.left_out)).collect();
        for capture in &self.captures {
            save(&capture.name("linux"), &mut std::iter::once(capture.pcap.clone()))?;
        }
        save("captures.json", &mut std::iter::once(json!(left_out).to_string().into_bytes()))?;
        save("flows.bin", &mut self.flows.iter().map(flow))?;
        save("unfinished.bin", &mut self.unfinished.iter().map(flow))?;
        save("requests.bin", &mut self.requests.iter().map(request))?;
        save("exchanges.bin", &mut self.exchanges.iter().map(exchange))?;
        save("samples.bin", &mut self.samples.iter().map(sample))?;
        save("clock.bin", &mut self.clocks.iter().map(clock))?;
        save("counters.json", &mut std::iter::once(self.counters.to_string().into_bytes()))
    }
}
