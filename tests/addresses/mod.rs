//! Addresses for the nodes that a test starts on this machine.

use std::net::{TcpListener, UdpSocket};
use std::sync::atomic::{AtomicU16, Ordering};

/// An address that is free, below those that a machine gives to whoever asks for any.
pub(crate) fn free_address() -> String {
    static NEXT: AtomicU16 = AtomicU16::new(0);
    loop {
        let next = u32::from(NEXT.fetch_add(1, Ordering::Relaxed));
        let at = ("127.0.0.1", (20_000 + (std::process::id() * 61 + next) % 12_000) as u16);
        if TcpListener::bind(at).is_ok() && UdpSocket::bind(at).is_ok() {
            return format!("{}:{}", at.0, at.1);
        }
    }
}
