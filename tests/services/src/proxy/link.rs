//! What a proxy does to the bytes of its connections.

use std::{io, net::SocketAddr, sync::Arc, time::Duration};

use tokio::{
    io::{AsyncReadExt, AsyncWriteExt},
    net::{
        TcpStream,
        tcp::{OwnedReadHalf, OwnedWriteHalf},
    },
    sync::{mpsc, watch},
    time::Instant,
};

use super::Direction::{self, ToClient, ToServer};

/// What is done to the bytes.
#[derive(Debug, Default)]
pub(crate) enum Behaviour {
    #[default]
    Pass,
    CutAfter(Direction, usize),
    DropReplies,
}

/// What is to be done, and what was.
#[derive(Debug, Default)]
pub(crate) struct State {
    pub(crate) behaviour: Behaviour,
    pub(crate) delays: [Duration; 2],
    /// Whether there was an effect since the last switch.
    pub(crate) struck: bool,
    /// Connections are numbered from one; those up to this number are to be closed.
    pub(crate) closed: usize,
    pub(crate) connections: usize,
    pub(crate) open: usize,
    pub(crate) bytes: [usize; 2],
}

/// What becomes of one piece of data.
enum Fate {
    Forward,
    Swallow,
    /// Forward so much of it, and close the connection.
    Cut(usize),
}

impl State {
    fn judge(&mut self, serial: usize, direction: Direction, length: usize) -> Fate {
        let fate = match &mut self.behaviour {
            _ if serial <= self.closed => Fate::Cut(0),
            Behaviour::CutAfter(cut, left) if *cut == direction && *left <= length => {
                let left = *left;
                self.behaviour = Behaviour::Pass;
                self.struck = true;
                Fate::Cut(left)
            }
            Behaviour::CutAfter(cut, left) if *cut == direction => {
                *left -= length;
                Fate::Forward
            }
            Behaviour::DropReplies if direction == ToClient => {
                self.struck = true;
                Fate::Swallow
            }
            Behaviour::Pass | Behaviour::CutAfter(..) | Behaviour::DropReplies => Fate::Forward,
        };
        self.bytes[direction as usize] += match fate {
            Fate::Forward => length,
            Fate::Swallow => 0,
            Fate::Cut(part) => part,
        };
        fate
    }
}

/// What the connections share.
#[derive(Debug, Clone)]
pub(crate) struct Link {
    pub(crate) target: SocketAddr,
    pub(crate) state: Arc<watch::Sender<State>>,
}

impl Link {
    pub(crate) fn new(target: SocketAddr) -> Self {
        Self {
            target,
            state: Arc::new(watch::Sender::default()),
        }
    }

    pub(crate) fn switch(&self, switch: impl FnOnce(&mut State)) {
        self.state.send_modify(|state| {
            state.struck = false;
            switch(state);
        });
    }

    /// Counts a connection, and gives its number.
    pub(crate) fn count(&self) -> usize {
        let mut serial = 0;
        self.state.send_modify(|state| {
            state.connections += 1;
            state.open += 1;
            serial = state.connections;
        });
        serial
    }

    pub(crate) async fn serve(self, client: TcpStream, serial: usize) {
        let mut state = self.state.subscribe();
        let closed = async {
            // The sender lives in `self`. What is given is a lock on the state, and not kept.
            let _ = state.wait_for(|state| serial <= state.closed).await;
        };
        let ended = tokio::select! {
            () = closed => None,
            ended = self.relay(client, serial) => ended.ok(),
        };
        self.state.send_modify(|state| state.open -= 1);
        if let Some((mut from_client, mut from_server)) = ended {
            // If we closed with something unread, what was not delivered yet would be lost, and a cut
            // would be somewhere else than the test said.
            let rest = async { tokio::join!(drain(&mut from_client), drain(&mut from_server)) };
            let _ = tokio::time::timeout(Duration::from_secs(1), rest).await;
        }
    }

    /// Forwards both directions until their end, and tells both sides; they may not have read that
    /// yet.
    async fn relay(
        &self,
        client: TcpStream,
        serial: usize,
    ) -> io::Result<(OwnedReadHalf, OwnedReadHalf)> {
        let server = TcpStream::connect(self.target).await?;
        // A piece is one segment, and is not kept back for the next one. A connection without the
        // option is slower, and nothing else.
        let _ = client.set_nodelay(true);
        let _ = server.set_nodelay(true);
        let (mut from_client, mut to_client) = client.into_split();
        let (mut from_server, mut to_server) = server.into_split();
        // The first error ends both.
        let _ = tokio::try_join!(
            self.pump(serial, ToServer, &mut from_client, &mut to_server),
            self.pump(serial, ToClient, &mut from_server, &mut to_client),
        );
        // The halves for writing are closed when they are dropped.
        Ok((from_client, from_server))
    }

    /// Forwards one direction until its end.
    async fn pump(
        &self,
        serial: usize,
        direction: Direction,
        from: &mut OwnedReadHalf,
        to: &mut OwnedWriteHalf,
    ) -> io::Result<()> {
        // So that a delay is that of each piece, and not the sum of those before.
        let (pieces, mut arrived) = mpsc::channel(64);
        let read = async move {
            loop {
                let mut piece = Vec::with_capacity(64 * 1024);
                if from.read_buf(&mut piece).await? == 0 {
                    return Ok(());
                }
                if pieces.send((Instant::now(), piece)).await.is_err() {
                    return Ok(());
                }
            }
        };
        let write = async {
            while let Some((arrival, piece)) = arrived.recv().await {
                self.hold(direction, arrival).await;
                let mut fate = Fate::Forward;
                self.state
                    .send_modify(|state| fate = state.judge(serial, direction, piece.len()));
                match fate {
                    Fate::Forward => to.write_all(&piece).await?,
                    Fate::Swallow => {}
                    Fate::Cut(length) => {
                        to.write_all(&piece[..length]).await?;
                        return Err(io::ErrorKind::ConnectionAborted.into());
                    }
                }
            }
            to.shutdown().await
        };
        tokio::try_join!(read, write).map(|_| ())
    }

    /// Waits until a piece is due, by the delay of the moment.
    async fn hold(&self, direction: Direction, arrival: Instant) {
        let mut state = self.state.subscribe();
        let mut held = false;
        loop {
            let due = arrival + state.borrow_and_update().delays[direction as usize];
            if due <= Instant::now() {
                return;
            }
            if !held {
                held = true;
                self.state.send_modify(|state| state.struck = true);
            }
            tokio::select! {
                () = tokio::time::sleep_until(due) => return,
                // The sender lives in `self`.
                _ = state.changed() => {}
            }
        }
    }
}

/// Reads until the other side has closed.
async fn drain(from: &mut OwnedReadHalf) {
    let mut buffer = vec![0; 1024];
    while from.read(&mut buffer).await.is_ok_and(|read| read > 0) {}
}
