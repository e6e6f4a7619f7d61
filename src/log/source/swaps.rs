//! What a compaction or a split leaves when a crash cuts it short, read as Kafka's loader resolves it at start.
//!
//! The new segments are written as `.cleaned`, then renamed to `.swap` from the highest base down, then the old ones are
//! renamed to `.deleted`, then `.swap` to the final names (KAFKA-6264). So `.cleaned` files are worthless, and
//! so is a `.swap` at or above one, whose set is not complete; all other `.swap` files take the place of whatever lies
//! between the lowest base of them and the end of the highest.

use crate::format::names::{self, FileState, FileType};
use crate::log::segment::SegmentFile;
use crate::units::Offset;

/// Files of one directory that an interrupted swap left.
#[derive(Debug, Default)]
pub(in crate::log) struct Swaps {
    logs: Vec<SegmentFile>,
    lowest_cleaned: Option<Offset>,
}

impl Swaps {
    /// Notes a file of the directory, if it is one.
    pub(in crate::log) fn note(&mut self, name: names::SegmentFile, file: &SegmentFile) {
        match (name.state, name.file_type) {
            (FileState::Swap, FileType::Log) => self.logs.push(file.clone()),
            (FileState::Cleaned, _) => {
                let lowest = self.lowest_cleaned.map_or(name.base, |lowest| lowest.min(name.base));
                self.lowest_cleaned = Some(lowest);
            }
            _ => {}
        }
    }

    /// Puts the new segments in the place of those among `files` that they replace. `end_of` tells the offset after a
    /// segment's last, and `None` when it does not end as it was written: then the old ones have more.
    pub(in crate::log) fn resolve(
        mut self,
        files: &mut Vec<SegmentFile>,
        end_of: impl Fn(&SegmentFile) -> Option<Offset>,
    ) {
        let is_complete = |file: &SegmentFile| self.lowest_cleaned.is_none_or(|lowest| file.base < lowest);
        self.logs.retain(is_complete);
        let mut replaced: Option<(Offset, Offset)> = None;
        self.logs.retain(|file| {
            let Some(end) = end_of(file) else { return !files.iter().any(|live| live.base == file.base) };
            let (from, to) = replaced.unwrap_or((file.base, end));
            replaced = Some((from.min(file.base), to.max(end)));
            true
        });
        let is_replaced = |base: Offset| {
            replaced.is_some_and(|(from, to)| (from..to).contains(&base))
                || self.logs.iter().any(|new| new.base == base)
        };
        files.retain(|file| !is_replaced(file.base));
        files.append(&mut self.logs);
    }
}

#[cfg(test)]
mod tests {
    use std::path::PathBuf;

    use super::*;
    use crate::log::files::FileId;

    /// The names that are left of those given, `.swap` files ending where their number in `ends` says.
    fn resolved(names: &[&str], ends: &[(i64, i64)]) -> Vec<String> {
        let (mut swaps, mut live) = (Swaps::default(), Vec::new());
        for name in names {
            let parsed = names::SegmentFile::parse(name).unwrap();
            let id = FileId { dev: 0, ino: 0, born: None };
            let file = SegmentFile {
                base: parsed.base,
                path: PathBuf::from(name),
                id,
                len: 0,
                changed: None,
                packing: None,
            };
            swaps.note(parsed, &file);
            if parsed.state == FileState::Live && parsed.file_type == FileType::Log {
                live.push(file);
            }
        }
        let end_of = |file: &SegmentFile| {
            ends.iter().find(|(base, _)| *base == file.base.0).map(|(_, end)| Offset(*end))
        };
        swaps.resolve(&mut live, end_of);
        live.sort_by_key(|file| file.base);
        live.iter().map(|file| file.path.display().to_string().trim_start_matches('0').to_owned()).collect()
    }

    const LIVE: [&str; 3] =
        ["00000000000000000010.log", "00000000000000000020.log", "00000000000000000030.log"];

    #[test]
    fn a_swap_takes_the_place_of_the_segments_that_it_was_made_from() {
        let names =
            [&LIVE[..], &["00000000000000000010.log.swap", "00000000000000000010.index.swap"]].concat();
        assert_eq!(resolved(&names, &[(10, 30)]), ["10.log.swap", "30.log"]);
        assert_eq!(resolved(&names, &[(10, 15)]), ["10.log.swap", "20.log", "30.log"]);
        // All of its records are gone: it is empty, and replaces the one of its name.
        assert_eq!(resolved(&names, &[(10, 10)]), ["10.log.swap", "20.log", "30.log"]);
    }

    #[test]
    fn a_split_that_was_not_complete_is_undone() {
        let names =
            [&LIVE[..], &["00000000000000000015.log.swap", "00000000000000000010.log.cleaned"]].concat();
        assert_eq!(resolved(&names, &[(15, 20)]), ["10.log", "20.log", "30.log"]);
        let names = [&LIVE[..], &["00000000000000000010.log.swap", "00000000000000000030.timeindex.cleaned"]];
        assert_eq!(resolved(&names.concat(), &[(10, 30)]), ["10.log.swap", "30.log"]);
    }

    #[test]
    fn a_damaged_swap_does_not_hide_what_it_was_made_from() {
        let names = [&LIVE[..], &["00000000000000000010.log.swap"]].concat();
        assert_eq!(resolved(&names, &[]), ["10.log", "20.log", "30.log"]);
        assert_eq!(resolved(&["00000000000000000010.log.swap"], &[]), ["10.log.swap"]);
    }
}
