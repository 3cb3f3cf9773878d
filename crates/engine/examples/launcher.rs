//! The smallest program with the engine's hidden verbs. The crate's tests use it as their
//! launcher, as the real binary uses itself.

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
        Some("hold") => process::exec_tied_to_parent(args)
            .map(drop)
            .err()
            .map(|error| error.to_string()),
        Some("confine") => match sandbox::run_confined(args) {
            Ok(code) => return ExitCode::from(code),
            Err(error) => Some(error.to_string()),
        },
        Some("confined") => match sandbox::run_inside(args) {
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
    reason = "this program may read its environment"
)]
async fn play(args: &[OsString]) -> Result<u8, Box<dyn std::error::Error>> {
    let [script] = args else {
        return Err("use: play SCRIPT".into());
    };
    let env: BTreeMap<String, String> = std::env::vars().collect();
    let dir = std::env::current_dir()?;
    Ok(scripted::play_script(Path::new(script), &env, &dir, &mut std::io::stdout()).await?)
}

/// Implements `host DATA-DIR SCRIPT`: runs a shell script as Countersign runs an agent.
async fn host(args: &[OsString]) -> Result<(), Box<dyn std::error::Error>> {
    let [data_dir, script] = args else {
        return Err("use: host DATA-DIR SCRIPT".into());
    };
    process::adopt_orphans()?;
    let data_dir = Path::new(data_dir);
    let launcher = Some(Launcher::tied_to_us(&std::env::current_exe()?));
    let host = ProcessHost {
        data_dir: data_dir.to_owned(),
        launcher,
        adopts_orphans: true,
    };
    let spec = ProcessSpec {
        run_id: RunId::new("hosted")?,
        program: "sh".into(),
        args: vec!["-c".into(), script.clone()],
        env: vec![("PATH".into(), "/usr/bin:/bin".into())],
        cwd: data_dir.to_owned(),
        stdin: Vec::new(),
        keeps_stdin_open: false,
        transcript: data_dir.join("transcript"),
        limits: ProcessLimits {
            term_grace: Duration::from_millis(100),
            ..ProcessLimits::default()
        },
        disk_quota: None,
        sandbox: None,
    };
    host.run(spec, drop, StopSignal::never()).await?;
    Ok(())
}
