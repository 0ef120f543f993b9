//! What benchmarks share: a server and a client of one thread each, the time that they worked, and
//! figures in order.
//!
//! On a busy machine look at the processor time, which Linux tells: it does not count the time in
//! which a thread had no processor.

use std::{
    fs,
    net::SocketAddr,
    path::{Path, PathBuf},
    sync::mpsc,
    thread,
    time::{Duration, Instant},
};

use axum::{Router, serve::ListenerExt};
use tokio::{
    io::{AsyncReadExt, AsyncWriteExt},
    net::{TcpListener, TcpStream},
    runtime::{Builder, Runtime},
    task::JoinSet,
};

/// A runtime of the thread that it blocks.
pub fn single_threaded() -> Runtime {
    let runtime = Builder::new_current_thread().enable_all().build();
    runtime.expect("a runtime")
}

/// Threads, and where the system tells about each of them.
#[derive(Debug)]
pub struct Threads(Vec<PathBuf>);

impl Threads {
    /// The thread that asks.
    pub fn current() -> Self {
        let thread = fs::read_link("/proc/thread-self").unwrap_or_default();
        Self(vec![Path::new("/proc").join(thread)])
    }

    /// The first threads of a process and of those that it forked.
    pub fn of_process(pid: u32) -> Self {
        let pid = pid.to_string();
        let processes = fs::read_dir("/proc").into_iter().flatten().flatten();
        let ours = processes.map(|entry| entry.path()).filter(|process| {
            let stat = fs::read_to_string(process.join("stat")).unwrap_or_default();
            // The name of the program may have any characters; state and parent come behind it.
            let behind = stat.rsplit(')').next().unwrap_or_default();
            process.ends_with(&pid) || behind.split_whitespace().nth(1) == Some(&pid)
        });
        Self(ours.collect())
    }

    /// How long they have had a processor; zero where the system does not tell.
    pub fn worked(&self) -> Duration {
        let nanoseconds = self.0.iter().filter_map(|thread| {
            let told = fs::read_to_string(thread.join("schedstat")).ok()?;
            told.split(' ').next()?.parse::<u64>().ok()
        });
        Duration::from_nanos(nanoseconds.sum())
    }
}

/// A server over HTTP on a thread of its own.
#[derive(Debug)]
pub struct Served {
    /// Its address.
    pub addr: SocketAddr,
    /// Its thread.
    pub thread: Threads,
}

/// Serves what is made on the runtime of the server.
///
/// # Panics
/// If there is nothing to serve.
pub fn serve<Making>(router: impl FnOnce() -> Making + Send + 'static) -> Served
where
    Making: Future<Output = Router>,
{
    let (sender, server) = mpsc::channel();
    thread::spawn(move || {
        single_threaded().block_on(async {
            let listener = TcpListener::bind("127.0.0.1:0").await.expect("a free port");
            let addr = listener.local_addr().expect("it is bound");
            let router = router().await;
            let listener = listener.tap_io(|stream| {
                stream.set_nodelay(true).expect("it is open");
            });
            let thread = Threads::current();
            let _ = sender.send(Served { addr, thread });
            axum::serve(listener, router).await.expect("it serves");
        });
    });
    server.recv().expect("the server has begun")
}

/// A connection that is kept alive.
#[derive(Debug)]
pub struct Client {
    stream: TcpStream,
    buffer: Vec<u8>,
}

impl Client {
    /// Connects.
    ///
    /// # Panics
    /// If nobody listens there.
    pub async fn open(addr: SocketAddr) -> Self {
        let stream = TcpStream::connect(addr).await.expect("the server listens");
        stream.set_nodelay(true).expect("it is open");
        Self {
            stream,
            buffer: Vec::with_capacity(4096),
        }
    }

    /// Posts a body, with these header lines, and takes the whole answer.
    ///
    /// # Panics
    /// If the answer is not 201.
    pub async fn post(&mut self, path: &str, lines: &str, body: &str) {
        let request = format!(
            "POST {path} HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\n\
             Content-Length: {}\r\n{lines}\r\n{body}",
            body.len(),
        );
        let written = self.stream.write_all(request.as_bytes()).await;
        written.expect("the connection is open");
        self.take_answer().await;
    }

    async fn take_answer(&mut self) {
        self.buffer.clear();
        loop {
            let read = self.stream.read_buf(&mut self.buffer).await.expect("open");
            assert!(read > 0, "the server closed the connection");
            if is_whole(&self.buffer) {
                assert!(
                    self.buffer.starts_with(b"HTTP/1.1 201 "),
                    "{:?}",
                    self.buffer.escape_ascii()
                );
                return;
            }
        }
    }
}

/// Whether an answer is there, with all of its body.
fn is_whole(answer: &[u8]) -> bool {
    const LENGTH: &[u8] = b"content-length: ";
    let find = |needle: &[u8]| {
        answer
            .windows(needle.len())
            .position(|window| window == needle)
    };
    let Some(end) = find(b"\r\n\r\n") else {
        return false;
    };
    let start = find(LENGTH).expect("its length is known") + LENGTH.len();
    let digits = answer[start..]
        .iter()
        .take_while(|byte| byte.is_ascii_digit());
    let length = digits.fold(0, |length, digit| length * 10 + usize::from(digit - b'0'));
    answer.len() >= end + 4 + length
}

/// Has each of these do its work again and again for one slice of time, all at once, and gives them
/// back with how long each piece of work took.
///
/// # Panics
/// If one of them does.
pub async fn repeat<W, Working>(
    workers: Vec<W>,
    slice: Duration,
    work: impl Fn(W) -> Working + Clone + Send + 'static,
) -> (Vec<W>, Vec<Duration>)
where
    W: Send + 'static,
    Working: Future<Output = W> + Send + 'static,
{
    let until = Instant::now() + slice;
    let mut running = JoinSet::new();
    for mut worker in workers {
        let work = work.clone();
        running.spawn(async move {
            let mut latencies = Vec::with_capacity(10_000);
            loop {
                let begin = Instant::now();
                if begin >= until {
                    return (worker, latencies);
                }
                worker = work(worker).await;
                latencies.push(begin.elapsed());
            }
        });
    }
    let (workers, latencies): (Vec<_>, Vec<_>) = running.join_all().await.into_iter().unzip();
    (workers, latencies.concat())
}

/// A number of operations as a factor.
///
/// # Panics
/// If they are four thousand million or more.
pub fn factor(operations: usize) -> f64 {
    let operations = u32::try_from(operations);
    f64::from(operations.expect("fewer than four thousand million"))
}

/// Figures in order.
#[must_use]
pub fn sorted(figures: impl Iterator<Item = f64>) -> Vec<f64> {
    let mut figures: Vec<f64> = figures.collect();
    figures.sort_by(f64::total_cmp);
    figures
}

/// The middle one of figures in order.
pub fn median(figures: &[f64]) -> f64 {
    figures[figures.len() / 2]
}

/// Of latencies in order the one that so many of a hundred do not exceed, in microseconds.
pub fn quantile(latencies: &[Duration], percent: usize) -> u128 {
    latencies[(latencies.len() - 1) * percent / 100].as_micros()
}
