//! Flows that send as fast as they may.

use super::{Section, Source};
use crate::host::{NewFlow, Size};
use crate::scenario;
use crate::units::Ps;

/// All flows of a section, until they are taken.
struct Long {
    start: Ps,
    flows: Vec<NewFlow>,
}

pub(super) fn add(
    config: &scenario::Long,
    section: &Section<'_>,
    all: &mut Vec<Box<dyn Source>>,
) -> Result<(), String> {
    let dst = section.topology.host_named(&config.dst)?;
    let stop = config.stop.unwrap_or(section.scenario.duration).0;
    let flow = |name: &String| {
        let src = section.topology.host_named(name)?;
        Ok(NewFlow { src, dst, size: Size::Until(stop), traffic: section.number, request: None })
    };
    let flows = config.src.iter().map(flow).collect::<Result<_, String>>()?;
    all.push(Box::new(Long { start: config.start.0, flows }));
    Ok(())
}

impl Source for Long {
    fn next_at(&self) -> Option<Ps> {
        (!self.flows.is_empty()).then_some(self.start)
    }

    fn take(&mut self, out: &mut Vec<NewFlow>) {
        out.append(&mut self.flows);
    }
}
