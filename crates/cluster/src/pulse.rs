//! Pulses: who is silent for too long is lost.
//!
//! # Algorithm
//! Each pair of processes has a connection of its own, on which each says ten times a second
//! that it is there. Whoever says nothing for too long, or whose connection ends before it has said
//! that it is done, is lost; then this process ends, with a status of its own, and its parent sees
//! to the rest.

use std::io::{ErrorKind, Read, Write};
use std::net::TcpStream;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

use crate::supervise::LOST;

const ALIVE: u8 = b'.';
const DONE: u8 = b'!';

/// How often it is said.
const BEAT: Duration = Duration::from_millis(100);

/// The pulses of the others.
#[derive(Debug)]
pub(crate) struct Pulses {
    done: Arc<AtomicBool>,
    all: Vec<JoinHandle<()>>,
}

impl Pulses {
    /// Listens to processes, by their names; each may be silent for so long.
    pub fn start(all: Vec<(String, TcpStream)>, patience: Duration) -> Self {
        let done = Arc::new(AtomicBool::new(false));
        let listen = |(name, stream): (String, TcpStream)| {
            let done = Arc::clone(&done);
            thread::spawn(move || {
                if let Err(why) = watch(stream, patience, &done) {
                    eprintln!("margay: {name} {why}");
                    std::process::exit(LOST);
                }
            })
        };
        let all = all.into_iter().map(listen).collect();
        Self { done, all }
    }

    /// This process is done; it waits until the others are.
    pub fn finish(self) {
        self.done.store(true, Ordering::SeqCst);
        self.all.into_iter().for_each(|one| _ = one.join());
    }
}

/// Watches one process until both are done.
fn watch(mut stream: TcpStream, patience: Duration, done: &AtomicBool) -> Result<(), String> {
    let (mut heard, mut told, mut other) = (Instant::now(), false, false);
    let failed = |error: std::io::Error| format!("is lost: {error}");
    stream.set_read_timeout(Some(BEAT)).map_err(failed)?;
    let mut buffer = [0; 64];
    loop {
        let mine = done.load(Ordering::SeqCst);
        if !told {
            told = mine;
            stream.write_all(&[if mine { DONE } else { ALIVE }]).map_err(failed)?;
        }
        if told && other {
            return Ok(());
        }
        match stream.read(&mut buffer) {
            Ok(0) => return Err("has ended before its work was done".to_owned()),
            Ok(count) => {
                heard = Instant::now();
                other |= buffer[..count].contains(&DONE);
            }
            Err(error) if matches!(error.kind(), ErrorKind::WouldBlock | ErrorKind::TimedOut) => {}
            Err(error) => return Err(failed(error)),
        }
        if !other && heard.elapsed() > patience {
            return Err(format!("has been silent for {} s", heard.elapsed().as_secs()));
        }
        // Its answer to this pulse comes at once, and need not be answered at once.
        thread::sleep(BEAT / 4);
    }
}
