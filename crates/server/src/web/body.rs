//! Buffers request bodies whole before a handler sees them, with a limit in size and time. The rest
//! of a body that is too large is read and discarded, so that the client gets the answer that says
//! why.
//!
//! A client that still sends when the server closes sees a reset connection and not the answer.
//! That is the reason for reading on.

use std::time::Duration;

use axum::body::{Body, Bytes, HttpBody};
use axum::extract::Request;
use axum::http::StatusCode;
use axum::middleware::Next;
use axum::response::Response;
use http_body_util::{BodyExt, LengthLimitError, Limited};

use super::problem::Problem;

/// Maximum size of a request body.
/// A review report with all findings fits many times.
pub const BODY_MAX: usize = 4 * 1024 * 1024;
/// Bytes of an oversized body that are read and discarded; after that the connection is cut.
const PASSED_MAX: usize = 64 * 1024 * 1024;
/// Time in which a body must arrive, so that a slow sender does not hold a connection.
const WITHIN: Duration = Duration::from_secs(30);

pub async fn buffer_body(request: Request, next: Next) -> Response {
    // Most requests have no body, and need no timer.
    if request.body().is_end_stream() {
        return next.run(request).await;
    }
    let (head, body) = request.into_parts();
    match read(body, BODY_MAX, WITHIN).await {
        Ok(bytes) => next.run(Request::from_parts(head, bytes.into())).await,
        Err(problem) => problem.into(),
    }
}

/// Reads a body of at most `max` bytes within the given time.
pub async fn read(body: Body, max: usize, within: Duration) -> Result<Bytes, Problem> {
    let outcome = tokio::time::timeout(within, within_size(body, max)).await;
    outcome.unwrap_or_else(|_| {
        let why = format!(
            "the request body did not arrive within {} seconds",
            within.as_secs()
        );
        Err(Problem::new(StatusCode::REQUEST_TIMEOUT, why).hint("send it again"))
    })
}

async fn within_size(mut body: Body, max: usize) -> Result<Bytes, Problem> {
    // The length in the header is enough to refuse. The body is still read away.
    if body.size_hint().lower() > max as u64 {
        return Err(discard_rest(body, max).await);
    }
    match Limited::new(&mut body, max).collect().await {
        Ok(whole) => Ok(whole.to_bytes()),
        Err(error) if error.is::<LengthLimitError>() => Err(discard_rest(body, max).await),
        Err(error) => {
            let why = format!("the request body was cut off: {error}");
            Err(Problem::new(StatusCode::BAD_REQUEST, why))
        }
    }
}

/// Reads the body to its end without keeping it.
async fn discard_rest(body: Body, max: usize) -> Problem {
    let mut rest = Limited::new(body, PASSED_MAX);
    while let Some(Ok(_)) = rest.frame().await {}
    let max = max / (1024 * 1024);
    Problem::new(
        StatusCode::PAYLOAD_TOO_LARGE,
        format!("the request body is larger than {max} MiB"),
    )
}

#[cfg(test)]
mod tests {
    use std::pin::Pin;
    use std::task::{Context, Poll};

    use axum::response::IntoResponse;
    use hyper::body::Frame;

    use super::*;

    /// A body that sends this many pieces and then stalls.
    struct Slow(usize);

    impl HttpBody for Slow {
        type Data = Bytes;
        type Error = std::convert::Infallible;

        fn poll_frame(
            mut self: Pin<&mut Self>,
            _: &mut Context<'_>,
        ) -> Poll<Option<Result<Frame<Bytes>, Self::Error>>> {
            if self.0 == 0 {
                return Poll::Pending;
            }
            self.0 -= 1;
            Poll::Ready(Some(Ok(Frame::data(Bytes::from_static(&[0; 1024])))))
        }
    }

    #[tokio::test]
    async fn who_never_ends_is_let_go() {
        for pieces in [0, 3, 8 * 1024] {
            let outcome = read(Body::new(Slow(pieces)), BODY_MAX, Duration::from_millis(1)).await;
            let status = outcome.unwrap_err().into_response().status();
            assert_eq!(status, StatusCode::REQUEST_TIMEOUT);
        }
    }
}
