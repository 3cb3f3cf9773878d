//! Examines an installed CLI: its version, and whether its help still has the flags that we use.
//! Each build is asked once.

use std::ffi::OsString;
use std::fs;
use std::path::{Path, PathBuf};
use std::time::{Duration, UNIX_EPOCH};

use serde::{Deserialize, Serialize};

use super::AgentCli;
use crate::hash;
use crate::log::LogErr;
use crate::private_files;
use crate::process::{self, ShortCommand, run_short_command};

/// Time limit for printing the help.
const WALL: Duration = Duration::from_secs(30);
const OUTPUT_MAX: usize = 1 << 20;

/// Path of a CLI and the arguments that start it.
#[derive(Clone, Debug)]
pub struct CliLocation {
    pub program: PathBuf,
    pub before: Vec<OsString>,
}

#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct InstalledCli {
    pub version: String,
    /// Flags that are missing from its help.
    pub missing: Vec<String>,
    /// Whether it has the flag for the maximum cost of a run.
    #[serde(default)]
    pub minds_money: bool,
}

/// Asks the program for its version and help, unless the answers for this build are cached in
/// `data_dir`.
pub async fn examine(
    cli: &AgentCli,
    place: &CliLocation,
    path: &OsString,
    data_dir: &Path,
) -> Result<InstalledCli, process::Error> {
    let dir = data_dir.join("probes");
    let cache = dir.join(format!("{}.json", cache_key(cli, place)));
    if let Some(cached) = fs::read(&cache)
        .ok()
        .and_then(|text| serde_json::from_slice(&text).ok())
    {
        return Ok(cached);
    }
    let home = dir.join("home");
    // If this fails, the answer is not cached, and nothing else is lost.
    private_files::make_dir(&home).log_err("create the directory for probing an agent's version");
    let mut installed = InstalledCli {
        version: first_line(&run_program(place, &["--version"], path, &home).await?),
        missing: Vec::new(),
        minds_money: false,
    };
    for probe in cli.probes {
        let help = run_program(place, probe.args, path, &home).await?;
        let absent = probe
            .flags
            .iter()
            .filter(|flag| !help_has_flag(&help, flag));
        installed.minds_money |= cli
            .budget_flag
            .is_some_and(|flag| help_has_flag(&help, flag));
        let absent = absent.map(|flag| (*flag).to_owned());
        installed.missing.extend(absent);
    }
    if let Ok(text) = serde_json::to_vec(&installed) {
        private_files::write(&cache, text).log_err("cache the version of an agent");
    }
    Ok(installed)
}

async fn run_program(
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
        // In a narrow terminal, flags would be wrapped.
        ("COLUMNS", "300".into()),
    ];
    let answer = run_short_command(&ShortCommand {
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
    let text = [answer.stdout, answer.stderr].concat();
    Ok(String::from_utf8_lossy(&text).into_owned())
}

fn first_line(text: &str) -> String {
    let line = text.lines().map(str::trim).find(|line| !line.is_empty());
    findings::shorten(&findings::one_line(line.unwrap_or("unknown version")), 80)
}

/// Returns whether the help contains the flag as a whole word: `--tool` does not match `--tools`.
fn help_has_flag(help: &str, flag: &str) -> bool {
    let of_a_word = |c: char| c.is_ascii_alphanumeric() || c == '-';
    help.match_indices(flag).any(|(at, _)| {
        let before = help[..at].chars().next_back();
        let after = help[at + flag.len()..].chars().next();
        !before.is_some_and(of_a_word) && !after.is_some_and(of_a_word)
    })
}

/// Returns the cache key, which changes with the build and with the flags that we need.
fn cache_key(cli: &AgentCli, place: &CliLocation) -> String {
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
        cli.budget_flag
    );
    hash::short_sha256(text.as_bytes())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_flag_is_found_as_a_word_only() {
        let help = "  -o, --output-format <FORMAT>\n      --tools <tools...>\n";
        assert!(help_has_flag(help, "--output-format"));
        assert!(help_has_flag(help, "--tools"));
        assert!(!help_has_flag(help, "--tool"));
        assert!(!help_has_flag(help, "--output"));
    }
}
