//! The first packets of both sides.

use crate::body::Body;

use super::event::Connected;

/// Bits of the capabilities.
pub(crate) mod capability {
    pub const LONG_PASSWORD: u32 = 1;
    pub const FOUND_ROWS: u32 = 1 << 1;
    pub const WITH_DATABASE: u32 = 1 << 3;
    pub const COMPRESS: u32 = 1 << 5;
    pub const PROTOCOL_41: u32 = 1 << 9;
    pub const TLS: u32 = 1 << 11;
    pub const SECURE_CONNECTION: u32 = 1 << 15;
    pub const COUNTED_SECRET: u32 = 1 << 21;
    pub const NO_EOF: u32 = 1 << 24;
    pub const OPTIONAL_METADATA: u32 = 1 << 25;
    pub const ZSTD: u32 = 1 << 26;
    pub const QUERY_ATTRIBUTES: u32 = 1 << 27;
    pub const PROGRESS: u32 = 1 << 29;
    /// What is not read here.
    pub const MASKED: u32 = COMPRESS | TLS | OPTIONAL_METADATA | ZSTD | QUERY_ATTRIBUTES | PROGRESS;
}

/// Takes what is not read from the capabilities of the server's first packet. Says whether it is a
/// greeting; any other packet, such as an error, stays as it is.
pub fn mask_greeting(packet: &mut [u8]) -> bool {
    let Some(places) = places(packet.get(4..).unwrap_or_default()) else { return false };
    let [low, high, more] = places.map(|place| place + 4);
    let [lows, highs] = [capability::MASKED as u16, (capability::MASKED >> 16) as u16].map(u16::to_le_bytes);
    let is_mariadb = u32::from(packet[low]) & capability::LONG_PASSWORD == 0;
    for at in 0..2 {
        packet[low + at] &= !lows[at];
        packet[high + at] &= !highs[at];
    }
    if is_mariadb {
        packet[more..more + 4].fill(0);
    }
    true
}

/// Takes the same from the client's first packet, however it is split. Some clients (mysql2) name
/// all that they can, whatever was offered, and then do what both sides can. The wish for TLS
/// stays: it would be followed by TLS.
#[derive(Default, Debug)]
pub struct LoginMask {
    /// Bytes of the client that have passed.
    passed: usize,
    is_mariadb: bool,
}

impl LoginMask {
    /// Changes the next bytes of the client.
    pub fn mask(&mut self, bytes: &mut [u8]) {
        const CAPABILITIES: usize = 4;
        const EXTENDED: usize = CAPABILITIES + 4 + 4 + 1 + 19;
        let masked = (capability::MASKED & !capability::TLS).to_le_bytes();
        for byte in bytes {
            match self.passed {
                place @ CAPABILITIES..8 => {
                    if place == CAPABILITIES {
                        self.is_mariadb = u32::from(*byte) & capability::LONG_PASSWORD == 0;
                    }
                    *byte &= !masked[place - CAPABILITIES];
                }
                EXTENDED..36 if self.is_mariadb => *byte = 0,
                36.. => return,
                _ => {}
            }
            self.passed += 1;
        }
    }
}

/// Where the halves of the capabilities are, and MariaDB's own.
fn places(body: &[u8]) -> Option<[usize; 3]> {
    let mut reader = Body(body);
    if reader.u8()? != 10 {
        return None;
    }
    reader.string()?;
    reader.bytes(4 + 8 + 1)?;
    let low = body.len() - reader.0.len();
    // The low half, a character set, a status, the high half, a length, six bytes of nothing,
    // MariaDB's.
    reader.bytes(2 + 1 + 2 + 2 + 1 + 6 + 4)?;
    Some([low, low + 5, low + 14])
}

/// What the server's first packet says: its capabilities, and the number of the connection.
pub(crate) fn greeting(body: &[u8]) -> Option<(u32, u32)> {
    let [low, high, _] = places(body)?;
    let [low, high] = [low, high].map(|place| u16::from_le_bytes([body[place], body[place + 1]]));
    let mut reader = Body(body.get(1..)?);
    reader.string()?;
    Some((u32::from(low) | u32::from(high) << 16, reader.le32()?))
}

/// The client's first packet: its capabilities, and what it says about its session. The name of the
/// user and the secret are skipped.
///
/// # Errors
/// Why the session cannot be read.
pub(crate) fn login(body: &[u8]) -> Result<(u32, Connected), &'static str> {
    const SHORT: &str = "a login that is too short";
    let mut reader = Body(body);
    let capabilities = reader.le32().ok_or(SHORT)?;
    if capabilities & capability::PROTOCOL_41 == 0 {
        return Err("a protocol from before MySQL 4.1");
    }
    if capabilities & capability::MASKED != 0 {
        return Err("a client that uses what the proxy did not offer (compression, TLS or query attributes)");
    }
    let (_, character_set) = reader.le32().zip(reader.u8()).ok_or(SHORT)?;
    reader.bytes(19).ok_or(SHORT)?;
    if reader.le32().ok_or(SHORT)? != 0 && capabilities & capability::LONG_PASSWORD == 0 {
        return Err("a client that uses what the proxy did not offer (MariaDB's capabilities)");
    }
    reader.string().ok_or(SHORT)?;
    let secret = match capabilities {
        _ if capabilities & capability::COUNTED_SECRET != 0 => reader.counted(),
        _ if capabilities & capability::SECURE_CONNECTION != 0 => {
            reader.u8().and_then(|length| reader.bytes(length.into()))
        }
        _ => reader.string(),
    };
    secret.ok_or(SHORT)?;
    let named = capabilities & capability::WITH_DATABASE != 0;
    let database = if named { Some(text(reader.string().ok_or(SHORT)?)?) } else { None };
    let connected = Connected {
        database: database.filter(|name| !name.is_empty()),
        unicode: is_unicode(character_set.into()),
        counts_found: capabilities & capability::FOUND_ROWS != 0,
        ..Connected::default()
    };
    Ok((capabilities, connected))
}

/// COM_CHANGE_USER: the database and the character set of the session that it makes.
pub(crate) fn change_user(body: &[u8], capabilities: u32) -> Option<(Option<String>, bool)> {
    let mut reader = Body(body);
    reader.string()?;
    match capabilities & capability::SECURE_CONNECTION {
        0 => drop(reader.string()?),
        _ => {
            let length = reader.u8()?;
            reader.bytes(length.into())?;
        }
    }
    let database = text(reader.string()?).ok()?;
    let unicode = reader.le16().is_some_and(is_unicode);
    Some((Some(database).filter(|name| !name.is_empty()), unicode))
}

fn text(bytes: &[u8]) -> Result<String, &'static str> {
    String::from_utf8(bytes.to_vec()).map_err(|_| "a name that is not UTF-8")
}

/// Whether a collation is one of UTF-8, or of ASCII, which is part of it. MariaDB adds 1024 for
/// those that do not pad.
pub(crate) fn is_unicode(collation: u16) -> bool {
    matches!(collation & !1024, 11 | 65 | 33 | 45 | 46 | 76 | 83 | 192..=215 | 223..=247 | 255..=323 | 576..=578 | 608..=610)
        || (2048..2560).contains(&collation)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A server's first packet as MariaDB 10.11 sends it, with all capabilities.
    fn greeting_of(low: u8) -> Vec<u8> {
        let mut body = b"\x0a5.5.5-10.11.14-MariaDB\0\x07\0\0\0abcdefgh\0".to_vec();
        body.extend_from_slice(&[low, 0xff, 45, 2, 0, 0xff, 0xff, 21, 0, 0, 0, 0, 0, 0, 0x1f, 0, 0, 0]);
        body.extend_from_slice(b"ijklmnopqrst\0mysql_native_password\0");
        let mut packet = vec![body.len() as u8, 0, 0, 0];
        packet.extend_from_slice(&body);
        packet
    }

    #[test]
    fn what_is_not_read_is_masked_and_nothing_else() {
        for (low, extended) in [(0xfe, 0), (0xff, 0x1f)] {
            let (before, mut packet) = (greeting_of(low), greeting_of(low));
            assert!(mask_greeting(&mut packet));
            let (capabilities, thread) = greeting(&packet[4..]).expect("a greeting");
            assert_eq!(capabilities & capability::MASKED, 0);
            assert_eq!(capabilities | capability::MASKED, 0xffff_ff00 | u32::from(low));
            assert_eq!(thread, 7);
            let places = places(&before[4..]).expect("a greeting");
            assert_eq!(packet[places[2] + 4], extended, "MySQL has something else there");
            let differ: Vec<usize> = (0..before.len()).filter(|&at| before[at] != packet[at]).collect();
            let within = |at: &usize| {
                let at = at - 4;
                (places[0]..places[0] + 2).contains(&at)
                    || (places[1]..places[1] + 2).contains(&at)
                    || at == places[2]
            };
            assert!(differ.iter().all(within), "{differ:?}");
        }
    }

    #[test]
    fn an_error_is_no_greeting() {
        let mut packet = b"\x05\0\0\0\xff\x10\x04no".to_vec();
        assert!(!mask_greeting(&mut packet) && !mask_greeting(&mut []));
        assert_eq!(packet, b"\x05\0\0\0\xff\x10\x04no");
    }

    #[test]
    fn of_a_login_the_same_is_masked_however_it_comes() {
        for (flags, extended) in [(0xffff_fffe_u32, 0), (0xffff_ffff, 7)] {
            let mut packet = vec![40, 0, 0, 1];
            packet.extend_from_slice(&login_of(flags, b"me\0\0x"));
            packet[32] = 7;
            let expected = {
                let mut whole = packet.clone();
                LoginMask::default().mask(&mut whole);
                whole
            };
            let capabilities = u32::from_le_bytes([expected[4], expected[5], expected[6], expected[7]]);
            assert_eq!(capabilities, flags & !(capability::MASKED & !capability::TLS));
            assert_eq!((expected[32], &expected[36..]), (extended, &packet[36..]));
            let (mut mask, mut single) = (LoginMask::default(), packet.clone());
            single.iter_mut().for_each(|byte| mask.mask(std::slice::from_mut(byte)));
            assert_eq!(single, expected);
        }
    }

    fn login_of(capabilities: u32, rest: &[u8]) -> Vec<u8> {
        let mut body = capabilities.to_le_bytes().to_vec();
        body.extend_from_slice(&[0, 0, 0, 1, 45]);
        body.extend_from_slice(&[0; 23]);
        body.extend_from_slice(rest);
        body
    }

    #[test]
    fn of_a_login_the_database_is_read() {
        use capability::{COMPRESS, COUNTED_SECRET, PROTOCOL_41, SECURE_CONNECTION, WITH_DATABASE};
        for (capabilities, rest) in [
            (COUNTED_SECRET, &b"me\0\x03abcshop\0plugin\0"[..]),
            (SECURE_CONNECTION, b"me\0\x03abcshop\0"),
            (0, b"me\0abc\0shop\0"),
        ] {
            let body = login_of(capabilities | PROTOCOL_41 | WITH_DATABASE, rest);
            let (_, connected) = login(&body).expect("a login");
            assert_eq!((connected.database.as_deref(), connected.unicode), (Some("shop"), true));
        }
        assert!(login(&login_of(PROTOCOL_41 | COMPRESS, b"me\0\0")).is_err());
        assert!(login(&login_of(0, b"me\0\0")).is_err());
        assert!(login(b"").is_err());
    }
}
