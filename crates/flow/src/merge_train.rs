//! The order and bisection of the landing queue: several approved commits are checked together, and
//! if they are red, bisection finds the first commit that causes it.
//!
//! Checking together saves runs: a green train of eight needs one run of the checks instead of
//! eight. A red one costs at most the bisection.

use crate::job::Task;
use crate::policy::Policy;
use crate::ticket::{Ticket, TicketId, Time};

/// Sort key of a ticket in the landing queue: by priority, then by the time of the approval.
/// The id comes last and makes the order total, so that two workers agree on it.
pub fn queue_position(ticket: &Ticket) -> Option<(i32, Time, TicketId)> {
    let approval = ticket.approval.as_ref()?;
    // Higher priority sorts first, so it is negated; saturating, because the smallest number has no
    // negative.
    let urgency = ticket.spec.priority.saturating_neg();
    Some((urgency, approval.at, ticket.id.clone()))
}

/// Whether the ticket has a merge job that no worker holds.
pub fn waits_to_land(ticket: &Ticket) -> bool {
    let mut jobs = ticket.jobs.iter();
    jobs.any(|job| matches!(job.task, Task::Merge { .. }) && job.holder.is_none())
}

/// Whether a ticket stacked on this one may land. It may, once this one has landed.
pub fn allows_stacked_to_land(dependency: &Ticket) -> bool {
    dependency.landed.is_some()
}

/// Most commits that are checked together.
pub fn batch_max(policy: &Policy) -> usize {
    // 0 would make a train without commits, which never ends.
    policy.limits.batch_max.max(1) as usize
}

/// Bisection of several stacked commits. A prefix is named by its length; the empty one is the
/// branch itself.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Train {
    green: usize,
    /// Shortest prefix known to be red, or `length + 1` if none is.
    red: usize,
    length: usize,
}

/// Next step of a train.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TrainStep {
    /// Run the checks on the prefix of this length.
    Try(usize),
    /// The first `entries` commits land. The culprit after them, if any, goes back to its builder.
    Land {
        entries: usize,
        culprit: Option<usize>,
    },
}

impl Train {
    pub fn new(length: usize) -> Self {
        Self {
            green: 0,
            // One more than the length, so that an untried train differs from one whose last commit
            // is red.
            red: length + 1,
            length,
        }
    }

    pub fn next_step(&self) -> TrainStep {
        if self.green == self.length {
            return TrainStep::Land {
                entries: self.length,
                culprit: None,
            };
        }
        // The whole train first: in the ordinary case it is green, and one run decides.
        if self.red > self.length {
            return TrainStep::Try(self.length);
        }
        // The longest green prefix and the shortest red one are neighbours, so the commit between
        // them is the culprit. The commits after it are not blamed; they go into the next train.
        if self.red - self.green == 1 {
            return TrainStep::Land {
                entries: self.green,
                culprit: Some(self.green),
            };
        }
        TrainStep::Try(self.green + (self.red - self.green) / 2)
    }

    /// Records the result of the checks on the prefix of this length.
    /// Flaky checks can contradict themselves. Both bounds are kept in order, so that every result
    /// shortens the interval and the bisection ends.
    pub fn record_result(&mut self, prefix: usize, is_green: bool) {
        if is_green {
            self.green = self.green.max(prefix).min(self.length);
        } else {
            self.red = self.red.min(prefix).max(self.green + 1);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Runs a whole queue through trains. Returns how many landed, which ones went back, and how
    /// often checks ran.
    fn drive(entries: &[bool], most: usize) -> (usize, Vec<usize>, usize) {
        let mut queue: Vec<usize> = (0..entries.len()).collect();
        let (mut landed, mut back, mut runs) = (0, Vec::new(), 0);
        while !queue.is_empty() {
            let batch: Vec<usize> = queue.iter().copied().take(most).collect();
            let mut train = Train::new(batch.len());
            loop {
                match train.next_step() {
                    TrainStep::Try(n) => {
                        runs += 1;
                        train.record_result(n, batch[..n].iter().all(|entry| entries[*entry]));
                    }
                    TrainStep::Land {
                        entries: n,
                        culprit,
                    } => {
                        landed += n;
                        back.extend(culprit.map(|at| batch[at]));
                        queue.drain(..n + usize::from(culprit.is_some()));
                        break;
                    }
                }
            }
        }
        (landed, back, runs)
    }

    #[test]
    fn every_line_of_ten_lands_its_green_ones_and_sends_back_the_red_ones() {
        for mask in 0..1_u32 << 10 {
            let entries: Vec<bool> = (0..10).map(|at| mask >> at & 1 == 0).collect();
            let red: Vec<usize> = (0..10).filter(|at| !entries[*at]).collect();
            for most in [1, 3, 8] {
                let (landed, back, runs) = drive(&entries, most);
                assert_eq!((landed, &back), (10 - red.len(), &red), "{entries:?}");
                let each = 1 + most.next_power_of_two().trailing_zeros() as usize;
                assert!(
                    runs <= 10_usize.div_ceil(most) + red.len() * (each + 1),
                    "{entries:?} {runs}"
                );
            }
        }
    }

    #[test]
    fn a_green_train_is_checked_once() {
        assert_eq!(drive(&[true; 8], 8), (8, vec![], 1));
        assert_eq!(drive(&[true; 8], 1).2, 8);
    }

    #[test]
    fn checks_that_contradict_themselves_still_come_to_an_end() {
        let mut train = Train::new(8);
        for n in 0..64 {
            match train.next_step() {
                TrainStep::Try(prefix) => train.record_result(prefix, n % 2 == 1),
                TrainStep::Land { entries, culprit } => {
                    assert!(entries + usize::from(culprit.is_some()) <= 8);
                    return;
                }
            }
        }
        panic!("no end");
    }
}
