//! KRaft snapshots (KIP-630): batches from offset 0 on, the first with a header record, the last with a footer.

use std::path::Path;
use std::sync::Arc;

use crate::format::batch::{Batch, Decoder, Limits};
use crate::format::control::ControlType;
use crate::log::files;
use crate::log::problem::{Kind, Problem};
use crate::log::segment::scan::{Scanner, Start, Step};
use crate::units::{Offset, Position};

/// Checks a snapshot of the metadata partition, or `bootstrap.checkpoint`.
pub(super) fn check(path: &Path, limits: Limits) -> Vec<Problem> {
    let mut problems = Vec::new();
    if let Err(error) = scan(path, limits, &mut problems) {
        problems.push(Problem::of_file(path, Kind::Unreadable, error.to_string()));
    }
    problems
}

fn scan(path: &Path, limits: Limits, problems: &mut Vec<Problem>) -> std::io::Result<()> {
    let file = files::open(path)?;
    let len = file.metadata()?.len();
    let start = Start::new(Position(0), Offset(0), Offset(i64::MAX));
    let mut scanner = Scanner::new(Arc::new(file), len, start, limits);
    let (mut decoder, mut last) = (Decoder::default(), None);
    loop {
        match scanner.step()? {
            Step::Batch { position, batch } => match read(&batch, &mut decoder, limits) {
                Ok(control) => last = control,
                Err((kind, cause)) => {
                    let problem = Problem::of_file(path, kind, cause);
                    problems.push(
                        problem.at(position, batch.bytes.len() as u64).about(batch.header.first_known()),
                    );
                }
            },
            Step::Damage(damage) => {
                problems.push(Problem::of_damage(path, &damage, Kind::of_fault(&damage.fault)));
            }
            Step::End(tail) => {
                let kind = |fault| {
                    if matches!(fault, crate::log::segment::scan::Fault::Torn { .. }) {
                        Kind::TornTail
                    } else {
                        Kind::of_fault(&fault)
                    }
                };
                let damage = tail.damage();
                problems.extend(
                    damage.map(|damage| Problem::of_damage(path, damage, kind(damage.fault.clone()))),
                );
                if damage.is_none() && last != Some(ControlType::SnapshotFooter) {
                    let cause = "the snapshot ends without its SNAPSHOT_FOOTER record";
                    problems.push(Problem::of_file(path, Kind::TornTail, cause).at(Position(len), 0));
                }
                return Ok(());
            }
        }
    }
}

/// Reads all records of a batch; the type of the last one if they are control records.
fn read(
    batch: &Batch<'_>,
    decoder: &mut Decoder,
    limits: Limits,
) -> Result<Option<ControlType>, (Kind, String)> {
    let told = |error: crate::format::batch::BatchError| (Kind::of_records(&error), error.to_string());
    let mut last = None;
    for record in batch.records(decoder, &limits).map_err(told)? {
        let record = record.map_err(told)?;
        if batch.header.is_control {
            let of = ControlType::parse(record.key.unwrap_or_default());
            last = Some(of.map_err(|error| (Kind::BadRecords, error.to_string()))?);
        }
    }
    Ok(last)
}
