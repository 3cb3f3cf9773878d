//! The one interface of a network namespace that has no other, switched on.

use std::io;

use rustix::net::{
    AddressFamily, RecvFlags, SendFlags, SocketFlags, SocketType, recv, send, socket_with,
};

/// `RTM_NEWLINK` for the interface with index 1: flag `IFF_UP`, of the flags only this one.
const REQUEST: [u8; 32] = {
    let mut message = [0; 32];
    message[0] = 32;
    message[4] = 16;
    // A request, to be acknowledged.
    message[6] = 1 | 4;
    message[8] = 1;
    message[20] = 1;
    message[24] = 1;
    message[28] = 1;
    message
};
const ERROR: u8 = 2;

pub fn up() -> io::Result<()> {
    let kernel = socket_with(
        AddressFamily::NETLINK,
        SocketType::RAW,
        SocketFlags::CLOEXEC,
        None,
    )?;
    send(&kernel, &REQUEST, SendFlags::empty())?;
    let mut answer = [0; 256];
    let (length, _) = recv(&kernel, &mut answer, RecvFlags::empty())?;
    let code = answer
        .get(16..20)
        .filter(|_| length >= 20 && answer[4] == ERROR);
    match code {
        Some([0, 0, 0, 0]) => Ok(()),
        _ => Err(io::Error::other("loopback could not be switched on")),
    }
}
