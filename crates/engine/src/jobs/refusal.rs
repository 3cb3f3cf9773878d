//! Handles work that git cannot accept. The next attempt of the same job gets the reason in its
//! brief. The second time, a person has to help.

use std::fs;
use std::path::PathBuf;

use super::{JobContext, JobError};
use crate::git::Error;
use crate::private_files;

/// File in the directory of the job, so that it outlives the attempt.
const REFUSAL_FILE: &str = "refused.txt";
const TOLD_BYTES_MAX: usize = 8_000;

fn file(context: &JobContext<'_>) -> PathBuf {
    context.run_dir().with_file_name(REFUSAL_FILE)
}

/// Converts a git error after the builder has ended.
pub fn of(context: &JobContext<'_>, error: Error) -> JobError {
    let Error::Unsound { .. } = &error else {
        return JobError::from(error);
    };
    let (file, message) = (file(context), error.to_string());
    // Without the reason in its brief, another attempt would be useless.
    if file.exists() || private_files::write(&file, &message).is_err() {
        return JobError::permanent(message);
    }
    JobError::transient(message)
}

/// Returns the part of the brief that explains why the earlier attempt was refused.
pub fn refusal_note(context: &JobContext<'_>) -> String {
    let Ok(text) = fs::read_to_string(file(context)) else {
        return String::new();
    };
    let text = findings::shorten(&findings::clean(&text), TOLD_BYTES_MAX);
    format!(
        "\n\n## Your last attempt was refused\n\n{text}\n\nNone of it was kept. Do the work again and avoid this problem.\n"
    )
}
