//! Mutations of a partition directory that know what is in it: the damage of disks and crashes, and of entries whose
//! checksum is right all the same.

use crate::archive::Archive;
use crate::oracle;

/// A small generator of numbers (xorshift).
#[derive(Debug, Clone)]
pub struct Numbers(u64);

impl Numbers {
    /// A generator that begins with `seed`.
    pub fn new(seed: u64) -> Self {
        Self(seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1)
    }

    /// The next number below `limit`, 0 when that is 0.
    pub fn below(&mut self, limit: usize) -> usize {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        (self.0 >> 16) as usize % limit.max(1)
    }

    /// The next byte.
    pub fn byte(&mut self) -> u8 {
        self.below(256) as u8
    }

    /// A stretch of something `len` long.
    fn range(&mut self, len: usize, most: usize) -> std::ops::Range<usize> {
        let start = self.below(len + 1);
        start..(start + 1 + self.below(most)).min(len).max(start)
    }
}

/// Changes one thing in `archive`.
pub fn mutate(archive: &mut Archive, numbers: &mut Numbers) {
    if archive.files.is_empty() || numbers.below(16) == 0 {
        archive.settings[numbers.below(4)] = numbers.byte();
        return;
    }
    let at = numbers.below(archive.files.len());
    match numbers.below(8) {
        0 => rename(archive, at, numbers),
        1 => add_or_remove(archive, at, numbers),
        2..=4 => change_entry(&mut archive.files[at].1, numbers),
        _ => change_bytes(&mut archive.files[at].1, numbers),
    }
}

/// What disks and crashes do to a file.
pub fn change_bytes(bytes: &mut Vec<u8>, numbers: &mut Numbers) {
    let len = bytes.len();
    match numbers.below(8) {
        0 if len > 0 => {
            for _ in 0..=numbers.below(4) {
                bytes[numbers.below(len)] ^= 1 << numbers.below(8);
            }
        }
        1 => bytes.truncate(numbers.below(len + 1)),
        2 => bytes[numbers.clone().range(len, 512)].fill(0),
        3 => bytes.extend(std::iter::repeat_n(0, numbers.below(300))),
        4 => drop(bytes.drain(numbers.range(len, 200))),
        5 => {
            let range = numbers.range(len, 600);
            let (copy, to) = (bytes[range].to_vec(), numbers.below(len + 1));
            bytes.splice(to..to, copy);
        }
        6 if len >= 2 => {
            let size = 1 + numbers.below(512.min(len / 2));
            let (a, b) = (numbers.below(len / 2 - size + 1), len / 2 + numbers.below(len / 2 - size + 1));
            let (front, back) = bytes.split_at_mut(b);
            front[a..a + size].swap_with_slice(&mut back[..size]);
        }
        _ => {
            let (noise, to) = (numbers.byte(), numbers.below(len + 1));
            bytes.splice(to..to, std::iter::repeat_n(noise, numbers.below(20)));
        }
    }
}

/// Where the entries are, as far as their sizes lead.
fn entries(bytes: &[u8]) -> Vec<std::ops::Range<usize>> {
    let mut entries = Vec::new();
    let mut at = 0;
    while let Some(len) = oracle::entry_len(&bytes[at..]) {
        entries.push(at..at + len);
        at += len;
    }
    entries
}

/// Moves, repeats or changes one whole entry of a log; its checksum is right afterwards.
fn change_entry(bytes: &mut Vec<u8>, numbers: &mut Numbers) {
    let entries = entries(bytes);
    if entries.is_empty() {
        return change_bytes(bytes, numbers);
    }
    let entry = entries[numbers.below(entries.len())].clone();
    match numbers.below(6) {
        0 => drop(bytes.drain(entry)),
        1 => {
            let (copy, to) = (bytes[entry].to_vec(), numbers.below(entries.len()));
            let to = entries[to].start;
            bytes.splice(to..to, copy);
        }
        2 => {
            let copy: Vec<u8> = bytes.drain(entry.clone()).collect();
            let to = entries[numbers.below(entries.len())].start;
            let to = if to > entry.start { to - copy.len().min(to) } else { to }.min(bytes.len());
            bytes.splice(to..to, copy);
        }
        _ => {
            let entry = &mut bytes[entry];
            change_header(entry, numbers);
            oracle::repair(entry);
        }
    }
}

fn change_header(entry: &mut [u8], numbers: &mut Numbers) {
    let add = |field: &mut [u8], by: i64| {
        let changed = oracle::number(field).wrapping_add(by).to_be_bytes();
        field.copy_from_slice(&changed[8 - field.len()..]);
    };
    let by = numbers.below(9) as i64 - 4;
    let is_v2 = entry[16] == 2 && entry.len() >= 61;
    match numbers.below(7) {
        0 => add(&mut entry[..8], by),
        1 => entry[numbers.below(8)] = numbers.byte(),
        2 if is_v2 => add(&mut entry[23..27], by),
        3 if is_v2 => entry[22] ^= 1 << numbers.below(7),
        4 if is_v2 => add(&mut entry[43..51], by),
        5 if is_v2 => add(&mut entry[57..61], by),
        _ => {
            let at = 17 + numbers.below(entry.len() - 17);
            entry[at] = numbers.byte();
        }
    }
}

fn rename(archive: &mut Archive, at: usize, numbers: &mut Numbers) {
    const SUFFIXES: [&str; 12] = [
        ".log",
        ".index",
        ".timeindex",
        ".txnindex",
        ".snapshot",
        ".log.swap",
        ".log.cleaned",
        ".log.deleted",
        ".index.swap",
        ".timeindex.swap",
        ".index.cleaned",
        ".log.bak",
    ];
    let (mut name, bytes) = archive.files.remove(at);
    let base = name.get(..20).and_then(|digits| digits.parse::<i64>().ok());
    if let Some(base) = base {
        let suffix = name[20..].to_owned();
        name = match numbers.below(2) {
            0 => format!("{base:020}{}", SUFFIXES[numbers.below(SUFFIXES.len())]),
            _ => format!("{:020}{suffix}", base.saturating_add(numbers.below(41) as i64 - 20).max(0)),
        };
    } else {
        name.push('x');
    }
    archive.add(&name, bytes);
}

fn add_or_remove(archive: &mut Archive, at: usize, numbers: &mut Numbers) {
    let (name, bytes) = archive.files[at].clone();
    match numbers.below(3) {
        0 => drop(archive.files.remove(at)),
        1 => {
            let other = numbers.below(archive.files.len());
            archive.files[at].1 = std::mem::replace(&mut archive.files[other].1, bytes);
        }
        _ => {
            let mut copy = Archive { files: vec![(name, bytes)], ..Archive::default() };
            rename(&mut copy, 0, numbers);
            for (name, bytes) in copy.files {
                archive.add(&name, bytes);
            }
        }
    }
}
