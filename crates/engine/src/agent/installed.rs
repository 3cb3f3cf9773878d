//! What an installed CLI is: its version, and whether it still has the flags that we use. Asked of
//! the program itself by its help, once for each build of it.

use std::ffi::OsString;
use std::fs;
use std::path::{Path, PathBuf};
use std::time::{Duration, UNIX_EPOCH};

use serde::{Deserialize, Serialize};

use super::AgentCli;
use crate::hash;
use crate::log::LogErr;
use crate::private;
use crate::process::{self, ShortCommand, output};

/// A help text that takes longer does not come.
const WALL: Duration = Duration::from_secs(30);
const OUTPUT_MAX: usize = 1 << 20;

/// Where a CLI is, and how it is started there.
#[derive(Clone, Debug)]
pub struct CliLocation {
    pub program: PathBuf,
    pub before: Vec<OsString>,
}

#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct InstalledCli {
    pub version: String,
    /// Flags that its help does not have.
    pub missing: Vec<String>,
    /// Whether it has the flag for what a run may cost.
    #[serde(default)]
    pub minds_money: bool,
}

/// Asks the program, unless the same build was asked before. `data_dir` keeps the answers.
pub async fn examine(
    cli: &AgentCli,
    place: &CliLocation,
    path: &OsString,
    data_dir: &Path,
) -> Result<InstalledCli, process::Error> {
    let dir = data_dir.join("probes");
    let known = dir.join(format!("{}.json", key(cli, place)));
    if let Some(found) = fs::read(&known)
        .ok()
        .and_then(|text| serde_json::from_slice(&text).ok())
    {
        return Ok(found);
    }
    let home = dir.join("home");
    // Without it the answer is not kept, and nothing else is lost.
    private::make_dir(&home).log_err("make a home to ask an agent for its version in");
    let mut found = InstalledCli {
        version: first_line(&ask(place, &["--version"], path, &home).await?),
        missing: Vec::new(),
        minds_money: false,
    };
    for probe in cli.probes {
        let help = ask(place, probe.args, path, &home).await?;
        let absent = probe.flags.iter().filter(|flag| !has(&help, flag));
        found.minds_money |= cli.money_flag.is_some_and(|flag| has(&help, flag));
        found.missing.extend(absent.map(|flag| (*flag).to_owned()));
    }
    if let Ok(text) = serde_json::to_vec(&found) {
        private::write(&known, text).log_err("keep the version of an agent");
    }
    Ok(found)
}

async fn ask(
    place: &CliLocation,
    args: &[&str],
    path: &OsString,
    home: &Path,
) -> Result<String, process::Error> {
    let env = [
        ("PATH", path.clone()),
        ("HOME", home.into()),
        ("NO_COLOR", "1".into()),
        ("DO_NOT_TRACK", "1".into()),
        ("DISABLE_AUTOUPDATER", "1".into()),
        ("OPENCODE_DISABLE_AUTOUPDATE", "1".into()),
        ("COPILOT_AUTO_UPDATE", "false".into()),
        // A narrow terminal would break flags over lines.
        ("COLUMNS", "300".into()),
    ];
    let said = output(&ShortCommand {
        program: place.program.clone(),
        args: place
            .before
            .iter()
            .cloned()
            .chain(args.iter().map(OsString::from))
            .collect(),
        env: env
            .into_iter()
            .map(|(name, value)| (name.into(), value))
            .collect(),
        cwd: if home.is_dir() {
            home.to_owned()
        } else {
            "/".into()
        },
        stdin: Vec::new(),
        wall: WALL,
        output_bytes: OUTPUT_MAX,
        stdout_file: None,
        launcher: None,
    })
    .await?;
    let text = [said.stdout, said.stderr].concat();
    Ok(String::from_utf8_lossy(&text).into_owned())
}

fn first_line(text: &str) -> String {
    let line = text.lines().map(str::trim).find(|line| !line.is_empty());
    findings::shorten(&findings::one_line(line.unwrap_or("unknown version")), 80)
}

/// As a word: `--tool` is not found in `--tools`.
fn has(help: &str, flag: &str) -> bool {
    let of_a_word = |c: char| c.is_ascii_alphanumeric() || c == '-';
    help.match_indices(flag).any(|(at, _)| {
        let before = help[..at].chars().next_back();
        let after = help[at + flag.len()..].chars().next();
        !before.is_some_and(of_a_word) && !after.is_some_and(of_a_word)
    })
}

/// Another build, another answer; and another when we come to need other flags.
fn key(cli: &AgentCli, place: &CliLocation) -> String {
    let real = fs::canonicalize(&place.program).unwrap_or_else(|_| place.program.clone());
    let meta = fs::metadata(&real).ok();
    let changed = meta.as_ref().and_then(|meta| meta.modified().ok());
    let changed = changed.and_then(|time| time.duration_since(UNIX_EPOCH).ok());
    let size = meta.map(|meta| meta.len());
    let text = format!(
        "{} {:?} {changed:?} {size:?} {:?} {:?}",
        real.display(),
        place.before,
        cli.probes,
        cli.money_flag
    );
    hash::short(text.as_bytes())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_flag_is_found_as_a_word_only() {
        let help = "  -o, --output-format <FORMAT>\n      --tools <tools...>\n";
        assert!(has(help, "--output-format"));
        assert!(has(help, "--tools"));
        assert!(!has(help, "--tool"));
        assert!(!has(help, "--output"));
    }
}
