//! The first message of a connection, which has no type byte.

use crate::body::Body;

/// The longest first message that PostgreSQL accepts.
pub const MAX_STARTUP: usize = 10_000;

/// What a client wants of its new connection.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Startup {
    /// Encryption with TLS.
    Tls,
    /// Encryption with GSSAPI.
    Gss,
    /// The end of a statement of another connection.
    Cancel,
    /// A session, with its parameters: user, database, options.
    Session(Vec<(String, String)>),
    /// Something else.
    Other,
}

impl Startup {
    /// The first message and its length, once it is there.
    ///
    /// # Errors
    /// When this is no first message.
    pub fn read(bytes: &[u8]) -> Result<Option<(Self, usize)>, &'static str> {
        let mut body = Body(bytes);
        let Some(length) = body.i32() else { return Ok(None) };
        let length = usize::try_from(length).unwrap_or(0);
        if !(8..=MAX_STARTUP).contains(&length) {
            return Err("a connection that does not begin with a startup message");
        }
        let Some(message) = bytes.get(4..length) else { return Ok(None) };
        let mut body = Body(message);
        let startup = match body.u32() {
            Some(80_877_103) => Self::Tls,
            Some(80_877_104) => Self::Gss,
            Some(80_877_102) => Self::Cancel,
            Some(version) if version >> 16 == 3 => Self::Session(parameters(body).unwrap_or_default()),
            _ => Self::Other,
        };
        Ok(Some((startup, length)))
    }
}

fn parameters(mut body: Body<'_>) -> Option<Vec<(String, String)>> {
    let mut found = Vec::new();
    loop {
        let name = body.text()?;
        if name.is_empty() {
            return Some(found);
        }
        found.push((name, body.text()?));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn first_messages_are_told_apart() {
        let tls = [0, 0, 0, 8, 4, 210, 22, 47];
        assert_eq!(Startup::read(&tls), Ok(Some((Startup::Tls, 8))));
        assert_eq!(Startup::read(&tls[..7]), Ok(None));
        let session = b"\0\0\0\x13\0\x03\0\0user\0me\0\0\0\0";
        let parameters = vec![("user".to_owned(), "me".to_owned())];
        assert_eq!(Startup::read(session), Ok(Some((Startup::Session(parameters), 19))));
        assert!(Startup::read(b"GET / HTTP/1.1\r\n").is_err());
    }
}
