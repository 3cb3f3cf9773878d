//! Sets up the log: options, filter and two formats. Every line goes to standard error through one
//! writer that masks secrets and escapes control characters, so that no caller has to.
//!
//! Standard output belongs to the result of the command, so the log never goes there.

mod format;
mod line;
#[cfg(feature = "otel")]
mod otel;

use clap::ValueEnum;
use engine::redact::Redactor;
use tokio::runtime::Handle;
use tracing_subscriber::filter::EnvFilter;
use tracing_subscriber::fmt::format::JsonFields;
use tracing_subscriber::layer::SubscriberExt;
use tracing_subscriber::util::SubscriberInitExt;
use tracing_subscriber::{Layer, Registry, fmt};

use app::settings::logging::LogVariables;
use format::{FlatJson, UtcTime};
use line::LineWriter;
#[cfg(feature = "otel")]
use otel::SpanExport;
#[cfg(not(feature = "otel"))]
use std::convert::Infallible as SpanExport;

/// Crates of this workspace and the targets of their own events. Libraries log warnings only.
/// A library at `info` would fill the log with lines that say nothing about a ticket.
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
        default_value_t,
        help_heading = super::GLOBAL
    )]
    log_format: LogFormat,
    /// Least severe level to log, instead of `RUST_LOG` [default: info for `serve` and `worker`,
    /// off for `watch`, else warn].
    #[arg(long, value_name = "LEVEL", global = true, value_enum, help_heading = super::GLOBAL)]
    log_level: Option<Level>,
}

#[derive(Clone, Copy, Debug, Default, ValueEnum)]
enum LogFormat {
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

    /// Returns the filter directives of this level. Below warnings, only crates of this workspace
    /// log.
    fn directives(self) -> String {
        if matches!(self, Self::Off | Self::Error | Self::Warn) {
            return self.word().to_owned();
        }
        let own = OWN_TARGETS.map(|target| format!("{target}={}", self.word()));
        format!("warn,{}", own.join(","))
    }
}

/// Default log level by kind of command.
#[derive(Clone, Copy, Debug)]
pub enum Verbosity {
    /// A program that runs unattended.
    Service,
    /// A command whose own output reports failed jobs.
    Interactive,
    /// A command that draws on the whole screen.
    FullScreen,
}

impl Verbosity {
    /// Returns the verbosity with `--verbose`, which logs like a service. A full screen stays clean.
    /// Lines of a log would destroy the screen.
    pub fn raised_by(self, verbose: bool) -> Self {
        match self {
            Self::Interactive if verbose => Self::Service,
            Self::Interactive | Self::Service | Self::FullScreen => self,
        }
    }

    fn directives(self) -> String {
        match self {
            Self::Service => Level::Info.directives(),
            // The command prints a failed job itself, with hints. The same line in the log would
            // repeat it.
            Self::Interactive => "warn,job=off".to_owned(),
            Self::FullScreen => "off".to_owned(),
        }
    }
}

/// A layer of either format; a list of them is a layer too.
type AnyLayer = Box<dyn Layer<Registry> + Send + Sync>;

/// Keeps the export of spans alive.
#[derive(Debug)]
pub struct Logging {
    export: Option<SpanExport>,
}

impl Logging {
    /// Sends the remaining spans. The runtime must still run.
    pub fn finish(self) {
        if let Some(export) = self.export {
            finish(export);
        }
    }
}

/// Starts logging. Spans go to the collector of `variables` if the command `exports_spans`.
pub fn start(
    args: LogArgs,
    verbosity: Verbosity,
    exports_spans: bool,
    variables: &LogVariables,
    runtime: &Handle,
) -> Logging {
    let (filter, mut warnings) = filter(args, verbosity, variables);
    let redactor = Redactor::of_log(&variables.all);
    let lines = fmt::layer()
        // Colours would be escaped by the writer.
        .with_ansi(false)
        .with_writer(LineWriter::new(redactor.clone()));
    let lines: AnyLayer = match args.log_format {
        LogFormat::Text => lines.with_timer(UtcTime).with_filter(filter).boxed(),
        LogFormat::Json => lines
            .fmt_fields(JsonFields::new())
            .event_format(FlatJson)
            .with_filter(filter)
            .boxed(),
    };
    let mut layers = vec![lines];
    let mut export = None;
    if let Some(collector) = variables.collector.as_ref().filter(|_| exports_spans) {
        match exported(collector, redactor, runtime) {
            Ok((layer, guard)) => {
                layers.push(layer);
                export = Some(guard);
            }
            // A wrong collector must not stop the command.
            Err(why) => {
                let problem = "OTEL_EXPORTER_OTLP_ENDPOINT is set, but no spans are sent";
                warnings.push(format!("{problem}: {why}"));
            }
        }
    }
    // This fails only if a subscriber is already set, and it is called once.
    let _ = tracing_subscriber::registry().with(layers).try_init();
    for warning in warnings {
        tracing::warn!("{warning}");
    }
    Logging { export }
}

#[cfg(feature = "otel")]
fn exported(
    collector: &str,
    redactor: Redactor,
    runtime: &Handle,
) -> Result<(AnyLayer, SpanExport), String> {
    otel::layer(collector, redactor, runtime)
}

#[cfg(feature = "otel")]
fn finish(export: SpanExport) {
    export.finish();
}

#[cfg(not(feature = "otel"))]
fn finish(export: SpanExport) {
    match export {}
}

#[cfg(not(feature = "otel"))]
fn exported(_: &str, _: Redactor, _: &Handle) -> Result<(AnyLayer, SpanExport), String> {
    Err("this program was built without the feature `otel`".to_owned())
}

/// Builds the filter, with a warning if `RUST_LOG` is invalid.
fn filter(
    args: LogArgs,
    verbosity: Verbosity,
    variables: &LogVariables,
) -> (EnvFilter, Vec<String>) {
    // The flag wins over the variable, which may come from a shell profile.
    if let Some(level) = args.log_level {
        return (EnvFilter::new(level.directives()), Vec::new());
    }
    let default = || EnvFilter::new(verbosity.directives());
    match variables.filter.as_deref().map(EnvFilter::try_new) {
        None => (default(), Vec::new()),
        Some(Ok(filter)) => (filter, Vec::new()),
        // A typo in `RUST_LOG` would otherwise switch the log off without a word.
        Some(Err(error)) => {
            let why = format!("ignored RUST_LOG, which is not a valid filter: {error}");
            (default(), vec![why])
        }
    }
}
