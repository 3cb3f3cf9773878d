//! The log: its options, its filter and its two formats. Every line goes to standard error through
//! one writer that masks secrets and escapes control characters, so that no caller has to.

mod format;
mod line;

use clap::ValueEnum;
use engine::redact::Redactor;
use tracing_subscriber::filter::EnvFilter;
use tracing_subscriber::fmt::format::JsonFields;
use tracing_subscriber::layer::SubscriberExt;
use tracing_subscriber::util::SubscriberInitExt;
use tracing_subscriber::{Layer, Registry, fmt};

use crate::settings::logging::LogVariables;
use format::{FlatJson, UtcTime};
use line::LineWriter;

/// Crates of this workspace and the targets of their own events. Libraries log warnings only.
const OWN_TARGETS: [&str; 8] = [
    "app",
    "countersign",
    "engine",
    "forge",
    "job",
    "request",
    "server",
    "store",
];

#[derive(Clone, Copy, Debug, clap::Args)]
pub struct LogArgs {
    /// Format of the log on standard error.
    #[arg(
        long,
        value_name = "FORMAT",
        global = true,
        value_enum,
        default_value_t
    )]
    log_format: Format,
    /// Least severe level to log, instead of `RUST_LOG` [default: info for `serve` and `worker`, off for
    /// `watch`, else warn].
    #[arg(long, value_name = "LEVEL", global = true, value_enum)]
    log_level: Option<Level>,
}

#[derive(Clone, Copy, Debug, Default, ValueEnum)]
enum Format {
    #[default]
    Text,
    Json,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum Level {
    Off,
    Error,
    Warn,
    Info,
    Debug,
    Trace,
}

impl Level {
    fn word(self) -> &'static str {
        match self {
            Self::Off => "off",
            Self::Error => "error",
            Self::Warn => "warn",
            Self::Info => "info",
            Self::Debug => "debug",
            Self::Trace => "trace",
        }
    }

    /// Directives for this level. More than warnings are logged of this workspace's crates only.
    fn directives(self) -> String {
        if matches!(self, Self::Off | Self::Error | Self::Warn) {
            return self.word().to_owned();
        }
        let own = OWN_TARGETS.map(|target| format!("{target}={}", self.word()));
        format!("warn,{}", own.join(","))
    }
}

/// How much a command logs when nobody asks for a level.
#[derive(Clone, Copy, Debug)]
pub enum Verbosity {
    /// A program that runs unattended.
    Service,
    /// A command whose own output tells a person about failed jobs.
    Interactive,
    /// A command that draws on the whole screen.
    FullScreen,
}

impl Verbosity {
    fn directives(self) -> String {
        match self {
            Self::Service => Level::Info.directives(),
            Self::Interactive => "warn,job=off".to_owned(),
            Self::FullScreen => "off".to_owned(),
        }
    }
}

/// Starts logging.
pub fn start(args: LogArgs, verbosity: Verbosity, variables: &LogVariables) {
    let (filter, complaint) = filter(args, verbosity, variables);
    let writer = LineWriter::new(Redactor::of_log(&variables.all));
    let lines = fmt::layer().with_ansi(false).with_writer(writer);
    let lines: Box<dyn Layer<Registry> + Send + Sync> = match args.log_format {
        Format::Text => lines.with_timer(UtcTime).with_filter(filter).boxed(),
        Format::Json => lines
            .fmt_fields(JsonFields::new())
            .event_format(FlatJson)
            .with_filter(filter)
            .boxed(),
    };
    // It fails only where a subscriber is set already, and this is called once.
    let _ = tracing_subscriber::registry().with(lines).try_init();
    if let Some(complaint) = complaint {
        tracing::warn!("{complaint}");
    }
    if variables.collector.is_some() {
        tracing::debug!("OTEL_EXPORTER_OTLP_ENDPOINT is ignored: this build has no `otel` feature");
    }
}

/// The filter, and why `RUST_LOG` was not used where it cannot be read.
fn filter(
    args: LogArgs,
    verbosity: Verbosity,
    variables: &LogVariables,
) -> (EnvFilter, Option<String>) {
    if let Some(level) = args.log_level {
        return (EnvFilter::new(level.directives()), None);
    }
    let usual = || EnvFilter::new(verbosity.directives());
    match variables.filter.as_deref().map(EnvFilter::try_new) {
        None => (usual(), None),
        Some(Ok(filter)) => (filter, None),
        Some(Err(error)) => {
            let why = format!("RUST_LOG was ignored, it is not a filter: {error}");
            (usual(), Some(why))
        }
    }
}
