//! JSON format of the log: one object per line, with the fields of the enclosing spans and the
//! event.

use std::fmt::{self, Debug};

use serde_json::{Map, Value};
use tracing::field::{Field, Visit};
use tracing::{Event, Subscriber};
use tracing_subscriber::fmt::format::Writer;
use tracing_subscriber::fmt::time::FormatTime;
use tracing_subscriber::fmt::{FmtContext, FormatEvent, FormatFields, FormattedFields};
use tracing_subscriber::registry::{LookupSpan, Scope};

/// Time of a line: UTC, RFC 3339.
#[derive(Debug)]
pub struct UtcTime;

impl FormatTime for UtcTime {
    fn format_time(&self, writer: &mut Writer<'_>) -> fmt::Result {
        writer.write_str(&engine::clock::now().to_iso())
    }
}

/// Writes `timestamp`, `level`, `target`, `message`, then the fields of spans from the outermost
/// inwards, then those of the event; the innermost value of a name wins. The library's own format
/// nests spans in a list, where log systems cannot filter by `ticket` or `caller`.
#[derive(Debug)]
pub struct FlatJson;

impl<S, N> FormatEvent<S, N> for FlatJson
where
    S: Subscriber + for<'a> LookupSpan<'a>,
    N: for<'a> FormatFields<'a> + 'static,
{
    fn format_event(
        &self,
        context: &FmtContext<'_, S, N>,
        mut writer: Writer<'_>,
        event: &Event<'_>,
    ) -> fmt::Result {
        let mut line = Map::new();
        let level = event.metadata().level();
        line.insert("timestamp".to_owned(), engine::clock::now().to_iso().into());
        line.insert("level".to_owned(), level.as_str().into());
        line.insert("target".to_owned(), event.metadata().target().into());
        // Inserted early, so that it is the fourth field of every line.
        line.insert("message".to_owned(), Value::Null);
        let scope = context.event_scope();
        // From the outermost span, so that the inner one overwrites a field of the same name.
        for span in scope.into_iter().flat_map(Scope::from_root) {
            line.insert("span".to_owned(), span.name().into());
            let extensions = span.extensions();
            let fields = extensions.get::<FormattedFields<N>>();
            let fields = fields.and_then(|fields| serde_json::from_str(&fields.fields).ok());
            if let Some(Value::Object(fields)) = fields {
                line.extend(fields);
            }
        }
        // The event's own fields win over those of its spans.
        event.record(&mut Fields(&mut line));
        writeln!(writer, "{}", Value::Object(line))
    }
}

struct Fields<'a>(&'a mut Map<String, Value>);

impl Fields<'_> {
    fn put(&mut self, field: &Field, value: impl Into<Value>) {
        self.0.insert(field.name().to_owned(), value.into());
    }
}

impl Visit for Fields<'_> {
    fn record_debug(&mut self, field: &Field, value: &dyn Debug) {
        self.put(field, format!("{value:?}"));
    }

    fn record_str(&mut self, field: &Field, value: &str) {
        self.put(field, value);
    }

    fn record_bool(&mut self, field: &Field, value: bool) {
        self.put(field, value);
    }

    fn record_i64(&mut self, field: &Field, value: i64) {
        self.put(field, value);
    }

    fn record_u64(&mut self, field: &Field, value: u64) {
        self.put(field, value);
    }

    fn record_f64(&mut self, field: &Field, value: f64) {
        self.put(field, value);
    }
}
