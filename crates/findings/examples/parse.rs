//! Prints the result of reading files: one line for the claim, one for each finding.

use std::io::Write;

fn main() -> std::io::Result<()> {
    let mut out = std::io::stdout().lock();
    for path in std::env::args().skip(1) {
        let text = String::from_utf8_lossy(&std::fs::read(&path)?).into_owned();
        let review = findings::read(&text);
        writeln!(
            out,
            "{path}: {:?} {:?} {}% {:?} earlier {} {:?}",
            review.claim,
            review.format,
            review.sureness,
            review.claim_text,
            review.earlier.len(),
            review.remarks
        )?;
        for finding in &review.findings {
            let place = findings::write::location(finding).unwrap_or_default();
            let mark = if finding.actionable { ' ' } else { '·' };
            writeln!(
                out,
                " {mark}{:?} {place} | {} | fix: {}",
                finding.rating.raw.as_deref().unwrap_or("-"),
                findings::shorten(&finding.title, 100),
                findings::shorten(finding.fix.as_deref().unwrap_or("-"), 30)
            )?;
        }
    }
    Ok(())
}
