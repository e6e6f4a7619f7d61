//! What a follower cuts, on paper: the exchange of OffsetsForLeaderEpoch between it and its leader (KIP-101, KIP-279), and since 2.7 the
//! same in answers to fetches (KIP-595), as `AbstractFetcherThread.getOffsetTruncationState` has it.
//!
//! Who becomes the leader begins a new epoch at its log's end, so that it knows where each epoch of its follower ended at most.

use crate::format::checkpoint::EpochEntry;
use crate::log::derived::epochs::Epochs;
use crate::units::{LeaderEpoch, Offset};

/// What one side of the exchange knows.
#[derive(Debug, Clone, Copy)]
pub struct Replica<'a> {
    /// Its log start offset.
    pub start: Offset,
    /// Its log end offset.
    pub end: Offset,
    /// Its high watermark, where it is known.
    pub high_watermark: Option<Offset>,
    /// Its leader epochs.
    pub epochs: &'a Epochs,
}

/// What a follower would cut.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct OnPaper {
    /// The offset at which its log ends then.
    pub to: Offset,
    /// What it asked, in order.
    pub asked: Vec<Asked>,
    /// Where it begins anew, since its leader begins later.
    pub begins_at: Option<Offset>,
}

/// A question of the follower, and the leader's answer.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Asked {
    /// Where did this epoch end?
    pub epoch: LeaderEpoch,
    /// The largest epoch up to that.
    pub answer: LeaderEpoch,
    /// Where it ended.
    pub end: Offset,
    /// The offset at which the follower cuts.
    pub cut: Offset,
}

/// What `follower` cuts when `leader` leads.
pub fn truncation(follower: &Replica<'_>, leader: &Replica<'_>) -> OnPaper {
    let mut leaders = leader.epochs.clone();
    let latest = follower.epochs.latest().max(leaders.latest()).map_or(0, |latest| latest.0);
    let (epoch, start_offset) = (LeaderEpoch(latest.saturating_add(1)), leader.end);
    leaders.assign(EpochEntry { epoch, start_offset });
    let (mut own, mut to, mut asked) = (follower.epochs.clone(), follower.end, Vec::new());
    if own.latest().is_none() {
        // It knows no epochs, as before 0.11: what it has above its high watermark is not to be trusted.
        to = follower.high_watermark.map_or(to, |high_watermark| high_watermark.min(to)).min(leader.end);
    }
    while let Some(epoch) = own.latest() {
        let Some((answer, end)) = leaders.end_of(epoch, leader.end) else { break };
        let here = own.end_of(answer, to);
        let (cut, is_done) = match here {
            Some((known, end_here)) if known == answer => (end_here.min(end).min(to), true),
            Some((_, end_here)) => (end_here.min(to), false),
            None => (end.min(to), true),
        };
        asked.push(Asked { epoch, answer, end, cut });
        let before = own.entries().len();
        to = cut;
        own.truncate_from_end(to);
        if is_done || own.entries().len() == before {
            break;
        }
    }
    let begins_at = (to < leader.start).then_some(leader.start);
    OnPaper { to, asked, begins_at }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn epochs(entries: &[(i32, i64)]) -> Epochs {
        let entry = |&(epoch, start): &(i32, i64)| EpochEntry {
            epoch: LeaderEpoch(epoch),
            start_offset: Offset(start),
        };
        Epochs::from_entries(&entries.iter().map(entry).collect::<Vec<_>>())
    }

    fn cuts(follower: (&[(i32, i64)], i64), leader: (&[(i32, i64)], i64)) -> (i64, usize) {
        let (own, leaders) = (epochs(follower.0), epochs(leader.0));
        let of = |epochs, end| Replica { start: Offset(0), end: Offset(end), high_watermark: None, epochs };
        let on_paper = truncation(&of(&own, follower.1), &of(&leaders, leader.1));
        (on_paper.to.0, on_paper.asked.len())
    }

    #[test]
    fn a_follower_cuts_what_its_leader_has_not() {
        assert_eq!(cuts((&[(0, 0), (2, 30)], 30), (&[(0, 0), (4, 17)], 22)), (17, 1));
        assert_eq!(cuts((&[(0, 0), (4, 17)], 22), (&[(0, 0), (2, 30)], 30)), (17, 1));
        assert_eq!(cuts((&[(0, 0)], 10), (&[(0, 0)], 20)), (10, 1), "it is only behind");
        assert_eq!(cuts((&[(0, 0)], 20), (&[(0, 0)], 10)), (10, 1));
        assert_eq!(cuts((&[(2, 0)], 5), (&[(4, 0)], 3)), (0, 1), "nothing in common");
    }

    /// The cases of KIP-279: unclean leaders in turn, so that one question is not enough.
    #[test]
    fn who_does_not_know_the_answer_asks_again() {
        let follower: &[(i32, i64)] = &[(0, 0), (2, 10), (4, 20)];
        let leader: &[(i32, i64)] = &[(0, 0), (1, 8), (3, 25)];
        assert_eq!(cuts((follower, 40), (leader, 50)), (8, 3));
        assert_eq!(cuts((leader, 50), (follower, 40)), (8, 2));
    }

    #[test]
    fn who_knows_no_epochs_cuts_at_its_high_watermark() {
        let (none, some) = (Epochs::default(), epochs(&[(0, 0)]));
        let high_watermark = Some(Offset(7));
        let follower = Replica { start: Offset(0), end: Offset(9), high_watermark, epochs: &none };
        let leader = Replica { start: Offset(0), end: Offset(9), high_watermark, epochs: &some };
        assert_eq!(truncation(&follower, &leader).to, Offset(7));
    }

    /// A replica: the epoch of each record, and what its checkpoint has.
    #[derive(Clone, Default)]
    struct Log {
        records: Vec<i32>,
        epochs: Epochs,
    }

    impl Log {
        fn end(&self) -> i64 {
            i64::try_from(self.records.len()).unwrap()
        }

        fn replica(&self) -> Replica<'_> {
            let (start, end) = (Offset(0), Offset(self.end()));
            Replica { start, end, high_watermark: None, epochs: &self.epochs }
        }

        fn append(&mut self, epoch: i32) {
            self.assign(epoch);
            self.records.push(epoch);
        }

        fn assign(&mut self, epoch: i32) {
            self.epochs.assign(EpochEntry { epoch: LeaderEpoch(epoch), start_offset: Offset(self.end()) });
        }

        fn truncate(&mut self, to: Offset) {
            self.records.truncate(usize::try_from(to.0).unwrap());
            self.epochs.truncate_from_end(to);
        }
    }

    /// Whoever is elected, clean or not: what a follower keeps is what its leader has, and no less than it must cut.
    #[test]
    fn after_any_elections_a_follower_keeps_what_it_has_in_common_with_its_leader() {
        let mut seed = 1_u64;
        let mut below = |most: usize| {
            seed = seed.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
            usize::try_from(seed >> 33).unwrap() % most
        };
        let mut asked = [0; 5];
        for _ in 0..500 {
            let mut logs = [(); 4].map(|()| Log::default());
            for epoch in 0..12 {
                let leads = below(4);
                logs[leads].assign(epoch);
                for _ in 0..below(4) {
                    logs[leads].append(epoch);
                }
                let leader = logs[leads].clone();
                for follower in (0..4).filter(|number| *number != leads) {
                    // Some are down, some fetch only a part.
                    if below(2) == 0 {
                        continue;
                    }
                    let log = &mut logs[follower];
                    let on_paper = truncation(&log.replica(), &leader.replica());
                    let common = log.records.iter().zip(&leader.records).take_while(|(a, b)| a == b).count();
                    assert_eq!(
                        on_paper.to.0,
                        i64::try_from(common).unwrap(),
                        "{:?} {:?}",
                        log.records,
                        leader.records
                    );
                    asked[on_paper.asked.len().min(4)] += 1;
                    log.truncate(on_paper.to);
                    for record in leader.records.iter().skip(common).take(below(6)) {
                        log.append(*record);
                    }
                }
            }
        }
        assert!(asked.iter().all(|count| *count > 0), "questions: {asked:?}");
    }
}
