//! The landing queue's arithmetic: approved commits stand in line, some of them are tried
//! together, and where that is red, halving finds the first that makes it so.

use crate::job::Task;
use crate::policy::Policy;
use crate::ticket::{Ticket, TicketId, Time};

/// A ticket's place in the line: the more urgent first, then the one approved first.
pub fn place(ticket: &Ticket) -> Option<(i32, Time, TicketId)> {
    let approval = ticket.approval.as_ref()?;
    let urgency = ticket.spec.priority.saturating_neg();
    Some((urgency, approval.at, ticket.id.clone()))
}

/// The stage of every ticket that may wait for its landing.
pub const WAITING: crate::Stage = crate::Stage::Approved;

/// Whether the ticket is to land, and nobody has that in hand.
pub fn waits(ticket: &Ticket) -> bool {
    let mut jobs = ticket.jobs.iter();
    jobs.any(|job| matches!(job.task, Task::Merge { .. }) && job.holder.is_none())
}

/// Whether a ticket may land that is stacked on this one: what it stands on is there before it.
pub fn lets_land(dependency: &Ticket) -> bool {
    dependency.landed.is_some()
}

/// How many are tried together at the most.
pub fn batch_max(policy: &Policy) -> usize {
    policy.limits.batch_max.max(1) as usize
}

/// Several commits on top of each other, and what is known of them. A prefix is named by its
/// length; the empty one is the branch as it stands.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Train {
    green: usize,
    /// The shortest prefix that is known to be red; one more than there are, if none is.
    red: usize,
    length: usize,
}

/// What is to be done with a train.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TrainStep {
    /// Run the checks on the prefix of this length.
    Try(usize),
    /// So many of the first land; the one after them, if there is one, goes back.
    Land { cars: usize, culprit: Option<usize> },
}

impl Train {
    pub fn of(length: usize) -> Self {
        Self {
            green: 0,
            red: length + 1,
            length,
        }
    }

    pub fn next(&self) -> TrainStep {
        if self.green == self.length {
            return TrainStep::Land {
                cars: self.length,
                culprit: None,
            };
        }
        if self.red > self.length {
            return TrainStep::Try(self.length);
        }
        if self.red - self.green == 1 {
            return TrainStep::Land {
                cars: self.green,
                culprit: Some(self.green),
            };
        }
        TrainStep::Try(self.green + (self.red - self.green) / 2)
    }

    /// The checks' word on the prefix of this length.
    pub fn heard(&mut self, prefix: usize, is_green: bool) {
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

    /// Runs whole lines through trains: who lands, who goes back, and how often checks ran.
    fn drive(cars: &[bool], most: usize) -> (usize, Vec<usize>, usize) {
        let mut line: Vec<usize> = (0..cars.len()).collect();
        let (mut landed, mut back, mut runs) = (0, Vec::new(), 0);
        while !line.is_empty() {
            let batch: Vec<usize> = line.iter().copied().take(most).collect();
            let mut train = Train::of(batch.len());
            loop {
                match train.next() {
                    TrainStep::Try(n) => {
                        runs += 1;
                        train.heard(n, batch[..n].iter().all(|car| cars[*car]));
                    }
                    TrainStep::Land { cars: n, culprit } => {
                        landed += n;
                        back.extend(culprit.map(|at| batch[at]));
                        line.drain(..n + usize::from(culprit.is_some()));
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
            let cars: Vec<bool> = (0..10).map(|at| mask >> at & 1 == 0).collect();
            let red: Vec<usize> = (0..10).filter(|at| !cars[*at]).collect();
            for most in [1, 3, 8] {
                let (landed, back, runs) = drive(&cars, most);
                assert_eq!((landed, &back), (10 - red.len(), &red), "{cars:?}");
                let each = 1 + most.next_power_of_two().trailing_zeros() as usize;
                assert!(
                    runs <= 10_usize.div_ceil(most) + red.len() * (each + 1),
                    "{cars:?} {runs}"
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
        let mut train = Train::of(8);
        for n in 0..64 {
            match train.next() {
                TrainStep::Try(prefix) => train.heard(prefix, n % 2 == 1),
                TrainStep::Land { cars, culprit } => {
                    assert!(cars + usize::from(culprit.is_some()) <= 8);
                    return;
                }
            }
        }
        panic!("no end");
    }
}
