//! Flows listed in a file.
//!
//! CSV: a header line, `src,dst,bytes,start_ns` or with `,request`, then one
//! flow a line. Hosts are named (`h3`) or counted (`3`); flows with the same
//! number under `request` are one request.
//!
//! HPCC: the number of flows, then `src dst pg dport size start` a line, with
//! the start in seconds. After the last announced flow there may be text, but no flow.
//!
//! htsim: a connection matrix, `Nodes N` and `Connections K`, then `src->dst start PS size BYTES` a line, with the start
//! in picoseconds and `id`, `prio` as they like. Flows that triggers start are refused: they are a program's.
//!
//! All in ascending order of start, so that a trace of any length is read
//! while it is simulated.

use super::formats::htsim::ENDLESS;
use super::lines::{Lines, quoted};
use super::{
    Context, Findings, Group, MAX_BYTES, NewFlow, Place, Plan, RequestPart, Section, Size, Source, Workload, incast,
};
use onramp_config::units::{Ps, Span};
use serde::{Deserialize, Serialize};
use std::collections::HashMap;
use std::fs::File;
use std::io::{BufRead, BufReader, Seek};

/// Format of a trace file.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum TraceFormat {
    /// `src,dst,bytes,start_ns[,request]` with a header line.
    #[default]
    Csv,
    /// The HPCC simulator's flow file.
    Hpcc,
    /// A connection matrix of htsim.
    Htsim,
}

/// Flows listed in a file.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Config {
    /// The file, relative to the scenario's folder.
    pub file: String,
    /// Default "csv".
    #[serde(default)]
    pub format: TraceFormat,
}

const HEADER: &str = "src,dst,bytes,start_ns";

/// Reads a trace.
pub struct Reader<R = BufReader<File>> {
    lines: Lines<R>,
    format: TraceFormat,
    /// Names of the hosts, in order of their numbers.
    names: Vec<String>,
    /// Numbers of the hosts by name.
    numbers: HashMap<String, u32>,
    /// CSV: lines have a request column.
    with_request: bool,
    /// HPCC: flows announced, and flows still to come.
    announced: u64,
    /// See `announced`.
    left: u64,
    /// Start of the flow read last.
    last: Ps,
    /// Every request of the file, as [`Reader::check`] counted it.
    requests: HashMap<u64, Request>,
}

/// Size and span of a trace.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Extent {
    /// Bytes of the largest flow.
    pub largest: u64,
    /// Bytes of all flows.
    pub bytes: f64,
    /// Starts of the first and of the last one; `None` without flows.
    pub starts: Option<(Ps, Ps)>,
}

/// A request of a trace.
#[derive(Clone, Copy)]
struct Request {
    /// Flows it has.
    flows: u32,
    /// Flows of it that have not arrived.
    left: u32,
}

/// A flow of a trace.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Row {
    at: Ps,
    src: u32,
    dst: u32,
    bytes: u64,
    request: Option<u64>,
}

/// Opens a trace and reads its first line.
fn open(config: &Config, place: &Place<'_>) -> Result<Reader, String> {
    let names = (0..place.topology.hosts() as u32).map(|h| place.topology.name(h).to_string()).collect();
    Reader::new(Lines::open(&config.file, place.base)?, config.format, names)
}

impl Workload for Config {
    fn check_placed(&self, of: &Context, place: &Place<'_>, found: &mut Findings) {
        let extent = open(self, place).and_then(|mut reader| reader.check());
        found.starts = extent.as_ref().ok().and_then(|extent| extent.starts);
        let wrong = extent.and_then(|extent| match extent.starts {
            Some(_) => of.check_size(extent.largest),
            None => Err(format!("{} has no flow: write at least one, or leave the section out", quoted(&self.file))),
        });
        found.note("file", wrong);
    }

    fn input_files(&self) -> Vec<(&'static str, String)> {
        vec![("file", self.file.clone())]
    }

    fn build(&self, section: &Section<'_>, plan: &mut Plan) -> Result<(), String> {
        let mut reader = open(self, &section.place)?;
        let bytes_left = reader.check()?.bytes;
        let next = reader.flow(section.number);
        let warmup = section.span.warmup;
        plan.source(Trace { reader, next, traffic: section.number, warmup, bytes_left });
        Ok(())
    }

    fn group(&self) -> Option<Group> {
        Some(incast::group())
    }
}

impl<R: BufRead + Seek> Reader<R> {
    fn new(lines: Lines<R>, format: TraceFormat, names: Vec<String>) -> Result<Self, String> {
        let numbers = names.iter().enumerate().map(|(i, name)| (name.clone(), i as u32)).collect();
        let requests = HashMap::new();
        let (with_request, announced, left, last) = (false, 0, 0, 0);
        let mut reader = Self { lines, format, names, numbers, with_request, announced, left, last, requests };
        reader.first_line()?;
        Ok(reader)
    }

    /// Reads the whole file, and goes back to its first flow.
    ///
    /// # Errors
    /// The first mistake: file, line, what is wrong and what would be right.
    pub fn check(&mut self) -> Result<Extent, String> {
        self.rewind()?;
        self.requests.clear();
        let mut extent = Extent::default();
        while let Some(row) = self.row()? {
            extent.largest = extent.largest.max(row.bytes);
            extent.bytes += row.bytes as f64;
            extent.starts = Some((extent.starts.map_or(row.at, |(first, _)| first), row.at));
            if let Some(id) = row.request {
                let request = self.requests.entry(id).or_insert(Request { flows: 0, left: 0 });
                let more = request.flows.checked_add(1);
                request.flows = more.ok_or_else(|| self.lines.wrong("the request has too many flows to be counted"))?;
                request.left = request.flows;
            }
        }
        self.check_rest()?;
        self.rewind()?;
        Ok(extent)
    }

    /// Refuses flows after those that an HPCC file announces. Its authors' own files end with a note.
    fn check_rest(&mut self) -> Result<(), String> {
        let is_flow = match self.format {
            TraceFormat::Csv => return Ok(()),
            TraceFormat::Hpcc => is_flow,
            TraceFormat::Htsim => |line: &str| line.contains("->"),
        };
        let mut more = 0;
        while let Ok(Some(line)) = self.lines.next() {
            more += u64::from(is_flow(line));
        }
        let (announced, found) = (self.announced, self.announced + more);
        let message = format!("announces {announced} flows, but {found} follow: write that");
        if more == 0 { Ok(()) } else { Err(self.lines.wrong_at(1, message)) }
    }

    fn rewind(&mut self) -> Result<(), String> {
        self.lines.rewind()?;
        self.last = 0;
        self.first_line()
    }

    fn first_line(&mut self) -> Result<(), String> {
        let line = self.lines.next()?.unwrap_or_default();
        match self.format {
            TraceFormat::Csv => {
                let columns: Vec<&str> = line.split(',').map(str::trim).collect();
                self.with_request = match columns.as_slice() {
                    ["src", "dst", "bytes", "start_ns"] => false,
                    ["src", "dst", "bytes", "start_ns", "request"] => true,
                    _ => {
                        let what = format!("{} is not the header {HEADER} or {HEADER},request", quoted(line));
                        return Err(self.lines.wrong(what));
                    }
                };
            }
            TraceFormat::Hpcc => {
                let Ok(flows) = line.parse() else {
                    let what = format!("{} is not the number of flows, such as 1000", quoted(line));
                    return Err(self.lines.wrong(what));
                };
                (self.announced, self.left) = (flows, flows);
            }
            TraceFormat::Htsim => return self.head(),
        }
        Ok(())
    }

    /// The head of a connection matrix, whose first line has been read.
    fn head(&mut self) -> Result<(), String> {
        let mut line = self.lines.again().to_string();
        let hosts = self.names.len() as u64;
        loop {
            let (key, count) = line.split_once(' ').unwrap_or((&line, ""));
            let number = count.trim().parse::<u64>();
            match (key, number) {
                ("Nodes", Ok(nodes)) if nodes <= hosts => {}
                ("Nodes", Ok(nodes)) => return Err(self.lines.wrong(format!("{nodes} nodes, for {hosts} hosts"))),
                ("Connections", Ok(flows)) => {
                    (self.announced, self.left) = (flows, flows);
                    return Ok(());
                }
                _ if line.starts_with('#') => {}
                _ => {
                    let what = format!("{} is not \"Nodes\" or \"Connections\" and a number", quoted(&line));
                    return Err(self.lines.wrong(what));
                }
            }
            line = self.lines.next()?.unwrap_or_default().to_string();
        }
    }

    /// The next flow of the file.
    fn row(&mut self) -> Result<Option<Row>, String> {
        if self.format != TraceFormat::Csv && self.left == 0 {
            return Ok(None);
        }
        let mut line = self.lines.next()?;
        // Triggers are named where flows have them; counts of what there is none of say nothing.
        while self.format == TraceFormat::Htsim && line.is_some_and(|line| !line.contains("->")) {
            let [empty, other] = ["Triggers 0", "Failures 0"].map(|none| line == Some(none));
            if !(empty || other || line.is_some_and(|line| line.starts_with('#') || line.starts_with("Triggers"))) {
                let what = format!("{} is not simulated: only connections are", quoted(line.unwrap_or_default()));
                return Err(self.lines.wrong(what));
            }
            line = self.lines.next()?;
        }
        let Some(line) = line else {
            if self.left > 0 {
                let (announced, found) = (self.announced, self.announced - self.left);
                return Err(self
                    .lines
                    .wrong_at(1, format!("announces {announced} flows, but {found} follow: write that")));
            }
            return Ok(None);
        };
        let hosts = Hosts { names: &self.names, numbers: &self.numbers };
        let parsed = match self.format {
            TraceFormat::Csv => hosts.csv(line, self.with_request),
            TraceFormat::Hpcc => hosts.hpcc(line),
            TraceFormat::Htsim => hosts.htsim(line),
        };
        let row = parsed.and_then(|row| self.possible(row)).map_err(|m| self.lines.wrong(m))?;
        self.left = self.left.saturating_sub(1);
        self.last = row.at;
        Ok(Some(row))
    }

    /// Refuses what one field cannot show.
    fn possible(&self, row: Row) -> Result<Row, String> {
        if row.src == row.dst {
            return Err(format!("{} would send to itself", self.names[row.src as usize]));
        }
        if row.at < self.last {
            let (at, last) = (Span(row.at), Span(self.last));
            return Err(format!("starts at {at}, before the flow above, {last}: sort the flows by their start"));
        }
        Ok(row)
    }

    /// The next flow and its arrival. None as well where the file no longer is
    /// what it was when it was checked.
    fn flow(&mut self, traffic: u32) -> Option<(Ps, NewFlow)> {
        let row = self.row().ok()??;
        let request = match row.request {
            Some(number) => {
                let request = self.requests.get_mut(&number)?;
                request.left -= 1;
                let flows = request.flows;
                if request.left == 0 {
                    self.requests.remove(&number);
                }
                Some(RequestPart { number, flows })
            }
            None => None,
        };
        Some((row.at, NewFlow { src: row.src, dst: row.dst, size: Size::Bytes(row.bytes), traffic, request }))
    }
}

/// Returns whether a line of an HPCC file reads like a flow: six numbers.
fn is_flow(line: &str) -> bool {
    let fields: Vec<&str> = line.split_whitespace().collect();
    fields.len() == 6 && fields.iter().all(|field| field.parse::<f64>().is_ok())
}

/// The hosts a line may name.
struct Hosts<'a> {
    names: &'a [String],
    numbers: &'a HashMap<String, u32>,
}

impl Hosts<'_> {
    fn csv(&self, line: &str, with_request: bool) -> Result<Row, String> {
        let fields: Vec<&str> = line.split(',').map(str::trim).collect();
        let (src, dst, bytes, start, request) = match (fields.as_slice(), with_request) {
            (&[src, dst, bytes, start], false) => (src, dst, bytes, start, ""),
            (&[src, dst, bytes, start, request], true) => (src, dst, bytes, start, request),
            _ => {
                let request = if with_request { ",request" } else { "" };
                let (shown, count) = (quoted(line), fields.len());
                return Err(format!("{shown} has {count} fields, but the header is {HEADER}{request}"));
            }
        };
        let at = time(start, "ns").ok_or_else(|| format!("{} is not a time in ns, such as 1500", quoted(start)))?;
        let wrong_request = |_| format!("{} is not a request's number: a whole number or nothing", quoted(request));
        Ok(Row {
            at,
            src: self.named(src)?,
            dst: self.named(dst)?,
            bytes: size(bytes)?,
            request: if request.is_empty() { None } else { Some(request.parse().map_err(wrong_request)?) },
        })
    }

    fn hpcc(&self, line: &str) -> Result<Row, String> {
        let fields: Vec<&str> = line.split_whitespace().collect();
        let &[src, dst, pg, dport, bytes, start] = fields.as_slice() else {
            let (shown, count) = (quoted(line), fields.len());
            return Err(format!("{shown} has {count} fields, but src dst pg dport size start are 6"));
        };
        for (name, text) in [("priority group", pg), ("port", dport)] {
            text.parse::<u16>().map_err(|_| format!("{} is not a {name}: a whole number", quoted(text)))?;
        }
        let wrong_start = || format!("{} is not a time in seconds, such as 2.000001", quoted(start));
        Ok(Row {
            at: time(start, "s").ok_or_else(wrong_start)?,
            src: self.counted(src).ok_or_else(|| self.unknown(src))?,
            dst: self.counted(dst).ok_or_else(|| self.unknown(dst))?,
            bytes: size(bytes)?,
            request: None,
        })
    }

    fn htsim(&self, line: &str) -> Result<Row, String> {
        let mut words = line.split_whitespace();
        let pair = words.next().unwrap_or_default();
        let (src, dst) =
            pair.split_once("->").ok_or_else(|| format!("{} is not two hosts, such as 0->1", quoted(pair)))?;
        let (mut at, mut bytes) = (None, None);
        while let Some(key) = words.next() {
            let value = words.next().ok_or_else(|| format!("ends after {}", quoted(key)))?;
            let wrong = || format!("{} is not a time in ps, such as 1000", quoted(value));
            match key {
                "start" => at = Some(time(value, "ps").ok_or_else(wrong)?),
                "size" if value == "0" => return Err(ENDLESS.into()),
                "size" => bytes = Some(size(value)?),
                "id" | "prio" | "msg" => {}
                "trigger" | "send_done_trigger" | "recv_done_trigger" => {
                    return Err(format!("has a {key}: flows start at their times, write kind = \"program\""));
                }
                _ => return Err(format!("{} is not start, size, id, msg or prio", quoted(key))),
            }
        }
        let host = |text| self.counted(text).ok_or_else(|| self.unknown(text));
        let (src, dst) = (host(src)?, host(dst)?);
        let (at, bytes) = (at.ok_or("has no start")?, bytes.ok_or("has no size")?);
        Ok(Row { at, src, dst, bytes, request: None })
    }

    fn named(&self, text: &str) -> Result<u32, String> {
        self.numbers.get(text).copied().or_else(|| self.counted(text)).ok_or_else(|| self.unknown(text))
    }

    fn counted(&self, text: &str) -> Option<u32> {
        text.parse().ok().filter(|&n| (n as usize) < self.names.len())
    }

    fn unknown(&self, text: &str) -> String {
        let last = self.names.len() - 1;
        format!("{} is no host: they are {} to {}, or 0 to {last}", quoted(text), self.names[0], self.names[last])
    }
}

fn size(text: &str) -> Result<u64, String> {
    let bytes = text.parse().ok().filter(|b| (1..=MAX_BYTES).contains(b));
    bytes.ok_or_else(|| format!("{} is not a size: whole bytes from 1 to {MAX_BYTES}", quoted(text)))
}

/// A decimal number of `unit`; what is below a picosecond is cut off.
fn time(text: &str, unit: &str) -> Option<Ps> {
    let plain = text.bytes().all(|b| b.is_ascii_digit() || b == b'.');
    let span: Option<Span> = if plain { format!("{text}{unit}").parse().ok() } else { None };
    span.map(|s| s.0)
}

/// A trace under way.
struct Trace<R> {
    reader: Reader<R>,
    next: Option<(Ps, NewFlow)>,
    traffic: u32,
    /// The file counts from time 0.
    warmup: Ps,
    bytes_left: f64,
}

impl<R: BufRead + Seek + Send + Sync> Source for Trace<R> {
    fn next_at(&self) -> Option<Ps> {
        self.next.map(|(at, _)| self.warmup + at)
    }

    fn expected_bytes(&self, _: Ps) -> f64 {
        self.bytes_left
    }

    fn take(&mut self, out: &mut Vec<NewFlow>) {
        if let Some((_, flow)) = self.next.take() {
            if let Size::Bytes(bytes) = flow.size {
                self.bytes_left -= bytes as f64;
            }
            out.push(flow);
            self.next = self.reader.flow(self.traffic);
        }
    }
}

#[cfg(test)]
mod tests;
