//! `mercato serve` as a process: how soon it answers, and what it holds when nothing happens.

use std::io::{Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use base64::Engine;
use base64::prelude::BASE64_STANDARD;

use crate::place::{self, Place};
use crate::report::Line;
use crate::scale::{Scale, median};

const READY_MS: f64 = 1000.0;
const MEMORY_MB: f64 = 100.0;
const PATIENCE: Duration = Duration::from_secs(30);

pub fn measure(scale: &Scale) -> Vec<Line> {
    let (mut fresh, mut existing, mut memory) = (Vec::new(), Vec::new(), 0.0);
    for start in 0..scale.starts {
        let place = Place::new();
        let first = Serve::start(&place);
        fresh.push(first.ready.as_secs_f64() * 1000.0);
        if start == 0 {
            std::thread::sleep(scale.idle);
            memory = first.resident_mb();
        }
        first.stop();
        let second = Serve::start(&place);
        existing.push(second.ready.as_secs_f64() * 1000.0);
        second.stop();
    }
    vec![
        Line::at_most("spawn to ready, new database", median(&fresh), READY_MS, "ms"),
        Line::at_most("spawn to ready, existing database", median(&existing), READY_MS, "ms"),
        Line::at_most("idle memory (VmRSS), empty database", memory, MEMORY_MB, "MB"),
    ]
}

/// A running process.
pub struct Serve {
    child: Child,
    pub address: SocketAddr,
    /// From the spawn to the ready file and a 200 on `/readyz`.
    ready: Duration,
}

impl Serve {
    pub fn start(place: &Place) -> Self {
        let ready_file = place.path().join("ready.json");
        let _ = std::fs::remove_file(&ready_file);
        let mut command = Command::new(env!("CARGO_BIN_EXE_mercato"));
        command.args([
            "serve",
            "--listen",
            "127.0.0.1:0",
            "--max-subscriptions-per-application",
            "100000",
            "--max-connections-per-address",
            "100000",
            "--max-connections",
            "100000",
            "--database",
            &place.url(),
            "--ready-file",
        ]);
        // The key of [`Place::store`].
        command.env_clear().env("MERCATO_SECRET_KEY", BASE64_STANDARD.encode(place::SECRET_KEY));
        // No settings of whoever runs this.
        command.arg(&ready_file).current_dir(place.path()).stderr(Stdio::null()).stdin(Stdio::null());
        let began = Instant::now();
        let child = command.spawn().expect("cargo built the program");
        let address = poll(began, || address(&ready_file));
        poll(began, || is_ready(address).then_some(()));
        Self { child, address, ready: began.elapsed() }
    }

    pub fn resident_mb(&self) -> f64 {
        let status = std::fs::read_to_string(format!("/proc/{}/status", self.child.id())).expect("the process runs");
        let kibibytes = status.lines().find_map(|line| line.strip_prefix("VmRSS:")?.trim().strip_suffix(" kB"));
        let kibibytes: f64 = kibibytes.and_then(|text| text.parse().ok()).expect("Linux tells VmRSS");
        kibibytes * 1024.0 / 1e6
    }

    /// SIGTERM, and exit 0.
    pub fn stop(mut self) {
        let told = Command::new("kill").args(["-TERM", &self.child.id().to_string()]).status();
        assert!(told.is_ok_and(|status| status.success()), "the process can be told to stop");
        let status = self.child.wait().expect("it is our child");
        assert!(status.success(), "serve ended with {status}");
    }
}

fn poll<T>(began: Instant, mut attempt: impl FnMut() -> Option<T>) -> T {
    loop {
        if let Some(found) = attempt() {
            return found;
        }
        assert!(began.elapsed() < PATIENCE, "serve did not get ready");
        std::thread::sleep(Duration::from_millis(2));
    }
}

fn address(ready_file: &Path) -> Option<SocketAddr> {
    let text = std::fs::read_to_string(ready_file).ok()?;
    let ready: serde_json::Value = serde_json::from_str(&text).expect("the ready file appears whole");
    ready["baseUrl"].as_str()?.strip_prefix("http://")?.parse().ok()
}

fn is_ready(address: SocketAddr) -> bool {
    let answer = || {
        let mut stream = TcpStream::connect(address).ok()?;
        stream.write_all(b"GET /readyz HTTP/1.1\r\nhost: bench\r\nconnection: close\r\n\r\n").ok()?;
        let mut text = String::new();
        stream.read_to_string(&mut text).ok()?;
        Some(text)
    };
    answer().is_some_and(|text| text.starts_with("HTTP/1.1 200 "))
}
