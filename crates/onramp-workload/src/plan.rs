//! Plan of a scenario's workloads: sources of flows, programs at hosts, and channels between them.

use super::{Program, Source};
use onramp_config::units::Ps;

/// A program and where it runs.
#[derive(Debug)]
pub struct Placed {
    /// Its host.
    pub host: u32,
    /// Orders what is due at the same time; no two programs have the same.
    pub id: u64,
    /// The program.
    pub program: Box<dyn Program>,
}

/// Way in which bytes are written to and read from a channel.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Medium {
    /// A connection that an application writes whole messages to: a socket, or a pair of RDMA queues.
    Messages,
    /// NVMe over TCP as Linux has it: pages are handed over one by one, and read as they come. On the cluster
    /// it is the kernel's, and its server has a drive that takes so long for a block.
    Nvme {
        /// Time a block takes in the drive.
        drive: Ps,
        /// Blocks asked for at a time at most.
        depth: u32,
    },
}

/// A connection between two programs that is open from the beginning.
#[derive(Clone, Copy, Debug)]
pub struct Channel {
    /// The places of its two programs in [`Plan::programs`]; whoever opens it comes first.
    pub ends: [usize; 2],
    /// The channel's number at each of them.
    pub numbers: [u32; 2],
    /// The scenario's traffic section.
    pub traffic: u32,
    /// Way of writing and reading.
    pub medium: Medium,
    /// Only the first end sends; else both do.
    pub one_way: bool,
}

/// See the module.
#[derive(Default)]
pub struct Plan {
    /// Flows that arrive whatever happens.
    pub sources: Vec<Box<dyn Source>>,
    /// Programs.
    pub programs: Vec<Placed>,
    /// Their channels.
    pub channels: Vec<Channel>,
    /// Channels of each program so far.
    joined: Vec<u32>,
}

impl Plan {
    /// Adds a source of flows.
    pub fn source(&mut self, source: impl Source + 'static) {
        self.sources.push(Box::new(source));
    }

    /// Adds the program `number` of a section; its place. Of programs that are due at the same time the lower numbers
    /// go first.
    pub fn place(&mut self, host: u32, traffic: u32, number: u32, program: impl Program + 'static) -> usize {
        let id = u64::from(traffic) << 32 | u64::from(number);
        self.programs.push(Placed { host, id, program: Box::new(program) });
        self.joined.push(0);
        self.programs.len() - 1
    }

    /// Joins two programs by a channel, which `ends[0]` opens; the channel's number at each of them, which is how many
    /// the program had before.
    pub fn join(&mut self, ends: [usize; 2], traffic: u32, medium: Medium) -> [u32; 2] {
        self.open(ends, traffic, medium, false)
    }

    /// The same for a channel on which only `ends[0]` sends.
    pub fn join_one_way(&mut self, ends: [usize; 2], traffic: u32) -> [u32; 2] {
        self.open(ends, traffic, Medium::Messages, true)
    }

    fn open(&mut self, ends: [usize; 2], traffic: u32, medium: Medium, one_way: bool) -> [u32; 2] {
        let numbers = ends.map(|end| {
            self.joined[end] += 1;
            self.joined[end] - 1
        });
        self.channels.push(Channel { ends, numbers, traffic, medium, one_way });
        numbers
    }

    /// The hosts of a channel's ends.
    pub fn hosts(&self, channel: &Channel) -> [u32; 2] {
        channel.ends.map(|end| self.programs[end].host)
    }
}
