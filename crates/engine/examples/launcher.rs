//! The smallest program with the engine's hidden verbs; the crate's tests put it
//! in front of what they run, as the real binary does with itself.

use std::collections::BTreeMap;
use std::ffi::OsString;
use std::io::Write;
use std::path::Path;
use std::process::ExitCode;
use std::time::Duration;

use engine::agent::scripted;
use engine::process::{self, Launcher, ProcessHost, ProcessLimits, ProcessSpec, RunId, StopSignal};
use engine::sandbox;

#[tokio::main(flavor = "current_thread")]
async fn main() -> ExitCode {
    let args: Vec<OsString> = std::env::args_os().skip(1).collect();
    let Some((verb, args)) = args.split_first() else {
        return ExitCode::from(2);
    };
    let failed = match verb.to_str() {
        Some("hold") => process::hold(args)
            .map(drop)
            .err()
            .map(|error| error.to_string()),
        Some("confine") => match sandbox::confine(args) {
            Ok(code) => return ExitCode::from(code),
            Err(error) => Some(error.to_string()),
        },
        Some("confined") => match sandbox::confined(args) {
            Ok(code) => return ExitCode::from(code),
            Err(error) => Some(error.to_string()),
        },
        Some("play") => match play(args).await {
            Ok(code) => return ExitCode::from(code),
            Err(error) => Some(error.to_string()),
        },
        Some("host") => host(args).await.err().map(|error| error.to_string()),
        _ => Some("verbs: hold, confine, play, host".to_owned()),
    };
    let Some(error) = failed else {
        return ExitCode::SUCCESS;
    };
    let _ = writeln!(std::io::stderr(), "launcher: {error}");
    ExitCode::from(2)
}

#[expect(
    clippy::disallowed_methods,
    reason = "the environment is this program's to read"
)]
async fn play(args: &[OsString]) -> Result<u8, Box<dyn std::error::Error>> {
    let [script] = args else {
        return Err("use: play SCRIPT".into());
    };
    let env: BTreeMap<String, String> = std::env::vars().collect();
    let dir = std::env::current_dir()?;
    Ok(scripted::play(Path::new(script), &env, &dir, &mut std::io::stdout()).await?)
}

/// `host DATA-DIR SCRIPT`: runs a shell script the way Countersign runs an agent.
async fn host(args: &[OsString]) -> Result<(), Box<dyn std::error::Error>> {
    let [data_dir, script] = args else {
        return Err("use: host DATA-DIR SCRIPT".into());
    };
    process::adopt_orphans()?;
    let data_dir = Path::new(data_dir);
    let launcher = Some(Launcher::hold(&std::env::current_exe()?));
    let host = ProcessHost {
        data_dir: data_dir.to_owned(),
        launcher,
        adopts: true,
    };
    let spec = ProcessSpec {
        run_id: RunId::new("hosted")?,
        program: "sh".into(),
        args: vec!["-c".into(), script.clone()],
        env: vec![("PATH".into(), "/usr/bin:/bin".into())],
        cwd: data_dir.to_owned(),
        stdin: Vec::new(),
        converses: false,
        transcript: data_dir.join("transcript"),
        limits: ProcessLimits {
            term_grace: Duration::from_millis(100),
            ..ProcessLimits::default()
        },
        allotment: None,
        confinement: None,
    };
    host.run(spec, drop, StopSignal::never()).await?;
    Ok(())
}
