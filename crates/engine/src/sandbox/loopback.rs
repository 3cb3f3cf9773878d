//! Switches on loopback, the only interface of a new network namespace.
//!
//! A new namespace has it switched off, and then even `127.0.0.1` is unreachable: test suites and
//! our proxy would fail.

use std::io;

use rustix::net::{
    AddressFamily, RecvFlags, SendFlags, SocketFlags, SocketType, recv, send, socket_with,
};

/// Netlink message `RTM_NEWLINK` that sets only the flag `IFF_UP` of the interface with index 1.
const REQUEST: [u8; 32] = {
    let mut message = [0; 32];
    message[0] = 32;
    message[4] = 16;
    // NLM_F_REQUEST and NLM_F_ACK.
    message[6] = 1 | 4;
    message[8] = 1;
    // The index is always 1: loopback is created first in every network namespace.
    message[20] = 1;
    message[24] = 1;
    message[28] = 1;
    message
};
const ERROR: u8 = 2;

pub fn bring_up_loopback() -> io::Result<()> {
    let kernel = socket_with(
        AddressFamily::NETLINK,
        SocketType::RAW,
        SocketFlags::CLOEXEC,
        None,
    )?;
    send(&kernel, &REQUEST, SendFlags::empty())?;
    // The acknowledgement is an error message with the code zero.
    let mut answer = [0; 256];
    let (length, _) = recv(&kernel, &mut answer, RecvFlags::empty())?;
    let code = answer
        .get(16..20)
        .filter(|_| length >= 20 && answer[4] == ERROR);
    match code {
        Some([0, 0, 0, 0]) => Ok(()),
        _ => Err(io::Error::other(
            "the loopback interface could not be switched on",
        )),
    }
}
