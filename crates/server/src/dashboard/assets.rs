//! Scripts and styles of the pages, compiled into the binary and served with an `ETag`.

use axum::extract::Path;
use axum::http::{HeaderMap, StatusCode, header};
use axum::response::{IntoResponse, Response};

const CSS: &str = "text/css; charset=utf-8";
const SCRIPT: &str = "text/javascript; charset=utf-8";

struct Asset {
    name: &'static str,
    kind: &'static str,
    text: &'static str,
}

const ASSETS: [Asset; 6] = [
    Asset {
        name: "icon.svg",
        kind: "image/svg+xml",
        text: include_str!("../../assets/icon.svg"),
    },
    Asset {
        name: "dashboard.css",
        kind: CSS,
        text: include_str!("../../assets/dashboard.css"),
    },
    Asset {
        name: "dashboard.js",
        kind: SCRIPT,
        text: include_str!("../../assets/dashboard.js"),
    },
    Asset {
        name: "live.js",
        kind: SCRIPT,
        text: include_str!("../../assets/live.js"),
    },
    Asset {
        name: "htmx.min.js",
        kind: SCRIPT,
        text: include_str!("../../assets/htmx.min.js"),
    },
    Asset {
        name: "hx-sse.min.js",
        kind: SCRIPT,
        text: include_str!("../../assets/hx-sse.min.js"),
    },
];

/// Serves an asset. It is the same for everybody, so it needs no session.
pub async fn serve(Path(file): Path<String>, headers: HeaderMap) -> Response {
    let Some(asset) = ASSETS.iter().find(|asset| asset.name == file) else {
        return StatusCode::NOT_FOUND.into_response();
    };
    let tag = format!("\"{}\"", engine::hash::short_sha256(asset.text.as_bytes()));
    let caching = [
        (header::ETAG, tag.clone()),
        // Asked again at each page, and answered without a body: an upgrade is seen at once.
        (header::CACHE_CONTROL, "no-cache".to_owned()),
    ];
    let known = headers.get(header::IF_NONE_MATCH);
    if known.is_some_and(|known| known.as_bytes() == tag.as_bytes()) {
        return (StatusCode::NOT_MODIFIED, caching).into_response();
    }
    (caching, [(header::CONTENT_TYPE, asset.kind)], asset.text).into_response()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn third_party_files_are_the_published_ones() {
        let list = include_str!("../../assets/THIRD-PARTY.md");
        for name in ["htmx.min.js", "hx-sse.min.js"] {
            let asset = ASSETS.iter().find(|asset| asset.name == name).unwrap();
            let sum = engine::hash::sha256(asset.text.as_bytes());
            let line = list
                .lines()
                .find(|line| line.starts_with(&format!("| `{name}`")));
            assert!(
                line.is_some_and(|line| line.contains(&sum)),
                "{name}: {sum}"
            );
        }
    }

    #[test]
    fn our_script_stays_small() {
        let all = [
            include_str!("../../assets/dashboard.js"),
            include_str!("../../assets/live.js"),
        ];
        let lines: usize = all.iter().map(|text| text.lines().count()).sum();
        assert!(lines <= 400, "{lines} lines");
    }
}
