//! Subscribers: WebSocket clients that do as little as they can, in a runtime of one thread of their own, so that
//! thousands of them can be served on the same machine. Each checks that it misses nothing and meets nothing twice.

use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicI64, AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;
use tokio::sync::Notify;

const PATIENCE: Duration = Duration::from_mins(1);
/// How many connect at once.
const WAVE: usize = 250;
const TEXT: u8 = 0x81;
const PING: u8 = 0x89;
const PONG: u8 = 0x8a;
const CLOSE: u8 = 0x88;

/// Subscribers of one address; they go when this is dropped.
pub struct Crowd {
    runtime: Option<tokio::runtime::Runtime>,
    address: SocketAddr,
    greetings: Arc<Vec<String>>,
    shared: Arc<Shared>,
    count: usize,
}

#[derive(Default)]
struct Shared {
    /// Events received by all, and how many of them somebody waits for.
    received: AtomicUsize,
    wanted: AtomicUsize,
    enough: Notify,
    ready: AtomicUsize,
    /// The lowest last sequence of those that left.
    left_at: AtomicI64,
}

impl Crowd {
    /// `greetings` are the messages that each sends after its upgrade; each must be answered but the last.
    pub fn new(address: SocketAddr, greetings: Vec<String>) -> Self {
        let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(1).enable_all().build();
        let runtime = Some(runtime.expect("a runtime can start"));
        Self { runtime, address, greetings: Arc::new(greetings), shared: Arc::default(), count: 0 }
    }

    /// So many more, each of which has seen everything up to `after`; waits until all follow. They come in waves: a server
    /// gives a connection three seconds to say who it is, and this crowd has one thread to say it with.
    pub async fn join(&mut self, count: usize, after: i64) {
        let whole = self.count + count;
        while self.count < whole {
            let wave = WAVE.min(whole - self.count);
            for _ in 0..wave {
                let (address, greetings, shared) =
                    (self.address, Arc::clone(&self.greetings), Arc::clone(&self.shared));
                self.runtime.as_ref().expect("it runs").spawn(follow(address, greetings, shared, after));
            }
            self.count += wave;
            self.all_follow().await;
        }
    }

    async fn all_follow(&self) {
        let began = Instant::now();
        while self.shared.ready.load(Ordering::SeqCst) < self.count {
            let ready = self.shared.ready.load(Ordering::SeqCst);
            assert!(began.elapsed() < PATIENCE, "{ready} of {} follow", self.count);
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
    }

    /// Says how many events all of them together will have received; [`Crowd::enough`] waits for that.
    pub fn expect(&self, more: usize) {
        self.shared.wanted.store(self.shared.received.load(Ordering::SeqCst) + more, Ordering::SeqCst);
    }

    pub async fn enough(&self) {
        let enough = tokio::time::timeout(PATIENCE, self.shared.enough.notified()).await;
        assert!(enough.is_ok(), "{} of {} arrived", self.received(), self.shared.wanted.load(Ordering::SeqCst));
    }

    pub fn received(&self) -> usize {
        self.shared.received.load(Ordering::SeqCst)
    }
}

impl Drop for Crowd {
    fn drop(&mut self) {
        if let Some(runtime) = self.runtime.take() {
            runtime.shutdown_background();
        }
    }
}

async fn follow(address: SocketAddr, greetings: Arc<Vec<String>>, shared: Arc<Shared>, after: i64) {
    let mut stream = TcpStream::connect(address).await.expect("the server listens");
    let upgrade = format!(
        "GET /graphql HTTP/1.1\r\nHost: {address}\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n\
         Sec-WebSocket-Version: 13\r\nSec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\n\
         Sec-WebSocket-Protocol: graphql-transport-ws\r\n\r\n"
    );
    stream.write_all(upgrade.as_bytes()).await.expect("the connection stays open");
    let mut frames = Frames { stream, buffer: Vec::with_capacity(2048) };
    frames.skip_head().await;
    let (last, answered) = greetings.split_last().expect("there is a greeting");
    for greeting in answered {
        frames.say(TEXT, greeting.as_bytes()).await;
        frames.next().await;
    }
    frames.say(TEXT, last.replace("\"AFTER\"", &after.to_string()).as_bytes()).await;
    // Its answer is the first event; that it follows is known once a ping sent after it is answered.
    frames.say(PING, b"").await;
    let mut seen = after;
    loop {
        let (kind, sequence) = frames.next().await;
        if kind == PONG {
            shared.ready.fetch_add(1, Ordering::SeqCst);
        } else if kind == PING {
            frames.say(PONG, b"").await;
        } else {
            let sequence = sequence.expect("an event has a sequence");
            assert_eq!(sequence, seen + 1, "nothing is missed and nothing comes twice");
            seen = sequence;
            shared.left_at.store(seen, Ordering::SeqCst);
            let received = shared.received.fetch_add(1, Ordering::SeqCst) + 1;
            if received == shared.wanted.load(Ordering::SeqCst) {
                shared.enough.notify_one();
            }
        }
    }
}

struct Frames {
    stream: TcpStream,
    buffer: Vec<u8>,
}

impl Frames {
    async fn skip_head(&mut self) {
        loop {
            if let Some(end) = self.buffer.windows(4).position(|four| four == b"\r\n\r\n") {
                assert!(self.buffer.starts_with(b"HTTP/1.1 101 "), "{}", String::from_utf8_lossy(&self.buffer));
                self.buffer.drain(..end + 4);
                return;
            }
            self.read().await;
        }
    }

    async fn read(&mut self) {
        let count = self.stream.read_buf(&mut self.buffer).await.expect("the connection stays open");
        assert!(count > 0, "the connection ended: {}", String::from_utf8_lossy(&self.buffer));
    }

    /// A frame of a client is masked; with zeros, that changes nothing.
    async fn say(&mut self, kind: u8, text: &[u8]) {
        let mut frame = vec![kind];
        match u8::try_from(text.len()).ok().filter(|length| *length < 126) {
            Some(length) => frame.push(0x80 | length),
            None => {
                frame.push(0xfe);
                frame.extend(u16::try_from(text.len()).expect("greetings are short").to_be_bytes());
            }
        }
        frame.extend([0; 4]);
        frame.extend(text);
        self.stream.write_all(&frame).await.expect("the connection stays open");
    }

    /// The kind of the next frame, and the sequence that it tells.
    async fn next(&mut self) -> (u8, Option<i64>) {
        loop {
            if let Some((start, end)) = extent(&self.buffer) {
                let (kind, sequence) = (self.buffer[0], sequence(&self.buffer[start..end]));
                let told = sequence.is_some() || kind != TEXT || self.buffer[start..end].ends_with(b"_ack\"}");
                assert!(told && kind != CLOSE, "{}", String::from_utf8_lossy(&self.buffer[start..end]));
                self.buffer.drain(..end);
                return (kind, sequence);
            }
            self.read().await;
        }
    }
}

/// Where the payload of the first frame is, once all of it is there.
fn extent(buffer: &[u8]) -> Option<(usize, usize)> {
    let (start, length) = match *buffer.get(1)? {
        126 => (4, usize::from(u16::from_be_bytes([*buffer.get(2)?, *buffer.get(3)?]))),
        127 => unreachable!("no message of a bench is so long"),
        length => (2, usize::from(length)),
    };
    (buffer.len() >= start + length).then_some((start, start + length))
}

fn sequence(payload: &[u8]) -> Option<i64> {
    const NAME: &[u8] = b"\"sequence\":";
    let at = payload.windows(NAME.len()).position(|bytes| bytes == NAME)? + NAME.len();
    let digits = payload[at..].iter().take_while(|byte| byte.is_ascii_digit());
    Some(digits.fold(0, |sum, digit| sum * 10 + i64::from(digit - b'0')))
}
