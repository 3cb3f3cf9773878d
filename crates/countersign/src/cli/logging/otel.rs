//! Sends spans to an OpenTelemetry collector, as JSON over HTTP. The text of a batch goes through
//! the same redactor as the log before it leaves.

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use engine::redact::Redactor;
use http_body_util::{BodyExt, Collected, Full, Limited};
use opentelemetry::trace::TracerProvider;
use opentelemetry_http::{Bytes, HttpClient, HttpError, Request, Response};
use opentelemetry_otlp::{Protocol, SpanExporter, WithExportConfig, WithHttpConfig};
use opentelemetry_sdk::Resource;
use opentelemetry_sdk::trace::SdkTracerProvider;
use tokio::runtime::Handle;
use tracing_subscriber::Layer;
use tracing_subscriber::filter::EnvFilter;

use super::{AnyLayer, Level};
use app::remote::{HttpPool, connection_pool};
use app::settings::server::ServerTrust;

const WITHIN: Duration = Duration::from_secs(10);
const IDLE: Duration = Duration::from_secs(20);
const ANSWER_BYTES_MAX: usize = 64 * 1024;

/// Running export of spans.
#[derive(Debug)]
pub struct SpanExport(SdkTracerProvider);

impl SpanExport {
    /// Sends the remaining spans. The runtime must still run.
    pub fn finish(self) {
        if let Err(error) = self.0.shutdown() {
            tracing::warn!(%error, "could not send the last spans");
        }
    }
}

/// Returns a layer that exports spans of this workspace's crates at level info.
pub fn layer(
    base: &str,
    redactor: Redactor,
    runtime: &Handle,
) -> Result<(AnyLayer, SpanExport), String> {
    let trust = ServerTrust::Authorities(None);
    let client = SpanSender {
        pool: connection_pool(&trust, WITHIN, IDLE).map_err(|failure| failure.to_string())?,
        redactor: Arc::new(redactor),
        runtime: runtime.clone(),
    };
    let exporter = SpanExporter::builder()
        .with_http()
        .with_http_client(client)
        .with_protocol(Protocol::HttpJson)
        .with_endpoint(format!("{}/v1/traces", base.trim_end_matches('/')))
        .with_timeout(WITHIN)
        .build()
        .map_err(|error| error.to_string())?;
    let provider = SdkTracerProvider::builder()
        .with_batch_exporter(exporter)
        .with_resource(Resource::builder().with_service_name("countersign").build())
        .build();
    let layer = tracing_opentelemetry::layer()
        .with_tracer(provider.tracer("countersign"))
        .with_filter(EnvFilter::new(Level::Info.directives()));
    Ok((layer.boxed(), SpanExport(provider)))
}

/// HTTP client of the exporter. The exporter runs on its own thread without a runtime, so requests
/// are sent on ours.
struct SpanSender {
    pool: HttpPool,
    redactor: Arc<Redactor>,
    runtime: Handle,
}

impl fmt::Debug for SpanSender {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("SpanSender")
    }
}

#[async_trait]
impl HttpClient for SpanSender {
    async fn send_bytes(&self, request: Request<Bytes>) -> Result<Response<Bytes>, HttpError> {
        let redactor = Arc::clone(&self.redactor);
        let request = request.map(|body| Full::from(redactor.redact_bytes(&body).into_owned()));
        let pool = self.pool.clone();
        let sending = self.runtime.spawn(async move {
            let answer = pool
                .request(request)
                .await
                .map_err(|error| error.to_string())?;
            let (head, body) = answer.into_parts();
            let body = Limited::new(body, ANSWER_BYTES_MAX).collect().await;
            let body = body
                .map(Collected::to_bytes)
                .map_err(|error| error.to_string())?;
            Ok::<_, String>(Response::from_parts(head, body))
        });
        Ok(sending.await??)
    }
}
