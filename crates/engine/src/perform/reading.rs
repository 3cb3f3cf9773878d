//! Reading a review without holding up the runtime: on a thread of its own and within a limit, so
//! that Ctrl-C and heartbeats are heard meanwhile. The reader itself is linear and bounded; the
//! limit is for a machine that is too busy.

use std::time::Duration;

use findings::Review;

/// The longest that one review may take to read. A mebibyte takes less than a second.
const TIME_MAX: Duration = Duration::from_secs(60);

/// Reads a review, or says why it could not be read.
pub(super) async fn read_review(text: String) -> Result<Review, String> {
    let bytes = text.len();
    let reading = tokio::task::spawn_blocking(move || findings::read(&text));
    match tokio::time::timeout(TIME_MAX, reading).await {
        Ok(Ok(review)) => Ok(review),
        Ok(Err(error)) => Err(format!("the review could not be read: {error}")),
        Err(_) => Err(format!(
            "the review of {bytes} bytes was not read within {} seconds; the machine is too busy or the reader is at fault",
            TIME_MAX.as_secs()
        )),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn a_review_is_read_as_the_reader_reads_it() {
        let text = "Verdict: request changes";
        assert_eq!(read_review(text.to_owned()).await, Ok(findings::read(text)));
    }
}
