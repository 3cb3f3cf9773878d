//! Labels: what a worker says that its machine has, and what a ticket says that it needs.

/// More than a name and a value of ordinary length.
const LABEL_CHARS_MAX: usize = 100;

/// A label of a worker, `KEY=VALUE`; what a ticket needs is named in the same form.
pub fn label(text: &str) -> Result<String, InvalidLabel> {
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
#[error("{0:?} is no label: write KEY=VALUE, of letters, digits, '-', '_', '.', '/' and ':'")]
pub struct InvalidLabel(pub String);

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_label_is_a_key_and_a_value() {
        assert_eq!(label("gpu=yes"), Ok("gpu=yes".to_owned()));
        for wrong in ["", "gpu", "=yes", "gpu=", "g pu=yes", "a=b=c", "a=\u{1b}"] {
            assert_eq!(label(wrong), Err(InvalidLabel(wrong.to_owned())));
        }
    }
}
