//! Tokens of forges and trackers: from a variable, a private file, a command, or the key of an App.
//! They are read when they are needed, and the configuration never has them.

use std::ffi::{OsStr, OsString};
use std::path::{Path, PathBuf};
use std::time::Duration;

use engine::process::{ShortCommand, find_program, run_short_command};
use forge::ForgeToken;
use forge::app_auth::AppKey;

use super::forge::require_private;
use super::{Environment, inherited_variables, read_bounded};
use crate::failure::Failure;

const TOKEN_BYTES_MAX: usize = 4096;
const KEY_BYTES_MAX: usize = 16 * 1024;
/// A keyring may ask its owner for a password.
const COMMAND_WITHIN: Duration = Duration::from_secs(30);
const COMMAND_HINT: &str = "it must print the token and nothing else";
/// Variables that a keyring and the tools of forges need.
const COMMAND_VARIABLES: [&str; 8] = [
    "HOME",
    "PATH",
    "USER",
    "LANG",
    "XDG_CONFIG_HOME",
    "XDG_RUNTIME_DIR",
    "DBUS_SESSION_BUS_ADDRESS",
    "GH_CONFIG_DIR",
];

/// Place where a token command is looked up and run.
#[derive(Clone, Copy, Debug)]
pub struct CommandPlace<'a> {
    pub path: &'a OsStr,
    pub home: &'a Path,
}

impl<'a> CommandPlace<'a> {
    pub fn of(environment: &'a Environment) -> Self {
        Self {
            path: &environment.path,
            home: environment.home.as_deref().unwrap_or(Path::new("/")),
        }
    }
}

/// Place of a token, as a section names it. At most one is given.
#[derive(Clone, Copy, Debug)]
pub struct TokenSource<'a> {
    /// Name of the section, for messages.
    pub section: &'static str,
    pub env: Option<&'a String>,
    pub file: Option<&'a String>,
    pub command: Option<&'a Vec<String>>,
}

impl TokenSource<'_> {
    pub fn is_named(&self) -> bool {
        self.env.is_some() || self.file.is_some() || self.command.is_some()
    }

    /// Lists all problems.
    pub fn problems(&self) -> Vec<String> {
        let section = self.section;
        let given = [
            self.env.is_some(),
            self.file.is_some(),
            self.command.is_some(),
        ];
        let mut problems = Vec::new();
        if given.iter().filter(|given| **given).count() > 1 {
            problems.push(format!(
                "{section}.token_env, {section}.token_file and {section}.token_command exclude each other"
            ));
        }
        if self
            .command
            .is_some_and(|command| command.iter().all(String::is_empty))
        {
            problems.push(format!(
                "{section}.token_command is empty: write token_command = [\"gh\", \"auth\", \"token\"]"
            ));
        }
        problems
    }

    /// Reads the token, and says where it comes from. `usual` are the variables that count if the
    /// section names nothing.
    pub async fn read(
        &self,
        place: CommandPlace<'_>,
        address: &str,
        usual: &[&str],
    ) -> Result<(ForgeToken, String), Failure> {
        if let Some(file) = self.file {
            return read_token_file(file);
        }
        if let Some(command) = self.command {
            return run_token_command(place, command).await;
        }
        let names: Vec<&str> = match self.env {
            Some(name) => vec![name],
            None => usual.to_vec(),
        };
        let set = inherited_variables(names.iter().copied()).into_iter();
        let mut set = set.filter_map(|(name, value)| Some((name.into_string().ok()?, value)));
        let Some((name, value)) = set.next() else {
            let missing = match names.as_slice() {
                [] => "no variable, file or command is named for it".to_owned(),
                names => format!("the variable {} is not set", names.join(" or ")),
            };
            let hint = format!(
                "set it, or name a file of mode 600 with token_file, or a command with token_command, in [{}]",
                self.section
            );
            return Err(Failure::usage(format!("no token for {address}: {missing}")).hint(hint));
        };
        let token = value.to_str().and_then(ForgeToken::new);
        let token = token.ok_or_else(|| {
            Failure::usage(format!(
                "the variable {name} has no token: it is not one word of ASCII"
            ))
        })?;
        Ok((token, format!("variable {name}")))
    }
}

/// Reads a token from a file that only its owner can read.
fn read_token_file(file: &str) -> Result<(ForgeToken, String), Failure> {
    let path = PathBuf::from(file);
    require_private(&path, "the token file")?;
    let bytes = read_bounded(&path, "the token file", TOKEN_BYTES_MAX)?;
    let token = std::str::from_utf8(&bytes).ok().and_then(ForgeToken::new);
    let token = token
        .ok_or_else(|| Failure::usage(format!("the token file {file} is not one word of ASCII")))?;
    Ok((token, format!("file {file}")))
}

/// Runs the command of the user's own file that prints the token: `gh auth token`, for example.
async fn run_token_command(
    place: CommandPlace<'_>,
    command: &[String],
) -> Result<(ForgeToken, String), Failure> {
    let shown = command.first().cloned().unwrap_or_default();
    let failed = |why: String| {
        let message = format!("token_command {shown:?} gave no token: {why}");
        Failure::usage(message).hint(COMMAND_HINT)
    };
    let program = find_program(shown.as_ref(), place.path, place.home);
    let call = ShortCommand {
        program: program.map_err(|error| failed(error.to_string()))?,
        args: command.iter().skip(1).map(OsString::from).collect(),
        env: inherited_variables(COMMAND_VARIABLES.into_iter()),
        cwd: place.home.to_owned(),
        stdin: Vec::new(),
        wall: COMMAND_WITHIN,
        output_bytes: TOKEN_BYTES_MAX,
        stdout_file: None,
        launcher: None,
    };
    let output = run_short_command(&call)
        .await
        .map_err(|error| failed(error.to_string()))?;
    if !output.exit.success() {
        // Its output could have the token; its errors are for the person.
        let words = findings::one_line(&String::from_utf8_lossy(&output.stderr));
        return Err(failed(findings::shorten(&words, 200)));
    }
    let token = std::str::from_utf8(&output.stdout)
        .ok()
        .and_then(ForgeToken::new);
    let token = token.ok_or_else(|| failed("its output is not one word of ASCII".to_owned()))?;
    Ok((token, format!("command {shown}")))
}

/// Reads the private key of a GitHub App from a file that only its owner can read.
pub fn read_app_key(id: &str, file: &str, installation: Option<u64>) -> Result<AppKey, Failure> {
    let path = Path::new(file);
    require_private(path, "the key file of the App")?;
    let bytes = read_bounded(path, "the key file of the App", KEY_BYTES_MAX)?;
    let pem = String::from_utf8_lossy(&bytes);
    AppKey::new(id, &pem, installation).map_err(|error| {
        Failure::usage(format!("{file}: {error}"))
            .hint("download a private key in the settings of the App, and keep it with mode 600")
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    async fn read(words: &[&str]) -> Result<(ForgeToken, String), Failure> {
        let words: Vec<String> = words.iter().map(|&word| word.to_owned()).collect();
        let source = TokenSource {
            section: "forge",
            env: None,
            file: None,
            command: Some(&words),
        };
        assert_eq!(source.problems(), [""; 0]);
        let place = CommandPlace {
            path: OsStr::new("/usr/bin:/bin"),
            home: Path::new("/"),
        };
        source.read(place, "https://git.example", &[]).await
    }

    #[tokio::test]
    async fn a_command_prints_the_token_and_its_output_is_never_shown() {
        let (token, origin) = read(&["echo", "secret-token"]).await.unwrap();
        assert_eq!(
            (token.redact("secret-token"), origin.as_str()),
            ("[token]".to_owned(), "command echo")
        );
        for (words, why) in [
            (
                &["sh", "-c", "echo secret-token; echo locked >&2; exit 1"][..],
                "locked",
            ),
            (&["echo", "secret-token", "and", "words"], "one word"),
            (&["true"], "one word"),
            (&["no-such-program-here"], "no-such-program-here"),
        ] {
            let failure = read(words).await.unwrap_err();
            assert!(failure.message.contains(why), "{failure:?}");
            assert!(
                !format!("{failure:?}").contains("secret-token"),
                "{failure:?}"
            );
        }
    }

    #[test]
    fn one_place_of_a_token_only() {
        let (name, words) = ("T".to_owned(), vec![String::new()]);
        let source = TokenSource {
            section: "forge",
            env: Some(&name),
            file: None,
            command: Some(&words),
        };
        let problems = source.problems();
        assert!(
            problems[0].contains("exclude") && problems[1].contains("is empty"),
            "{problems:?}"
        );
    }
}
