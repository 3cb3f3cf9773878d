//! Plays a script in place of an agent: the implementation of the hidden verb `play`.

use std::collections::BTreeMap;
use std::ffi::OsString;
use std::fs;
use std::io::Write;
use std::path::{Component, Path, PathBuf};
use std::time::Duration;

use serde_json::{Value, json};

use super::script::{Error, Script, ScriptStep};
use crate::process::{CommandOutput, ShortCommand, find_program, run_short_command};

const COMMAND_WALL: Duration = Duration::from_secs(600);
const COMMAND_OUTPUT_MAX: usize = 1 << 20;

/// Plays the steps for the role, round and slot of the environment in `dir`, and returns the exit
/// code.
pub async fn play_script(
    script: &Path,
    env: &BTreeMap<String, String>,
    dir: &Path,
    out: &mut (dyn Write + Send),
) -> Result<u8, Error> {
    let script = Script::read(script)?;
    // A reviewer or verifier starts outside of the change; its script works in the change.
    let change = env.get("COUNTERSIGN_CHANGE").map(Path::new);
    let dir = change.filter(|change| change.is_dir()).unwrap_or(dir);
    let player = ScriptPlayer { env, dir };
    let (role, round) = (
        player.variable("COUNTERSIGN_ROLE")?,
        player.number("COUNTERSIGN_ROUND")?,
    );
    let slot = player.number("COUNTERSIGN_SLOT").unwrap_or(1);
    let question = env
        .get("COUNTERSIGN_QUESTION")
        .map_or("work", String::as_str);
    let steps = script.steps((role, question), round, slot);
    let steps = steps.ok_or_else(|| Error::NothingToPlay {
        role: role.to_owned(),
        round,
        slot,
    })?;
    for (index, step) in steps.iter().enumerate() {
        if let ScriptStep::Exit(code) = step {
            return Ok(*code);
        }
        player
            .perform(step, out)
            .await
            .map_err(|reason| Error::Step {
                number: index + 1,
                step: step_name(step).to_owned(),
                reason,
            })?;
    }
    Ok(0)
}

fn step_name(step: &ScriptStep) -> &'static str {
    match step {
        ScriptStep::Write { .. } => "write",
        ScriptStep::Replace { .. } => "replace",
        ScriptStep::Delete { .. } => "delete",
        ScriptStep::Run { .. } => "run",
        ScriptStep::Say(_) => "say",
        ScriptStep::Commit { .. } => "commit",
        ScriptStep::WaitMs(_) => "wait_ms",
        ScriptStep::Result(_) => "result",
        ScriptStep::Usage(_) => "usage",
        ScriptStep::Exit(_) => "exit",
    }
}

struct ScriptPlayer<'a> {
    env: &'a BTreeMap<String, String>,
    dir: &'a Path,
}

impl ScriptPlayer<'_> {
    fn variable(&self, name: &'static str) -> Result<&str, Error> {
        self.env
            .get(name)
            .map(String::as_str)
            .ok_or(Error::NoContract(name))
    }

    fn number(&self, name: &'static str) -> Result<u32, Error> {
        self.variable(name)?
            .parse()
            .map_err(|_| Error::NoContract(name))
    }

    async fn perform(&self, step: &ScriptStep, out: &mut (dyn Write + Send)) -> Result<(), String> {
        match step {
            ScriptStep::Write { path, text } => self.write(path, text),
            ScriptStep::Replace { path, find, with } => self.replace(path, find, with),
            ScriptStep::Delete { path } => {
                let path = self.resolve_path(path)?;
                fs::remove_file(&path).map_err(|error| format!("{}: {error}", path.display()))
            }
            ScriptStep::Run { command, may_fail } => {
                let output = self.run_command("sh", &["-c", command]).await?;
                print(out, String::from_utf8_lossy(&output.stdout).trim_end())?;
                if output.exit.success() || *may_fail {
                    Ok(())
                } else {
                    Err(complaint(&output))
                }
            }
            ScriptStep::Say(text) => print(out, text),
            ScriptStep::Commit { message } => self.commit(message).await,
            ScriptStep::WaitMs(ms) => {
                tokio::time::sleep(Duration::from_millis(*ms)).await;
                Ok(())
            }
            ScriptStep::Result(value) => self.result(value),
            ScriptStep::Usage(value) => print(out, &usage_line(value)?),
            ScriptStep::Exit(_) => Ok(()),
        }
    }

    fn write(&self, path: &Path, text: &str) -> Result<(), String> {
        let path = self.resolve_path(path)?;
        let parent = path.parent().unwrap_or(self.dir);
        let result = fs::create_dir_all(parent).and_then(|()| fs::write(&path, text));
        result.map_err(|error| format!("{}: {error}", path.display()))
    }

    fn replace(&self, path: &Path, find: &str, with: &str) -> Result<(), String> {
        let full = self.resolve_path(path)?;
        let text =
            fs::read_to_string(&full).map_err(|error| format!("{}: {error}", path.display()))?;
        if text.contains(find) {
            return self.write(path, &text.replacen(find, with, 1));
        }
        if text.contains(with) {
            return Ok(());
        }
        Err(format!(
            "{} does not have the text {find:?}",
            path.display()
        ))
    }

    async fn commit(&self, message: &str) -> Result<(), String> {
        let identity = [
            "-c",
            "user.name=Scripted agent",
            "-c",
            "user.email=scripted@localhost",
        ];
        let git = |args: &'static [&'static str]| self.run_command("git", args);
        let added = git(&["add", "--all"]).await?;
        if !added.exit.success() {
            return Err(complaint(&added));
        }
        if git(&["diff", "--cached", "--quiet"]).await?.exit.success() {
            return Ok(());
        }
        let args: Vec<&str> = identity
            .into_iter()
            .chain(["commit", "--quiet", "--message", message])
            .collect();
        let committed = self.run_command("git", &args).await?;
        if committed.exit.success() {
            Ok(())
        } else {
            Err(complaint(&committed))
        }
    }

    fn result(&self, value: &Value) -> Result<(), String> {
        let file = self
            .env
            .get("COUNTERSIGN_RESULT_FILE")
            .ok_or("COUNTERSIGN_RESULT_FILE is not set")?;
        let commit = self.env.get("COUNTERSIGN_COMMIT");
        let text = match value {
            Value::String(text) => text.clone(),
            other => with_commit(other, commit.map(String::as_str)).to_string(),
        };
        fs::write(file, text).map_err(|error| format!("{file}: {error}"))
    }

    /// Returns a path below the directory. To write elsewhere, a script uses `run`.
    fn resolve_path(&self, path: &Path) -> Result<PathBuf, String> {
        let plain = path
            .components()
            .all(|part| matches!(part, Component::Normal(_)));
        if plain && path.components().next().is_some() {
            return Ok(self.dir.join(path));
        }
        Err(format!(
            "{} is not a path below the directory",
            path.display()
        ))
    }

    async fn run_command(&self, program: &str, args: &[&str]) -> Result<CommandOutput, String> {
        let path = self.env.get("PATH").map(String::as_str).unwrap_or_default();
        let program = find_program(program.as_ref(), path.as_ref(), self.dir);
        let call = ShortCommand {
            program: program.map_err(|error| error.to_string())?,
            args: args.iter().map(OsString::from).collect(),
            env: self
                .env
                .iter()
                .map(|(name, value)| (name.into(), value.into()))
                .collect(),
            cwd: self.dir.to_owned(),
            stdin: Vec::new(),
            wall: COMMAND_WALL,
            output_bytes: COMMAND_OUTPUT_MAX,
            stdout_file: None,
            launcher: None,
        };
        run_short_command(&call)
            .await
            .map_err(|error| error.to_string())
    }
}

/// Replaces `$COMMIT` in the value with the commit under review.
fn with_commit(value: &Value, commit: Option<&str>) -> Value {
    match (value, commit) {
        (Value::String(text), Some(commit)) if text == "$COMMIT" => commit.into(),
        (Value::Object(fields), _) => {
            let filled = fields.iter();
            let filled = filled.map(|(name, value)| (name.clone(), with_commit(value, commit)));
            Value::Object(filled.collect())
        }
        (other, _) => other.clone(),
    }
}

fn complaint(output: &CommandOutput) -> String {
    format!(
        "{}: {}",
        output.exit,
        String::from_utf8_lossy(&output.stderr).trim()
    )
}

fn print(out: &mut (dyn Write + Send), text: &str) -> Result<(), String> {
    let result = writeln!(out, "{text}").and_then(|()| out.flush());
    result.map_err(|error| format!("stdout: {error}"))
}

/// Returns the contract's usage line.
fn usage_line(value: &Value) -> Result<String, String> {
    let mut line = json!({ "event": "usage" });
    let (Some(line_fields), Some(fields)) = (line.as_object_mut(), value.as_object()) else {
        return Err("usage is not an object".to_owned());
    };
    line_fields.extend(fields.clone());
    Ok(line.to_string())
}
