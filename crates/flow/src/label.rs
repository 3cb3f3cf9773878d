//! Labels: features of a worker's machine, and the ones that a ticket needs.

/// Longest label.
const LABEL_CHARS_MAX: usize = 100;

/// Checks that a label is a valid `KEY=VALUE`. Workers and tickets use the same form.
pub fn parse_label(text: &str) -> Result<String, InvalidLabel> {
    let sound = |c: char| c.is_ascii_alphanumeric() || matches!(c, '-' | '_' | '.' | '/' | ':');
    let fits = |part: &str| !part.is_empty() && part.chars().all(sound);
    match text.split_once('=') {
        Some((key, value)) if fits(key) && fits(value) && text.len() <= LABEL_CHARS_MAX => {
            Ok(text.to_owned())
        }
        Some(_) | None => Err(InvalidLabel(text.to_owned())),
    }
}

#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{0:?} is not a label: write KEY=VALUE, of letters, digits, '-', '_', '.', '/' and ':'")]
pub struct InvalidLabel(pub String);

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_label_is_a_key_and_a_value() {
        assert_eq!(parse_label("gpu=yes"), Ok("gpu=yes".to_owned()));
        for wrong in ["", "gpu", "=yes", "gpu=", "g pu=yes", "a=b=c", "a=\u{1b}"] {
            assert_eq!(parse_label(wrong), Err(InvalidLabel(wrong.to_owned())));
        }
    }
}
