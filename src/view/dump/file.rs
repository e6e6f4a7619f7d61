//! A file of a partition as the bytes of its dump, whichever kind it is.

use std::sync::{Arc, Mutex, OnceLock, PoisonError};

use crate::format::batch::Limits;
use crate::log::LogError;
use crate::log::segment::Segment;
use crate::log::segment::beside::WholeFile;
use crate::view::dump::entry::Shown;
use crate::view::dump::index::{IndexFile, Mode};
use crate::view::dump::kind::Kind;
use crate::view::dump::measured::MeasuredLog;
use crate::view::dump::whole;
use crate::view::layout::to_index;
use crate::view::selection::Effort;
use crate::view::shared::Shared;

/// The dump of a file.
#[derive(Debug)]
pub struct DumpFile {
    made: Made,
    shared: Arc<Shared>,
}

#[derive(Debug)]
enum Made {
    /// In blocks, as far as somebody needs.
    InBlocks(Box<MeasuredLog>),
    /// At once, when somebody needs it.
    AtOnce(AtOnce),
}

/// The dump of a file that is no log: made once, as the file is then.
#[derive(Debug)]
struct AtOnce {
    file: WholeFile,
    named: Named,
    limits: Limits,
    cost: u64,
    text: OnceLock<Arc<Vec<u8>>>,
    making: Mutex<()>,
}

/// What a file is called.
#[derive(Debug, Clone)]
pub struct Named {
    /// Its path as it is printed.
    pub path: String,
    /// Its name without directories.
    pub name: String,
    /// What that means.
    pub kind: Kind,
}

impl DumpFile {
    /// The dump of a log or KRaft snapshot.
    pub fn of_log(segment: Segment, named: Named, shown: Shown, shared: Arc<Shared>) -> Self {
        let Named { path, name, kind } = named;
        Self { made: Made::InBlocks(Box::new(MeasuredLog::new(segment, path, name, kind, shown))), shared }
    }

    /// The dump of a file that is no log; what Kafka says of it on standard error is at its end.
    pub fn of_other(file: WholeFile, named: Named, limits: Limits, shared: Arc<Shared>) -> Self {
        let (cost, text, making) = (file.cost(), OnceLock::new(), Mutex::default());
        Self { made: Made::AtOnce(AtOnce { file, named, limits, cost, text, making }), shared }
    }

    /// Whether the file is still the one that it was, grown perhaps.
    pub fn is_current(&self) -> bool {
        match &self.made {
            Made::InBlocks(log) => log.is_current(),
            Made::AtOnce(_) => true,
        }
    }

    /// The size in bytes; `None` when that costs more than `effort`.
    ///
    /// # Errors
    /// Those of reading.
    pub fn size(&self, effort: Effort) -> Result<Option<u64>, LogError> {
        let most = match effort {
            Effort::Bytes(bytes) => bytes,
            Effort::All | Effort::Background => u64::MAX,
        };
        match &self.made {
            Made::InBlocks(log) => log.size(most, |read| {
                if effort == Effort::Background {
                    self.shared.pace(read);
                }
            }),
            Made::AtOnce(other) if other.text.get().is_none() && other.cost > most => Ok(None),
            Made::AtOnce(other) => Ok(Some(other.text()?.len() as u64)),
        }
    }

    /// Reads up to `len` bytes at `at` into `out`; fewer only at the end.
    ///
    /// # Errors
    /// Those of reading.
    pub fn read(&self, at: u64, len: usize, out: &mut Vec<u8>) -> Result<(), LogError> {
        match &self.made {
            Made::InBlocks(log) => log.read(at, len, out),
            Made::AtOnce(other) => {
                let text = other.text()?;
                let from = to_index(at).min(text.len());
                let to = from.saturating_add(len).min(text.len());
                out.extend_from_slice(text.get(from..to).unwrap_or_default());
                Ok(())
            }
        }
    }
}

impl AtOnce {
    fn text(&self) -> Result<Arc<Vec<u8>>, LogError> {
        let _one_at_a_time = self.making.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(text) = self.text.get() {
            return Ok(text.clone());
        }
        let (bytes, beside) = self.file.read()?;
        let Named { path, name, kind } = &self.named;
        let file = IndexFile { path, name, bytes: &bytes };
        let mut dumped =
            whole(*kind, &file, &beside, Mode::Print, self.limits).map_err(|error| self.file.error(error))?;
        dumped.text.append(&mut dumped.reports);
        Ok(self.text.get_or_init(|| Arc::new(dumped.text)).clone())
    }
}
