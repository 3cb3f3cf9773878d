//! Work that cannot be taken, told to its builder once: the next try of the same job has the reason in
//! its brief. The second time it is for a person.

use std::fs;
use std::path::PathBuf;

use super::{JobContext, JobError};
use crate::git::Error;
use crate::private;

/// In the job's own directory, so that it outlives the try.
const TOLD: &str = "refused.txt";
const TOLD_BYTES_MAX: usize = 8_000;

fn file(held: &JobContext<'_>) -> PathBuf {
    held.dir().with_file_name(TOLD)
}

/// The trouble that an error of git's is, after a builder has ended.
pub fn of(held: &JobContext<'_>, error: Error) -> JobError {
    let Error::Unsound { .. } = &error else {
        return JobError::from(error);
    };
    let (file, message) = (file(held), error.to_string());
    // Where it cannot be told, trying again would be no use.
    if file.exists() || private::write(&file, &message).is_err() {
        return JobError::permanent(message);
    }
    JobError::transient(message)
}

/// Tells the agent why its earlier attempt was refused.
pub fn told(held: &JobContext<'_>) -> String {
    let Ok(text) = fs::read_to_string(file(held)) else {
        return String::new();
    };
    let text = findings::shorten(&findings::clean(&text), TOLD_BYTES_MAX);
    format!(
        "\n\n## Your last try was not taken\n\n{text}\n\nNothing of it is left. Do the work again, without that.\n"
    )
}
