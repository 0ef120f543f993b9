//! A proxy for TCP that loses, delays and refuses what the test says.
//!
//! It runs on a thread of its own, apart from the runtime of the test. A switch holds for the
//! connections that are open as well as for new ones, and from the moment in which it returns: what
//! was forwarded before was forwarded, and all that comes later goes by the new behaviour.

mod link;

use std::{
    net::SocketAddr,
    sync::{LazyLock, Mutex, PoisonError, mpsc},
    time::Duration,
};

use tokio::{net::TcpListener, runtime::Runtime, task::AbortHandle};

use self::link::{Behaviour, Link, State};
use crate::{port::Port, server::PATIENCE};

static RUNTIME: LazyLock<Runtime> = LazyLock::new(|| {
    let mut builder = tokio::runtime::Builder::new_multi_thread();
    let builder = builder.worker_threads(1).thread_name("proxy").enable_all();
    builder.build().expect("a thread and a poll")
});

/// A proxy in front of a server. It passes everything until it is told otherwise, refuses everything
/// after it was dropped, and is not concerned with what the bytes say.
#[derive(Debug)]
pub struct Proxy {
    port: Port,
    link: Link,
    acceptor: Mutex<Option<Acceptor>>,
}

/// Where bytes go.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Direction {
    /// From the client, as requests do.
    ToServer,
    /// From the server, as replies do.
    ToClient,
}

impl Proxy {
    /// Starts one on a port of its own. The server need not run yet.
    pub fn start(target: SocketAddr) -> Self {
        let proxy = Self {
            port: Port::free(),
            link: Link::new(target),
            acceptor: Mutex::default(),
        };
        proxy.listen();
        proxy
    }

    /// Its address.
    pub fn addr(&self) -> SocketAddr {
        self.port.addr()
    }

    /// The URL by which one gets through the proxy to where this one leads.
    ///
    /// # Panics
    /// If that is not the server behind this proxy.
    pub fn url(&self, direct: &str) -> String {
        let target = self.link.target.to_string();
        assert!(direct.contains(&target), "{direct} is not behind the proxy");
        direct.replace(&target, &self.addr().to_string())
    }

    /// Passes everything at once, and accepts connections, as in the beginning.
    pub fn pass(&self) {
        self.link.switch(|state| {
            state.behaviour = Behaviour::Pass;
            state.delays = Default::default();
        });
        self.listen();
    }

    /// Holds each piece of data for so long, in this direction; besides what else it does to it.
    pub fn delay(&self, direction: Direction, delay: Duration) {
        let index = direction as usize;
        self.link.switch(|state| state.delays[index] = delay);
    }

    /// Forwards so many more bytes in this direction, on all connections together, and closes the
    /// connection that the last of them was on. Passes everything after that.
    ///
    /// With zero, it closes the connection on which the next byte arrives, and does not forward it.
    pub fn cut_after(&self, direction: Direction, bytes: usize) {
        self.link.switch(|state| {
            state.behaviour = Behaviour::CutAfter(direction, bytes);
        });
    }

    /// Forwards what clients send, and swallows what the server says. The connections stay open.
    pub fn drop_replies(&self) {
        self.link
            .switch(|state| state.behaviour = Behaviour::DropReplies);
    }

    /// Forwards what clients send, and when the server next says something, closes that connection
    /// instead of forwarding it. Passes everything after that.
    pub fn close_on_reply(&self) {
        self.cut_after(Direction::ToClient, 0);
    }

    /// Refuses connections, and closes those that are open.
    pub fn refuse(&self) {
        let mut acceptor = self.acceptor.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(acceptor) = acceptor.take() {
            acceptor.stop();
        }
        self.close_all();
    }

    /// Closes all connections that are open. New ones are treated as before.
    pub fn close_all(&self) {
        self.link.switch(|state| state.closed = state.connections);
    }

    /// Waits until the present behaviour has had an effect: a piece was delayed or swallowed, or a
    /// connection was closed, since the last switch. At once, if it had before the call.
    ///
    /// Not for [`refuse`](Self::refuse) and [`close_all`](Self::close_all), after which nothing is
    /// forwarded; whoever has to know that a connection is closed waits for
    /// [`until_open`](Self::until_open).
    ///
    /// # Panics
    /// If it has none within 20 seconds.
    pub async fn struck(&self) {
        self.until("the proxy had no effect", |state| state.struck)
            .await;
    }

    /// Waits until so many connections are open.
    ///
    /// # Panics
    /// If that does not come to be within 20 seconds.
    pub async fn until_open(&self, connections: usize) {
        let wanted = move |state: &State| state.open == connections;
        self.until("another number of connections is open", wanted)
            .await;
    }

    /// How many connections there have been.
    pub fn connections(&self) -> usize {
        self.link.state.borrow().connections
    }

    /// How many bytes were forwarded in this direction.
    pub fn bytes(&self, direction: Direction) -> usize {
        self.link.state.borrow().bytes[direction as usize]
    }

    async fn until(
        &self,
        otherwise: &str,
        wanted: impl Fn(&State) -> bool + Send + Sync + 'static,
    ) {
        let mut state = self.link.state.subscribe();
        // Over there, where the clock is not the one of the test, which may stand still.
        let waiting = RUNTIME.spawn(async move {
            let come = tokio::time::timeout(PATIENCE, state.wait_for(|state| wanted(state))).await;
            come.is_ok()
        });
        assert!(waiting.await.is_ok_and(|come| come), "{otherwise}");
    }

    fn listen(&self) {
        let mut acceptor = self.acceptor.lock().unwrap_or_else(PoisonError::into_inner);
        acceptor.get_or_insert_with(|| Acceptor::start(&self.port, self.link.clone()));
    }
}

impl Drop for Proxy {
    fn drop(&mut self) {
        self.refuse();
    }
}

/// The task that accepts connections.
#[derive(Debug)]
struct Acceptor {
    task: AbortHandle,
    stopped: mpsc::Receiver<()>,
}

impl Acceptor {
    fn start(port: &Port, link: Link) -> Self {
        let _entered = RUNTIME.enter();
        let listener = port.socket().listen(1024).expect("the port is ours");
        let (alive, stopped) = mpsc::channel();
        let open = OpenPort {
            listener,
            _alive: alive,
        };
        let task = RUNTIME.spawn(open.accept(link));
        Self {
            task: task.abort_handle(),
            stopped,
        }
    }

    /// Stops it, and waits until the port is closed.
    fn stop(self) {
        self.task.abort();
        // Nothing is ever sent; it ends when the task is gone.
        let _ = self.stopped.recv();
    }
}

/// A port that is closed before its channel is, since fields are dropped in their order.
struct OpenPort {
    listener: TcpListener,
    _alive: mpsc::Sender<()>,
}

impl OpenPort {
    async fn accept(self, link: Link) {
        loop {
            // An error is that of one client, which has gone already.
            if let Ok((client, _)) = self.listener.accept().await {
                let serial = link.count();
                tokio::spawn(link.clone().serve(client, serial));
            }
        }
    }
}
