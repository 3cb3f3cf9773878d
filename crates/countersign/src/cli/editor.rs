//! `countersign ticket new`: a ticket written in the person's own editor.

use std::io::{IsTerminal, Write};
use std::path::{Path, PathBuf};

use engine::agent::CommandAgent;
use engine::log::removed;
use serde_json::json;

use super::prompt::read_line;
use super::{Context, ticket};
use app::failure::{ExitKind, Failure};
use app::settings::ticket_file::{self, BYTES_MAX, TITLE_TO_REPLACE, TicketRequest};
use app::settings::{editor, read_bounded};

/// How often a ticket that is none may be opened again.
const TRIES_MAX: u32 = 5;

pub async fn new_ticket(
    title: Option<&str>,
    file: Option<PathBuf>,
    no_edit: bool,
    desktop: &Context,
) -> Result<ExitKind, Failure> {
    if let Some(file) = file {
        return keep(title, &desktop.directory.join(file), no_edit, desktop);
    }
    if no_edit {
        let title = title.ok_or_else(|| {
            Failure::usage("without an editor a title is needed")
                .hint("countersign ticket new \"What shall be done\" --no-edit")
        })?;
        return ticket::add_wanted(vec![ticket_file::from_sentence(title)?], desktop).await;
    }
    let data = &desktop.surroundings.data_dir;
    let path = data.join(format!("new-ticket-{}.md", std::process::id()));
    let made = engine::private::make_dir(data).map_err(|error| not_written(data, &error));
    made.and_then(|()| write_new(&path, title))?;
    let Some(wanted) = write_until_sound(&path, title)? else {
        // Nothing of the person's is in it.
        removed(&path, std::fs::remove_file(&path));
        desktop
            .out
            .line("nothing was written, and nothing is added");
        desktop.out.answer(&json!({"tickets": []}));
        return Ok(ExitKind::Done);
    };
    let exit = ticket::add_wanted(vec![wanted], desktop).await;
    if exit.is_ok() {
        // It is in the store now.
        removed(&path, std::fs::remove_file(&path));
    }
    exit.map_err(|failure| failure.hint(format!("what you wrote is in {}", path.display())))
}

/// A file of the person's own, to be kept with the project.
fn keep(
    title: Option<&str>,
    path: &Path,
    no_edit: bool,
    desktop: &Context,
) -> Result<ExitKind, Failure> {
    write_new(path, title)?;
    if !no_edit {
        open(path)?;
    }
    let name = path.display();
    desktop
        .out
        .line(format!("wrote {name}\nnext: countersign run {name}"));
    desktop.out.answer(&json!({"file": path}));
    Ok(ExitKind::Done)
}

fn write_new(path: &Path, title: Option<&str>) -> Result<(), Failure> {
    let made = std::fs::OpenOptions::new()
        .write(true)
        .create_new(true)
        .open(path);
    let text = ticket_file::template(title);
    made.and_then(|mut file| file.write_all(text.as_bytes()))
        .map_err(|error| not_written(path, &error))
}

fn not_written(path: &Path, error: &std::io::Error) -> Failure {
    Failure::usage(format!("{} cannot be written: {error}", path.display()))
}

/// What the person wrote; nothing where they wrote nothing. A ticket that is none is opened again.
fn write_until_sound(path: &Path, title: Option<&str>) -> Result<Option<TicketRequest>, Failure> {
    for _ in 0..TRIES_MAX {
        open(path)?;
        let bytes = read_bounded(path, "the new ticket", BYTES_MAX)?;
        let untouched = bytes == ticket_file::template(title).as_bytes();
        if bytes.iter().all(u8::is_ascii_whitespace) || (untouched && title.is_none()) {
            return Ok(None);
        }
        let failure = match read(path, &bytes) {
            Ok(wanted) => return Ok(Some(wanted)),
            Err(failure) => failure.hint(format!("what you wrote is in {}", path.display())),
        };
        if !std::io::stdin().is_terminal() {
            return Err(failure);
        }
        let answer = read_line(&format!("{failure}\nEdit again? [Y/n] "))?;
        if !matches!(answer.to_ascii_lowercase().as_str(), "" | "y" | "yes") {
            return Err(failure);
        }
    }
    Err(Failure::usage("it was no ticket for too long")
        .hint(format!("what you wrote is in {}", path.display())))
}

fn read(path: &Path, bytes: &[u8]) -> Result<TicketRequest, Failure> {
    let wanted = ticket_file::read(&path.display().to_string(), bytes)?;
    if wanted.spec.title == TITLE_TO_REPLACE {
        return Err(Failure::usage("the ticket still has the template's title"));
    }
    Ok(wanted)
}

fn open(path: &Path) -> Result<(), Failure> {
    let line = editor().unwrap_or_else(|| "vi".to_owned());
    let hint = "name your editor in VISUAL or EDITOR, or go without: --no-edit";
    let command = CommandAgent::parse(&line).map_err(|why| Failure::usage(why).hint(hint))?;
    let ended = engine::process::attend(&command.program, &command.args, path);
    match ended {
        Ok(true) => Ok(()),
        Ok(false) => Err(Failure::error(format!("the editor {line:?} ended badly"))
            .hint(format!("what you wrote is in {}", path.display()))),
        Err(error) => Err(Failure::usage(format!(
            "the editor {line:?} cannot be started: {error}"
        ))
        .hint(hint)),
    }
}
