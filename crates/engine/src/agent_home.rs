//! Writes files into a directory that an agent could write to, such as its home directory.
//!
//! We are not sandboxed, so a symbolic link that the agent left would make us write where the
//! agent could not. No agent runs there at the same time.

use std::ffi::OsString;
use std::fs;
use std::io;
use std::path::{Component, Path};

use crate::private_files;

/// Returns the variables that make a directory the home of a run.
///
/// Java ignores `HOME`: it reads the home directory of the user's account, which a run may not
/// write to. So Maven and Gradle are told by variables of their own.
pub fn variables(home: &Path) -> Vec<(&'static str, OsString)> {
    let mut variables = vec![
        ("HOME", home.into()),
        ("GRADLE_USER_HOME", home.join(".gradle").into()),
    ];
    // The script of Maven splits the value at spaces and knows no quotes.
    let text = home.to_string_lossy();
    if !text.contains(char::is_whitespace) {
        variables.push(("MAVEN_OPTS", format!("-Duser.home={text}").into()));
    }
    variables
}

/// Prepares the path of a file below the directory: creates real directories on the way and
/// removes anything at its end. Links and files in the way belonged to the agent and are removed.
pub fn clear_path(own: &Path, file: &Path) -> io::Result<()> {
    let below = file.strip_prefix(own).map_err(|_| {
        io::Error::other(format!(
            "{} is not below the agent's own directory",
            file.display()
        ))
    })?;
    let plain = |part: Component<'_>| matches!(part, Component::Normal(_));
    if !below.components().all(plain) {
        return Err(io::Error::other(format!(
            "{} leaves the agent's own directory",
            file.display()
        )));
    }
    private_files::make_dir(own)?;
    let mut at = own.to_owned();
    let mut parts = below.components().peekable();
    while let Some(part) = parts.next() {
        at.push(part);
        let meta = fs::symlink_metadata(&at).ok();
        let is_last = parts.peek().is_none();
        match meta {
            Some(meta) if meta.is_dir() && !is_last => continue,
            Some(meta) if meta.is_dir() => fs::remove_dir_all(&at)?,
            Some(_) => fs::remove_file(&at)?,
            None => {}
        }
        if !is_last {
            private_files::make_dir(&at)?;
        }
    }
    Ok(())
}

/// Writes a file below the directory.
pub fn write(own: &Path, file: &Path, text: impl AsRef<[u8]>) -> io::Result<()> {
    clear_path(own, file)?;
    private_files::write(file, text)
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::symlink;

    use super::*;

    #[test]
    fn java_finds_the_home_of_the_run() {
        let has_maven = |home: &str| {
            let all = variables(Path::new(home));
            assert!(all.contains(&("HOME", home.into())));
            let gradle = format!("{home}/.gradle").into();
            assert!(all.contains(&("GRADLE_USER_HOME", gradle)));
            let maven = format!("-Duser.home={home}").into();
            all.contains(&("MAVEN_OPTS", maven))
        };
        assert!(has_maven("/data/home"));
        assert!(!has_maven("/my data/home"));
    }

    #[test]
    fn what_an_agent_left_in_its_home_leads_nowhere_else() {
        let dir = tempfile::tempdir().unwrap();
        let (home, outside) = (dir.path().join("home"), dir.path().join("outside"));
        fs::create_dir_all(&home).unwrap();
        fs::create_dir_all(&outside).unwrap();
        fs::write(outside.join("settings.json"), "the person's").unwrap();
        symlink(&outside, home.join(".agent")).unwrap();
        write(&home, &home.join(".agent/settings.json"), "ours").unwrap();
        symlink(outside.join("settings.json"), home.join("plain")).unwrap();
        write(&home, &home.join("plain"), "ours").unwrap();
        let kept = fs::read_to_string(outside.join("settings.json")).unwrap();
        assert_eq!(kept, "the person's");
        let written = fs::read_to_string(home.join(".agent/settings.json")).unwrap();
        assert_eq!(written, "ours");
        assert!(write(&home, &home.join("../outside/x"), "no").is_err());
    }
}
