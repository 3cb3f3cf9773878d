//! Representations of JSON answers: entity tags, 304 for an answer that the client has already, and
//! gzip.

use std::io::Write as _;

use axum::body::{Body, Bytes};
use axum::http::{HeaderMap, HeaderValue, StatusCode, header};
use axum::response::{IntoResponse, Response};
use flate2::Compression;
use flate2::write::GzEncoder;
use serde_json::Value;

/// Smaller answers are not compressed: they fit into one packet.
const GZIP_MIN: usize = 1400;
/// Larger answers are compressed on a thread of their own, so that other requests go on.
const GZIP_INLINE_MAX: usize = 128 * 1024;

/// Builds the answer to a `GET`: with an entity tag, compressed if the client accepts that, or 304
/// without a body if the client has it already. The tag is the version of the ticket, if the answer
/// has one, else a hash of the content.
///
/// Only answers to `GET` are compressed. A new secret is shown only by `POST`, and the length of a
/// compressed answer could tell parts of it (BREACH).
pub async fn json_answer(request: &HeaderMap, value: &Value, version: Option<u64>) -> Response {
    let body = Bytes::from(value.to_string());
    let tag = match version {
        Some(version) => format!("\"{version}\""),
        // Weak, because the compressed form has the same tag.
        None => format!("W/\"{}\"", engine::hash::short_sha256(&body)),
    };
    let mut response = if has_current(request, &tag) {
        StatusCode::NOT_MODIFIED.into_response()
    } else {
        let compressed = if accepts_gzip(request) && body.len() >= GZIP_MIN {
            gzip(body.clone()).await
        } else {
            None
        };
        let mut response = match compressed {
            Some(bytes) => {
                let encoding = [(header::CONTENT_ENCODING, "gzip")];
                (encoding, Body::from(bytes)).into_response()
            }
            None => Body::from(body).into_response(),
        };
        let kind = HeaderValue::from_static("application/json");
        response.headers_mut().insert(header::CONTENT_TYPE, kind);
        response
    };
    let is_compressed = response.headers().contains_key(header::CONTENT_ENCODING);
    // The bytes differ from those of the plain form, so a strong tag would be untrue.
    let tag = if is_compressed && !tag.starts_with("W/") {
        format!("W/{tag}")
    } else {
        tag
    };
    let headers = response.headers_mut();
    set_validators(headers, &tag);
    headers.insert(
        header::VARY,
        HeaderValue::from_static("authorization, accept-encoding"),
    );
    response
}

/// Sets the entity tag, and that a copy is asked for again before it is used.
pub fn set_validators(headers: &mut HeaderMap, tag: &str) {
    if let Ok(tag) = HeaderValue::try_from(tag) {
        headers.insert(header::ETAG, tag);
    }
    let cache = HeaderValue::from_static("private, no-cache");
    headers.insert(header::CACHE_CONTROL, cache);
}

/// Tells whether the client has the representation with this tag (`If-None-Match`).
pub fn has_current(request: &HeaderMap, tag: &str) -> bool {
    let tags = request.get_all(header::IF_NONE_MATCH).into_iter();
    let tags = tags.filter_map(|value| value.to_str().ok());
    let mut tags = tags.flat_map(|value| value.split(',').map(str::trim));
    tags.any(|known| known == "*" || strip_weak(known) == strip_weak(tag))
}

/// Removes the mark of a weak tag.
pub fn strip_weak(tag: &str) -> &str {
    tag.strip_prefix("W/").unwrap_or(tag)
}

/// Tells whether the client accepts a compressed body.
pub fn accepts_gzip(request: &HeaderMap) -> bool {
    let codings = request.get_all(header::ACCEPT_ENCODING).into_iter();
    let codings = codings.filter_map(|value| value.to_str().ok());
    let mut codings = codings.flat_map(|value| value.split(','));
    codings.any(|coding| {
        let mut parts = coding.split(';').map(str::trim);
        let is_gzip = parts
            .next()
            .is_some_and(|name| name.eq_ignore_ascii_case("gzip"));
        let weight = parts.find_map(|part| part.strip_prefix("q=")?.parse::<f32>().ok());
        is_gzip && weight.is_none_or(|weight| weight > 0.0)
    })
}

/// Compresses a body; a large one on a thread for blocking work.
pub async fn gzip(body: Bytes) -> Option<Vec<u8>> {
    if body.len() <= GZIP_INLINE_MAX {
        return compress(&body);
    }
    let compressed = tokio::task::spawn_blocking(move || compress(&body)).await;
    compressed.ok().flatten()
}

fn compress(body: &[u8]) -> Option<Vec<u8>> {
    let mut encoder = GzEncoder::new(Vec::new(), Compression::fast());
    encoder.write_all(body).ok()?;
    encoder.finish().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn headers(name: header::HeaderName, value: &'static str) -> HeaderMap {
        [(name, HeaderValue::from_static(value))]
            .into_iter()
            .collect()
    }

    #[test]
    fn gzip_is_used_only_if_the_client_accepts_it() {
        for (value, accepted) in [
            ("gzip", true),
            ("br, GZIP;q=0.5", true),
            ("gzip;q=0", false),
            ("gzip; q=0.0, br", false),
            ("identity", false),
            ("x-gzip-not", false),
        ] {
            let headers = headers(header::ACCEPT_ENCODING, value);
            assert_eq!(accepts_gzip(&headers), accepted, "{value}");
        }
        assert!(!accepts_gzip(&HeaderMap::new()));
    }

    #[test]
    fn tags_are_compared_without_their_weakness() {
        for (value, same) in [
            ("\"3\"", true),
            ("W/\"3\"", true),
            ("\"1\", W/\"3\"", true),
            ("*", true),
            ("\"33\"", false),
            ("3", false),
        ] {
            let headers = headers(header::IF_NONE_MATCH, value);
            assert_eq!(has_current(&headers, "\"3\""), same, "{value}");
        }
    }
}
