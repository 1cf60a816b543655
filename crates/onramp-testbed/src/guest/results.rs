//! The files the guest leaves: a table's columns one after the other, as Python reads them.

use super::{Result, at};
use onramp_records::counters::Counters;
use onramp_records::{
    ClockRecord, CollectiveRecord, ExchangeRecord, FlowRecord, GoodputRecord, LinkRecord, NextRecord, OperationRecord,
    Record, RequestRecord, Sample,
};
use onramp_sim::measure::trace::Capture;
use serde_json::json;
use std::collections::BTreeMap;
use std::fs::File;
use std::io::{BufWriter, Write};
use std::path::Path;

/// Everything a run yields.
#[derive(Debug, Default)]
pub struct Results {
    /// Completed flows.
    pub flows: Vec<FlowRecord>,
    /// Flows that were alive at the end.
    pub unfinished: Vec<FlowRecord>,
    /// Links.
    pub links: Vec<LinkRecord>,
    /// Payload that flows without an end of their own have moved.
    pub goodput: Vec<GoodputRecord>,
    /// Completed requests.
    pub requests: Vec<RequestRecord>,
    /// Exchanges that are over.
    pub exchanges: Vec<ExchangeRecord>,
    /// Operations of programs' ranks.
    pub operations: Vec<OperationRecord>,
    /// Collectives that are complete.
    pub collectives: Vec<CollectiveRecord>,
    /// Values over time.
    pub samples: Vec<Sample>,
    /// Errors of the clocks.
    pub clocks: Vec<ClockRecord>,
    /// A sample of packets, beside those acknowledged before them.
    pub next_owd: Vec<NextRecord>,
    /// Packets of single flows.
    pub captures: Vec<Capture>,
    /// The parts of summary.json that do not come from flows, and names of series.
    pub counters: Counters,
}

impl Results {
    /// Writes the files; they are on the host when this returns.
    pub fn write(&self, folder: &Path) -> Result<()> {
        let save = |name: &str, parts: &[Vec<u8>]| {
            let write = || {
                let mut file = BufWriter::with_capacity(1 << 20, File::create(folder.join(name))?);
                for part in parts {
                    file.write_all(part)?;
                }
                file.into_inner()?.sync_all()
            };
            write().map_err(at(name))
        };
        let left_out: BTreeMap<_, _> = self.captures.iter().map(|c| (c.name("linux"), c.left_out)).collect();
        for capture in &self.captures {
            save(&capture.name("linux"), std::slice::from_ref(&capture.pcap))?;
        }
        save("captures.json", &[json!(left_out).to_string().into_bytes()])?;
        save("flows.bin", &FlowRecord::columns(&self.flows))?;
        save("unfinished.bin", &FlowRecord::columns(&self.unfinished))?;
        save("goodput.bin", &GoodputRecord::columns(&self.goodput))?;
        save("links.bin", &LinkRecord::columns(&self.links))?;
        save("requests.bin", &RequestRecord::columns(&self.requests))?;
        save("exchanges.bin", &ExchangeRecord::columns(&self.exchanges))?;
        save("operations.bin", &OperationRecord::columns(&self.operations))?;
        save("collectives.bin", &CollectiveRecord::columns(&self.collectives))?;
        save("series.bin", &Sample::columns(&self.samples))?;
        save("clock.bin", &ClockRecord::columns(&self.clocks))?;
        save("next_owd.bin", &NextRecord::columns(&self.next_owd))?;
        save("counters.json", &[json!(self.counters).to_string().into_bytes()])
    }
}
