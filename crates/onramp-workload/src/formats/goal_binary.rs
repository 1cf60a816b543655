//! GOAL as LogGOPSim's txt2bin writes it: little-endian; a cookie, the number of ranks, processors and NICs, where each
//! rank's part begins and ends, and in that part the operations and then the numbers of those that depend on them.

use super::goal::no_wildcard;
use super::{MAX_OPS, MAX_RANKS, Read, content, message_bytes};
use crate::graph::{Kind, Op};
use onramp_config::units::NS;
use std::path::Path;

const COOKIE: u64 = 4223;
/// Places in the jump table count from behind the cookie.
const COOKIE_BYTES: usize = 8;
/// Bytes of an operation.
const RECORD: usize = 39;

/// Reads a file.
pub(super) fn read(file: &str, base: &Path) -> Result<Read, String> {
    parse(&content(file, base)?).map_err(|(at, wrong)| format!("{file}: byte {at}: {wrong}"))
}

type Wrong = (usize, String);

/// Numbers from a place on.
struct At<'a> {
    bytes: &'a [u8],
    at: usize,
}

impl At<'_> {
    fn take<const N: usize>(&mut self) -> Result<[u8; N], Wrong> {
        let found = self.bytes.get(self.at..).and_then(|rest| rest.first_chunk::<N>().copied());
        let found = found.ok_or_else(|| (self.at, "the file ends within a number".to_string()))?;
        self.at += N;
        Ok(found)
    }

    fn u8(&mut self) -> Result<u8, Wrong> {
        self.take::<1>().map(|[byte]| byte)
    }

    fn u32(&mut self) -> Result<u32, Wrong> {
        self.take().map(u32::from_le_bytes)
    }

    fn u64(&mut self) -> Result<u64, Wrong> {
        self.take().map(u64::from_le_bytes)
    }
}

pub(super) fn parse(bytes: &[u8]) -> Result<Read, Wrong> {
    let mut head = At { bytes, at: 0 };
    if head.u64()? != COOKIE {
        return Err((0, format!("is not GOAL's cookie, {COOKIE}")));
    }
    let ranks = head.u32()?;
    if u64::from(ranks) > MAX_RANKS || ranks == 0 {
        return Err((COOKIE_BYTES, format!("{ranks} ranks are outside 1 to {MAX_RANKS}")));
    }
    let (_processors, _nics) = (head.u8()?, head.u8()?);
    let mut nics = false;
    let mut all = Vec::new();
    let mut count = 0;
    for rank in 0..ranks {
        let entry = head.at;
        let (start, _end) = (head.u64()?, head.u64()?);
        let start = usize::try_from(start).ok().and_then(|start| start.checked_add(COOKIE_BYTES));
        let Some(start) = start.filter(|start| *start < bytes.len()) else {
            return Err((entry, format!("the part of rank {rank} begins behind the end of the file")));
        };
        let ops = part(At { bytes, at: start }, MAX_OPS - count, &mut nics)?;
        count += ops.len();
        all.push(ops);
    }
    let left_out = nics.then(|| "which NIC a message leaves by: the network chooses it".to_string());
    Ok(Read { ranks: all, collectives: vec![], left_out: left_out.into_iter().collect() })
}

/// One rank's operations.
fn part(mut at: At<'_>, most: usize, nics: &mut bool) -> Result<Vec<Op>, Wrong> {
    let begin = at.at;
    let (ops, roots) = (at.u32()? as usize, at.u32()? as usize);
    let room = (at.bytes.len() - at.at) / RECORD;
    if ops > room.min(most) {
        return Err((begin, format!("{ops} operations are more than there is room for")));
    }
    if roots > ops {
        return Err((begin + 4, format!("{roots} of {ops} operations depend on nothing")));
    }
    at.at += 4 * roots;
    let mut found = Vec::with_capacity(ops);
    // Those after an operation's end, and after its start: how many, by operation.
    let mut users = Vec::with_capacity(ops);
    for _ in 0..ops {
        let begin = at.at;
        let (_before, kind, peer, size, tag) = (at.u32()?, at.u8()?, at.u32()?, at.u64()?, at.u32()?);
        let (processor, nic) = (at.u8()?, at.u8()?);
        *nics |= nic > 0;
        let kind = match kind {
            1 => Kind::Send { to: peer, bytes: size, tag },
            2 => Kind::Receive { from: peer, bytes: size, tag },
            3 => Kind::Compute { time: size.saturating_mul(NS), stream: Some(processor.into()) },
            other => return Err((begin + 4, format!("{other} is no operation: 1 send, 2 receive, 3 calculate"))),
        };
        if let Kind::Send { bytes, .. } | Kind::Receive { bytes, .. } = kind {
            message_bytes(bytes).map_err(|wrong| (begin, wrong))?;
        }
        no_wildcard(&kind).map_err(|wrong| (begin, wrong))?;
        found.push(Op::new(kind, vec![]));
        let (ended, _, begun, _) = (at.u32()?, at.u32()?, at.u32()?, at.u32()?);
        users.push([ended, begun]);
    }
    for (number, [ended, begun]) in (0..).zip(users) {
        for (count, is_start) in [(ended, false), (begun, true)] {
            for _ in 0..count {
                let begin = at.at;
                let user = at.u32()?;
                if user as usize >= ops {
                    return Err((begin, format!("there is no operation {user}: there are {ops}")));
                }
                let user = &mut found[user as usize];
                if is_start { user.begun.push(number) } else { user.after.push(number) }
            }
        }
    }
    Ok(found)
}
