//! How reviewers' `paths` were read before they followed `.gitignore`. Stored tickets replay with it:
//! `*` and `?` stay inside a directory, `**` goes through any number of them, a pattern that ends in
//! a slash means all that is below it, and every pattern begins at the top of the repository.
//!
//! Nothing new is matched with it. A fix here would change which reviewers an old ticket had, and
//! its log would no longer replay.

/// Whether the path, relative to the repository, is one that the pattern means.
pub fn matches(pattern: &str, path: &str) -> bool {
    let whole = if pattern.ends_with('/') {
        format!("{pattern}**")
    } else {
        pattern.to_owned()
    };
    let pattern: Vec<&str> = whole.split('/').filter(|part| !part.is_empty()).collect();
    let path: Vec<&str> = path.split('/').filter(|part| !part.is_empty()).collect();
    segments_match(&pattern, &path)
}

fn segments_match(pattern: &[&str], path: &[&str]) -> bool {
    match (pattern.split_first(), path.split_first()) {
        (None, None) => true,
        (Some((&"**", rest)), None) => segments_match(rest, &[]),
        (Some((&"**", rest)), Some((_, below))) => {
            segments_match(rest, path) || segments_match(pattern, below)
        }
        (Some((first, rest)), Some((name, below))) => {
            segment_matches(first, name) && segments_match(rest, below)
        }
        (Some(_), None) | (None, Some(_)) => false,
    }
}

/// One name; on a mismatch the last star takes one letter more.
fn segment_matches(pattern: &str, name: &str) -> bool {
    let (pattern, name): (Vec<char>, Vec<char>) =
        (pattern.chars().collect(), name.chars().collect());
    let (mut at, mut seen, mut star) = (0, 0, None);
    while seen < name.len() {
        match pattern.get(at) {
            Some('*') => {
                star = Some((at, seen));
                at += 1;
            }
            Some(c) if *c == '?' || name.get(seen) == Some(c) => {
                at += 1;
                seen += 1;
            }
            Some(_) | None => {
                let Some((back, taken)) = star else {
                    return false;
                };
                star = Some((back, taken + 1));
                at = back + 1;
                seen = taken + 1;
            }
        }
    }
    pattern.iter().skip(at).all(|c| *c == '*')
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn patterns_mean_what_people_expect() {
        let rows = [
            ("src/*.rs", "src/a.rs", true),
            ("src/*.rs", "src/a/b.rs", false),
            ("src/**", "src/a/b.rs", true),
            ("src/", "src/a/b.rs", true),
            ("**/auth/**", "src/auth/token.rs", true),
            ("**/auth/**", "auth/token.rs", true),
            ("**/auth/**", "src/author/token.rs", false),
            ("*.sql", "a.sql", true),
            ("*.sql", "db/a.sql", false),
            ("**/*.sql", "a.sql", true),
            ("a?c*e", "abcxde", true),
            ("a*b*c", "aXbYbZc", true),
            ("a*b*c", "aXbYbZ", false),
            ("Cargo.toml", "Cargo.toml", true),
            ("Cargo.toml", "x/Cargo.toml", false),
        ];
        for (pattern, path, fits_it) in rows {
            assert_eq!(matches(pattern, path), fits_it, "{pattern} on {path}");
        }
    }
}
