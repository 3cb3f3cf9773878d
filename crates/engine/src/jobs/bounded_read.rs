//! Reads a review without blocking the runtime: on its own thread and within a time limit, so that
//! Ctrl-C and heartbeats still work. The reader itself is linear and bounded; the limit is for an
//! overloaded machine.

use std::time::Duration;

/// Maximum time to read one review. A mebibyte takes less than a second.
const TIME_MAX: Duration = Duration::from_secs(60);

/// Runs the reader within the limit, or returns why it failed.
pub(super) async fn read_within_limit<T: Send + 'static>(
    read: impl FnOnce() -> T + Send + 'static,
) -> Result<T, String> {
    read_within(TIME_MAX, read).await
}

async fn read_within<T: Send + 'static>(
    limit: Duration,
    read: impl FnOnce() -> T + Send + 'static,
) -> Result<T, String> {
    match tokio::time::timeout(limit, tokio::task::spawn_blocking(read)).await {
        Ok(Ok(read)) => Ok(read),
        Ok(Err(error)) => Err(format!("the review could not be read: {error}")),
        Err(_) => Err(format!(
            "the review was not read within {} seconds; the machine is too busy or the reader is at fault",
            limit.as_secs()
        )),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn a_reader_that_takes_too_long_is_given_up() {
        assert_eq!(read_within_limit(|| 7).await, Ok(7));
        let (end, wait) = std::sync::mpsc::channel::<()>();
        let late = read_within(Duration::from_millis(20), move || wait.recv().is_ok()).await;
        assert!(late.unwrap_err().contains("not read within"));
        drop(end);
    }
}
