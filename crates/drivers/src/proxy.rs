//! A relay between clients and a server, which can cut connections at any moment: in the middle of a statement, or while a commit is on its way.

use std::io;
use std::net::{Shutdown, TcpListener, TcpStream};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread;

/// Both ends of a connection.
type Pair = (TcpStream, TcpStream);

pub(crate) struct Proxy {
    /// Where clients connect.
    pub port: u16,
    open: Arc<Mutex<Vec<Pair>>>,
    over: Arc<AtomicBool>,
}

impl Proxy {
    /// A relay to the server on this port of the same machine.
    pub fn to(server: u16) -> io::Result<Self> {
        let listener = TcpListener::bind(("127.0.0.1", 0))?;
        let port = listener.local_addr()?.port();
        let (open, over) = (Arc::<Mutex<Vec<Pair>>>::default(), Arc::<AtomicBool>::default());
        let (connections, ended) = (Arc::clone(&open), Arc::clone(&over));
        thread::spawn(move || {
            for client in listener.incoming().flatten() {
                if ended.load(Ordering::Relaxed) {
                    return;
                }
                // A server that is down takes no connection; dropping the client's tells it so.
                if let Ok(pair) = relay(client, server) {
                    connections.lock().unwrap_or_else(PoisonError::into_inner).push(pair);
                }
            }
        });
        Ok(Self { port, open, over })
    }

    /// Cuts the connection that has been open longest.
    pub fn cut(&self) {
        let mut open = self.open.lock().unwrap_or_else(PoisonError::into_inner);
        // Those that have ended by themselves are not there any more.
        open.retain(|(client, _)| client.take_error().is_ok() && client.peer_addr().is_ok());
        if !open.is_empty() {
            end(&open.remove(0));
        }
    }
}

impl Drop for Proxy {
    fn drop(&mut self) {
        self.over.store(true, Ordering::Relaxed);
        self.open.lock().unwrap_or_else(PoisonError::into_inner).iter().for_each(end);
        // The relay waits for a connection; this is its last.
        let _ = TcpStream::connect(("127.0.0.1", self.port));
    }
}

fn end((client, server): &Pair) {
    let _ = client.shutdown(Shutdown::Both);
    let _ = server.shutdown(Shutdown::Both);
}

fn relay(client: TcpStream, server: u16) -> io::Result<Pair> {
    let server = TcpStream::connect(("127.0.0.1", server))?;
    client.set_nodelay(true)?;
    server.set_nodelay(true)?;
    for (from, to) in [(&client, &server), (&server, &client)] {
        let (mut from, mut to) = (from.try_clone()?, to.try_clone()?);
        thread::spawn(move || {
            let _ = io::copy(&mut from, &mut to);
            end(&(from, to));
        });
    }
    Ok((client, server))
}

#[cfg(test)]
mod tests {
    use std::io::{Read, Write};

    use super::*;

    #[test]
    fn what_is_relayed_arrives_until_it_is_cut() {
        let listener = TcpListener::bind(("127.0.0.1", 0)).expect("a port");
        let proxy = Proxy::to(listener.local_addr().expect("its address").port()).expect("a relay");
        let mut client = TcpStream::connect(("127.0.0.1", proxy.port)).expect("the relay listens");
        let (mut server, _) = listener.accept().expect("the relay connects");
        client.write_all(b"ping").expect("it is open");
        let mut bytes = [0; 4];
        server.read_exact(&mut bytes).expect("it arrives");
        assert_eq!(&bytes, b"ping");
        while proxy.open.lock().expect("no panic").is_empty() {
            thread::yield_now();
        }
        proxy.cut();
        assert_eq!(client.read(&mut bytes).unwrap_or(0), 0, "the client sees the end");
        assert_eq!(server.read(&mut bytes).unwrap_or(0), 0, "the server sees the end");
    }
}
