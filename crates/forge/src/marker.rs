//! Hidden markers, by which an adapter recognises its own comments, threads and reviews.
//!
//! A marker is at the beginning of a body, so that a cut at the end cannot remove it. It counts only
//! in a text of our own account: anybody can copy it.

/// Prefix that names the format.
const PREFIX: &str = "countersign:v1";

/// Builds the marker of a subject (`topic`, `finding`, `review`, `reply`) with its key. Characters
/// that could end the comment are replaced.
pub(crate) fn marker(subject: &str, key: &str) -> String {
    format!("<!-- {} -->", plain(subject, key))
}

/// The marker without its HTML comment, for services that show HTML as text.
pub(crate) fn plain(subject: &str, key: &str) -> String {
    let key: String = key
        .chars()
        .map(|c| match c {
            c if c.is_ascii_alphanumeric() || matches!(c, '.' | ':' | '/') => c,
            _ => '_',
        })
        .collect();
    format!("{PREFIX} {subject}={key};")
}

/// Puts the marker in front of a body.
pub(crate) fn marked(subject: &str, key: &str, body: &str) -> String {
    format!("{}\n{body}", marker(subject, key))
}

/// Returns whether a body has the marker of this subject and key in its first lines.
pub(crate) fn has_marker(body: &str, subject: &str, key: &str) -> bool {
    let wanted = marker(subject, key);
    body.lines().take(4).any(|line| line.trim() == wanted)
}

/// Returns the key in the marker of a subject, if a body has one in its first lines.
pub(crate) fn marker_key(body: &str, subject: &str) -> Option<String> {
    let start = format!("<!-- {PREFIX} {subject}=");
    let mut lines = body.lines().take(4).map(str::trim);
    let key = lines.find_map(|line| line.strip_prefix(&start)?.strip_suffix("; -->"))?;
    Some(key.to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_marker_is_found_by_its_whole_key_only() {
        let body = marked("finding", "F1", "text");
        assert!(has_marker(&body, "finding", "F1"));
        assert_eq!(marker_key(&body, "finding").as_deref(), Some("F1"));
        assert_eq!(marker_key(&body, "topic"), None);
        assert!(!has_marker(&body, "finding", "F"));
        assert!(!has_marker(&body, "finding", "F11"));
        assert!(!has_marker(&body, "topic", "F1"));
        assert!(!has_marker(&format!("> {body}"), "finding", "F1"));
        assert_eq!(
            marker("topic", "a -->b"),
            "<!-- countersign:v1 topic=a____b; -->"
        );
    }
}
