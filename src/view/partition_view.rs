//! One partition as readers see it: its bounds, its runs, records by offset, and counting.

use std::sync::{Arc, Mutex, PoisonError};

use crate::format::batch::Batch;
use crate::format::record::Record;
use crate::log::LogError;
use crate::log::keys::KeyIndex;
use crate::log::partition::Partition;
use crate::log::segment::Segment;
use crate::log::transactions::{Decided, Transactions};
use crate::units::{Offset, Position};
use crate::view::env::Env;
use crate::view::format::{Format, Renderer, Rendering};
use crate::view::problems::Problems;
use crate::view::run::{Goal, Run};
use crate::view::shared::Shared;
use crate::view::suspects;

/// Source bytes that may be measured without a second thought.
pub const CHEAP_BYTES: u64 = 1024 * 1024;

/// Which of a partition's records are shown.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Scope {
    /// Up to the high watermark only.
    pub up_to_high_watermark: bool,
    /// Also below the log start offset, as far as it is on disk.
    pub from_first_segment: bool,
    /// A read that meets damage fails there.
    pub fail_on_damage: bool,
}

impl Scope {
    /// The offset at which reading a partition stops whatever the log holds.
    pub fn limit(self, partition: &Partition) -> Offset {
        let mark = self.up_to_high_watermark.then(|| partition.high_watermark()).flatten();
        mark.unwrap_or(Offset(i64::MAX))
    }
}

/// One partition as readers see it.
#[derive(Debug)]
pub struct PartitionView {
    /// The replica.
    pub partition: Arc<Partition>,
    /// Damage met so far.
    pub problems: Problems,
    /// What is shown.
    pub scope: Scope,
    renderer: Renderer,
    shared: Arc<Shared>,
    transactions: Transactions,
    suspects: Mutex<suspects::Known>,
    keys: KeyIndex,
}

/// A record's batch and where it is.
#[derive(Debug, Clone, Copy)]
pub struct RecordPlace<'a> {
    /// The batch.
    pub batch: &'a Batch<'a>,
    /// Where the batch begins.
    pub position: Position,
    /// The segment.
    pub segment: &'a Segment,
}

/// Why a view can't be read.
#[derive(Debug, thiserror::Error)]
pub enum ViewError {
    /// The source's files.
    #[error(transparent)]
    Log(#[from] LogError),
    /// Damage, where the mount asked for an error there.
    #[error("{file}: damage before offset {offset}, and on_damage is error")]
    Damaged {
        /// The segment's name.
        file: String,
        /// The first offset behind it.
        offset: Offset,
    },
}

impl PartitionView {
    /// A view of `partition`.
    pub fn new(partition: Arc<Partition>, scope: Scope, rendering: Rendering, shared: Arc<Shared>) -> Self {
        let renderer = Renderer::new(&partition.name, rendering);
        let (problems, transactions) = (Problems::default(), Transactions::default());
        let suspects = Mutex::default();
        let keys = KeyIndex::new(shared.key_space.clone());
        Self { partition, problems, scope, renderer, shared, transactions, suspects, keys }
    }

    /// The index of its keys.
    pub(super) const fn keys(&self) -> &KeyIndex {
        &self.keys
    }

    /// Pools and caches.
    pub(super) fn shared(&self) -> &Shared {
        &self.shared
    }

    pub(super) fn lock_suspects(&self) -> std::sync::MutexGuard<'_, suspects::Known> {
        self.suspects.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The renderer of its records.
    pub const fn renderer(&self) -> &Renderer {
        &self.renderer
    }

    /// Decided transactions where they matter.
    ///
    /// # Errors
    /// Those of reading.
    pub fn decided(&self, committed: bool) -> Result<Option<Arc<Decided>>, LogError> {
        let sidecars = self.shared.sidecars.as_ref();
        committed.then(|| self.transactions.decided(&self.partition, sidecars)).transpose()
    }

    /// Whether asking for transactions costs nothing, or little, since it was done before.
    pub fn knows_transactions(&self) -> bool {
        self.transactions.is_known()
    }

    /// Runs `work` with what measuring and rendering need.
    ///
    /// # Errors
    /// Those of `work`, and of looking transactions up.
    pub fn with_env<T, E: From<LogError>>(
        &self,
        committed: bool,
        work: impl FnOnce(&Env<'_>) -> Result<T, E>,
    ) -> Result<T, E> {
        let decided = self.decided(committed)?;
        let env = Env {
            shared: &self.shared,
            renderer: &self.renderer,
            problems: &self.problems,
            paced: false,
            decided: decided.as_deref(),
        };
        work(&env)
    }

    /// The partition's generation, as its segments are now.
    ///
    /// # Errors
    /// Those of listing.
    pub fn generation(&self) -> Result<u64, LogError> {
        self.partition.segments()?;
        Ok(self.partition.generation())
    }

    /// The first offset that is shown.
    ///
    /// # Errors
    /// Those of listing.
    pub fn start(&self) -> Result<Offset, LogError> {
        if self.scope.from_first_segment {
            self.partition.first_on_disk()
        } else {
            self.partition.log_start()
        }
    }

    /// The offset after the last one that is shown.
    ///
    /// # Errors
    /// Those of reading.
    pub fn end(&self, committed: bool) -> Result<Offset, LogError> {
        let mut end = self.partition.log_end()?.min(self.limit());
        if let Some(decided) = self.decided(committed)? {
            // A transaction that is open since before the log start holds back all that is left.
            end = end.min(decided.last_stable().max(self.start()?));
        }
        Ok(end)
    }

    /// The offset at which reading stops whatever the log holds: the high watermark where that is asked for.
    pub fn limit(&self) -> Offset {
        self.scope.limit(&self.partition)
    }

    /// The run of a whole segment, shared by all that read it.
    pub fn run(&self, env: &Env<'_>, segment: &Arc<Segment>) -> Arc<Run> {
        let key = (segment.uid, env.decided.is_some());
        let mut runs = self.shared.runs();
        if let Some(run) = runs.get(&key) {
            return run.clone();
        }
        let run = Arc::new(Run::new(segment.clone(), segment.start(), env.decided.is_some()));
        runs.push(key, run.clone());
        drop(runs);
        run.load(env);
        run
    }

    /// Measures a segment in these formats, and its times, with regard for who else uses the disk. Others may be measured at the same time.
    ///
    /// # Errors
    /// Those of reading.
    pub fn measure_segment(&self, segment: &Arc<Segment>, formats: &[Format]) -> Result<(), LogError> {
        self.with_env(false, |env| {
            let env = &Env { paced: true, ..*env };
            let run = self.run(env, segment);
            formats.iter().try_for_each(|format| run.extend(env, *format, Goal::End).map(drop))?;
            self.times(env, segment).map(drop)
        })
    }

    /// A run of `segment` in which `offset` is near: the whole segment's when little of it is not measured yet,
    /// otherwise one of its own.
    ///
    /// # Errors
    /// Those of reading.
    pub fn run_near(
        &self,
        env: &Env<'_>,
        segment: &Arc<Segment>,
        format: impl Into<Option<Format>>,
        offset: Offset,
    ) -> Result<Arc<Run>, LogError> {
        let run = self.run(env, segment);
        if offset <= segment.lower || run.cost(env, format, Goal::Offset(offset)) <= CHEAP_BYTES {
            return Ok(run);
        }
        let start = segment.start_near(offset)?;
        if start.position == Position(0) {
            return Ok(run);
        }
        Ok(Arc::new(Run::new(segment.clone(), start, env.decided.is_some())))
    }

    /// Calls `visit` with the record at `offset`; `None` where there is none, as at a control record, in a gap of
    /// compaction, or outside what is shown.
    ///
    /// # Errors
    /// Those of reading.
    pub fn record<T>(
        &self,
        committed: bool,
        offset: Offset,
        visit: impl FnOnce(&Record<'_>, &RecordPlace<'_>) -> T,
    ) -> Result<Option<T>, ViewError> {
        if offset < self.start()? || offset >= self.limit() {
            return Ok(None);
        }
        self.with_env(committed, |env| {
            if offset >= env.bound() {
                return Ok(None);
            }
            let shown = self.record_at(env, offset, visit)?;
            if shown.is_none() {
                self.fail_at_damage(env, offset, offset.next())?;
            }
            Ok(shown)
        })
    }

    /// The same without regard to bounds and damage.
    pub(super) fn record_at<T>(
        &self,
        env: &Env<'_>,
        offset: Offset,
        visit: impl FnOnce(&Record<'_>, &RecordPlace<'_>) -> T,
    ) -> Result<Option<T>, LogError> {
        let Some(found) = self.partition.find(offset)? else { return Ok(None) };
        let batch = Batch { bytes: &found.bytes, header: found.header };
        if !env.is_visible(&batch) {
            return Ok(None);
        }
        let place = RecordPlace { batch: &batch, position: found.position, segment: &found.segment };
        let _permit = env.shared.permit(&batch, &found.segment.limits());
        env.shared.with_workspace(|workspace| {
            let limits = found.segment.limits();
            let Ok(records) = batch.records(&mut workspace.decoder, &limits) else { return Ok(None) };
            let (mut visit, mut shown) = (Some(visit), None);
            for record in records {
                // None is shown of a batch whose records can't all be read.
                let Ok(record) = record else { return Ok(None) };
                if record.offset == offset {
                    shown = visit.take().map(|visit| visit(&record, &place));
                }
            }
            Ok(shown)
        })
    }

    /// Fails where damage has taken offsets between `from` and `to`, if the mount asked for that.
    ///
    /// # Errors
    /// [`ViewError::Damaged`], and those of reading.
    pub fn fail_at_damage(&self, env: &Env<'_>, from: Offset, to: Offset) -> Result<(), ViewError> {
        if !self.scope.fail_on_damage {
            return Ok(());
        }
        let segments = self.partition.segments()?;
        for segment in segments.iter().skip(Partition::floor(&segments, from)) {
            if segment.lower >= to {
                break;
            }
            let run = self.run_near(env, segment, None, from)?;
            run.extend(env, None, Goal::Offset(to))?;
            let mut next = Offset(i64::MIN);
            for block in run.blocks() {
                if block.is_after_damage() && block.base() > from && next < to {
                    return Err(damaged(&run.segment, block.base()));
                }
                next = block.last().next();
            }
            if run.ends_damaged() && next < to && segment.below() > from {
                return Err(damaged(&run.segment, segment.below()));
            }
        }
        Ok(())
    }
}

/// The error at the damage before `offset`.
pub(super) fn damaged(segment: &Segment, offset: Offset) -> ViewError {
    let name = segment.path.file_name().unwrap_or_default();
    ViewError::Damaged { file: name.to_string_lossy().into_owned(), offset }
}
