//! Passes listening sockets out of a run's network namespace, so that we can serve them outside.
//!
//! The run's side connects to a socket file of ours before it restricts itself, sends the sockets
//! as ancillary data and waits for one byte. The file is removed before that byte is sent, so no
//! program that starts later can connect.
//!
//! It moves listeners and not connections: the proxy outside accepts on them, although it has no
//! process in the namespace, because a socket belongs to the namespace in which it was created.

use std::fs;
use std::io::{self, IoSlice, IoSliceMut, Read};
use std::mem::MaybeUninit;
use std::net::TcpListener;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd};
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::{Path, PathBuf};
use std::time::Duration;

use rustix::fs::{Mode, OFlags, open};
use rustix::net::{
    RecvAncillaryBuffer, RecvAncillaryMessage, RecvFlags, SendAncillaryBuffer,
    SendAncillaryMessage, SendFlags, recvmsg, sendmsg,
};
use tokio::io::Interest;

use super::proxy::{FORWARDS_MAX, ProxyRules};
use crate::log::removed;

const NAME: &str = "proxy.sock";
/// Longest time for which the run's side waits for ours. The other side only has to accept and
/// answer, so 30 seconds pass only on a machine in trouble.
const WAIT_MAX: Duration = Duration::from_secs(30);
/// One socket for the proxy, and one for each forward.
const SOCKETS_MAX: usize = FORWARDS_MAX + 1;
const SPACE: usize = rustix::cmsg_space!(ScmRights(SOCKETS_MAX));

/// Returns a short path for the socket file in an open directory: a socket path has at most 107
/// bytes.
fn short_socket_path(dir: &OwnedFd) -> PathBuf {
    Path::new("/proc/self/fd")
        .join(dir.as_raw_fd().to_string())
        .join(NAME)
}

fn open_dir(dir: &Path) -> io::Result<OwnedFd> {
    let by_name = OFlags::PATH | OFlags::DIRECTORY | OFlags::CLOEXEC;
    Ok(open(dir, by_name, Mode::empty())?)
}

/// Creates the sockets and sends them to the receiver in `dir`. The run's side calls it before it
/// restricts itself.
pub fn send_listeners(rules: &ProxyRules, dir: &Path) -> io::Result<()> {
    let failed = |what: &str, error: io::Error| {
        io::Error::new(
            error.kind(),
            format!("could not set up the run's network: {what}: {error}"),
        )
    };
    let mut sockets = Vec::new();
    // The bound matches the space for ancillary data below.
    for port in rules.ports().take(SOCKETS_MAX) {
        // `std` binds and listens in one call, so connections queue even before we accept them.
        let listener = TcpListener::bind(("127.0.0.1", port));
        sockets.push(listener.map_err(|error| failed(&format!("port {port}"), error))?);
    }
    let dir = open_dir(dir)?;
    let mut stream = UnixStream::connect(short_socket_path(&dir))
        .map_err(|error| failed("Countersign", error))?;
    let handles: Vec<BorrowedFd<'_>> = sockets.iter().map(AsFd::as_fd).collect();
    let mut space = [MaybeUninit::uninit(); SPACE];
    let mut control = SendAncillaryBuffer::new(&mut space);
    if !control.push(SendAncillaryMessage::ScmRights(&handles)) {
        return Err(io::Error::other("too many sockets for one message"));
    }
    // Ancillary data needs at least one byte of ordinary data to travel with.
    sendmsg(
        &stream,
        &[IoSlice::new(b"s")],
        &mut control,
        // Without `NOSIGNAL` a receiver that has gone away would kill us by SIGPIPE, without a
        // message.
        SendFlags::NOSIGNAL,
    )?;
    // The answer says that the socket file is gone; only then may anything else start.
    stream.set_read_timeout(Some(WAIT_MAX))?;
    stream
        .read_exact(&mut [0])
        .map_err(|error| failed("no answer", error))
}

/// Our side, which waits for the sockets.
#[derive(Debug)]
pub struct SocketReceiver {
    listener: UnixListener,
    file: PathBuf,
}

impl SocketReceiver {
    /// Listens in a directory that only we and the run's side reach. A leftover socket file of an
    /// earlier run is replaced.
    pub fn open(dir: &Path) -> io::Result<Self> {
        crate::private_files::make_dir(dir)?;
        let file = dir.join(NAME);
        // A crash leaves the file behind, and `bind` fails on an existing one.
        match fs::remove_file(&file) {
            Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(error),
            _ => {}
        }
        let listener = UnixListener::bind(short_socket_path(&open_dir(dir)?))?;
        listener.set_nonblocking(true)?;
        Ok(Self { listener, file })
    }

    /// Returns the sockets from the first connection and accepts no other one.
    pub async fn receive_listeners(self) -> io::Result<Vec<TcpListener>> {
        let listener = tokio::net::UnixListener::from_std(self.listener.try_clone()?)?;
        let (stream, _) = listener.accept().await?;
        stream.readable().await?;
        let sockets = loop {
            match stream.try_io(Interest::READABLE, || receive_from(stream.as_fd())) {
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => {
                    stream.readable().await?;
                }
                other => break other?,
            }
        };
        // Remove the socket file before the run's side continues and starts the program.
        drop(listener);
        drop(self);
        stream.writable().await?;
        stream.try_write(b"s")?;
        Ok(sockets)
    }
}

impl Drop for SocketReceiver {
    fn drop(&mut self) {
        removed(&self.file, fs::remove_file(&self.file));
    }
}

fn receive_from(stream: BorrowedFd<'_>) -> io::Result<Vec<TcpListener>> {
    let mut space = [MaybeUninit::uninit(); SPACE];
    let mut control = RecvAncillaryBuffer::new(&mut space);
    let mut byte = [0];
    // `CMSG_CLOEXEC` is set on receipt: setting it later would race with a child that we spawn.
    let flags = RecvFlags::CMSG_CLOEXEC | RecvFlags::DONTWAIT;
    recvmsg(
        stream,
        &mut [IoSliceMut::new(&mut byte)],
        &mut control,
        flags,
    )?;
    let mut sockets = Vec::new();
    for message in control.drain() {
        if let RecvAncillaryMessage::ScmRights(handles) = message {
            sockets.extend(handles.map(TcpListener::from));
        }
    }
    Ok(sockets)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn sockets_made_on_the_one_side_are_served_on_the_other() {
        let dir = tempfile::TempDir::new().unwrap();
        let deep = dir.path().join("a".repeat(120));
        let receiver = SocketReceiver::open(&deep).unwrap();
        let free = || TcpListener::bind(("127.0.0.1", 0)).unwrap();
        let (one, two) = (free(), free());
        let ports = [&one, &two].map(|socket| socket.local_addr().unwrap().port());
        drop((one, two));
        let rules = ProxyRules {
            port: ports[0],
            forwards: vec![ports[1]],
            ..ProxyRules::default()
        };
        let there = deep.clone();
        let run = tokio::task::spawn_blocking(move || send_listeners(&rules, &there));
        let listeners = receiver.receive_listeners().await.unwrap();
        run.await.unwrap().unwrap();
        let served: Vec<u16> = listeners
            .iter()
            .map(|listener| listener.local_addr().unwrap().port())
            .collect();
        assert_eq!(served, ports);
        assert!(!deep.join(NAME).exists());
        // A second connection is refused.
        assert!(send_listeners(&ProxyRules::default(), &deep).is_err());
    }
}
