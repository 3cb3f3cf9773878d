//! The server: one listener for people, programs and agents. Each connection, header, body and
//! answer has a limit; who calls from a strange place, or without a good token, gets no further
//! than the door.

mod api;
mod body;
mod door;
mod events;
mod metrics;
mod openapi;
mod places;
mod problem;
pub mod session;
pub mod tls;
mod trace;
mod worker;

use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use axum::Router;
use axum::extract::DefaultBodyLimit;
use axum::middleware::{from_fn, from_fn_with_state};
use axum::routing::{any_service, get, post};
use engine::log::LogErr;
use engine::process::StopSignal;
use engine::rate::RateLimiter;
use hyper::service::{Service, service_fn};
use hyper_util::rt::{TokioExecutor, TokioIo, TokioTimer};
use hyper_util::server::graceful::{GracefulShutdown, Watcher};
use hyper_util::service::TowerToHyperService;
use rmcp::transport::streamable_http_server::session::never::NeverSessionManager;
use rmcp::transport::streamable_http_server::{StreamableHttpServerConfig, StreamableHttpService};
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::Semaphore;

use crate::mcp::McpServer;
use app::failure::Failure;
use app::operations::App;
use app::operations::measures::MetricSums;
pub use body::BODY_MAX;
use places::{Connection, ConnectionLimiter, ConnectionSlot};
use tls::Tls;

/// Who connects and says nothing is let go: the handshake of TLS, and then the first question.
const HEADERS_WITHIN: Duration = Duration::from_secs(10);
/// How often a caller who holds a connection open and is silent is asked whether it is still there.
const STILL_THERE: Duration = Duration::from_secs(30);
/// Questions at once on one connection.
const STREAMS_MAX: u32 = 256;
/// How soon the next connection is tried for where there are no file descriptors left.
const BREATH: Duration = Duration::from_millis(100);
/// How long what is being answered may take once we are told to stop.
const DRAIN: Duration = Duration::from_secs(10);

/// What every handler works with.
#[derive(Clone, Debug)]
pub struct ServerState {
    pub office: App,
    /// The names that we answer to, beside those of this machine.
    hosts: Arc<Vec<String>>,
    rates: Arc<RateLimiter>,
    /// How many refusals are written down; the same as the desk's.
    refusals: Arc<RateLimiter>,
    /// What `/metrics` has counted until now.
    running: Arc<MetricSums>,
    /// For the large bodies of workers.
    parcels: Arc<Semaphore>,
}

impl ServerState {
    pub fn new(office: App, hosts: Vec<String>) -> Self {
        let refusals = office.refusals();
        Self {
            office,
            hosts: Arc::new(hosts),
            rates: Arc::new(RateLimiter::of_calls()),
            refusals,
            running: Arc::default(),
            parcels: Arc::new(Semaphore::new(worker::LARGE_AT_ONCE)),
        }
    }
}

/// Opens the port; the address is the one that was given, with the port that we have.
pub async fn listen(address: SocketAddr) -> Result<(TcpListener, SocketAddr), Failure> {
    let fail = |error: std::io::Error| {
        Failure::error(format!("{address} cannot be listened on: {error}"))
            .hint("name another with --listen ADDRESS:PORT")
    };
    let listener = TcpListener::bind(address).await.map_err(fail)?;
    let ours = listener.local_addr().map_err(fail)?;
    Ok((listener, ours))
}

/// Answers until it is told to stop; what is being answered then is answered to its end.
pub async fn serve(
    listener: TcpListener,
    tls: Option<Arc<Tls>>,
    house: ServerState,
    mut stop: StopSignal,
) {
    let router = router(house);
    let graceful = GracefulShutdown::new();
    let places = ConnectionLimiter::of_this_process();
    loop {
        let (stream, place) = tokio::select! {
            next = next(&listener, &places) => match next {
                Some(next) => next,
                None => break,
            },
            () = stop.asked() => break,
        };
        let (router, watcher, tls) = (router.clone(), graceful.watcher(), tls.clone());
        tokio::spawn(async move {
            let guest = Arc::clone(&place.guest);
            tokio::select! {
                () = connection(stream, tls, (router, Arc::clone(&guest)), watcher) => {}
                () = guest.shown_out() => {}
            }
            drop(place);
        });
    }
    drop(listener);
    // Long polls and streams end by being cut; their callers come again.
    let drained = tokio::time::timeout(DRAIN, graceful.shutdown()).await;
    if drained.is_err() {
        tracing::info!(
            "connections cut: still open {} s after the stop",
            DRAIN.as_secs()
        );
    }
}

/// The next who comes, with a place.
async fn next(
    listener: &TcpListener,
    places: &ConnectionLimiter,
) -> Option<(TcpStream, ConnectionSlot)> {
    loop {
        match listener.accept().await {
            Ok((stream, _)) => return Some((stream, places.take().await?)),
            Err(error) => tracing::warn!(%error, "could not accept a connection"),
        }
        // A connection that fails at once is its caller's trouble, and where nothing more can be
        // opened somebody has to go first.
        places.show_one_out();
        tokio::time::sleep(BREATH).await;
    }
}

async fn connection(
    stream: TcpStream,
    tls: Option<Arc<Tls>>,
    to: (Router, Arc<Connection>),
    watcher: Watcher,
) {
    // Answers are small and awaited: none waits for the next. It works without, only slower.
    stream.set_nodelay(true).log_err("set TCP_NODELAY");
    let Some(tls) = tls else {
        return http1(stream, to, watcher).await;
    };
    let handshake = tls.acceptor().accept(stream);
    // Who cannot agree with us on a secret in time is let go.
    let stream = match tokio::time::timeout(HEADERS_WITHIN, handshake).await {
        Ok(Ok(stream)) => stream,
        // Any port scan does this, so it is no warning.
        Ok(Err(error)) => return tracing::debug!(%error, "TLS handshake failed"),
        Err(_) => return tracing::debug!("TLS handshake timed out"),
    };
    if stream.get_ref().1.alpn_protocol() == Some(tls::HTTP_2) {
        http2(stream, to, watcher).await;
    } else {
        http1(stream, to, watcher).await;
    }
}

async fn http1(
    stream: impl AsyncRead + AsyncWrite + Unpin + Send + 'static,
    (router, guest): (Router, Arc<Connection>),
    watcher: Watcher,
) {
    let mut http = hyper::server::conn::http1::Builder::new();
    http.timer(TokioTimer::new())
        .header_read_timeout(HEADERS_WITHIN);
    let inner = TowerToHyperService::new(router);
    let service = service_fn(move |request| {
        guest.asks();
        inner.call(request)
    });
    let served = watcher.watch(http.serve_connection(TokioIo::new(stream), service));
    log_end(served.await);
}

async fn http2(
    stream: impl AsyncRead + AsyncWrite + Unpin + Send + 'static,
    (router, guest): (Router, Arc<Connection>),
    watcher: Watcher,
) {
    let mut http = hyper::server::conn::http2::Builder::new(TokioExecutor::new());
    http.timer(TokioTimer::new())
        .keep_alive_interval(STILL_THERE)
        .keep_alive_timeout(HEADERS_WITHIN)
        .max_concurrent_streams(STREAMS_MAX);
    let (first, inner) = (Arc::clone(&guest), TowerToHyperService::new(router));
    let service = service_fn(move |request| {
        guest.asks();
        inner.call(request)
    });
    let watched = watcher.watch(http.serve_connection(TokioIo::new(stream), service));
    tokio::pin!(watched);
    tokio::select! {
        served = &mut watched => return log_end(served),
        () = first.has_asked() => {}
        () = tokio::time::sleep(HEADERS_WITHIN) => return,
    }
    log_end(watched.await);
}

/// Callers break connections off at any time, so it is no warning.
fn log_end(served: Result<(), impl std::fmt::Display>) {
    if let Err(error) = served {
        tracing::debug!(%error, "connection broke off");
    }
}

fn router(house: ServerState) -> Router {
    let behind_the_door = Router::new()
        .merge(api::router())
        .route("/api/v1/events", get(events::stream))
        .route("/metrics", get(metrics::show))
        .nest_service(
            "/mcp",
            any_service(mcp(&house)).layer(from_fn(session::label)),
        )
        .layer(from_fn(body::whole))
        // Its bodies may be larger, and it reads them itself.
        .route(engine::coordinator::wire::PATH, post(worker::call))
        .layer(from_fn_with_state(house.clone(), door::recognise));
    Router::new()
        .route("/healthz", get(|| async { "ok\n" }))
        .route("/readyz", get(metrics::ready))
        .route("/api/v1/openapi.json", get(openapi::show))
        .merge(behind_the_door)
        .fallback(problem::nothing_here)
        .layer(DefaultBodyLimit::disable())
        .layer(from_fn_with_state(house.clone(), door::place))
        .layer(from_fn(trace::request))
        .with_state(house)
}

/// Stateless: any server answers any call, and a restart is not noticed. Host and origin have been
/// looked at by the door.
fn mcp(house: &ServerState) -> StreamableHttpService<McpServer, NeverSessionManager> {
    let counter = McpServer::new(house.office.clone(), None);
    let config = StreamableHttpServerConfig::default()
        .with_legacy_session_mode(false)
        .with_json_response(true)
        .disable_allowed_hosts()
        .with_max_request_body_bytes(BODY_MAX);
    StreamableHttpService::new(move || Ok(counter.clone()), Arc::default(), config)
}
