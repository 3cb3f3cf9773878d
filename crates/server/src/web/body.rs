//! Bodies: each is read whole before anybody looks at it, within its size and its time. What is too
//! large is read past without being kept, so that its sender hears why.

use std::time::Duration;

use axum::body::{Body, Bytes, HttpBody};
use axum::extract::Request;
use axum::http::StatusCode;
use axum::middleware::Next;
use axum::response::Response;
use http_body_util::{BodyExt, LengthLimitError, Limited};

use super::problem::Problem;

/// A larger body is refused.
pub const BODY_MAX: usize = 4 * 1024 * 1024;
/// Of what is too large so much is read past; whoever sends more is cut off.
const PASSED_MAX: usize = 64 * 1024 * 1024;
const WITHIN: Duration = Duration::from_secs(30);

pub async fn whole(request: Request, next: Next) -> Response {
    if request.body().is_end_stream() {
        return next.run(request).await;
    }
    let (head, body) = request.into_parts();
    match read(body, BODY_MAX, WITHIN).await {
        Ok(bytes) => next.run(Request::from_parts(head, bytes.into())).await,
        Err(problem) => problem.into(),
    }
}

/// A body of at most this size, within this time.
pub async fn read(body: Body, most: usize, within: Duration) -> Result<Bytes, Problem> {
    let said = tokio::time::timeout(within, within_size(body, most)).await;
    said.unwrap_or_else(|_| {
        let why = format!("the body did not come within {} seconds", within.as_secs());
        Err(Problem::new(StatusCode::REQUEST_TIMEOUT, why).hint("send it again"))
    })
}

async fn within_size(mut body: Body, most: usize) -> Result<Bytes, Problem> {
    if body.size_hint().lower() > most as u64 {
        return Err(pass(body, most).await);
    }
    match Limited::new(&mut body, most).collect().await {
        Ok(whole) => Ok(whole.to_bytes()),
        Err(error) if error.is::<LengthLimitError>() => Err(pass(body, most).await),
        Err(error) => {
            let why = format!("the body broke off: {error}");
            Err(Problem::new(StatusCode::BAD_REQUEST, why))
        }
    }
}

/// Reads on to the end, and keeps nothing.
async fn pass(body: Body, most: usize) -> Problem {
    let mut rest = Limited::new(body, PASSED_MAX);
    while let Some(Ok(_)) = rest.frame().await {}
    let most = most / (1024 * 1024);
    Problem::new(
        StatusCode::PAYLOAD_TOO_LARGE,
        format!("the body is larger than {most} MiB"),
    )
}

#[cfg(test)]
mod tests {
    use std::pin::Pin;
    use std::task::{Context, Poll};

    use axum::response::IntoResponse;
    use hyper::body::Frame;

    use super::*;

    /// Gives so much, piece by piece, and then says no more.
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
            let said = read(Body::new(Slow(pieces)), BODY_MAX, Duration::from_millis(1)).await;
            let status = said.unwrap_err().into_response().status();
            assert_eq!(status, StatusCode::REQUEST_TIMEOUT);
        }
    }
}
