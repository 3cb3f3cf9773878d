//! HTTP server: one listener for people, programs and agents. Every connection, header, body and
//! answer has a limit. Requests with a foreign host or origin, or without a valid token, are
//! refused before their body is read.
//!
//! Nothing is trusted before `auth`: a connection that sends nothing costs a slot and no more, and
//! a request without a token costs its headers and no body.

pub(crate) mod api;
pub(crate) mod auth;
pub(crate) mod body;
mod connections;
mod events;
mod files;
mod git;
mod hooks;
mod json_rpc;
mod metrics;
mod openapi;
pub(crate) mod problem;
pub(crate) mod representation;
pub mod session;
pub mod tls;
mod trace;
mod worker;

use std::net::SocketAddr;
use std::sync::{Arc, PoisonError, RwLock};
use std::time::Duration;

use axum::Router;
use axum::extract::DefaultBodyLimit;
use axum::http::{HeaderMap, HeaderValue, Uri, header};
use axum::middleware::{from_fn, from_fn_with_state};
use axum::response::Response;
use axum::routing::{any_service, get, post};
use engine::log::LogErr;
use engine::process::StopSignal;
use engine::rate_limit::RateLimiter;
use hyper::service::{Service, service_fn};
use hyper_util::rt::{TokioExecutor, TokioIo, TokioTimer};
use hyper_util::server::graceful::{GracefulShutdown, Watcher};
use hyper_util::service::TowerToHyperService;
use rmcp::ServerHandler;
use rmcp::transport::streamable_http_server::session::never::NeverSessionManager;
use rmcp::transport::streamable_http_server::{StreamableHttpServerConfig, StreamableHttpService};
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::Semaphore;

use crate::mcp::McpServer;
use app::failure::Failure;
use app::operations::App;
use app::operations::metrics::MetricSums;
use app::operations::oidc::OidcLogin;
use app::settings::connections::ForgeLink;
pub use body::BODY_MAX;
use connections::{Connection, ConnectionLimiter, ConnectionSlot};
use tls::Tls;

/// Timeout for the TLS handshake and for the first request (slowloris).
const HEADERS_TIMEOUT: Duration = Duration::from_secs(10);
/// Interval of HTTP/2 keep-alive pings on a silent connection.
/// A client behind a dead network would hold its slot for hours: TCP alone does not notice.
const KEEP_ALIVE_INTERVAL: Duration = Duration::from_secs(30);
/// Concurrent requests on one HTTP/2 connection.
const STREAMS_MAX: u32 = 256;
/// Delay before the next `accept` after one failed, e.g. because no file descriptor was left.
const ACCEPT_RETRY_DELAY: Duration = Duration::from_millis(100);
/// Time that running requests get to finish after a stop signal. Streams and long polls end by
/// themselves at once, so this is for requests that do something.
pub const DRAIN_TIMEOUT: Duration = Duration::from_millis(1500);

/// State shared by all handlers.
#[derive(Clone, Debug)]
pub struct ServerState {
    pub app: App,
    /// Host names that the server accepts in addition to those of this machine.
    // A page in a browser can make a host name point to this machine. Only known names are
    // answered.
    hosts: Arc<Vec<String>>,
    rates: Arc<RateLimiter>,
    /// Limits how many refusals are recorded; shared with the coordinator.
    refusals: Arc<RateLimiter>,
    /// Running sums for `/metrics`.
    metric_sums: Arc<MetricSums>,
    /// Permits for large request bodies of workers.
    large_bodies: Arc<Semaphore>,
    /// Connections to forges, as the configuration has them now.
    links: Arc<RwLock<Arc<Vec<ForgeLink>>>>,
    /// Permits for webhooks.
    webhooks: Arc<Semaphore>,
    /// Permits for requests that run git.
    git_requests: Arc<Semaphore>,
    /// Whether clients reach the server over TLS, its own or that of a proxy.
    encrypted: bool,
    /// Login with an identity provider, if one is configured.
    oidc: Option<Arc<OidcLogin>>,
}

impl ServerState {
    pub fn new(app: App, hosts: Vec<String>, encrypted: bool) -> Self {
        let refusals = app.refusals();
        Self {
            app,
            hosts: Arc::new(hosts),
            rates: Arc::new(RateLimiter::for_calls()),
            refusals,
            // Counted along the log and shared, so that a scrape does not read every ticket.
            metric_sums: Arc::default(),
            large_bodies: Arc::new(Semaphore::new(worker::LARGE_AT_ONCE)),
            links: Arc::default(),
            webhooks: Arc::new(Semaphore::new(hooks::AT_ONCE)),
            git_requests: Arc::new(Semaphore::new(git::AT_ONCE)),
            encrypted,
            oidc: None,
        }
    }

    /// Adds the login with an identity provider.
    #[must_use]
    pub fn with_oidc(self, oidc: Option<OidcLogin>) -> Self {
        Self {
            oidc: oidc.map(Arc::new),
            ..self
        }
    }

    pub(crate) fn oidc(&self) -> Option<&OidcLogin> {
        self.oidc.as_deref()
    }

    /// Returns whether clients reach the server over TLS.
    pub(crate) fn is_encrypted(&self) -> bool {
        self.encrypted
    }

    /// Accepts the webhooks of these connections from now on.
    pub fn set_links(&self, links: Arc<Vec<ForgeLink>>) {
        // A panic elsewhere cannot leave a single pointer inconsistent.
        let mut current = self.links.write().unwrap_or_else(PoisonError::into_inner);
        *current = links;
    }

    pub(crate) fn links(&self) -> Arc<Vec<ForgeLink>> {
        let links = self.links.read().unwrap_or_else(PoisonError::into_inner);
        Arc::clone(&links)
    }

    fn webhook_permits(&self) -> Arc<Semaphore> {
        Arc::clone(&self.webhooks)
    }

    /// Applies the rate limit of a caller.
    pub(crate) fn allows_call(&self, name: &str) -> bool {
        self.rates.allow(name)
    }
}

/// Opens the port. The returned address has the actual port, which differs if port 0 was given.
pub async fn listen(address: SocketAddr) -> Result<(TcpListener, SocketAddr), Failure> {
    let fail = |error: std::io::Error| {
        Failure::error(format!("cannot listen on {address}: {error}"))
            .hint("choose another address with --listen ADDRESS:PORT")
    };
    let listener = TcpListener::bind(address).await.map_err(fail)?;
    let bound = listener.local_addr().map_err(fail)?;
    Ok((listener, bound))
}

/// Serves connections until the stop signal, then lets running requests finish.
pub async fn serve(
    listener: TcpListener,
    tls: Option<Arc<Tls>>,
    state: ServerState,
    mut stop: StopSignal,
) {
    let router = router(state);
    let graceful = GracefulShutdown::new();
    // Read once: the limit of file descriptors does not change while we run.
    let limiter = ConnectionLimiter::for_this_process();
    loop {
        let (stream, slot) = tokio::select! {
            next = accept(&listener, &limiter) => match next {
                Some(next) => next,
                None => break,
            },
            () = stop.requested() => break,
        };
        let (router, watcher, tls) = (router.clone(), graceful.watcher(), tls.clone());
        // One task per connection. A panic in one of them ends that connection only.
        tokio::spawn(async move {
            let client = Arc::clone(&slot.connection);
            tokio::select! {
                () = serve_connection(stream, tls, (router, Arc::clone(&client)), watcher) => {}
                // Eviction drops the whole connection. It has sent no request, so nothing is lost.
                () = client.wait_evicted() => {}
            }
            drop(slot);
        });
    }
    // The port is free at once, so that a new server can start while this one drains.
    drop(listener);
    let drained = tokio::time::timeout(DRAIN_TIMEOUT, graceful.shutdown()).await;
    if drained.is_err() {
        tracing::info!(
            "connections cut: still open {} ms after the stop",
            DRAIN_TIMEOUT.as_millis()
        );
    }
}

/// Accepts the next connection and takes a slot for it.
async fn accept(
    listener: &TcpListener,
    limiter: &ConnectionLimiter,
) -> Option<(TcpStream, ConnectionSlot)> {
    loop {
        match listener.accept().await {
            // The slot is taken after `accept`: while no slot is free, more clients wait in the
            // kernel's backlog.
            Ok((stream, _)) => return Some((stream, limiter.acquire().await?)),
            Err(error) => tracing::warn!(%error, "could not accept a connection"),
        }
        // The error may be the client's own: it hung up. If the process has no file descriptor
        // left, evicting an idle connection frees one.
        limiter.evict_idle();
        tokio::time::sleep(ACCEPT_RETRY_DELAY).await;
    }
}

async fn serve_connection(
    stream: TcpStream,
    tls: Option<Arc<Tls>>,
    target: (Router, Arc<Connection>),
    watcher: Watcher,
) {
    // Answers are small and a client waits for each: do not let Nagle's algorithm delay them.
    // The server also works without this option, only slower.
    stream.set_nodelay(true).log_err("set TCP_NODELAY");
    let Some(tls) = tls else {
        return http1(stream, target, watcher).await;
    };
    let handshake = tls.acceptor().accept(stream);
    // A client that does not finish the handshake in time is disconnected.
    let stream = match tokio::time::timeout(HEADERS_TIMEOUT, handshake).await {
        Ok(Ok(stream)) => stream,
        // Any port scan causes this, so it is not a warning.
        Ok(Err(error)) => return tracing::debug!(%error, "TLS handshake failed"),
        Err(_) => return tracing::debug!("TLS handshake timed out"),
    };
    // ALPN has decided. Without it, or without TLS, the client gets HTTP/1.1.
    if stream.get_ref().1.alpn_protocol() == Some(tls::HTTP_2) {
        http2(stream, target, watcher).await;
    } else {
        http1(stream, target, watcher).await;
    }
}

async fn http1(
    stream: impl AsyncRead + AsyncWrite + Unpin + Send + 'static,
    (router, connection): (Router, Arc<Connection>),
    watcher: Watcher,
) {
    let mut http = hyper::server::conn::http1::Builder::new();
    http.timer(TokioTimer::new())
        .header_read_timeout(HEADERS_TIMEOUT);
    let inner = TowerToHyperService::new(router);
    let service = service_fn(move |request| {
        connection.mark_active();
        inner.call(request)
    });
    let served = watcher.watch(http.serve_connection(TokioIo::new(stream), service));
    log_end(served.await);
}

async fn http2(
    stream: impl AsyncRead + AsyncWrite + Unpin + Send + 'static,
    (router, connection): (Router, Arc<Connection>),
    watcher: Watcher,
) {
    let mut http = hyper::server::conn::http2::Builder::new(TokioExecutor::new());
    http.timer(TokioTimer::new())
        .keep_alive_interval(KEEP_ALIVE_INTERVAL)
        .keep_alive_timeout(HEADERS_TIMEOUT)
        .max_concurrent_streams(STREAMS_MAX);
    let (first, inner) = (Arc::clone(&connection), TowerToHyperService::new(router));
    let service = service_fn(move |request| {
        connection.mark_active();
        inner.call(request)
    });
    let watched = watcher.watch(http.serve_connection(TokioIo::new(stream), service));
    tokio::pin!(watched);
    tokio::select! {
        // HTTP/2 has no timeout for the first headers, so it is made here. Later silence is found
        // by the pings.
        served = &mut watched => return log_end(served),
        () = first.wait_active() => {}
        () = tokio::time::sleep(HEADERS_TIMEOUT) => return,
    }
    log_end(watched.await);
}

/// Logs how a connection ended. Clients disconnect at any time, so an error is not a warning.
fn log_end(served: Result<(), impl std::fmt::Display>) {
    if let Err(error) = served {
        tracing::debug!(%error, "connection broke off");
    }
}

fn router(state: ServerState) -> Router {
    let behind_the_door = Router::new()
        .merge(api::router())
        .route("/api/v1/events", get(events::stream))
        .route(
            "/api/v1/tickets/{ticket}/runs/{run}/transcript",
            get(files::transcript),
        )
        .route(
            "/api/v1/tickets/{ticket}/runs/{run}/transcript/stream",
            get(files::tail),
        )
        .route(
            "/api/v1/tickets/{ticket}/artefacts/{artefact}",
            get(files::artefact),
        )
        .route("/metrics", get(metrics::show))
        .nest_service(
            "/mcp",
            any_service(mcp(&state)).layer(from_fn(session::label_session)),
        )
        // Order of layers: the one that is added last runs first. So the token is checked before
        // the body is read.
        .layer(from_fn(body::buffer_body))
        // Added after the body layer: worker calls may be larger and read their own body.
        .route(engine::coordinator::wire::PATH, post(worker::call))
        .layer(from_fn_with_state(state.clone(), auth::authenticate));
    // Git has credentials of its own, one for each claim.
    let git = Router::new()
        .route("/git/{ticket}/{serial}/{fence}/info/refs", get(git::refs))
        .route(
            "/git/{ticket}/{serial}/{fence}/git-upload-pack",
            post(git::fetch),
        )
        .route(
            "/git/{ticket}/{serial}/{fence}/git-receive-pack",
            post(git::push),
        );
    // These three need no token: probes and generated clients have none.
    Router::new()
        .route("/healthz", get(|| async { "ok\n" }))
        .route("/readyz", get(metrics::ready))
        .route("/api/v1/openapi.json", get(openapi::show))
        // Webhooks prove themselves by their signature.
        .route("/hooks/{forge}", post(hooks::receive))
        .merge(behind_the_door)
        .merge(git)
        .merge(crate::dashboard::router(&state))
        .fallback(unknown_path)
        // The limit of axum would answer before ours, without a reason for the client.
        .layer(DefaultBodyLimit::disable())
        // Around everything, also the routes without a token, because a page in a browser can reach
        // those too.
        .layer(from_fn_with_state(state.clone(), auth::check_origin))
        .layer(from_fn_with_state(state.clone(), trace::request))
        .with_state(state)
}

/// Answers to an address that there is not: a page for a browser, a problem for a program.
async fn unknown_path(headers: HeaderMap, uri: Uri) -> Response {
    let accepted = headers.get(header::ACCEPT).map(HeaderValue::to_str);
    if matches!(accepted, Some(Ok(accepted)) if accepted.contains("text/html")) {
        return crate::dashboard::unknown_page();
    }
    problem::unknown_path(&uri).into()
}

/// Builds the MCP service. It is stateless, so any server answers any call and clients do not
/// notice a restart. Host and origin are already checked by the middleware around it.
fn mcp(
    state: &ServerState,
) -> StreamableHttpService<impl ServerHandler + Clone, NeverSessionManager> {
    let server = McpServer::new(state.app.clone(), None);
    // A build for the conformance suite has its fixtures as well.
    #[cfg(feature = "conformance")]
    let server = crate::mcp::conformance::ConformanceServer(server);
    let config = StreamableHttpServerConfig::default()
        .with_legacy_session_mode(false)
        .with_json_response(true)
        .disable_allowed_hosts()
        .with_max_request_body_bytes(BODY_MAX);
    StreamableHttpService::new(move || Ok(server.clone()), Arc::default(), config)
}
