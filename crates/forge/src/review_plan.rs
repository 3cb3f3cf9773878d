//! Plans a review: which findings go on lines, and what the body says about the rest.

use std::fmt::Write;

use crate::anchors::{LineAnchor, Placement};
use crate::body::cut_body;
use crate::marker::marked;
use crate::model::{InlineFinding, ReviewDraft};

/// Last paragraph of a text that was cut.
pub(crate) const CUT_NOTICE: &str = "_The rest of this text was too long and is left out here._";

/// A finding on lines that the diff has.
#[derive(Clone, Debug)]
pub(crate) struct PlacedFinding<'a> {
    pub anchor: LineAnchor,
    pub finding: &'a InlineFinding,
}

/// Splits findings into those on lines and the others.
pub(crate) fn split_findings(
    draft: &ReviewDraft,
    known: impl Fn(&str) -> bool,
) -> (Vec<PlacedFinding<'_>>, Vec<&InlineFinding>) {
    let (mut placed, mut others) = (Vec::new(), Vec::new());
    // A finding that has its thread already is not said again.
    for finding in draft.findings.iter().filter(|finding| !known(&finding.key)) {
        let place = finding
            .anchor
            .as_ref()
            .map(|anchor| draft.lines.place(anchor));
        match place {
            Some(Placement::Line(anchor)) => placed.push(PlacedFinding { anchor, finding }),
            Some(Placement::File(_) | Placement::Body) | None => others.push(finding),
        }
    }
    (placed, others)
}

/// Builds the body: the marker, the text, and the findings that are on no line.
pub(crate) fn review_body(
    draft: &ReviewDraft,
    others: &[&InlineFinding],
    chars_max: usize,
) -> String {
    let mut body = draft.body.clone();
    if !others.is_empty() {
        body.push_str("\n\n### Findings that are not on a line of the diff");
    }
    for finding in others {
        let place = finding.anchor.as_ref().map(|anchor| {
            let path = anchor.path.replace('`', "");
            format!(" `{path}:{}`", anchor.line)
        });
        let _ = write!(
            body,
            "\n\n**{}**{}\n\n{}",
            finding.key,
            place.unwrap_or_default(),
            finding.body
        );
    }
    cut_body(&marked("review", &draft.key, &body), chars_max, CUT_NOTICE)
}
