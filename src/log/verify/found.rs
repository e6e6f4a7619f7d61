//! What was found, bounded: a partition with a million wrong entries is no reason to run out of memory.

use std::path::PathBuf;

use crate::log::problem::{Kind, Problem, Severity};
use crate::log::verify::Counts;

/// Lines kept for one partition; more are counted.
const MAX_KEPT: usize = 10_000;

/// Problems and notes, as many as are kept.
#[derive(Debug, Default)]
pub(super) struct Found {
    kept: Vec<Problem>,
    left_out: Vec<(Severity, u64)>,
    last_file: PathBuf,
}

impl Found {
    pub(super) fn add(&mut self, problem: Problem) {
        if self.kept.len() < MAX_KEPT {
            self.kept.push(problem);
            return;
        }
        let severity = problem.kind.severity();
        self.last_file = problem.file;
        self.leave_out(severity, 1);
    }

    pub(super) fn extend(&mut self, problems: impl IntoIterator<Item = Problem>) {
        problems.into_iter().for_each(|problem| self.add(problem));
    }

    /// Takes in what another has.
    pub(super) fn merge(&mut self, other: Self) {
        self.extend(other.kept);
        for (severity, count) in other.left_out {
            self.last_file.clone_from(&other.last_file);
            self.leave_out(severity, count);
        }
    }

    fn leave_out(&mut self, severity: Severity, count: u64) {
        match self.left_out.iter_mut().find(|(of, _)| *of == severity) {
            Some((_, left_out)) => *left_out += count,
            None => self.left_out.push((severity, count)),
        }
    }

    /// All in the order of files and positions, counted.
    pub(super) fn finish(mut self, counts: &mut Counts) -> Vec<Problem> {
        self.kept.sort_by(|a, b| (&a.file, a.position, a.kind).cmp(&(&b.file, b.position, b.kind)));
        self.kept.dedup();
        for problem in &self.kept {
            *counts.of(problem.kind.severity()) += 1;
        }
        let all: u64 = self.left_out.iter().map(|(_, count)| count).sum();
        for (severity, count) in self.left_out {
            *counts.of(severity) += count;
        }
        if all > 0 {
            let cause = format!("and {all} more that are only counted");
            self.kept.push(Problem::of_file(&self.last_file, Kind::More, cause));
        }
        self.kept
    }
}
