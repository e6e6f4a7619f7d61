//! `suspect.jsonl`: records of batches that can be decoded but are not to be trusted, and are in no other file.
//!
//! ```json
//! {"topic":"t","partition":0,"offset":7,...,"headers":[],"suspect":{"file":"00000000000000000000.log","position":512,"cause":"..."}}
//! ```
//! Lines as in `.jsonl`, with where the batch lies and what is wrong with it. See [`crate::log::segment::suspects`] for what
//! is looked at. Kept in memory are places alone: a read decodes them again.

use std::ops::Range;
use std::sync::Arc;

use crate::log::LogError;
use crate::log::segment::suspects::{self, Suspect};
use crate::log::segment::{Segment, SegmentUid};
use crate::view::env::Env;
use crate::view::format::Format;
use crate::view::jsonl;
use crate::view::layout::{Block, to_index};
use crate::view::partition_view::{PartitionView, ViewError};
use crate::view::run::Goal;
use crate::view::selection::Effort;
use crate::view::shared::Workspace;

/// Source bytes of suspect batches, one after another, that are rendered at once.
const GROUP_BYTES: u64 = 64 * 1024;

/// The suspect batches of a partition.
#[derive(Debug)]
pub struct Suspects {
    groups: Vec<Group>,
}

/// Suspect batches that lie one after another.
#[derive(Debug)]
struct Group {
    segment: Arc<Segment>,
    region: Range<u64>,
    /// Bytes of output up to its end.
    end: u64,
}

/// The suspect batches that were found, and in which segments of which length.
pub(super) type Known = Option<(Vec<(SegmentUid, u64)>, Arc<Suspects>)>;

impl PartitionView {
    /// The suspect batches as they are now; `None` when looking for them would cost more than `effort`.
    ///
    /// # Errors
    /// Those of reading.
    pub fn suspects(&self, effort: Effort) -> Result<Option<Arc<Suspects>>, ViewError> {
        let segments = self.partition.segments()?;
        let state = segments
            .iter()
            .map(|segment| Ok((segment.uid, segment.open()?.1)))
            .collect::<Result<Vec<_>, LogError>>()?;
        if let Some((of, known)) = &*self.lock_suspects()
            && *of == state
        {
            return Ok(Some(known.clone()));
        }
        let found = self.with_env(false, |env| {
            let runs: Vec<_> = segments.iter().map(|segment| self.run(env, segment)).collect();
            let cost: u64 = runs.iter().map(|run| run.unmeasured(env, None)).sum();
            if matches!(effort, Effort::Bytes(limit) if cost > limit) {
                return Ok::<_, ViewError>(None);
            }
            let env = Env { paced: effort == Effort::Background, ..*env };
            let mut suspects = Suspects { groups: Vec::new() };
            for (run, (_, len)) in runs.iter().zip(&state) {
                run.extend(&env, None, Goal::End)?;
                let spans = run.blocks().iter().map(Block::span).collect();
                for region in gaps(spans, *len) {
                    suspects.add(&env, &run.segment, region)?;
                }
            }
            Ok(Some(Arc::new(suspects)))
        })?;
        if let Some(found) = &found {
            *self.lock_suspects() = Some((state, found.clone()));
        }
        Ok(found)
    }
}

impl Suspects {
    /// Bytes of output.
    pub fn size(&self) -> u64 {
        self.groups.last().map_or(0, |group| group.end)
    }

    /// Appends up to `len` bytes of output from `at` on to `out`.
    ///
    /// # Errors
    /// Those of reading.
    pub fn read(
        &self,
        view: &PartitionView,
        at: u64,
        len: usize,
        out: &mut Vec<u8>,
    ) -> Result<(), ViewError> {
        let (mut at, wanted) = (at, out.len().saturating_add(len));
        let mut index = self.groups.partition_point(|group| group.end <= at);
        view.with_env(false, |env| {
            while let Some(group) = self.groups.get(index).filter(|_| out.len() < wanted) {
                let start =
                    index.checked_sub(1).and_then(|before| self.groups.get(before)).map_or(0, |b| b.end);
                let mut rendered = Vec::new();
                render(env, &group.segment, group.region.clone(), |_, lines| {
                    rendered.extend_from_slice(lines);
                })?;
                let from = to_index(at - start).min(rendered.len());
                let to = rendered.len().min(from + (wanted - out.len()));
                out.extend_from_slice(rendered.get(from..to).unwrap_or_default());
                at = group.end;
                index += 1;
            }
            Ok(())
        })
    }

    fn add(&mut self, env: &Env<'_>, segment: &Arc<Segment>, region: Range<u64>) -> Result<(), ViewError> {
        let mut end = self.size();
        let groups = &mut self.groups;
        render(env, segment, region, |suspect, lines| {
            let (from, to) = (suspect.position.0, suspect.position.0 + suspect.len);
            end += lines.len() as u64;
            match groups.last_mut() {
                Some(last)
                    if last.segment.uid == segment.uid
                        && last.region.end == from
                        && to - last.region.start <= GROUP_BYTES =>
                {
                    last.region.end = to;
                    last.end = end;
                }
                _ => groups.push(Group { segment: segment.clone(), region: from..to, end }),
            }
        })
    }
}

/// What is between and behind `spans` in `len` bytes.
fn gaps(mut spans: Vec<(u64, u64)>, len: u64) -> Vec<Range<u64>> {
    spans.sort_unstable();
    let mut gaps = Vec::new();
    let mut at = 0;
    for (start, end) in spans.into_iter().chain([(len, len)]) {
        if at < start {
            gaps.push(at..start);
        }
        at = at.max(end);
    }
    gaps
}

/// Calls `visit` with each suspect batch of a region and its lines. Control records have none.
fn render(
    env: &Env<'_>,
    segment: &Segment,
    region: Range<u64>,
    mut visit: impl FnMut(&Suspect<'_>, &[u8]),
) -> Result<(), ViewError> {
    let (file, _) = segment.open()?;
    let limits = segment.limits();
    let name = segment.path.file_name().unwrap_or_default().to_string_lossy();
    env.shared
        .with_workspace(|Workspace { decoder, scratch, .. }| {
            suspects::for_each(&file, region, &limits, decoder, |suspect, decoder| {
                scratch.clear();
                let _permit = env.shared.permit(&suspect.batch, &limits);
                let Ok(records) = suspect.batch.records(decoder, &limits) else { return };
                for record in records.flatten().filter(|_| !suspect.batch.header.is_control) {
                    env.renderer.render(Format::Jsonl, &record, scratch);
                    // The object ends behind the mark.
                    scratch.truncate(scratch.len() - 2);
                    scratch.extend_from_slice(b",\"suspect\":{\"file\":");
                    jsonl::push_bytes(name.as_bytes(), scratch);
                    scratch.extend_from_slice(
                        format!(",\"position\":{},\"cause\":", suspect.position).as_bytes(),
                    );
                    jsonl::push_bytes(suspect.doubt.to_string().as_bytes(), scratch);
                    scratch.extend_from_slice(b"}}\n");
                }
                decoder.shrink();
                visit(suspect, scratch);
            })
        })
        .map_err(|error| segment.error(error).into())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn gaps_are_what_no_span_covers() {
        assert_eq!(gaps(vec![(10, 20), (25, 30), (0, 10)], 40), [20..25, 30..40]);
        assert_eq!(gaps(vec![(0, 40)], 40), []);
        assert_eq!(gaps(vec![(3, 5)], 5), vec![0..3]);
    }
}
