//! The commits that land an approved change: their style, message, author and trailers. It makes
//! texts only; `engine` makes the commits.
//!
//! Texts of agents and of ticket authors enter a commit message, which people and tools trust. So
//! trailers of Countersign are removed from them, names lose the characters that end a name in git,
//! and everything has a limit.

mod pull_request;

use std::fmt;

pub use pull_request::PullRequestMerge;

use findings::one_line;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::policy::Land;
use crate::ticket::{Approval, ApprovedBy, ReviewerAnswer, Ticket};

/// Longest text of one placeholder. A message is read in a log, not in a document.
const PLACEHOLDER_CHARS_MAX: usize = 8_000;
/// Longest template.
const TEMPLATE_CHARS_MAX: usize = 4_000;
/// Longest name or address in a trailer.
/// Far more than any real name. A longer one is text in the place of a name.
const NAME_CHARS_MAX: usize = 120;
/// Most reviewers that trailers name.
const REVIEWERS_MAX: usize = 50;
/// Keys of trailers that only Countersign writes, or their beginnings.
/// Compared in lower case: git reads trailer keys without regard to case.
const OWN_TRAILERS: [&str; 2] = ["countersigned-by", "countersign-"];

/// Shape of the commits that land on the base branch.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum LandingStyle {
    /// A merge commit.
    #[default]
    Merge,
    /// One commit with the whole change.
    Squash,
    /// The commits of the change, each on top of the newest tip.
    Rebase,
}

impl LandingStyle {
    /// Returns the style in which a change lands; `None` if it stays on its branch.
    pub fn of(land: Land, queue_style: Self) -> Option<Self> {
        match land {
            // The forge makes the commits of a pull request.
            Land::Branch | Land::Pr => None,
            Land::Merge => Some(Self::Merge),
            Land::Squash => Some(Self::Squash),
            Land::Rebase => Some(Self::Rebase),
            Land::Queue => Some(queue_style),
        }
    }

    /// Describes how the landed commit came from the approved one, in the past tense.
    pub fn past_tense(self) -> &'static str {
        match self {
            Self::Merge => "merged",
            Self::Squash => "squashed",
            Self::Rebase => "rebased",
        }
    }
}

/// Message, author and committer of the commits that land a change.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct LandingConfig {
    /// The commits of `land = "queue"`: merge, squash or rebase.
    pub queue_style: LandingStyle,
    /// The message of merge and squash commits: text with {title}, {ticket}, {body}, {summary},
    /// {reviewers}. Trailers are added after it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub message: Option<MessageTemplate>,
    /// The author of merge and squash commits: builder, person, or `Name <address>`. By default the
    /// builder for a squash and the person for a merge.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub author: Option<CommitName>,
    /// The committer of all landed commits: person (your git identity), countersign, or
    /// `Name <address>`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub committer: Option<CommitName>,
    /// The message that builders use for rework commits, with {round}. By default they follow the
    /// style of the log.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub rework_message: Option<ReworkMessage>,
    /// Role that merges the pull request of `land = "pr"`: person, countersign or queue.
    pub pr_merge: PullRequestMerge,
    /// The commits that `pr_merge = "countersign"` asks the forge for: merge, squash or rebase.
    pub pr_method: LandingStyle,
    /// The labels of the pull request.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub pr_labels: Vec<String>,
    /// The pull request is opened with the first submission, as a draft until it is approved. With
    /// false it is opened when it is approved.
    pub pr_draft: bool,
}

impl Default for LandingConfig {
    fn default() -> Self {
        Self {
            queue_style: LandingStyle::default(),
            message: None,
            author: None,
            committer: None,
            rework_message: None,
            pr_merge: PullRequestMerge::default(),
            pr_method: LandingStyle::default(),
            pr_labels: Vec::new(),
            pr_draft: true,
        }
    }
}

impl LandingConfig {
    /// Returns the author that a commit of this style gets.
    pub fn author_for(&self, style: LandingStyle) -> CommitName {
        self.author.clone().unwrap_or(match style {
            LandingStyle::Merge => CommitName::Person,
            LandingStyle::Squash | LandingStyle::Rebase => CommitName::Builder,
        })
    }

    pub fn committer(&self) -> CommitName {
        self.committer.clone().unwrap_or(CommitName::Person)
    }

    /// Lists impossible values, each with what to write instead.
    pub fn problems(&self) -> Vec<String> {
        let mut found = Vec::new();
        // The builder's commits stay on the branch. The commit that lands is made by Countersign.
        if self.committer == Some(CommitName::Builder) {
            found.push(
                "landing.committer = \"builder\": builders commit nothing on the base branch; choose person, countersign or \"Name <address>\""
                    .to_owned(),
            );
        }
        pull_request::label_problems(&self.pr_labels, &mut found);
        found
    }
}

/// Name on a commit, as a project configures it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(try_from = "String", into = "String")]
#[schemars(with = "String")]
pub enum CommitName {
    /// The author of the change's newest commit.
    Builder,
    /// The git identity of the person who runs Countersign, or Countersign where there is none.
    Person,
    Countersign,
    Fixed {
        name: String,
        email: String,
    },
}

impl TryFrom<String> for CommitName {
    type Error = String;

    fn try_from(text: String) -> Result<Self, String> {
        match text.as_str() {
            "builder" => return Ok(Self::Builder),
            "person" => return Ok(Self::Person),
            "countersign" => return Ok(Self::Countersign),
            _ => {}
        }
        // The text comes from a file and is shown back, so it is shortened and has no control
        // characters.
        let wrong = || {
            let shown = findings::shorten(&one_line(&text), 80);
            format!(
                "{shown:?} is not a name: write builder, person, countersign or \"Name <address>\""
            )
        };
        let (name, rest) = text.split_once('<').ok_or_else(wrong)?;
        let email = rest.strip_suffix('>').ok_or_else(wrong)?;
        let (name, email) = (name.trim(), email.trim());
        // `<`, `>`, a line break or a NUL would end the name early in git's own format, and the
        // rest would be read as an address or another header.
        let is_plain = |part: &str| {
            !part.is_empty()
                && part.chars().count() <= NAME_CHARS_MAX
                && !part.contains(['<', '>', '\n', '\0'])
                && !part.contains(findings::is_hidden)
        };
        if is_plain(name) && is_plain(email) {
            Ok(Self::Fixed {
                name: name.to_owned(),
                email: email.to_owned(),
            })
        } else {
            Err(wrong())
        }
    }
}

impl From<CommitName> for String {
    fn from(name: CommitName) -> Self {
        match name {
            CommitName::Builder => "builder".to_owned(),
            CommitName::Person => "person".to_owned(),
            CommitName::Countersign => "countersign".to_owned(),
            CommitName::Fixed { name, email } => format!("{name} <{email}>"),
        }
    }
}

/// Text with placeholders in braces; `{{` and `}}` are braces.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(try_from = "String", into = "String")]
#[schemars(with = "String")]
pub struct MessageTemplate(String);

/// Placeholders of a landing message.
const PLACEHOLDERS: [&str; 5] = ["title", "ticket", "body", "summary", "reviewers"];

impl TryFrom<String> for MessageTemplate {
    type Error = String;

    fn try_from(text: String) -> Result<Self, String> {
        check_template(&text, &PLACEHOLDERS)?;
        // Git takes the first line as the subject. An empty one would make the body the subject.
        let first = text.lines().next().unwrap_or_default();
        if first.trim().is_empty() {
            return Err("the message has no first line: begin with the subject".to_owned());
        }
        Ok(Self(text))
    }
}

impl From<MessageTemplate> for String {
    fn from(template: MessageTemplate) -> Self {
        template.0
    }
}

/// Message of a rework commit, with the number of the round.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(try_from = "String", into = "String")]
#[schemars(with = "String")]
pub struct ReworkMessage(String);

impl ReworkMessage {
    /// Returns the message of the contract that the preset `keep-branch` was made for.
    pub fn code_review_round() -> Self {
        Self("fix: address code review round {round} - <what you did>".to_owned())
    }

    /// Returns the message for a round.
    pub fn for_round(&self, round: u32) -> String {
        fill(&self.0, |name| {
            if name == "round" {
                round.to_string()
            } else {
                String::new()
            }
        })
    }
}

impl TryFrom<String> for ReworkMessage {
    type Error = String;

    fn try_from(text: String) -> Result<Self, String> {
        check_template(&text, &["round"])?;
        // Builders get it as a one-line message in their brief. A second line would look like an
        // instruction.
        if text.trim().is_empty() || text.contains('\n') {
            return Err("a rework message is one line".to_owned());
        }
        Ok(Self(text))
    }
}

impl From<ReworkMessage> for String {
    fn from(message: ReworkMessage) -> Self {
        message.0
    }
}

/// Refuses unknown placeholders, single braces, and texts that are too long.
fn check_template(text: &str, known: &[&str]) -> Result<(), String> {
    if text.chars().count() > TEMPLATE_CHARS_MAX {
        return Err(format!(
            "the message is longer than {TEMPLATE_CHARS_MAX} characters"
        ));
    }
    // Invisible characters in a template would be in every landed commit of the project.
    if text.contains(|c: char| c != '\n' && c != '\t' && findings::is_hidden(c)) {
        return Err("the message has invisible characters".to_owned());
    }
    for part in parts(text) {
        match part {
            TemplatePart::Text(_) => {}
            TemplatePart::Placeholder(name) if known.contains(&name) => {}
            TemplatePart::Placeholder(name) => {
                let names: Vec<String> = known.iter().map(|name| format!("{{{name}}}")).collect();
                let shown = findings::shorten(&one_line(name), 40);
                return Err(format!(
                    "unknown placeholder {{{shown}}}: use {} (a brace is {{{{ or }}}})",
                    names.join(", ")
                ));
            }
            TemplatePart::Brace => {
                return Err("a single brace: write {{ or }} for a brace".to_owned());
            }
        }
    }
    Ok(())
}

enum TemplatePart<'a> {
    Text(&'a str),
    Placeholder(&'a str),
    /// A brace without its partner.
    Brace,
}

/// Splits a template. Every character is looked at once.
fn parts(text: &str) -> Vec<TemplatePart<'_>> {
    let mut parts = Vec::new();
    let mut rest = text;
    while let Some(at) = rest.find(['{', '}']) {
        parts.push(TemplatePart::Text(&rest[..at]));
        let brace = &rest[at..=at];
        let after = &rest[at + 1..];
        // A doubled brace is a brace. It is tested first, so that `{{title}}` is text and no
        // placeholder.
        if let Some(next) = after.strip_prefix(brace) {
            parts.push(TemplatePart::Text(brace));
            rest = next;
        // Only `{` opens a placeholder; a lone `}` falls through to the mistake below.
        } else if let Some((name, next)) = after.split_once('}').filter(|_| brace == "{") {
            parts.push(TemplatePart::Placeholder(name));
            rest = next;
        } else {
            parts.push(TemplatePart::Brace);
            rest = after;
        }
    }
    parts.push(TemplatePart::Text(rest));
    parts
}

fn fill(text: &str, value: impl Fn(&str) -> String) -> String {
    let filled = parts(text).into_iter().map(|part| match part {
        TemplatePart::Text(text) => text.to_owned(),
        TemplatePart::Placeholder(name) => value(name),
        // `check_template` refuses such a text when it is read.
        TemplatePart::Brace => String::new(),
    });
    filled.collect()
}

/// A reviewer or person that countersigned.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Countersigner {
    pub name: String,
    pub model: Option<String>,
    pub email: String,
}

impl fmt::Display for Countersigner {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { name, model, email } = self;
        match model {
            Some(model) => write!(out, "{name} ({model}) <{email}>"),
            None => write!(out, "{name} <{email}>"),
        }
    }
}

/// Returns those that approved the change, and nobody else. A reviewer that refused is never one of
/// them, also if the policy overruled it.
pub fn countersigners(ticket: &Ticket) -> Vec<Countersigner> {
    let Some(approval) = &ticket.approval else {
        return Vec::new();
    };
    let mut signers: Vec<Countersigner> = match &approval.by {
        ApprovedBy::Reviewers { names, .. } => reviewers(ticket, approval.round, names),
        // A reused approval names the reviewers of the round that gave it. They read the same
        // content.
        ApprovedBy::Earlier { round } => {
            let mut voided = ticket.approvals_voided.iter().rev();
            match voided
                .find(|earlier| earlier.round == *round)
                .map(|one| &one.by)
            {
                Some(ApprovedBy::Reviewers { names, .. }) => reviewers(ticket, *round, names),
                // A person accepted one commit with its open findings. That is not carried over to
                // another one.
                Some(
                    ApprovedBy::Person { .. }
                    | ApprovedBy::Earlier { .. }
                    | ApprovedBy::NobodyAsPolicySays,
                )
                | None => Vec::new(),
            }
        }
        ApprovedBy::Person { name, .. } => vec![person(name)],
        ApprovedBy::NobodyAsPolicySays => Vec::new(),
    };
    signers.truncate(REVIEWERS_MAX);
    signers
}

fn reviewers(ticket: &Ticket, round: u32, names: &[String]) -> Vec<Countersigner> {
    // Searched from the end: an approval is most often of the last round.
    let of_round = ticket.rounds.iter().rev().find(|one| one.number == round);
    let answers: Vec<&ReviewerAnswer> = of_round
        .into_iter()
        .flat_map(|round| &round.panel)
        .filter_map(|reviewer| reviewer.answer.as_ref())
        .collect();
    let signer = |name: &String| {
        let answer = answers.iter().find(|answer| answer.reviewer == *name);
        reviewer(name, answer.and_then(|answer| answer.model.as_deref()))
    };
    let mut signers: Vec<Countersigner> = Vec::new();
    for one in names.iter().map(signer) {
        // Two reviewers of one agent are one countersignature.
        if !signers.contains(&one) {
            signers.push(one);
        }
    }
    signers
}

fn reviewer(name: &str, model: Option<&str>) -> Countersigner {
    // The role is known from the trailer: `codex (reviewer 2)` is codex.
    let plain = trailer_word(name.split(" (").next().unwrap_or(name));
    let (agent, written) = match plain.split_once('@') {
        Some((agent, model)) => (agent.to_owned(), Some(model.to_owned())),
        None => (plain, None),
    };
    let model = model.map(trailer_word).or(written);
    Countersigner {
        // `.invalid` is reserved and resolves to nothing, so no mail can reach a stranger by the
        // name of an agent.
        email: format!("{}@countersign.invalid", address_word(&agent)),
        name: agent,
        model: model.filter(|model| !model.is_empty()),
    }
}

fn person(name: &str) -> Countersigner {
    let name = trailer_word(name);
    // A person may sign in with an address. It is then the address of the trailer too.
    let email = if name.contains('@') {
        name.replace(' ', "")
    } else {
        format!("{}@countersign.invalid", address_word(&name))
    };
    Countersigner {
        name,
        model: None,
        email,
    }
}

/// One line without the characters that end a name in git.
fn trailer_word(text: &str) -> String {
    let line = one_line(text).replace(['<', '>'], "");
    findings::shorten(line.trim(), NAME_CHARS_MAX)
}

fn address_word(name: &str) -> String {
    let keep = |c: char| if c.is_ascii_alphanumeric() { c } else { '-' };
    // A name in another script would leave only dashes.
    let word: String = name.chars().map(keep).collect();
    let word = word.trim_matches('-');
    if word.is_empty() {
        "agent".to_owned()
    } else {
        word.to_owned()
    }
}

/// Returns the last paragraph of every landed commit.
pub fn trailers(ticket: &Ticket) -> String {
    let mut lines: Vec<String> = countersigners(ticket)
        .iter()
        .map(|signer| format!("Countersigned-by: {signer}"))
        .collect();
    // `Ticket:` is for people and trackers; the keys with `Countersign-` are read by programs and
    // kept from builders.
    lines.push(format!("Ticket: {}", ticket.id));
    lines.push(format!("Countersign-Ticket: {}", ticket.id));
    if let Some(Approval {
        commit, policy, by, ..
    }) = &ticket.approval
    {
        lines.push(format!("Countersign-Commit: {commit}"));
        lines.push(format!("Countersign-Policy: {policy}"));
        // Without this line a commit that nobody reviewed would look like one whose trailers were
        // lost.
        if *by == ApprovedBy::NobodyAsPolicySays {
            lines.push("Countersign-Review: none, as the policy says".to_owned());
        }
    }
    lines.join("\n") + "\n"
}

/// Returns the message of a merge or squash commit, with its trailers.
pub fn message(ticket: &Ticket, config: &LandingConfig, style: LandingStyle) -> String {
    let standard = match style {
        LandingStyle::Merge => "Merge {ticket}: {title}",
        LandingStyle::Squash | LandingStyle::Rebase => "{title}\n\n{body}",
    };
    let template = config.message.as_ref();
    let template = template.map_or(standard, |template| &template.0);
    let spec = &ticket.spec;
    let summary = ticket.submission.as_ref().map(|one| one.summary.as_str());
    let text = fill(template, |name| match name {
        "title" => one_line(&spec.title),
        "ticket" => ticket.id.to_string(),
        // Tickets made from one sentence have it as title and as description.
        "body" if spec.description.trim() == spec.title.trim() => String::new(),
        "body" => plain_text(&spec.description),
        "summary" => plain_text(summary.unwrap_or_default()),
        "reviewers" => {
            let names = countersigners(ticket).into_iter();
            let names: Vec<String> = names.map(|signer| signer.name).collect();
            names.join(", ")
        }
        _ => String::new(),
    });
    // A template of nothing but the description is empty for a ticket without one.
    let text = if text.trim().is_empty() {
        one_line(&spec.title)
    } else {
        text
    };
    with_trailers(&text, &trailers(ticket))
}

/// Text of a person or an agent, fit for a commit message.
fn plain_text(text: &str) -> String {
    findings::shorten(findings::clean(text).trim(), PLACEHOLDER_CHARS_MAX)
}

/// Appends trailers to a message. Lines that look like Countersign's own trailers are left out: a
/// builder must not countersign itself.
/// Every line is searched, not only the last paragraph.
pub fn with_trailers(message: &str, trailers: &str) -> String {
    let is_own = |line: &&str| {
        // Blanks, quotation marks and bullets around the key still look like a trailer to a person.
        let is_key = |c: &char| c.is_alphanumeric() || *c == '-';
        let key = line.split([':', '：', '﹕', '꞉']).next();
        let key = key.filter(|key| key.len() < line.len()).unwrap_or_default();
        let key: String = key.chars().filter(is_key).collect();
        let key = key.trim_start_matches('-').to_lowercase();
        OWN_TRAILERS.iter().any(|own| key.starts_with(own))
    };
    let lines: Vec<&str> = message.lines().filter(|line| !is_own(line)).collect();
    let text = lines.join("\n");
    let text = text.trim();
    // Git refuses an empty message, and the landing must not fail on a builder's message.
    let text = if text.is_empty() {
        "Land a change"
    } else {
        text
    };
    if ends_with_trailers(text) {
        // Git reads one paragraph of trailers, the last one.
        return format!("{text}\n{trailers}");
    }
    format!("{text}\n\n{trailers}")
}

/// Whether the last paragraph, which is not the subject, has only trailers.
/// The subject alone may look like a trailer: `fix: x`. It is no paragraph of trailers.
fn ends_with_trailers(text: &str) -> bool {
    let Some((_, last)) = text.rsplit_once("\n\n") else {
        return false;
    };
    let is_trailer = |line: &str| {
        line.split_once(": ").is_some_and(|(key, value)| {
            let is_word = |c: char| c.is_ascii_alphanumeric() || c == '-';
            !key.is_empty() && key.chars().all(is_word) && !value.trim().is_empty()
        })
    };
    !last.is_empty() && last.lines().all(is_trailer)
}

#[cfg(test)]
mod tests;
