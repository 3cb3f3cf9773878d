//! What a reviewer claims in prose.

use crate::finding::Claim;

/// The claim of a short phrase, such as the value of a verdict field.
pub(super) fn of_phrase(_text: &str) -> Option<Claim> {
    None
}
