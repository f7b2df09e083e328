//! The load: keep-alive connections that write prepared requests, many at once ([`drive`]) or one after the other
//! ([`Client`]). It shares the processors with what it measures, so it does as little as it can: one thread, no HTTP
//! library, no allocation per request.

use std::net::SocketAddr;
use std::ops::Range;
use std::sync::Arc;
use std::time::{Duration, Instant};

use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;
use tokio::runtime::Runtime;

const CONNECTIONS: usize = 32;
/// The longest answer that a [`Client`] takes.
const LONGEST: usize = 1024 * 1024;

/// What a round of load found.
pub struct Load {
    pub per_second: f64,
    /// How much of one processor the generator itself took.
    pub own_share: f64,
}

/// Requests answered in a second, over all connections. Blocks its thread.
pub fn drive(address: SocketAddr, request: &str, time: Duration) -> Load {
    let runtime = runtime();
    let request: Arc<[u8]> = request.as_bytes().into();
    runtime.block_on(async {
        let mut streams = Vec::new();
        for _ in 0..CONNECTIONS {
            streams.push(connect(address).await);
        }
        let (began, own) = (Instant::now(), own_seconds());
        let until = began + time;
        let tasks: Vec<_> =
            streams.into_iter().map(|stream| tokio::spawn(ask_until(stream, Arc::clone(&request), until))).collect();
        let mut answered = 0;
        for task in tasks {
            answered += task.await.expect("every answer was a 200");
        }
        let took = began.elapsed().as_secs_f64();
        Load { per_second: f64::from(answered) / took, own_share: (own_seconds() - own) / took }
    })
}

/// One keep-alive connection, for requests one after the other. Blocks its thread.
pub struct Client {
    runtime: Runtime,
    stream: TcpStream,
    buffer: Vec<u8>,
}

impl Client {
    pub fn connect(address: SocketAddr) -> Self {
        let runtime = runtime();
        let stream = runtime.block_on(connect(address));
        Self { runtime, stream, buffer: vec![0; LONGEST] }
    }

    /// Sends a request, and waits for the last byte of the answer, whose body is returned.
    pub fn ask(&mut self, request: &str) -> &[u8] {
        let Self { runtime, stream, buffer } = self;
        let answer = runtime.block_on(async {
            stream.write_all(request.as_bytes()).await.expect("the connection stays open");
            read_answer(stream, buffer).await
        });
        &buffer[answer]
    }
}

fn runtime() -> Runtime {
    tokio::runtime::Builder::new_current_thread().enable_all().build().expect("a runtime can start")
}

async fn connect(address: SocketAddr) -> TcpStream {
    let stream = TcpStream::connect(address).await.expect("the server listens");
    stream.set_nodelay(true).expect("the option exists");
    stream
}

async fn ask_until(mut stream: TcpStream, request: Arc<[u8]>, until: Instant) -> u32 {
    let mut buffer = [0; 4096];
    let mut answered = 0;
    while Instant::now() < until {
        stream.write_all(&request).await.expect("the connection stays open");
        read_answer(&mut stream, &mut buffer).await;
        answered += 1;
    }
    answered
}

/// Reads one answer to its last byte, and says where in the buffer its body is.
async fn read_answer(stream: &mut TcpStream, buffer: &mut [u8]) -> Range<usize> {
    let mut filled = 0;
    loop {
        let count = stream.read(&mut buffer[filled..]).await.expect("the connection stays open");
        assert!(count > 0, "the connection ended, or the answer is too long: {}", String::from_utf8_lossy(buffer));
        filled += count;
        if let Some(body) = body(&buffer[..filled])
            && filled >= body.end
        {
            assert!(buffer.starts_with(b"HTTP/1.1 200 "), "{}", String::from_utf8_lossy(&buffer[..filled]));
            return body;
        }
    }
}

/// Where the body of an answer will be, once its head is there.
fn body(answer: &[u8]) -> Option<Range<usize>> {
    const NAME: &[u8] = b"\r\ncontent-length: ";
    let head = answer.windows(4).position(|four| four == b"\r\n\r\n")?;
    let at = answer[..head].windows(NAME.len()).position(|bytes| bytes == NAME).expect("answers have a length");
    let digits = answer[at + NAME.len()..].iter().take_while(|byte| byte.is_ascii_digit());
    let length = digits.fold(0, |sum, digit| sum * 10 + usize::from(digit - b'0'));
    Some(head + 4..head + 4 + length)
}

/// The processor time of this thread so far; zero where the kernel does not tell.
fn own_seconds() -> f64 {
    let text = std::fs::read_to_string("/proc/thread-self/schedstat").unwrap_or_default();
    let nanoseconds: Option<f64> = text.split(' ').next().and_then(|word| word.parse().ok());
    nanoseconds.unwrap_or(0.0) / 1e9
}
