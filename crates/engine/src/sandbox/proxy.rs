//! Our HTTP proxy: the only network access of a run that is limited to a list of hosts.
//!
//! With a network namespace, the run's side creates the listening sockets inside it and passes
//! them out (`sandbox::handover`); we accept on them outside and connect in the machine's network.
//! Names are resolved outside too, so the run needs no DNS. The proxy refuses every host that is
//! not listed, every other port, every method except CONNECT and the plain HTTP ones, and any
//! ambiguous request. It counts refusals, up to a bound.

use std::collections::BTreeMap;
use std::ffi::OsString;
use std::io;
use std::net::TcpListener as StdListener;
use std::path::PathBuf;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use serde::{Deserialize, Serialize};
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::Semaphore;
use tokio::task::{JoinHandle, JoinSet};
use tokio::time::{sleep, timeout};

use super::handover::SocketReceiver;
use super::hosts::Destination;
use super::{SandboxLevel, SandboxNetwork, SandboxSpec};

mod request;
mod upstream;

use request::{ProxyRequest, ProxyRequestKind};
pub use upstream::Upstream;

/// Maximum size of the request line and the headers. A head is held in memory before it can be
/// checked, so both its size and its time are bounded.
const HEAD_BYTES_MAX: usize = 16 << 10;
const HEAD_TIME_MAX: Duration = Duration::from_secs(15);
const CONNECT_TIME_MAX: Duration = Duration::from_secs(30);
/// Idle timeout of a connection. A model may think for long, and a silent run is ended by its own
/// limit before that.
const IDLE_MAX: Duration = Duration::from_secs(30 * 60);
// Each connection costs us two file descriptors.
const CONNECTIONS_MAX: usize = 256;
/// Maximum number of refused hosts that are listed by name; further ones are only counted.
const REFUSED_HOSTS_MAX: usize = 50;
const CHUNK: usize = 16 << 10;
/// Port of the proxy inside a network namespace, unless a forward needs that port.
const PORT: u16 = 3128;
/// Maximum number of services on this machine that are reachable at their own port. Each forward is
/// one more descriptor in the message of the handover.
pub const FORWARDS_MAX: usize = 12;

/// Hosts that a run may reach, and the ports on which it finds them.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ProxyRules {
    pub hosts: Vec<Destination>,
    /// Loopback port of the proxy.
    pub port: u16,
    /// Ports of listed services on this machine, each directly reachable.
    pub forwards: Vec<u16>,
}

impl ProxyRules {
    pub fn for_hosts(hosts: impl IntoIterator<Item = Destination>) -> Self {
        let mut all = Self {
            port: PORT,
            ..Self::default()
        };
        for host in hosts {
            all.allow_host(host);
        }
        all
    }

    /// Adds a host.
    pub fn allow_host(&mut self, host: Destination) {
        if let Some(port) = host.loopback_port()
            && !self.forwards.contains(&port)
            && self.forwards.len() < FORWARDS_MAX
        {
            self.forwards.push(port);
        }
        // A forward must have the service's own port, so the proxy is the one that moves.
        while self.forwards.contains(&self.port) {
            self.port = self.port.checked_add(1).unwrap_or(PORT);
        }
        if !self.hosts.contains(&host) {
            self.hosts.push(host);
        }
    }

    /// Returns all ports to listen on inside the sandbox, the proxy's first.
    pub fn ports(&self) -> impl Iterator<Item = u16> {
        std::iter::once(self.port).chain(self.forwards.iter().copied())
    }

    // The name is compared as the client wrote it, and resolved only after it was admitted. A
    // client cannot pass an address that it resolved itself, unless the address is listed.
    fn admits(&self, host: &str, port: u16) -> bool {
        let mut hosts = self.hosts.iter();
        hosts.any(|destination| destination.admits(host, port))
    }

    /// Returns the local service behind a forwarded port.
    fn forwarded_service(&self, port: u16) -> Option<&Destination> {
        let mut hosts = self.hosts.iter();
        hosts.find(|host| host.loopback_port() == Some(port))
    }

    /// Returns a description for the record of a review.
    pub fn describe(&self) -> String {
        let names: Vec<String> = self.hosts.iter().map(ToString::to_string).collect();
        match names.as_slice() {
            [] => "no hosts".to_owned(),
            names => names.join(", "),
        }
    }
}

/// A host to which the proxy refused a connection, and the number of refusals.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct RefusedHost {
    pub host: String,
    pub times: u64,
}

impl std::fmt::Display for RefusedHost {
    fn fmt(&self, out: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self.times {
            1 => write!(out, "{}", self.host),
            times => write!(out, "{} ({times} times)", self.host),
        }
    }
}

/// The proxy of one run before the run starts.
#[derive(Debug)]
pub struct Proxy {
    allowed: ProxyRules,
    source: ListenerSource,
    upstream: Option<Upstream>,
}

#[derive(Debug)]
enum ListenerSource {
    /// The run's side creates the sockets.
    Handed(SocketReceiver),
    /// Our own socket on the machine's loopback, if there is no namespace.
    Own(StdListener),
}

impl Proxy {
    /// Prepares the proxy of a run that is limited to a list of hosts, and decides where it
    /// listens. Returns nothing for any other run.
    pub fn open(confinement: &mut SandboxSpec) -> io::Result<Option<Self>> {
        // The directory is taken first, because `network` is borrowed below.
        let dir = confinement.proof.parent().map(PathBuf::from);
        let dir = dir.ok_or_else(|| io::Error::other("the proof has no directory"))?;
        let SandboxNetwork::Proxy(rules) = &mut confinement.network else {
            return Ok(None);
        };
        let source = match confinement.level {
            SandboxLevel::Native | SandboxLevel::Bubblewrap => {
                ListenerSource::Handed(SocketReceiver::open(&dir)?)
            }
            SandboxLevel::Landlock => {
                // Without a namespace the port is shared with the machine, so the kernel picks a
                // free one.
                let listener = StdListener::bind(("127.0.0.1", 0))?;
                rules.port = listener.local_addr()?.port();
                ListenerSource::Own(listener)
            }
        };
        Ok(Some(Self {
            allowed: rules.clone(),
            source,
            upstream: None,
        }))
    }

    /// Sets our proxy in a program's environment. A proxy that was already set there becomes the
    /// upstream of ours.
    pub fn set_proxy_variables(&mut self, env: &mut Vec<(OsString, OsString)>) {
        // Read before our own variables replace it.
        self.upstream = Upstream::from_environment(env);
        let ours = self.environment();
        env.retain(|(set, _)| !ours.iter().any(|(name, _)| name == set));
        env.extend(ours);
    }

    /// Returns the environment variables that announce the proxy. Services on this machine are
    /// reached directly at their port.
    fn environment(&self) -> Vec<(OsString, OsString)> {
        let url = format!("http://127.0.0.1:{}", self.allowed.port);
        let local = "localhost,127.0.0.1,::1";
        let pairs = [
            ("HTTPS_PROXY", url.as_str()),
            ("HTTP_PROXY", &url),
            ("ALL_PROXY", &url),
            ("NO_PROXY", local),
            // Node's own fetch ignores the proxy variables without this one.
            ("NODE_USE_ENV_PROXY", "1"),
        ];
        // Programs disagree about the case of these names, so both are set.
        let both = pairs.into_iter().flat_map(|(name, value)| {
            let has_lower_case = name != "NODE_USE_ENV_PROXY";
            let lower = has_lower_case.then(|| name.to_ascii_lowercase());
            std::iter::once(name.to_owned())
                .chain(lower)
                .map(move |name| (name.into(), value.into()))
        });
        both.collect()
    }

    /// Serves until the returned guard is dropped.
    pub fn start(self) -> RunningProxy {
        let state = Arc::new(ProxyState {
            allowed: self.allowed,
            upstream: self.upstream,
            // The permits are shared by all listeners of the run.
            permits: Arc::new(Semaphore::new(CONNECTIONS_MAX)),
            refused: Mutex::default(),
        });
        let task = tokio::spawn(serve(Arc::clone(&state), self.source));
        RunningProxy { state, task }
    }
}

/// A running proxy. Dropping it ends the proxy with all connections.
#[derive(Debug)]
pub struct RunningProxy {
    state: Arc<ProxyState>,
    task: JoinHandle<()>,
}

impl RunningProxy {
    /// Returns the refused hosts, the most frequent first.
    pub fn refused(&self) -> Vec<RefusedHost> {
        let refused = self.state.refused.lock();
        let refused = refused.unwrap_or_else(PoisonError::into_inner);
        let mut all: Vec<RefusedHost> = refused
            .iter()
            .map(|(host, times)| RefusedHost {
                host: host.clone(),
                times: *times,
            })
            .collect();
        all.sort_by(|a, b| b.times.cmp(&a.times).then_with(|| a.host.cmp(&b.host)));
        all
    }
}

impl Drop for RunningProxy {
    fn drop(&mut self) {
        // Aborting the task drops its `JoinSet`, which aborts every connection.
        self.task.abort();
    }
}

#[derive(Debug)]
struct ProxyState {
    allowed: ProxyRules,
    upstream: Option<Upstream>,
    permits: Arc<Semaphore>,
    refused: Mutex<BTreeMap<String, u64>>,
}

impl ProxyState {
    async fn connect(&self, host: &str, port: u16) -> io::Result<TcpStream> {
        // The person's proxy does not know services on this machine.
        let local = Destination::new(host, port).loopback_port().is_some();
        match self.upstream.as_ref().filter(|_| !local) {
            Some(upstream) => upstream.connect(host, port).await,
            None => connect(host, port).await,
        }
    }

    fn count_refused(&self, host: &str, port: u16) {
        // The host is the run's own text and ends up in a report, so it is cleaned and shortened.
        let host = findings::shorten(&findings::one_line(host), 100);
        let key = format!("{host}:{port}");
        let mut refused = self.refused.lock().unwrap_or_else(PoisonError::into_inner);
        let key = if refused.len() < REFUSED_HOSTS_MAX || refused.contains_key(&key) {
            key
        } else {
            // A run that tries thousands of names must not fill the report.
            "others".to_owned()
        };
        *refused.entry(key).or_default() += 1;
    }
}

/// Purpose of a listening socket.
#[derive(Clone, Debug)]
enum ListenerRoute {
    Proxy,
    Forward(Destination),
}

async fn serve(state: Arc<ProxyState>, source: ListenerSource) {
    let listeners = match source {
        ListenerSource::Own(listener) => vec![listener],
        // A run that never started passes no sockets.
        ListenerSource::Handed(receiver) => match receiver.receive_listeners().await {
            Ok(listeners) => listeners,
            Err(error) => return tracing::debug!(%error, "received no sockets from the run"),
        },
    };
    let mut loops = JoinSet::new();
    for listener in listeners {
        let Ok(port) = listener.local_addr().map(|address| address.port()) else {
            continue;
        };
        // The sockets come without names; the port tells them apart.
        let route = if port == state.allowed.port {
            Some(ListenerRoute::Proxy)
        } else {
            state
                .allowed
                .forwarded_service(port)
                .cloned()
                .map(ListenerRoute::Forward)
        };
        let listener = listener
            .set_nonblocking(true)
            .and_then(|()| TcpListener::from_std(listener));
        if let (Some(route), Ok(listener)) = (route, listener) {
            loops.spawn(accept(Arc::clone(&state), listener, route));
        }
    }
    while loops.join_next().await.is_some() {}
}

async fn accept(state: Arc<ProxyState>, listener: TcpListener, route: ListenerRoute) {
    let mut connections = JoinSet::new();
    loop {
        // Finished connections are collected here, or the set would grow for the whole run.
        while connections.try_join_next().is_some() {}
        // The permit is taken before `accept`: a connection over the limit waits in the kernel's
        // queue.
        let Ok(permit) = Arc::clone(&state.permits).acquire_owned().await else {
            return;
        };
        let Ok((client, _)) = listener.accept().await else {
            // We may be out of file descriptors: wait until other connections release some.
            sleep(Duration::from_millis(100)).await;
            continue;
        };
        let (state, route) = (Arc::clone(&state), route.clone());
        connections.spawn(async move {
            let result = match route {
                ListenerRoute::Proxy => handle_request(&state, client).await,
                ListenerRoute::Forward(to) => forward(client, &to).await,
            };
            // Programs may close their connections at any time, so this is no warning.
            if let Err(error) = result {
                tracing::debug!(%error, "connection through the proxy broke off");
            }
            // The permit lives as long as the connection.
            drop(permit);
        });
    }
}

async fn forward(client: TcpStream, to: &Destination) -> io::Result<()> {
    let port = to.port().unwrap_or_default();
    let server = connect(to.name(), port).await?;
    relay(client, server).await
}

async fn connect(host: &str, port: u16) -> io::Result<TcpStream> {
    let late = |_| io::Error::from(io::ErrorKind::TimedOut);
    let connected = timeout(CONNECT_TIME_MAX, TcpStream::connect((host, port)));
    let stream = connected.await.map_err(late)??;
    // Small writes of a streamed answer should not wait for the next one.
    stream.set_nodelay(true)?;
    Ok(stream)
}

/// Handles one request to the proxy and relays the rest of its connection.
async fn handle_request(state: &ProxyState, mut client: TcpStream) -> io::Result<()> {
    let late = |_| io::Error::from(io::ErrorKind::TimedOut);
    let read = timeout(HEAD_TIME_MAX, read_head(&mut client));
    // A head that is too long gets an answer, so that the agent's log says why.
    let Some((head, rest)) = read.await.map_err(late)?? else {
        return respond(&mut client, "431 Request Header Fields Too Large", "").await;
    };
    let request = match request::parse_request(&head) {
        Ok(request) => request,
        Err(why) => return respond(&mut client, "400 Bad Request", why).await,
    };
    let ProxyRequest { host, port, kind } = request;
    if !state.allowed.admits(&host, port) {
        // Refusals are reported to the person: the list of hosts may be incomplete.
        state.count_refused(&host, port);
        let why = format!(
            "Countersign lets this run reach these hosts only: {}. To change the list, set [policy.network] or hosts of [agents.NAME] in countersign.toml.",
            state.allowed.describe()
        );
        return respond(&mut client, "403 Forbidden", &why).await;
    }
    let mut server = match state.connect(&host, port).await {
        Ok(server) => server,
        Err(error) => {
            let why = format!("{host}:{port} cannot be reached: {error}");
            return respond(&mut client, "502 Bad Gateway", &why).await;
        }
    };
    match kind {
        ProxyRequestKind::Tunnel => {
            let established = b"HTTP/1.1 200 Connection established\r\n\r\n";
            client.write_all(established).await?;
        }
        ProxyRequestKind::Plain(head) => server.write_all(&head).await?,
    }
    // A client may send its first bytes together with the head.
    server.write_all(&rest).await?;
    relay(client, server).await
}

/// Reads the head of a request and returns it with the bytes read beyond it. Returns nothing if
/// the head is too long.
async fn read_head(
    client: &mut (impl AsyncRead + Unpin),
) -> io::Result<Option<(Vec<u8>, Vec<u8>)>> {
    let mut all = Vec::new();
    let mut chunk = [0; 4096];
    loop {
        let count = client.read(&mut chunk).await?;
        if count == 0 {
            return Err(io::ErrorKind::UnexpectedEof.into());
        }
        // The end of the head may be split over two chunks, so three bytes are searched again.
        let searched = all.len().saturating_sub(3);
        all.extend_from_slice(&chunk[..count]);
        let end = all[searched..]
            .windows(4)
            .position(|four| four == b"\r\n\r\n");
        if let Some(end) = end {
            let beyond = all.split_off(searched + end + 4);
            // The last chunk may end the head only after the limit.
            return Ok((all.len() <= HEAD_BYTES_MAX).then_some((all, beyond)));
        }
        if all.len() > HEAD_BYTES_MAX {
            return Ok(None);
        }
    }
}

async fn respond(client: &mut TcpStream, status: &str, why: &str) -> io::Result<()> {
    let text = format!(
        "HTTP/1.1 {status}\r\nContent-Type: text/plain; charset=utf-8\r\nContent-Length: {}\r\nConnection: close\r\n\r\n{why}\n",
        why.len() + 1
    );
    client.write_all(text.as_bytes()).await?;
    client.shutdown().await
}

/// Copies bytes in both directions until both sides have ended, or both are idle for too long.
async fn relay(client: TcpStream, server: TcpStream) -> io::Result<()> {
    let moved = AtomicU64::new(0);
    let (client_in, client_out) = client.into_split();
    let (server_in, server_out) = server.into_split();
    // Each direction ends by itself: a client may close its side and still read the answer.
    let both = async {
        tokio::try_join!(
            copy_one_way(client_in, server_out, &moved),
            copy_one_way(server_in, client_out, &moved)
        )
        .map(drop)
    };
    let silent = async {
        // The first look can never match, so a connection has at least one full period.
        let mut before = u64::MAX;
        loop {
            let now = moved.load(Ordering::Relaxed);
            if now == before {
                return Err(io::Error::from(io::ErrorKind::TimedOut));
            }
            before = now;
            sleep(IDLE_MAX).await;
        }
    };
    tokio::select! {
        done = both => done,
        late = silent => late,
    }
}

async fn copy_one_way(
    mut from: impl AsyncRead + Unpin,
    mut to: impl AsyncWrite + Unpin,
    moved: &AtomicU64,
) -> io::Result<()> {
    let mut chunk = vec![0; CHUNK];
    loop {
        let count = from.read(&mut chunk).await?;
        if count == 0 {
            return to.shutdown().await;
        }
        // Chunks are counted and not bytes: only a change matters.
        moved.fetch_add(1, Ordering::Relaxed);
        to.write_all(&chunk[..count]).await?;
    }
}

#[cfg(test)]
mod tests;
