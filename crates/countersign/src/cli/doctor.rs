//! `countersign doctor`: checks the machine, the project and the agents.

use std::sync::Arc;

use engine::process::StopSignal;

use super::Context;
use super::proof::{self, ProofListener};
use super::signals::StopRequests;
use app::failure::{ExitKind, Failure};
use app::operations::proof::ProofReport;
use app::operations::{config, doctor, forge_connection, history};
use server::notify;

#[derive(Debug, clap::Args)]
pub struct Args {
    /// Replay the events of every ticket and compare the result with the store.
    #[arg(long)]
    verify_log: bool,
    /// Also run the setup and the checks of the project on its base branch, in the sandbox.
    #[arg(long)]
    project: bool,
    /// Send a test message to each target of [[notify]], or only to NAME, and show the answers.
    #[arg(long, value_name = "NAME", num_args = 0..=1, default_missing_value = "")]
    notify: Option<String>,
    /// Check the connection to the forge of this repository: its address, the token, and what the
    /// token may do. Nothing is written there.
    #[arg(long, conflicts_with_all = ["verify_log", "project", "notify"])]
    forge: bool,
}

pub async fn perform(args: Args, context: &Context) -> Result<ExitKind, Failure> {
    // These look at one thing only, so they do without the report on the machine.
    if args.verify_log {
        return verify_log(context).await;
    }
    if args.forge {
        return Ok(check_forge(context).await);
    }
    if let Some(name) = &args.notify {
        return try_targets(name, context).await;
    }
    let report = doctor::run_checks(&context.environment, &context.directory).await;
    let out = &context.out;
    for item in &report.examined {
        // Words and not colours, because the report is pasted into issues.
        let mark = if item.fine { "ok " } else { "!! " };
        out.line(format!("{mark} {:<10} {}", item.what, item.found));
    }
    out.line("\nagents");
    for agent in &report.agents {
        let mark = if doctor::is_ready(agent) {
            "ok "
        } else {
            // A CLI that is not installed is no fault: nobody has all of them.
            "-- "
        };
        out.line(format!(
            "{mark} {:<10} {}",
            agent.name,
            doctor::describe_cli(agent)
        ));
    }
    if !report.starts.is_empty() {
        out.line("\nin the sandbox");
    }
    for item in &report.starts {
        let mark = if item.fine { "ok " } else { "!! " };
        out.line(format!("{mark} {:<10} {}", item.agent, item.found));
    }
    // Last, because it may take minutes: the rest is on the screen by then.
    let proof = if args.project {
        Some(Box::pin(prove_project(context)).await?)
    } else {
        None
    };
    let is_green = proof.as_ref().is_none_or(ProofReport::is_green);
    out.print_json(&DoctorAnswer {
        report: &report,
        project: proof,
    });
    Ok(if report.is_healthy() && is_green {
        ExitKind::Done
    } else {
        ExitKind::Error
    })
}

/// The report, with the proof of the project if it was asked for.
#[derive(serde::Serialize)]
struct DoctorAnswer<'a> {
    #[serde(flatten)]
    report: &'a doctor::DoctorReport,
    #[serde(skip_serializing_if = "Option::is_none")]
    project: Option<ProofReport>,
}

async fn prove_project(context: &Context) -> Result<ProofReport, Failure> {
    let mut app = context.open_app().await?;
    app.report_to(Some(Arc::new(ProofListener(context.out.clone()))));
    context.out.line("\nthe project's base, in the sandbox");
    let (stopper, stop) = StopSignal::pair();
    let mut signals = StopRequests::listen()?;
    let work = app::operations::proof::prove_configured(&app, &context.directory, stop);
    tokio::pin!(work);
    let report = loop {
        tokio::select! {
            done = &mut work => break done?,
            // The work ends by itself then, and takes its processes with it.
            () = signals.received() => stopper.stop(),
        }
    };
    if report.checks.is_empty() {
        context.out.line("!!  no checks are configured");
    }
    for line in proof::render(&report) {
        context.out.line(line);
    }
    Ok(report)
}

async fn check_forge(context: &Context) -> ExitKind {
    let checks = forge_connection::check_forge(&context.environment, &context.directory).await;
    for check in &checks {
        let mark = if check.fine { "ok " } else { "!! " };
        let line = format!("{mark} {:<10} {}", check.what, check.found);
        context.out.line(line);
    }
    let fine = checks.iter().all(|check| check.fine);
    context
        .out
        .print_json(&serde_json::json!({"fine": fine, "forge": checks}));
    if fine {
        ExitKind::Done
    } else {
        ExitKind::Error
    }
}

async fn try_targets(name: &str, context: &Context) -> Result<ExitKind, Failure> {
    let mut targets = config::load_user_settings(&context.environment)?.notify;
    // Only targets of the person: a project must not choose where messages go.
    targets.retain(|target| name.is_empty() || target.name == name);
    if targets.is_empty() {
        let what = match name {
            "" => "no notification target is configured".to_owned(),
            name => format!("no notification target is called {name:?}"),
        };
        return Err(Failure::usage(what).hint(
            "name targets with [[notify]] in your own configuration; docs/notifications.md",
        ));
    }
    let app = context.open_app().await?;
    let mut results = Vec::new();
    for target in &targets {
        // Before the message is sent, which may wait for a server for seconds.
        for note in target.remarks() {
            context.out.line(format!("note: {note}"));
        }
        let result = notify::send_test(&app, target.resolve()?).await?;
        let mark = if result.fine { "ok " } else { "!! " };
        let line = format!("{mark} {:<10} {}", result.name, result.answer);
        context.out.line(line.trim_end());
        results.push(result);
    }
    let fine = results.iter().all(|result| result.fine);
    context
        .out
        .print_json(&serde_json::json!({"fine": fine, "targets": results}));
    Ok(if fine {
        ExitKind::Done
    } else {
        ExitKind::Error
    })
}

async fn verify_log(context: &Context) -> Result<ExitKind, Failure> {
    let app = context.open_app().await?;
    // Reads every event of every ticket, so it is asked for by name.
    let audit = history::audit(&app).await?;
    context.out.print_json(&audit);
    context.out.line(format!(
        "{} tickets, {} events: {}",
        audit.tickets,
        audit.events,
        if audit.differences.is_empty() {
            "the log matches the store"
        } else {
            "DIFFERENT"
        }
    ));
    for difference in &audit.differences {
        context.out.line(format!("  {difference}"));
    }
    Ok(if audit.differences.is_empty() {
        ExitKind::Done
    } else {
        ExitKind::Error
    })
}
