//! Decides which files of a ticket may be removed. Pure: it sees the ticket and the time, and removes
//! nothing itself.

use std::time::Duration;

use crate::ticket::Ticket;
use crate::{Stage, Time};

/// Kinds of a ticket's files that may go.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct RemovableFiles {
    /// Worktree, checkouts, scratch directories and homes. The branch, the refs of rounds, findings
    /// documents and transcripts stay.
    pub working_files: bool,
    /// Transcripts, briefs and output of checks.
    pub transcripts: bool,
}

/// Reason why nothing of a ticket may be removed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum NotRemovable {
    #[error("it is {}, so its files are still needed", .0.as_str())]
    NotEnded(Stage),
    #[error("a job of it has not ended")]
    OpenJob,
}

/// Ages that files of an ended ticket must have, since its last event.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RetentionAges {
    pub working_files: Duration,
    pub transcripts: Duration,
}

/// Returns the files of a ticket that may be removed now. A ticket that can go on keeps everything:
/// an escalated or blocked one waits for a person, who may want to look at its files or continue in
/// its worktree.
pub fn removable_files(
    ticket: &Ticket,
    now: Time,
    ages: RetentionAges,
) -> Result<RemovableFiles, NotRemovable> {
    if !ticket.stage.is_terminal() {
        return Err(NotRemovable::NotEnded(ticket.stage));
    }
    // An open job may still use the files.
    if !ticket.jobs.is_empty() {
        return Err(NotRemovable::OpenJob);
    }
    // A clock that was set back gives a negative age, which counts as none.
    let age_ms = now.0.saturating_sub(ticket.updated_at.0);
    let age = Duration::from_millis(u64::try_from(age_ms).unwrap_or(0));
    Ok(RemovableFiles {
        working_files: age >= ages.working_files,
        transcripts: age >= ages.transcripts,
    })
}

/// Returns whether the working files may go at the end of a job, whatever their age.
pub fn has_no_more_work(ticket: &Ticket) -> bool {
    ticket.stage.is_terminal() && ticket.jobs.is_empty()
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;
    use crate::ticket::Spec;
    use crate::{Actor, Event, EventKind, Policy, Role, TicketId};

    const HOUR_MS: i64 = 60 * 60 * 1000;
    const DAY_MS: i64 = 24 * HOUR_MS;
    const NOW: Time = Time(400 * DAY_MS);
    const AGES: RetentionAges = RetentionAges {
        working_files: Duration::ZERO,
        transcripts: Duration::from_secs(90 * 24 * 60 * 60),
    };

    fn ticket(stage: Stage, days_old: i64) -> Ticket {
        let spec = Spec {
            title: "A change".to_owned(),
            ..Spec::default()
        };
        let created = Event {
            at: Time(NOW.0 - days_old * DAY_MS),
            by: Actor::new("ada", Role::Human),
            expects: None,
            what: EventKind::Created {
                spec: Box::new(spec),
                met: BTreeSet::new(),
                failed: Vec::new(),
            },
        };
        let id = TicketId::new("T-1").unwrap();
        let opened = crate::advance::open_ticket(&id, &created, &Policy::default());
        Ticket {
            stage,
            jobs: Vec::new(),
            ..opened.unwrap().ticket
        }
    }

    #[test]
    fn only_an_ended_ticket_loses_files() {
        for stage in Stage::ALL {
            let decided = removable_files(&ticket(stage, 200), NOW, AGES);
            let all = RemovableFiles {
                working_files: true,
                transcripts: true,
            };
            let expected = if stage.is_terminal() {
                Ok(all)
            } else {
                Err(NotRemovable::NotEnded(stage))
            };
            assert_eq!(decided, expected, "{stage:?}");
        }
    }

    #[test]
    fn transcripts_stay_until_they_are_old() {
        for (days, transcripts) in [(0, false), (89, false), (90, true), (300, true)] {
            let removable = removable_files(&ticket(Stage::Done, days), NOW, AGES).unwrap();
            assert!(removable.working_files);
            assert_eq!(removable.transcripts, transcripts, "{days}");
        }
    }

    #[test]
    fn an_age_in_hours_is_not_rounded_to_days() {
        let ages = RetentionAges {
            working_files: Duration::from_secs(12 * 60 * 60),
            transcripts: Duration::from_secs(36 * 60 * 60),
        };
        for (hours, working_files, transcripts) in [
            (0, false, false),
            (12, true, false),
            (35, true, false),
            (36, true, true),
        ] {
            let old = Ticket {
                updated_at: Time(NOW.0 - hours * HOUR_MS),
                ..ticket(Stage::Done, 0)
            };
            let expected = RemovableFiles {
                working_files,
                transcripts,
            };
            assert_eq!(removable_files(&old, NOW, ages), Ok(expected), "{hours}");
        }
    }

    #[test]
    fn a_ticket_from_the_future_keeps_its_transcripts() {
        let removable = removable_files(&ticket(Stage::Done, -10), NOW, AGES).unwrap();
        assert!(!removable.transcripts);
    }
}
