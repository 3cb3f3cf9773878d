//! Listening sockets that are made in a run's network namespace and served outside of it.
//!
//! The run's side connects to a socket file of ours before it locks itself in, sends the sockets as
//! ancillary data and waits for one byte. By then the file is gone, so that nobody who starts
//! later can say anything there.

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
/// How long the run's side waits for ours.
const WAIT_MAX: Duration = Duration::from_secs(30);
/// The proxy's own socket and the forwards'.
const SOCKETS_MAX: usize = FORWARDS_MAX + 1;
const SPACE: usize = rustix::cmsg_space!(ScmRights(SOCKETS_MAX));

/// A short name for a file in an open directory: the names of sockets have room for 107 bytes.
fn short(dir: &OwnedFd) -> PathBuf {
    Path::new("/proc/self/fd")
        .join(dir.as_raw_fd().to_string())
        .join(NAME)
}

fn opened(dir: &Path) -> io::Result<OwnedFd> {
    let by_name = OFlags::PATH | OFlags::DIRECTORY | OFlags::CLOEXEC;
    Ok(open(dir, by_name, Mode::empty())?)
}

/// Makes the sockets here and gives them to whoever listens in `dir`. For the run's side, before it
/// locks itself in.
pub fn hand_over(proxied: &ProxyRules, dir: &Path) -> io::Result<()> {
    let told = |what: &str, error: io::Error| {
        io::Error::new(
            error.kind(),
            format!("the network of the run: {what}: {error}"),
        )
    };
    let mut sockets = Vec::new();
    for port in proxied.ports().take(SOCKETS_MAX) {
        let listener = TcpListener::bind(("127.0.0.1", port));
        sockets.push(listener.map_err(|error| told(&format!("port {port}"), error))?);
    }
    let dir = opened(dir)?;
    let mut stream =
        UnixStream::connect(short(&dir)).map_err(|error| told("Countersign", error))?;
    let handles: Vec<BorrowedFd<'_>> = sockets.iter().map(AsFd::as_fd).collect();
    let mut space = [MaybeUninit::uninit(); SPACE];
    let mut control = SendAncillaryBuffer::new(&mut space);
    if !control.push(SendAncillaryMessage::ScmRights(&handles)) {
        return Err(io::Error::other("too many sockets for one message"));
    }
    sendmsg(
        &stream,
        &[IoSlice::new(b"s")],
        &mut control,
        SendFlags::NOSIGNAL,
    )?;
    stream.set_read_timeout(Some(WAIT_MAX))?;
    stream
        .read_exact(&mut [0])
        .map_err(|error| told("no answer", error))
}

/// Our side: waits for the sockets.
#[derive(Debug)]
pub struct SocketReceiver {
    listener: UnixListener,
    file: PathBuf,
}

impl SocketReceiver {
    /// In a directory that only we and the run's side reach. What an earlier run left is replaced.
    pub fn open(dir: &Path) -> io::Result<Self> {
        crate::private::make_dir(dir)?;
        let file = dir.join(NAME);
        match fs::remove_file(&file) {
            Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(error),
            _ => {}
        }
        let listener = UnixListener::bind(short(&opened(dir)?))?;
        listener.set_nonblocking(true)?;
        Ok(Self { listener, file })
    }

    /// The sockets of the first who comes; nobody else is listened to.
    pub async fn listeners(self) -> io::Result<Vec<TcpListener>> {
        let listener = tokio::net::UnixListener::from_std(self.listener.try_clone()?)?;
        let (stream, _) = listener.accept().await?;
        stream.readable().await?;
        let sockets = loop {
            match stream.try_io(Interest::READABLE, || received(stream.as_fd())) {
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => {
                    stream.readable().await?;
                }
                other => break other?,
            }
        };
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

fn received(stream: BorrowedFd<'_>) -> io::Result<Vec<TcpListener>> {
    let mut space = [MaybeUninit::uninit(); SPACE];
    let mut control = RecvAncillaryBuffer::new(&mut space);
    let mut byte = [0];
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
        let proxied = ProxyRules {
            port: ports[0],
            forwards: vec![ports[1]],
            ..ProxyRules::default()
        };
        let there = deep.clone();
        let run = tokio::task::spawn_blocking(move || hand_over(&proxied, &there));
        let listeners = receiver.listeners().await.unwrap();
        run.await.unwrap().unwrap();
        let served: Vec<u16> = listeners
            .iter()
            .map(|listener| listener.local_addr().unwrap().port())
            .collect();
        assert_eq!(served, ports);
        assert!(!deep.join(NAME).exists());
        // The second who comes finds nobody.
        assert!(hand_over(&ProxyRules::default(), &deep).is_err());
    }
}
