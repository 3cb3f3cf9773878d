//! Marks of a person on the files of a diff that the person has read. A mark names the content of
//! the file's diff, so a file that changes later counts as unread again.
//!
//! Marks are a help for reading and no part of a ticket's history: they are small files below the
//! ticket's directory, one for each person, and go when the ticket is cleaned up.

use std::fs;
use std::path::PathBuf;

use engine::private_files;
use engine::project::TicketFiles;
use flow::TicketId;

use super::App;
use super::diff::DiffFile;
use crate::failure::Failure;

/// Maximum number of marks of a person on a ticket; the oldest go first.
const MARKS_MAX: usize = 5_000;
/// Maximum size of a file of marks.
const BYTES_MAX: u64 = 1 << 20;
/// Maximum length of a mark: a hash in hexadecimal digits.
const MARK_CHARS_MAX: usize = 64;

/// Returns the mark of a file in a diff: a hash of its path and of all lines that are shown.
pub fn mark_of(file: &DiffFile) -> String {
    let mut text = format!("{}\0{:?}\0{}\0", file.path, file.old_path, file.status);
    for row in file.hunks.iter().flat_map(|hunk| &hunk.rows) {
        let sides = [row.old, row.new].map(|line| line.unwrap_or_default().to_string());
        text.push_str(&sides.join(":"));
        text.push(':');
        text.push_str(&row.text);
        text.push('\n');
    }
    engine::hash::short_sha256(text.as_bytes())
}

/// Loads the marks of the caller on a ticket. Unreadable marks count as none.
pub fn load_marks(app: &App, ticket: &TicketId) -> Vec<String> {
    let path = marks_file(app, ticket);
    let fits = fs::metadata(&path).is_ok_and(|meta| meta.len() <= BYTES_MAX);
    let text = if fits { fs::read(&path).ok() } else { None };
    let marks = text.and_then(|text| serde_json::from_slice(&text).ok());
    marks.unwrap_or_default()
}

/// Sets or removes a mark of the caller.
pub async fn set_mark(app: &App, ticket: &str, mark: &str, viewed: bool) -> Result<(), Failure> {
    let is_hash = mark.chars().all(|c| c.is_ascii_hexdigit());
    if mark.is_empty() || mark.len() > MARK_CHARS_MAX || !is_hash {
        return Err(Failure::usage("this is not the mark of a file"));
    }
    let ticket = app.ticket(ticket).await?.ticket.id;
    let mut marks = load_marks(app, &ticket);
    marks.retain(|known| known != mark);
    if viewed {
        marks.push(mark.to_owned());
    }
    let surplus = marks.len().saturating_sub(MARKS_MAX);
    marks.drain(..surplus);
    let path = marks_file(app, &ticket);
    let text = serde_json::to_vec(&marks).map_err(Failure::error)?;
    let write = || {
        if let Some(dir) = path.parent() {
            private_files::make_dir(dir)?;
        }
        // Replaced as a whole, because another tab may read it at any moment.
        let part = path.with_extension("part");
        private_files::write(&part, text)?;
        fs::rename(part, &path)
    };
    write().map_err(Failure::error)
}

fn marks_file(app: &App, ticket: &TicketId) -> PathBuf {
    let person = engine::hash::short_sha256(app.actor.agent.as_bytes());
    let dir = TicketFiles::new(&app.environment.data_dir, ticket).dir();
    dir.join("viewed").join(format!("{person}.json"))
}
