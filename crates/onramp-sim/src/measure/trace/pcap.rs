//! A capture file: pcap with nanoseconds, as tcpdump writes it.

/// Bytes of a packet that a capture keeps at most: Ethernet, IPv4 and TCP with all their options.
pub const SNAP: usize = 14 + 20 + 60;

/// "Nanoseconds, the writer's byte order", which is little-endian on every machine.
const MAGIC: u32 = 0xa1b2_3c4d;
/// Frames begin with an Ethernet header.
const ETHERNET: u32 = 1;

/// A file in memory.
#[derive(Clone, Debug)]
pub struct File(Vec<u8>);

impl Default for File {
    fn default() -> Self {
        // Magic, version 2.4, time zone, accuracy, longest packet, link layer.
        let fields = [MAGIC, 2 | 4 << 16, 0, 0, SNAP as u32, ETHERNET];
        Self(fields.into_iter().flat_map(u32::to_le_bytes).collect())
    }
}

impl File {
    /// Adds a frame of `length` bytes, of which `kept` are the first.
    pub fn add(&mut self, at_ns: u64, length: u32, kept: &[u8]) {
        let kept = &kept[..kept.len().min(SNAP).min(length as usize)];
        let (seconds, rest) = (at_ns / 1_000_000_000, at_ns % 1_000_000_000);
        for field in [seconds as u32, rest as u32, kept.len() as u32, length] {
            self.0.extend(field.to_le_bytes());
        }
        self.0.extend(kept);
    }

    /// The file's content.
    pub fn into_bytes(self) -> Vec<u8> {
        self.0
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_file_is_its_header_and_a_record_for_each_frame() {
        let mut file = File::default();
        file.add(3_000_000_007, 1514, &[9; 66]);
        file.add(3_000_000_008, 60, &[8; 120]);
        let bytes = file.into_bytes();
        assert_eq!(bytes[..24], [0x4d, 0x3c, 0xb2, 0xa1, 2, 0, 4, 0, 0, 0, 0, 0, 0, 0, 0, 0, 94, 0, 0, 0, 1, 0, 0, 0]);
        assert_eq!(bytes[24..40], [3, 0, 0, 0, 7, 0, 0, 0, 66, 0, 0, 0, 0xea, 5, 0, 0]);
        assert_eq!(bytes[40..106], [9; 66]);
        // Never more than the frame has.
        assert_eq!(bytes[114..118], [60, 0, 0, 0]);
        assert_eq!(bytes.len(), 24 + 16 + 66 + 16 + 60);
    }
}
