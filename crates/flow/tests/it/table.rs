//! The whole table: every stage × event, with the right and a wrong role, under a live and a stale
//! token, on the current version and on an old one.

mod remote_access;
mod scene;
mod written;

use std::collections::BTreeSet;

use flow::Stage::{
    Approved, Blocked, Building, Cancelled, Checking, Done, Escalated, Failed, Merging, Pending,
    Queued, Reviewing, Rework,
};
use flow::advance::{allowed_roles, allowed_stages};
use flow::event::Lease;
use flow::{Actor, Event, EventKind, Refused, Role, Stage, Step, advance};

use crate::story::Story;
pub use scene::{EVENTS, lease_of, seen};
use scene::{scenes, variants};

/// Returns the stages that may follow a stage, as designed.
fn legal(from: Stage) -> &'static [Stage] {
    match from {
        Pending => &[Pending, Queued, Blocked, Escalated, Cancelled],
        Queued => &[Queued, Building, Escalated, Failed, Cancelled],
        Building => &[
            Building, Checking, Rework, Queued, Escalated, Failed, Cancelled,
        ],
        Checking => &[
            Checking, Reviewing, Rework, Approved, Done, Escalated, Failed, Cancelled,
        ],
        Reviewing => &[
            Reviewing, Rework, Approved, Done, Escalated, Failed, Cancelled,
        ],
        Rework => &[Rework, Building, Escalated, Failed, Cancelled],
        Approved => &[
            Approved, Merging, Done, Checking, Rework, Escalated, Failed, Cancelled,
        ],
        Merging => &[
            Merging, Done, Approved, Checking, Rework, Escalated, Failed, Cancelled,
        ],
        Escalated => &[
            Escalated, Rework, Queued, Checking, Reviewing, Approved, Done, Blocked, Failed,
            Cancelled,
        ],
        Blocked => &[
            Blocked, Pending, Queued, Checking, Rework, Escalated, Cancelled,
        ],
        Done | Failed | Cancelled => &[],
    }
}

fn tried(story: &Story, event: &Event) -> Result<Step, Refused> {
    let answer = advance(&story.ticket, event, &story.policy);
    if let Err(refused) = &answer {
        assert_is_a_sentence(&refused.to_string());
    }
    answer
}

/// People read refusals, so each must be a sentence.
fn assert_is_a_sentence(text: &str) {
    let noise = ["{", "}", "::", "Some(", "None", "[", "\n", "  "];
    assert!(text.len() > 15 && text.len() < 250, "{text:?}");
    assert!(text.split(' ').count() > 4, "{text:?}");
    for word in noise {
        assert!(!text.contains(word), "{word:?} in {text:?}");
    }
    assert!(!text.ends_with(['.', ' ', ':', ';']), "{text:?}");
}

/// Calls `look` with every scene, event name, right actor and event.
fn for_all(mut look: impl FnMut(&Story, Actor, EventKind)) {
    for stage in Stage::ALL {
        for scene in scenes(stage) {
            assert_eq!(scene.stage(), stage);
            for name in EVENTS {
                for (story, by, what) in variants(&scene, name) {
                    assert_eq!(what.name(), name);
                    assert_eq!(story.stage(), stage);
                    look(&story, by, what);
                }
            }
        }
    }
}

#[test]
fn what_is_accepted_leads_to_a_legal_stage_and_what_is_refused_says_why() {
    let mut tries = 0;
    for_all(|story, by, what| {
        tries += 1;
        let possible = allowed_stages(&what).contains(&story.stage());
        let event = story.event(&by, what);
        match tried(story, &event) {
            Ok(step) => {
                let (from, to) = (story.stage(), step.ticket.stage);
                let name = event.what.name();
                assert!(possible, "{name} was accepted while {from}");
                assert!(legal(from).contains(&to), "{name} led from {from} to {to}");
                assert_eq!(step.ticket.version, story.ticket.version + 1);
            }
            Err(Refused::NotNow { .. }) => {}
            Err(refused) => assert!(possible, "{refused}"),
        }
    });
    println!("{tries} tries by the right hand");
}

#[test]
fn every_event_is_accepted_somewhere_in_each_stage_that_allows_it() {
    let mut accepted: BTreeSet<(Stage, &str)> = BTreeSet::new();
    let mut allowed: BTreeSet<(Stage, &str)> = BTreeSet::new();
    for_all(|story, by, what| {
        let key = (story.stage(), what.name());
        if allowed_stages(&what).contains(&key.0) {
            allowed.insert(key);
        }
        if tried(story, &story.event(&by, what)).is_ok() {
            accepted.insert(key);
        }
    });
    let never: Vec<_> = allowed.difference(&accepted).collect();
    assert!(never.is_empty(), "allowed but never accepted: {never:?}");
}

#[test]
fn the_wrong_role_is_refused_everywhere() {
    for_all(|story, by, what| {
        let lease = what.lease();
        let job = lease.and_then(|l| story.ticket.jobs.iter().find(|j| j.serial == l.serial));
        let right = allowed_roles(&what, job.map(|job| &job.task));
        for role in Role::ALL {
            if right.contains(&role) {
                continue;
            }
            let wrong = Actor { role, ..by.clone() };
            let refused = tried(story, &story.event(&wrong, what.clone()));
            assert!(refused.is_err(), "{} by a {}", what.name(), role.as_str());
        }
    });
}

#[test]
fn a_stale_token_is_refused_everywhere() {
    for_all(|story, by, what| {
        let Some(lease) = what.lease() else { return };
        let serial = lease.serial;
        let mut wrong: Vec<Lease> = (0..lease.fence)
            .map(|fence| Lease { serial, fence })
            .collect();
        wrong.extend((serial + 1..serial + 3).map(|serial| Lease { serial, ..lease }));
        let held = story.ticket.jobs.iter().any(|job| job.holder.is_some());
        if held && what.name() != "started" {
            let fence = lease.fence + 1;
            wrong.push(Lease { serial, fence });
        }
        for lease in wrong {
            let mut stale = what.clone();
            *lease_of(&mut stale).expect("a job's report") = lease;
            let of_another = story.ticket.jobs.iter().any(|j| j.serial == lease.serial)
                && lease.serial != serial;
            if of_another {
                continue;
            }
            let refused = tried(story, &story.event(&by, stale));
            assert!(
                refused.is_err(),
                "{} in {} under {lease:?}",
                what.name(),
                story.stage()
            );
        }
    });
}

#[test]
fn a_stale_version_is_refused_everywhere_and_the_right_one_changes_nothing() {
    for_all(|story, by, what| {
        let fresh = story.event(&by, what);
        let current = story.ticket.version;
        for seen in [0, current - 1, current + 1] {
            let stale = Event {
                expects: Some(seen),
                ..fresh.clone()
            };
            let refused = tried(story, &stale).unwrap_err();
            assert_eq!(refused, Refused::StaleVersion { seen, current });
        }
        let careful = Event {
            expects: Some(current),
            ..fresh.clone()
        };
        assert_eq!(tried(story, &careful), tried(story, &fresh));
    });
}

#[test]
fn nothing_happens_to_a_ticket_that_has_ended() {
    for_all(|story, by, what| {
        if story.stage().is_terminal() {
            assert!(tried(story, &story.event(&by, what)).is_err());
        }
    });
}
