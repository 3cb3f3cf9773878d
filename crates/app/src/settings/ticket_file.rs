//! Ticket files: Markdown with or without front matter, or YAML. What is not one is refused with
//! the line to look at.

use std::collections::BTreeSet;

use flow::TicketId;
use flow::ticket::{PRIORITY_DEFAULT, Spec, TicketContext, label};
use serde::{Deserialize, Serialize};

use super::trouble::meant;
use crate::failure::Failure;

/// A longer file is no ticket.
pub const BYTES_MAX: usize = 1024 * 1024;
const TITLE_CHARS_MAX: usize = 200;

/// What a file or a sentence asks for.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct TicketRequest {
    /// The user's own id, where given.
    pub id: Option<TicketId>,
    pub spec: Spec,
}

/// The fields above the text, or the whole of a YAML ticket.
#[derive(Debug, Default, Deserialize)]
#[serde(default, deny_unknown_fields)]
struct TicketFields {
    id: Option<String>,
    title: Option<String>,
    description: Option<String>,
    priority: Option<i32>,
    #[serde(alias = "dependencies")]
    depends_on: Vec<String>,
    #[serde(alias = "acceptance_criteria")]
    acceptance: Vec<String>,
    #[serde(alias = "type")]
    kind: Option<String>,
    critical: bool,
    protected: Vec<String>,
    epic: Option<String>,
    base: Option<String>,
    branch: Option<String>,
    jira_key: Option<String>,
    github_repo: Option<String>,
    pr_number: Option<u64>,
    coordination: Vec<String>,
    needs: Vec<String>,
}

/// Whether these fields could stand in a ticket, and why not.
pub fn admits(value: serde_json::Value) -> Result<(), String> {
    let fields: Result<TicketFields, _> = serde_json::from_value(value);
    fields.map(drop).map_err(|error| error.to_string())
}

/// A ticket made of one sentence.
pub fn from_sentence(sentence: &str) -> Result<TicketRequest, Failure> {
    let fields = TicketFields {
        title: Some(sentence.trim().to_owned()),
        ..TicketFields::default()
    };
    wanted("the sentence", fields)
}

/// Reads a ticket file; `name` is what the messages call it.
pub fn read(name: &str, bytes: &[u8]) -> Result<TicketRequest, Failure> {
    let text = text_of(name, bytes)?;
    let yaml = [".yaml", ".yml"]
        .iter()
        .any(|ending| name.to_ascii_lowercase().ends_with(ending));
    if yaml {
        return wanted(name, yaml_fields(name, text, 0)?);
    }
    let (mut fields, body) = match front_matter(text) {
        Some((yaml, body)) => (yaml_fields(name, yaml, 1)?, body),
        None => (TicketFields::default(), text),
    };
    take_body(&mut fields, body);
    wanted(name, fields)
}

fn text_of<'a>(name: &str, bytes: &'a [u8]) -> Result<&'a str, Failure> {
    let refuse = |why: &str| {
        Failure::usage(format!("{name} is not a ticket: {why}")).hint(
            "a ticket is a Markdown file with a title, or YAML; `countersign run --help` shows one",
        )
    };
    if bytes.len() > BYTES_MAX {
        return Err(refuse("it is larger than 1 MiB"));
    }
    let text = std::str::from_utf8(bytes).map_err(|_| refuse("it is not text in UTF-8"))?;
    let text = text.strip_prefix('\u{feff}').unwrap_or(text);
    if text.contains('\0') {
        return Err(refuse("it holds binary data"));
    }
    if text.trim().is_empty() {
        return Err(refuse("it is empty"));
    }
    Ok(text)
}

/// What stands between two lines of three dashes at the very top, and what follows.
fn front_matter(text: &str) -> Option<(&str, &str)> {
    let rest = text
        .strip_prefix("---\n")
        .or_else(|| text.strip_prefix("---\r\n"))?;
    let mut at = 0;
    for line in rest.split_inclusive('\n') {
        if line.trim_end() == "---" {
            let (yaml, after) = rest.split_at(at);
            return Some((yaml, after.get(line.len()..).unwrap_or_default()));
        }
        at += line.len();
    }
    None
}

/// `lines_above` is how far the YAML stands below the top of the file.
fn yaml_fields(name: &str, yaml: &str, lines_above: u64) -> Result<TicketFields, Failure> {
    let said = |line: &str| !line.trim().is_empty() && !line.trim_start().starts_with('#');
    if !yaml.lines().any(said) {
        return Ok(TicketFields::default());
    }
    let options = serde_saphyr::options! { with_snippet: false };
    serde_saphyr::from_str_with_options(yaml, options).map_err(|error| {
        let what = error.without_snippet().to_string();
        let word = what
            .split('`')
            .nth(1)
            .filter(|_| what.contains("unknown field"));
        let hint = word.map(|word| meant(word, &FIELDS, "fields"));
        let known = format!("known fields: {}", FIELDS.join(", "));
        yaml_failure(name, &error, lines_above).hint(hint.unwrap_or(known))
    })
}

/// The fields as they are written first.
const FIELDS: [&str; 17] = [
    "id",
    "title",
    "description",
    "priority",
    "depends_on",
    "acceptance",
    "kind",
    "critical",
    "protected",
    "epic",
    "base",
    "branch",
    "jira_key",
    "github_repo",
    "pr_number",
    "coordination",
    "needs",
];

/// `name:line:column: what`, with the lines of the file and not of the YAML in it.
pub fn yaml_failure(name: &str, error: &serde_saphyr::Error, lines_above: u64) -> Failure {
    let place = error
        .location()
        .map(|at| format!(":{}:{}", at.line() + lines_above, at.column()))
        .unwrap_or_default();
    let text = error.without_snippet().to_string();
    let what = text.split(" at line ").next().unwrap_or(&text);
    // Every field that there is would drown the one that is not.
    let what = what.split(", expected one of").next().unwrap_or(what);
    Failure::usage(format!("{name}{place}: {what}"))
}

/// The title is the first heading; a list under "Acceptance criteria" is taken as such.
fn take_body(fields: &mut TicketFields, body: &str) {
    let mut description = Vec::new();
    let mut in_criteria = false;
    for line in body.lines() {
        if let Some(heading) = heading(line) {
            if fields.title.is_none()
                && description.iter().all(|line: &&str| line.trim().is_empty())
            {
                fields.title = Some(heading.to_owned());
                description.clear();
                continue;
            }
            in_criteria = heading.to_ascii_lowercase().starts_with("acceptance");
            if in_criteria {
                continue;
            }
        }
        match criterion(line) {
            Some("") if in_criteria => {}
            Some(text) if in_criteria => fields.acceptance.push(text.to_owned()),
            Some(_) | None if in_criteria && line.trim().is_empty() => {}
            Some(_) | None => description.push(line),
        }
    }
    let description = description.join("\n").trim().to_owned();
    if fields.title.is_none() {
        fields.title = description.lines().next().map(str::to_owned);
    }
    fields.description.get_or_insert(description);
}

fn heading(line: &str) -> Option<&str> {
    let text = line.trim_start_matches('#');
    let depth = line.len() - text.len();
    ((1..=6).contains(&depth) && text.starts_with(' ')).then(|| text.trim())
}

/// `- [ ] text`, `- text`, `* text` or `1. text`.
fn criterion(line: &str) -> Option<&str> {
    let line = line.trim_start();
    let item = line
        .strip_prefix("- ")
        .or_else(|| line.strip_prefix("* "))
        .or_else(|| {
            let (number, rest) = line.split_once(". ")?;
            number.chars().all(|c| c.is_ascii_digit()).then_some(rest)
        })?;
    let boxes = ["[ ] ", "[x] ", "[X] "];
    Some(
        boxes
            .iter()
            .find_map(|mark| item.strip_prefix(mark))
            .unwrap_or(item)
            .trim(),
    )
}

fn wanted(name: &str, fields: TicketFields) -> Result<TicketRequest, Failure> {
    let title = fields.title.unwrap_or_default().trim().to_owned();
    if title.is_empty() {
        return Err(
            Failure::usage(format!("{name} is not a ticket: it has no title"))
                .hint("begin it with `# What shall be done`, or give `title:` in the front matter"),
        );
    }
    if title.chars().count() > TITLE_CHARS_MAX {
        return Err(Failure::usage(format!(
            "{name}: the title is longer than {TITLE_CHARS_MAX} characters; put the rest into the description"
        )));
    }
    let id =
        |text: &String| TicketId::new(text).map_err(|bad| Failure::usage(format!("{name}: {bad}")));
    let depends_on: BTreeSet<TicketId> =
        fields.depends_on.iter().map(id).collect::<Result<_, _>>()?;
    let needs = fields.needs.iter().map(|text| label(text));
    let needs = needs.collect::<Result<_, _>>();
    Ok(TicketRequest {
        id: fields.id.as_ref().map(id).transpose()?,
        spec: Spec {
            title,
            description: fields.description.unwrap_or_default(),
            acceptance: fields.acceptance,
            priority: fields.priority.unwrap_or(PRIORITY_DEFAULT),
            depends_on,
            kind: fields.kind,
            critical: fields.critical,
            protected: fields.protected,
            context: TicketContext {
                epic: fields.epic,
                base_branch: fields.base,
                branch: fields.branch,
                jira_key: fields.jira_key,
                github_repo: fields.github_repo,
                pr_number: fields.pr_number,
                coordination: fields.coordination,
                needs: needs.map_err(|bad| Failure::usage(format!("{name}: {bad}")))?,
                ..TicketContext::default()
            },
        },
    })
}

/// What a ticket begins with, in an editor.
pub fn template(title: Option<&str>) -> String {
    let title = title.unwrap_or(TITLE_TO_REPLACE);
    format!(
        "---\n\
         # Everything between the dashes may be left out; take away the # of what you need.\n\
         # id: T-7                  your own name for it; made from the title otherwise\n\
         # priority: 50             higher goes first\n\
         # depends_on: [T-3]        tickets that must be done first\n\
         # protected: [tests/**]    paths that the change must leave alone\n\
         ---\n\
         # {title}\n\
         \n\
         Why, and what there is to know.\n\
         \n\
         ## Acceptance criteria\n\
         - \n"
    )
}

/// A title that nobody has written.
pub const TITLE_TO_REPLACE: &str = "What shall be done";

/// An id made of the title: what can be read, and a hash that tells two apart.
pub fn id_for(title: &str) -> TicketId {
    let folded: String = title
        .chars()
        .map(|c| {
            if c.is_ascii_alphanumeric() {
                c.to_ascii_lowercase()
            } else {
                '-'
            }
        })
        .collect();
    let words: Vec<&str> = folded
        .split('-')
        .filter(|word| !word.is_empty())
        .take(6)
        .collect();
    let readable: String = words.join("-").chars().take(40).collect();
    let hash: String = engine::hash::short(title.as_bytes())
        .chars()
        .take(4)
        .collect();
    let text = if readable.is_empty() {
        format!("t-{hash}")
    } else {
        format!("{readable}-{hash}")
    };
    TicketId::new(&text).unwrap_or_else(|_| id_for("ticket"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn markdown_without_front_matter_has_title_text_and_criteria() {
        let text = "# Add a greeting\n\nSay hello.\n\n## Acceptance criteria\n- [ ] greets by name\n- refuses an empty name\n\n## Notes\nbe kind\n";
        let wanted = read("t.md", text.as_bytes()).unwrap();
        assert_eq!(wanted.spec.title, "Add a greeting");
        assert_eq!(
            wanted.spec.acceptance,
            ["greets by name", "refuses an empty name"]
        );
        assert_eq!(wanted.spec.description, "Say hello.\n\n## Notes\nbe kind");
    }

    #[test]
    fn front_matter_names_id_priority_and_dependencies() {
        let text = "---\nid: T-7\npriority: 80\ndepends_on: [T-1, T-2]\n---\n# Do it\n";
        let wanted = read("t.md", text.as_bytes()).unwrap();
        assert_eq!(wanted.id.unwrap().as_str(), "T-7");
        assert_eq!(wanted.spec.priority, 80);
        assert_eq!(wanted.spec.depends_on.len(), 2);
    }

    #[test]
    fn an_unknown_field_is_refused_with_its_line() {
        let text = "---\nid: T-7\npriorty: 80\n---\n# Do it\n";
        let failure = read("t.md", text.as_bytes()).unwrap_err();
        assert!(
            failure.message.starts_with("t.md:3:"),
            "{}",
            failure.message
        );
        assert!(failure.message.contains("priorty"), "{}", failure.message);
    }

    #[test]
    fn what_is_not_a_ticket_is_refused() {
        for (bytes, why) in [
            (&b""[..], "empty"),
            (b"\xff\xfe\x00x", "UTF-8"),
            (b"MZ\x00\x01", "binary"),
            (b"---\nid: x\n---\n\n", "no title"),
        ] {
            let failure = read("t.md", bytes).unwrap_err();
            assert!(
                failure.message.contains(why),
                "{} should say {why}",
                failure.message
            );
        }
    }

    #[test]
    fn the_template_is_a_ticket_with_nothing_but_its_title() {
        let wanted = read("t.md", template(Some("Do it")).as_bytes()).unwrap();
        assert_eq!(wanted.spec.title, "Do it");
        assert_eq!((wanted.id, wanted.spec.acceptance), (None, Vec::new()));
    }

    #[test]
    fn an_id_can_be_read_and_is_the_same_for_the_same_title() {
        let id = id_for("Fix the off-by-one in parse()!");
        assert!(id.as_str().starts_with("fix-the-off-by-one-in-"), "{id}");
        assert_eq!(id, id_for("Fix the off-by-one in parse()!"));
        assert_ne!(id_for("日本"), id_for("語"));
    }
}
