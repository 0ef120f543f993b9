//! Free ports of 127.0.0.1.

use std::net::{Ipv4Addr, SocketAddr};

use tokio::net::TcpSocket;

/// A port that nobody else is given as long as this value lives.
///
/// A socket is bound to it and does not listen. Linux lets a server bind to it as well, since both
/// set `SO_REUSEADDR`, and gives it to nobody who asks for any free port; so there is no race for
/// it, neither at the first start nor between a kill and a restart.
#[derive(Debug)]
pub(crate) struct Port {
    addr: SocketAddr,
    _held: TcpSocket,
}

impl Port {
    /// Finds a free one.
    pub(crate) fn free() -> Self {
        let held = bound(SocketAddr::from((Ipv4Addr::LOCALHOST, 0)));
        let addr = held.local_addr().expect("it is bound");
        Self { addr, _held: held }
    }

    /// Its address.
    pub(crate) fn addr(&self) -> SocketAddr {
        self.addr
    }

    /// Its number.
    pub(crate) fn number(&self) -> u16 {
        self.addr.port()
    }

    /// Another socket that is bound to it, which may listen.
    pub(crate) fn socket(&self) -> TcpSocket {
        bound(self.addr)
    }
}

fn bound(addr: SocketAddr) -> TcpSocket {
    let socket = TcpSocket::new_v4().expect("a socket");
    socket.set_reuseaddr(true).expect("an option of sockets");
    socket.bind(addr).expect("a free port");
    socket
}
