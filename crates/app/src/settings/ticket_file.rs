//! Reads ticket files: Markdown with or without front matter, or YAML. Anything else is refused,
//! with the line of the fault.

use flow::TicketId;
use flow::ticket::Spec;
use serde::{Deserialize, Serialize};

use super::config_problems::did_you_mean;
use super::ticket_fields::{self, TicketFields};
use crate::failure::Failure;

/// Maximum size of a ticket file.
pub const BYTES_MAX: usize = 1024 * 1024;

/// A ticket that a file or a sentence asks for.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct TicketRequest {
    /// The user's own id, if given.
    pub id: Option<TicketId>,
    pub spec: Spec,
}

/// Builds a ticket from one sentence.
pub fn from_sentence(sentence: &str) -> Result<TicketRequest, Failure> {
    let fields = TicketFields {
        title: Some(sentence.trim().to_owned()),
        ..TicketFields::default()
    };
    fields.into_request("the sentence")
}

/// Reads a ticket file; `name` is its name in messages.
pub fn read(name: &str, bytes: &[u8]) -> Result<TicketRequest, Failure> {
    let text = text_of(name, bytes)?;
    let yaml = [".yaml", ".yml"]
        .iter()
        .any(|ending| name.to_ascii_lowercase().ends_with(ending));
    if yaml {
        return yaml_fields(name, text, 0)?.into_request(name);
    }
    let (mut fields, body) = match front_matter(text) {
        Some((yaml, body)) => (yaml_fields(name, yaml, 1)?, body),
        None => (TicketFields::default(), text),
    };
    read_body(&mut fields, body);
    fields.into_request(name)
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
        return Err(refuse("it contains binary data"));
    }
    if text.trim().is_empty() {
        return Err(refuse("it is empty"));
    }
    Ok(text)
}

/// Splits off the front matter: the text between two lines of three dashes at the very top.
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

/// Parses the YAML fields; `lines_above` is the number of lines above the YAML in the file.
fn yaml_fields(name: &str, yaml: &str, lines_above: u64) -> Result<TicketFields, Failure> {
    let has_content = |line: &str| !line.trim().is_empty() && !line.trim_start().starts_with('#');
    if !yaml.lines().any(has_content) {
        return Ok(TicketFields::default());
    }
    let options = serde_saphyr::options! { with_snippet: false };
    let names = ticket_fields::names();
    let names: Vec<&str> = names.iter().map(String::as_str).collect();
    serde_saphyr::from_str_with_options(yaml, options).map_err(|error| {
        let message = error.without_snippet().to_string();
        let word = message
            .split('`')
            .nth(1)
            .filter(|_| message.contains("unknown field"));
        let hint = word.map(|word| did_you_mean(word, &names, "fields"));
        let all_fields = format!("known fields: {}", names.join(", "));
        yaml_failure(name, &error, lines_above).hint(hint.unwrap_or(all_fields))
    })
}

/// Builds the error `name:line:column: message`, with line numbers of the file, not of its YAML.
pub fn yaml_failure(name: &str, error: &serde_saphyr::Error, lines_above: u64) -> Failure {
    let location = error
        .location()
        .map(|at| format!(":{}:{}", at.line() + lines_above, at.column()))
        .unwrap_or_default();
    let text = error.without_snippet().to_string();
    let message = text.split(" at line ").next().unwrap_or(&text);
    // The list of all fields would hide the unknown one.
    let message = message.split(", expected one of").next().unwrap_or(message);
    Failure::usage(format!("{name}{location}: {message}"))
}

/// Reads the Markdown body: the first heading is the title, a list under "Acceptance criteria"
/// gives the criteria.
fn read_body(fields: &mut TicketFields, body: &str) {
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

/// Parses an item of a list: `- [ ] text`, `- text`, `* text` or `1. text`.
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

/// Returns the initial text of a ticket in an editor.
pub fn template(title: Option<&str>) -> String {
    let title = title.unwrap_or(TITLE_TO_REPLACE);
    format!(
        "---\n\
         # Everything between the dashes is optional; remove the # of what you need.\n\
         # id: T-7                  your own name for it; by default made from the title\n\
         # priority: 50             higher goes first\n\
         # depends_on: [T-3]        tickets that must be done first\n\
         # protected: [tests/**]    paths that the change must not touch\n\
         ---\n\
         # {title}\n\
         \n\
         The reason, and everything there is to know.\n\
         \n\
         ## Acceptance criteria\n\
         - \n"
    )
}

/// Title of the template; a ticket that still has it is not written yet.
pub const TITLE_TO_REPLACE: &str = "The wanted change";

/// Makes an id from the title: readable words, and a hash that distinguishes similar titles.
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
    let hash: String = engine::hash::short_sha256(title.as_bytes())
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
