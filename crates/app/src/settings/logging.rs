//! The environment variables that choose what is logged and where spans are sent.

use std::ffi::OsString;

/// Values of the variables, read once when the program starts.
#[derive(Debug, Default)]
pub struct LogVariables {
    /// `RUST_LOG`: a filter in the form of `tracing-subscriber`'s `EnvFilter`.
    pub filter: Option<String>,
    /// `OTEL_EXPORTER_OTLP_ENDPOINT`: the base address of an OpenTelemetry collector.
    pub collector: Option<String>,
    /// The whole environment, so that the values of credential variables can be masked.
    pub all: Vec<(OsString, OsString)>,
}

impl LogVariables {
    #[expect(
        clippy::disallowed_methods,
        reason = "other code must call this function instead"
    )]
    pub fn read() -> Self {
        let text = |name: &str| std::env::var(name).ok().filter(|value| !value.is_empty());
        Self {
            filter: text("RUST_LOG"),
            collector: text("OTEL_EXPORTER_OTLP_ENDPOINT"),
            all: std::env::vars_os().collect(),
        }
    }
}
