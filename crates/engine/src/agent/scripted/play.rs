//! Plays a script in the agent's place: what runs behind the hidden verb `play`.

use std::collections::BTreeMap;
use std::ffi::OsString;
use std::fs;
use std::io::Write;
use std::path::{Component, Path, PathBuf};
use std::time::Duration;

use serde_json::{Value, json};

use super::script::{Error, Script, ScriptStep};
use crate::process::{CommandOutput, ShortCommand, find_program, output};

const COMMAND_WALL: Duration = Duration::from_secs(600);
const COMMAND_OUTPUT_MAX: usize = 1 << 20;

/// Plays the steps for the role, round and slot that the environment names, in
/// `dir`; gives the exit code to end with.
pub async fn play(
    script: &Path,
    env: &BTreeMap<String, String>,
    dir: &Path,
    out: &mut (dyn Write + Send),
) -> Result<u8, Error> {
    let script = Script::read(script)?;
    // A judge starts beside the change; its script is about the change.
    let change = env.get("COUNTERSIGN_CHANGE").map(Path::new);
    let dir = change.filter(|change| change.is_dir()).unwrap_or(dir);
    let played = ScriptPlayer { env, dir };
    let (role, round) = (
        played.fact("COUNTERSIGN_ROLE")?,
        played.number("COUNTERSIGN_ROUND")?,
    );
    let slot = played.number("COUNTERSIGN_SLOT").unwrap_or(1);
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
        played
            .perform(step, out)
            .await
            .map_err(|reason| Error::Step {
                number: index + 1,
                step: name(step).to_owned(),
                reason,
            })?;
    }
    Ok(0)
}

fn name(step: &ScriptStep) -> &'static str {
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
    fn fact(&self, name: &'static str) -> Result<&str, Error> {
        self.env
            .get(name)
            .map(String::as_str)
            .ok_or(Error::NoContract(name))
    }

    fn number(&self, name: &'static str) -> Result<u32, Error> {
        self.fact(name)?
            .parse()
            .map_err(|_| Error::NoContract(name))
    }

    async fn perform(&self, step: &ScriptStep, out: &mut (dyn Write + Send)) -> Result<(), String> {
        match step {
            ScriptStep::Write { path, text } => self.write(path, text),
            ScriptStep::Replace { path, find, with } => self.replace(path, find, with),
            ScriptStep::Delete { path } => {
                let path = self.inside(path)?;
                fs::remove_file(&path).map_err(|error| format!("{}: {error}", path.display()))
            }
            ScriptStep::Run { command, may_fail } => {
                let said = self.call("sh", &["-c", command]).await?;
                print(out, String::from_utf8_lossy(&said.stdout).trim_end())?;
                if said.exit.success() || *may_fail {
                    Ok(())
                } else {
                    Err(complaint(&said))
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
        let path = self.inside(path)?;
        let parent = path.parent().unwrap_or(self.dir);
        let written = fs::create_dir_all(parent).and_then(|()| fs::write(&path, text));
        written.map_err(|error| format!("{}: {error}", path.display()))
    }

    fn replace(&self, path: &Path, find: &str, with: &str) -> Result<(), String> {
        let full = self.inside(path)?;
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
        let git = |args: &'static [&'static str]| self.call("git", args);
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
        let committed = self.call("git", &args).await?;
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

    /// Scripts work in their directory; what means to leave it says `run`.
    fn inside(&self, path: &Path) -> Result<PathBuf, String> {
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

    async fn call(&self, program: &str, args: &[&str]) -> Result<CommandOutput, String> {
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
        output(&call).await.map_err(|error| error.to_string())
    }
}

/// The value with the commit under review wherever the script says `$COMMIT`.
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

fn complaint(said: &CommandOutput) -> String {
    format!(
        "{}: {}",
        said.exit,
        String::from_utf8_lossy(&said.stderr).trim()
    )
}

fn print(out: &mut (dyn Write + Send), text: &str) -> Result<(), String> {
    let printed = writeln!(out, "{text}").and_then(|()| out.flush());
    printed.map_err(|error| format!("stdout: {error}"))
}

/// The contract's line for what was spent.
fn usage_line(value: &Value) -> Result<String, String> {
    let mut line = json!({ "event": "usage" });
    let (Some(line_fields), Some(fields)) = (line.as_object_mut(), value.as_object()) else {
        return Err("usage is not an object".to_owned());
    };
    line_fields.extend(fields.clone());
    Ok(line.to_string())
}
