//! Turns what people and programs say on a pull request into findings and red checks. People count
//! by their permission on the repository; bots, our own account, commands and answers do not.

use std::collections::{BTreeMap, BTreeSet};

use engine::git::{Oid, Repository};
use findings::{Finding, Rating, Severity};
use flow::Ticket;
use flow::ticket::{ChangeConflict, CheckOutcome, CheckResult, Submission};
use forge::{
    ChangeFeedback, Forge, ForgeError, ForgePermission, OtherCheckState, PersonComment,
    ReviewVerdict,
};

/// Longest title of a finding; a longer text is its problem.
const TITLE_CHARS_MAX: usize = 120;
/// Longest text of a comment.
const TEXT_CHARS_MAX: usize = 20_000;
/// Most findings that one look takes over from one person. The next look takes the others.
const FINDINGS_MAX: usize = 50;
/// First word of a command. Commands are handled elsewhere and are no findings.
const COMMAND: &str = "/countersign";

/// Findings of one person, with the comments that they come from.
#[derive(Clone, Debug, PartialEq)]
pub struct PersonFindings {
    pub login: String,
    pub must_fix: bool,
    pub findings: Vec<Finding>,
    pub comments: Vec<String>,
}

/// Returns the new findings of people who may write to the repository.
pub async fn people_findings(
    forge: &dyn Forge,
    git: &Repository,
    (ticket, submission): (&Ticket, &Submission),
    feedback: &ChangeFeedback,
) -> Result<Vec<PersonFindings>, ForgeError> {
    let is_current = feedback.head_commit == submission.commit;
    let head = Oid::parse(&submission.commit).filter(|_| is_current);
    let mut found = Vec::new();
    for mut person in new_findings(ticket, feedback) {
        if forge.permission_of(&person.login).await? < ForgePermission::Write {
            continue;
        }
        for finding in &mut person.findings {
            if !has_place(git, head.as_ref(), finding).await {
                unplace(finding);
            }
        }
        found.push(person);
    }
    Ok(found)
}

/// Collects the remarks that no earlier look has taken over, by person.
pub fn new_findings(ticket: &Ticket, feedback: &ChangeFeedback) -> Vec<PersonFindings> {
    let wanting = people_who_want_changes(feedback);
    let mut people: BTreeMap<String, PersonFindings> = BTreeMap::new();
    let mut add = |login: &str, id: String, finding: Finding| {
        let login = findings::clean_name(login);
        let person = people
            .entry(login.clone())
            .or_insert_with(|| PersonFindings {
                must_fix: wanting.contains(&login),
                login,
                findings: Vec::new(),
                comments: Vec::new(),
            });
        if person.findings.len() < FINDINGS_MAX {
            person.findings.push(finding);
            person.comments.push(id);
        }
    };
    for comment in feedback.comments.iter().filter(|one| is_remark(one)) {
        let id = format!("comment:{}", comment.comment.id);
        if ticket.has_comment(&id) {
            continue;
        }
        let severity = severity(wanting.contains(&findings::clean_name(&comment.author)));
        let mut finding = to_finding(&comment.body, severity);
        if let Some(place) = &comment.place {
            finding.file = findings::confine(&place.path);
            finding.line = place.line;
        }
        add(&comment.author, id, finding);
    }
    for review in &feedback.reviews {
        let id = format!("review:{}", review.id);
        let wants_changes = review.verdict == ReviewVerdict::ChangesRequested;
        let is_person = !review.is_bot && !review.is_own;
        let says_something = !review.body.trim().is_empty() && !is_command(&review.body);
        if wants_changes && is_person && says_something && !ticket.has_comment(&id) {
            let finding = to_finding(&review.body, severity(true));
            add(&review.author, id, finding);
        }
    }
    people.into_values().collect()
}

/// Returns the people whose last verdict asks for changes.
fn people_who_want_changes(feedback: &ChangeFeedback) -> BTreeSet<String> {
    let mut last: BTreeMap<&str, ReviewVerdict> = BTreeMap::new();
    let mut reviews: Vec<_> = feedback.reviews.iter().collect();
    reviews.sort_by(|one, other| one.submitted_at.cmp(&other.submitted_at));
    // A review without a verdict leaves the last one in force.
    for review in reviews {
        if review.verdict != ReviewVerdict::Commented {
            last.insert(&review.author, review.verdict);
        }
    }
    let wanting = last.into_iter();
    let wanting = wanting.filter(|(_, verdict)| *verdict == ReviewVerdict::ChangesRequested);
    wanting
        .map(|(login, _)| findings::clean_name(login))
        .collect()
}

/// Whether a comment is a person's own remark on the diff: no answer, no resolved thread, no command.
fn is_remark(comment: &PersonComment) -> bool {
    let is_person = !comment.is_bot && !comment.is_own;
    let is_first = comment.in_reply_to.is_none() && comment.finding.is_none();
    let says_something = !comment.body.trim().is_empty() && !is_command(&comment.body);
    comment.place.is_some() && is_person && is_first && !comment.resolved && says_something
}

fn is_command(body: &str) -> bool {
    body.trim_start().starts_with(COMMAND)
}

fn severity(must_fix: bool) -> Severity {
    if must_fix {
        Severity::High
    } else {
        Severity::Medium
    }
}

fn to_finding(body: &str, severity: Severity) -> Finding {
    let text = findings::shorten(findings::clean(body).trim(), TEXT_CHARS_MAX);
    let first = text.lines().find(|line| !line.trim().is_empty());
    let title = findings::shorten(first.unwrap_or_default().trim(), TITLE_CHARS_MAX);
    let mut finding = Finding::new(&title, Rating::from(severity));
    finding.problem = (title != text).then_some(text);
    finding
}

/// Whether the commit has the file and the line of a finding.
async fn has_place(git: &Repository, head: Option<&Oid>, finding: &Finding) -> bool {
    let (Some(head), Some(file)) = (head, &finding.file) else {
        return finding.file.is_none();
    };
    // A file that cannot be read has no line to show either.
    let Ok(Some(content)) = git.file_at(head, file).await else {
        return false;
    };
    let lines = content.split_inclusive(|byte| *byte == b'\n').count();
    finding
        .line
        .is_none_or(|line| line >= 1 && line as usize <= lines)
}

/// Keeps the place of a finding as text, because the lines are of another commit.
fn unplace(finding: &mut Finding) {
    let (file, line) = (finding.file.take(), finding.line.take());
    if let Some(file) = file {
        let place = line.map_or(file.clone(), |line| format!("{file}:{line}"));
        let text = finding
            .problem
            .take()
            .unwrap_or_else(|| finding.title.clone());
        finding.problem = Some(format!("{text}\n\n(on {place} of an earlier commit)"));
    }
}

/// Returns the red checks of others, with the end of their logs.
pub fn red_checks(feedback: &ChangeFeedback) -> Vec<CheckResult> {
    let red = feedback.checks.iter();
    let red = red.filter(|check| check.state == OtherCheckState::Failed);
    red.map(|check| {
        let text = check.log_tail.as_deref().unwrap_or(&check.summary);
        CheckResult {
            name: format!("{} (on the forge)", findings::clean_name(&check.name)),
            outcome: CheckOutcome::Failed,
            tail: format!("{}\n{}", findings::clean(text), check.url),
            wall_ms: 0,
        }
    })
    .collect()
}

/// Names the checks of others that have no result yet.
pub fn pending_checks(feedback: &ChangeFeedback) -> Vec<String> {
    let pending = feedback.checks.iter();
    let pending = pending.filter(|check| check.state == OtherCheckState::Pending);
    let mut names: Vec<String> = pending
        .map(|check| findings::clean_name(&check.name))
        .collect();
    names.sort_unstable();
    names.truncate(5);
    names
}

/// Names the files that both the change and the new commits of its base touch.
pub async fn conflict(
    git: &Repository,
    submission: &Submission,
    (base, tip): (&str, &Oid),
) -> Result<ChangeConflict, engine::git::Error> {
    let mut files = submission.files.clone();
    if let Some(fork) = Oid::parse(&submission.base) {
        let theirs = git.files_changed(&fork, tip).await?;
        let theirs: BTreeSet<String> = theirs
            .into_iter()
            .flat_map(|file| file.old_path.into_iter().chain([file.path]))
            .collect();
        let common: Vec<String> = files
            .iter()
            .filter(|file| theirs.contains(*file))
            .cloned()
            .collect();
        // A rename on one side is in no common file, and an empty list would mean a rewritten base.
        if !common.is_empty() {
            files = common;
        }
    }
    let evidence = format!(
        "the forge reports that the change conflicts with {base} at {}",
        tip.short()
    );
    Ok(ChangeConflict { files, evidence })
}
