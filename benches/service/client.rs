//! The load: keep-alive connections that write one prepared request again and again. It shares the processors with what
//! it measures, so it does as little as it can: one thread, no HTTP library, no allocation per request.

use std::net::SocketAddr;
use std::sync::Arc;
use std::time::{Duration, Instant};

use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;

const CONNECTIONS: usize = 32;

/// What a round of load found.
pub struct Load {
    pub per_second: f64,
    /// How much of one processor the generator itself took.
    pub own_share: f64,
}

/// Requests answered in a second, over all connections. Blocks its thread.
pub fn drive(address: SocketAddr, request: &str, time: Duration) -> Load {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().expect("a runtime can start");
    let request: Arc<[u8]> = request.as_bytes().into();
    runtime.block_on(async {
        let mut streams = Vec::new();
        for _ in 0..CONNECTIONS {
            let stream = TcpStream::connect(address).await.expect("the server listens");
            stream.set_nodelay(true).expect("the option exists");
            streams.push(stream);
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

/// Reads one answer to its last byte.
async fn read_answer(stream: &mut TcpStream, buffer: &mut [u8]) {
    let mut filled = 0;
    loop {
        let count = stream.read(&mut buffer[filled..]).await.expect("the connection stays open");
        assert!(count > 0, "the connection ended, or the answer is too long: {}", String::from_utf8_lossy(buffer));
        filled += count;
        if let Some(whole) = length(&buffer[..filled])
            && filled >= whole
        {
            assert!(buffer.starts_with(b"HTTP/1.1 200 "), "{}", String::from_utf8_lossy(&buffer[..filled]));
            return;
        }
    }
}

/// The length of the whole answer, once its head is there.
fn length(answer: &[u8]) -> Option<usize> {
    const NAME: &[u8] = b"\r\ncontent-length: ";
    let head = answer.windows(4).position(|four| four == b"\r\n\r\n")?;
    let at = answer[..head].windows(NAME.len()).position(|bytes| bytes == NAME).expect("answers have a length");
    let digits = answer[at + NAME.len()..].iter().take_while(|byte| byte.is_ascii_digit());
    Some(head + 4 + digits.fold(0, |sum, digit| sum * 10 + usize::from(digit - b'0')))
}

/// The processor time of this thread so far; zero where the kernel does not tell.
fn own_seconds() -> f64 {
    let text = std::fs::read_to_string("/proc/thread-self/schedstat").unwrap_or_default();
    let nanoseconds: Option<f64> = text.split(' ').next().and_then(|word| word.parse().ok());
    nanoseconds.unwrap_or(0.0) / 1e9
}
