//! Files dumped by the library as `topicfs dump` does it, one by one.

use std::fs::File;
use std::path::Path;
use std::sync::Arc;

use topicfs::format::batch::Limits;
use topicfs::log::segment::beside::Beside;
use topicfs::units::Position;
use topicfs::view::dump::entry::Shown;
use topicfs::view::dump::index::{IndexFile, Mode};
use topicfs::view::dump::kind::{self, Kind};
use topicfs::view::dump::log::LogDump;
use topicfs::view::dump::{self, push_dumping};

/// What goes to stdout and to stderr.
#[derive(Debug, Default, PartialEq, Eq)]
pub struct Ours {
    /// stdout.
    pub text: Vec<u8>,
    /// stderr.
    pub reports: String,
    /// Whether the exit code would be 1.
    pub is_damaged: bool,
}

/// Dumps the file at `path`, which is printed as `shown_path`.
pub fn dump_file(path: &Path, shown_path: &str, shown: Shown) -> Ours {
    let name = path.file_name().expect("a file").to_string_lossy();
    let kind = Kind::of(&name).unwrap_or_else(|| panic!("{name} has no dump"));
    if !kind.is_log() {
        let bytes = std::fs::read(path).expect("the file");
        let file = IndexFile { path: shown_path, name: &name, bytes: &bytes };
        let beside = Beside::open(path).expect("the files beside it");
        let dumped = dump::whole(kind, &file, &beside, Mode::Print, Limits::default()).expect("a dump");
        let reports = String::from_utf8(dumped.reports).expect("text");
        return Ours { text: dumped.text, reports, is_damaged: dumped.is_damaged };
    }
    let file = Arc::new(File::open(path).expect("the file"));
    let len = file.metadata().expect("its length").len();
    let mut ours = Ours::default();
    push_dumping(shown_path, &mut ours.text);
    kind::push_heading(&name, kind, &mut ours.text);
    let mut dump = LogDump::new(file, len, Position(0), &name, shown, Limits::default());
    while dump.step(&mut ours.text).expect("a step") {}
    let observed = dump.observed();
    ours.reports = observed.gaps.report(shown_path);
    ours.is_damaged = observed.is_damaged;
    ours
}
