//! A connection to a client or a server: over TCP or a socket in the file system, encrypted or not.
//!
//! # Algorithm
//! Two threads share a connection, one reads and one writes. rustls keeps the state of both
//! directions together, so that state is behind a lock, which nobody holds during input or output.
//! A second lock keeps encrypted records in the order in which they were made.
//!
//! # Invariants
//! - Whoever reads never writes. What the protocol wants to answer goes out with the next write.
//! - Nothing that came before encryption began is read as if it were encrypted.

use std::io::{self, Read, Write};
use std::net::{Shutdown, TcpStream};
use std::os::unix::net::UnixStream;
use std::sync::{Arc, Mutex, TryLockError};
use std::time::Duration;

use margay_drivers::{PostgresPlace, PostgresServer};
use rustls::pki_types::ServerName;
use rustls::{ClientConnection, Connection, ServerConfig, ServerConnection};

use crate::relay::lock;

/// What is encrypted or decrypted at once.
const BUFFER: usize = 16 << 10;

/// A client's wish for encryption, and the same of ours.
const SSL_REQUEST: [u8; 8] = [0, 0, 0, 8, 4, 210, 22, 47];

/// How long a connection that ends may take to say so.
const GOODBYE: Duration = Duration::from_secs(1);

#[derive(Debug)]
pub(crate) struct Socket {
    plain: Plain,
    tls: Option<Tls>,
}

#[derive(Debug)]
enum Plain {
    Tcp(TcpStream),
    Unix(UnixStream),
}

/// What encryption adds to one clone of a socket.
#[derive(Debug)]
struct Tls {
    shared: Arc<Shared>,
    /// Decrypted bytes, and how many of them have been read.
    decrypted: Vec<u8>,
    read: usize,
    encrypted: Vec<u8>,
    closed: bool,
}

#[derive(Debug)]
struct Shared {
    session: Mutex<Connection>,
    writing: Mutex<()>,
}

impl Socket {
    pub fn plain(stream: TcpStream) -> Self {
        let _ = stream.set_nodelay(true);
        Self { plain: Plain::Tcp(stream), tls: None }
    }

    /// Connects to a server as its address says.
    pub fn connect(server: &PostgresServer) -> io::Result<Self> {
        let mut plain = match &server.place {
            PostgresPlace::Tcp(host, port) => {
                let stream = TcpStream::connect((host.as_str(), *port))?;
                stream.set_nodelay(true)?;
                Plain::Tcp(stream)
            }
            PostgresPlace::Unix(path) => Plain::Unix(UnixStream::connect(path)?),
        };
        let Some(encryption) = &server.encryption else { return Ok(Self { plain, tls: None }) };
        if !encryption.direct {
            plain.write_all(&SSL_REQUEST)?;
            let mut answer = [0];
            plain.read_exact(&mut answer)?;
            match answer {
                [b'S'] => {}
                [b'N'] if !encryption.required => return Ok(Self { plain, tls: None }),
                _ => return Err(io::Error::other("the server has no encryption")),
            }
        }
        let name = ServerName::try_from(encryption.name.clone()).map_err(io::Error::other)?;
        let session = ClientConnection::new(Arc::clone(&encryption.config), name);
        Self::encrypted(plain, session.map_err(io::Error::other)?.into())
    }

    /// Encrypts a client's connection, on which nothing was read ahead.
    pub fn accept(self, config: &Arc<ServerConfig>) -> io::Result<Self> {
        let session = ServerConnection::new(Arc::clone(config)).map_err(io::Error::other)?;
        Self::encrypted(self.plain, session.into())
    }

    fn encrypted(mut plain: Plain, mut session: Connection) -> io::Result<Self> {
        session.complete_io(&mut plain)?;
        let shared = Arc::new(Shared { session: Mutex::new(session), writing: Mutex::new(()) });
        let mut tls = Tls::new(shared);
        // The first message may have come with the end of the handshake.
        tls.decrypt(0)?;
        Ok(Self { plain, tls: Some(tls) })
    }

    pub fn is_encrypted(&self) -> bool {
        self.tls.is_some()
    }

    /// The certificate that the other end showed.
    pub fn certificate(&self) -> Option<Vec<u8>> {
        let session = lock(&self.tls.as_ref()?.shared.session);
        session.peer_certificates()?.first().map(|certificate| certificate.to_vec())
    }

    /// The first byte that comes, which stays unread.
    pub fn peek(&self) -> io::Result<u8> {
        let mut first = [0];
        match &self.plain {
            Plain::Tcp(stream) => stream.peek(&mut first).map(|_| first[0]),
            Plain::Unix(_) => Ok(0),
        }
    }

    pub fn try_clone(&self) -> io::Result<Self> {
        let plain = match &self.plain {
            Plain::Tcp(stream) => Plain::Tcp(stream.try_clone()?),
            Plain::Unix(stream) => Plain::Unix(stream.try_clone()?),
        };
        Ok(Self { plain, tls: self.tls.as_ref().map(|tls| Tls::new(Arc::clone(&tls.shared))) })
    }

    pub fn shutdown(&self, how: Shutdown) {
        // A connection that has ended already needs no end.
        let _ = match &self.plain {
            Plain::Tcp(stream) => stream.shutdown(how),
            Plain::Unix(stream) => stream.shutdown(how),
        };
    }

    /// Ends an encrypted connection in order, so that clients do not take it for broken.
    pub fn say_goodbye(&mut self) {
        let Some(tls) = &self.tls else { return };
        let _turn = match tls.shared.writing.try_lock() {
            Ok(turn) => turn,
            Err(TryLockError::Poisoned(poisoned)) => poisoned.into_inner(),
            Err(TryLockError::WouldBlock) => return,
        };
        let bytes = {
            let mut session = lock(&tls.shared.session);
            session.send_close_notify();
            outgoing(&mut session)
        };
        if let (Ok(bytes), Plain::Tcp(stream)) = (bytes, &mut self.plain) {
            let _ = stream.set_write_timeout(Some(GOODBYE));
            let _ = stream.write_all(&bytes);
        }
    }
}

impl Tls {
    fn new(shared: Arc<Shared>) -> Self {
        Self { shared, decrypted: Vec::new(), read: 0, encrypted: Vec::new(), closed: false }
    }

    /// Decrypts so many bytes that were read, and what the handshake left.
    fn decrypt(&mut self, count: usize) -> io::Result<()> {
        let mut session = lock(&self.shared.session);
        let mut bytes = &self.encrypted[..count];
        loop {
            if !bytes.is_empty() {
                session.read_tls(&mut bytes)?;
            }
            let state = session.process_new_packets().map_err(io::Error::other)?;
            self.closed |= state.peer_has_closed();
            let start = self.decrypted.len();
            self.decrypted.resize(start + state.plaintext_bytes_to_read(), 0);
            session.reader().read_exact(&mut self.decrypted[start..])?;
            if bytes.is_empty() || self.closed {
                return Ok(());
            }
        }
    }

    /// Decrypted bytes that are there.
    fn take(&mut self, buffer: &mut [u8]) -> usize {
        let rest = &self.decrypted[self.read..];
        let count = rest.len().min(buffer.len());
        buffer[..count].copy_from_slice(&rest[..count]);
        self.read += count;
        if self.read == self.decrypted.len() {
            self.decrypted.clear();
            self.read = 0;
        }
        count
    }
}

fn outgoing(session: &mut Connection) -> io::Result<Vec<u8>> {
    let mut bytes = Vec::new();
    while session.wants_write() {
        session.write_tls(&mut bytes)?;
    }
    Ok(bytes)
}

impl Read for Socket {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let Some(tls) = &mut self.tls else { return self.plain.read(buffer) };
        loop {
            let count = tls.take(buffer);
            if count > 0 || tls.closed {
                return Ok(count);
            }
            tls.encrypted.resize(BUFFER, 0);
            let count = self.plain.read(&mut tls.encrypted)?;
            if count == 0 {
                return Ok(0);
            }
            tls.decrypt(count)?;
        }
    }
}

impl Write for Socket {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        let Some(tls) = &self.tls else { return self.plain.write(bytes) };
        let _turn = lock(&tls.shared.writing);
        let (taken, encrypted) = {
            let mut session = lock(&tls.shared.session);
            let taken = session.writer().write(&bytes[..bytes.len().min(BUFFER)])?;
            (taken, outgoing(&mut session)?)
        };
        self.plain.write_all(&encrypted)?;
        Ok(taken)
    }

    fn flush(&mut self) -> io::Result<()> {
        self.plain.flush()
    }
}

impl Read for Plain {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        match self {
            Plain::Tcp(stream) => stream.read(buffer),
            Plain::Unix(stream) => stream.read(buffer),
        }
    }
}

impl Write for Plain {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        match self {
            Plain::Tcp(stream) => stream.write(bytes),
            Plain::Unix(stream) => stream.write(bytes),
        }
    }

    fn flush(&mut self) -> io::Result<()> {
        match self {
            Plain::Tcp(stream) => stream.flush(),
            Plain::Unix(stream) => stream.flush(),
        }
    }
}
