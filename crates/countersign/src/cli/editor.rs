//! `countersign ticket new`: opens a ticket in the user's editor.
//!
//! A person's text is never thrown away: if the ticket cannot be added, the file stays and its path
//! is shown.

use std::io::{IsTerminal, Write};
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};

use engine::agent::CommandAgent;
use engine::log::removed;
use serde_json::json;

use super::prompt::read_line;
use super::{Context, ticket};
use app::failure::{ExitKind, Failure};
use app::settings::ticket_file::{self, BYTES_MAX, TITLE_TO_REPLACE, TicketRequest};
use app::settings::{editor, read_bounded};

/// Mode of a file in our own directory, where everything is closed to others.
const PRIVATE_MODE: u32 = 0o600;
/// Mode of a file of the project, less the person's umask.
const SHARED_MODE: u32 = 0o666;
/// Number of times an invalid ticket is opened in the editor.
/// A loop without an end would trap a person whose editor returns at once.
const TRIES_MAX: u32 = 5;

pub const NEW_HELP: &str = "\
Examples:
  countersign ticket new
  countersign ticket new \"Greet the user by name\" --no-edit
  countersign ticket new --file tickets/greet.md";

pub async fn new_ticket(
    title: Option<&str>,
    file: Option<PathBuf>,
    no_edit: bool,
    context: &Context,
) -> Result<ExitKind, Failure> {
    if let Some(file) = file {
        return write_ticket_file(title, &context.directory.join(file), no_edit, context);
    }
    if no_edit {
        let title = title.ok_or_else(|| {
            Failure::usage("--no-edit needs a title")
                .hint("countersign ticket new \"Greet the user by name\" --no-edit")
        })?;
        return ticket::add_requests(vec![ticket_file::from_sentence(title)?], None, context).await;
    }
    let data = &context.environment.data_dir;
    // Two commands at the same time must not share a file.
    let path = data.join(format!("new-ticket-{}.md", std::process::id()));
    let created = engine::private_files::make_dir(data).map_err(|error| write_error(data, &error));
    created.and_then(|()| write_new(&path, title, PRIVATE_MODE))?;
    let Some(request) = edit_until_valid(&path, title)? else {
        // The user has written nothing into it.
        removed(&path, std::fs::remove_file(&path));
        context.out.line("the ticket is empty; nothing was added");
        context.out.print_json(&json!({"tickets": []}));
        return Ok(ExitKind::Done);
    };
    let exit = ticket::add_requests(vec![request], None, context).await;
    if exit.is_ok() {
        // The ticket is in the store now.
        removed(&path, std::fs::remove_file(&path));
    }
    exit.map_err(|failure| failure.hint(saved_hint(&path)))
}

/// Writes a ticket file that stays with the project.
fn write_ticket_file(
    title: Option<&str>,
    path: &Path,
    no_edit: bool,
    context: &Context,
) -> Result<ExitKind, Failure> {
    write_new(path, title, SHARED_MODE)?;
    if !no_edit {
        open_editor(path)?;
    }
    let name = path.display();
    context
        .out
        .line(format!("wrote {name}\nnext: countersign run {name}"));
    context.out.print_json(&json!({"file": path}));
    Ok(ExitKind::Done)
}

// An existing file is refused: it may be a ticket that somebody wrote.
fn write_new(path: &Path, title: Option<&str>, mode: u32) -> Result<(), Failure> {
    let file = std::fs::OpenOptions::new()
        .write(true)
        .create_new(true)
        .mode(mode)
        .open(path);
    let text = ticket_file::template(title);
    file.and_then(|mut file| file.write_all(text.as_bytes()))
        .map_err(|error| write_error(path, &error))
}

fn saved_hint(path: &Path) -> String {
    let path = path.display();
    format!("your text is saved in {path}; add it with: countersign ticket add {path}")
}

fn write_error(path: &Path, error: &std::io::Error) -> Failure {
    Failure::usage(format!("{} cannot be written: {error}", path.display()))
}

/// Opens the editor until the ticket is valid. Returns `None` if the user wrote nothing.
fn edit_until_valid(path: &Path, title: Option<&str>) -> Result<Option<TicketRequest>, Failure> {
    for _ in 0..TRIES_MAX {
        open_editor(path)?;
        let bytes = read_bounded(path, "the new ticket", BYTES_MAX)?;
        let untouched = bytes == ticket_file::template(title).as_bytes();
        if bytes.iter().all(u8::is_ascii_whitespace) || (untouched && title.is_none()) {
            return Ok(None);
        }
        let failure = match read_ticket(path, &bytes) {
            Ok(request) => return Ok(Some(request)),
            Err(failure) => failure.hint(saved_hint(path)),
        };
        if !std::io::stdin().is_terminal() {
            return Err(failure);
        }
        let answer = read_line(&format!("{failure}\nEdit again? [Y/n] "))?;
        if !matches!(answer.to_ascii_lowercase().as_str(), "" | "y" | "yes") {
            return Err(failure);
        }
    }
    Err(Failure::usage(format!(
        "the ticket is still not valid after {TRIES_MAX} tries"
    ))
    .hint(saved_hint(path)))
}

fn read_ticket(path: &Path, bytes: &[u8]) -> Result<TicketRequest, Failure> {
    let request = ticket_file::read(&path.display().to_string(), bytes)?;
    if request.spec.title == TITLE_TO_REPLACE {
        return Err(Failure::usage(
            "the ticket still has the title of the template",
        ));
    }
    Ok(request)
}

fn open_editor(path: &Path) -> Result<(), Failure> {
    let line = editor().unwrap_or_else(|| "vi".to_owned());
    let hint = "set VISUAL or EDITOR to your editor, or pass --no-edit";
    let command = CommandAgent::parse(&line).map_err(|why| Failure::usage(why).hint(hint))?;
    let ended = engine::process::run_at_terminal(&command.program, &command.args, path);
    match ended {
        Ok(true) => Ok(()),
        Ok(false) => {
            Err(Failure::error(format!("the editor {line:?} failed")).hint(saved_hint(path)))
        }
        Err(error) => {
            Err(Failure::usage(format!("could not start the editor {line:?}: {error}")).hint(hint))
        }
    }
}
