//! `countersign review --background --commit …`: reviews a commit for the post-commit hook. Its result
//! waits in `countersign status`.

use std::time::Duration;

use super::{Args, review_options};
use crate::cli::Context;
use app::failure::{ExitKind, Failure};
use app::operations::commit_review;
use app::settings;

/// Time limit of a review, in seconds.
const TIME_LIMIT_SECS: u64 = 1_800;

pub async fn perform(args: Args, context: &Context) -> Result<ExitKind, Failure> {
    // Countersign reviews the commits of its own agents itself.
    if settings::is_inside_run() {
        return Ok(ExitKind::Done);
    }
    let app = context.open_app().await?;
    let limit = Duration::from_secs(args.time_limit.unwrap_or(TIME_LIMIT_SECS));
    let options = review_options(args);
    Box::pin(commit_review::review_commits(
        &app,
        &context.directory,
        &options,
        limit,
    ))
    .await?;
    Ok(ExitKind::Done)
}
