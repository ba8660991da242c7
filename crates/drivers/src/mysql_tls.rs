//! Addresses of MySQL and MariaDB servers, with the words of MySQL's clients for encryption.

use std::borrow::Cow;

use mysql::{Conn, DriverError, Error, Opts, OptsBuilder, SslOpts};

use crate::defaults::{Environment, MysqlDefaults};
use crate::tls::{Security, Wanted, Words, provider};

const WORDS: Words = Words {
    options: ["ssl-mode", "ssl-ca"],
    values: ["DISABLED", "PREFERRED", "REQUIRED", "VERIFY_CA", "VERIFY_IDENTITY"],
};

/// How connections are made to the server at an address with the options `ssl-mode` and `ssl-ca` of
/// MySQL's clients. What it leaves out, their option file says. A server whose encryption is only
/// preferred is asked whether it has any.
///
/// # Errors
/// When it is no address, or asks for what cannot be had.
pub fn mysql_options(url: &str) -> Result<Opts, String> {
    let defaults = MysqlDefaults::new(&Environment::own());
    let default = |key| defaults.get(key).map(str::to_owned);
    let url = url.replacen("mariadb://", "mysql://", 1);
    let (wanted, url) = Wanted::take(&url, &WORDS, WORDS.options.map(default))?;
    let options = Opts::from_url(&defaults.complete(&url)).map_err(|error| error.to_string())?;
    let mut builder = OptsBuilder::from_opts(options.clone());
    if options.get_user().is_none() {
        builder = builder.user(default("user"));
    }
    if options.get_pass().is_none() {
        builder = builder.pass(default("password"));
    }
    if options.get_db_name().is_none() {
        builder = builder.db_name(default("database"));
    }
    if let Some(socket) = defaults.socket(&url).filter(|_| options.get_socket().is_none()) {
        builder = builder.socket(Some(socket));
    }
    let options = Opts::from(builder);
    if options.get_ssl_opts().is_some() {
        return Err("encryption is asked for with ssl-mode and ssl-ca".to_owned());
    }
    let in_file = options.get_socket().is_some();
    let plain = OptsBuilder::from_opts(options).prefer_socket(false);
    let encrypted = Opts::from(plain.clone().ssl_opts(Some(ssl(&wanted)?)));
    match wanted.security {
        Security::Disable => Ok(plain.into()),
        Security::Prefer if in_file || !is_offered(&encrypted)? => Ok(plain.into()),
        _ if in_file => Err("connections over a socket file are not encrypted".to_owned()),
        _ => Ok(encrypted),
    }
}

/// Whether the server has encryption.
fn is_offered(encrypted: &Opts) -> Result<bool, String> {
    match Conn::new(encrypted.clone()) {
        Err(Error::DriverError(DriverError::TlsNotSupported)) => Ok(false),
        other => other.map(|_| true).map_err(shown),
    }
}

/// The client library believes well-known authorities beside those of the file. Names must count
/// then: anybody can have a certificate of some name.
fn ssl(wanted: &Wanted) -> Result<SslOpts, String> {
    provider();
    let verifies = wanted.security == Security::VerifyFull;
    match &wanted.authorities {
        _ if wanted.security == Security::VerifyCa => Err(
            "VERIFY_CA cannot be had, because well-known authorities are believed as well, and anybody has a certificate of theirs; VERIFY_IDENTITY looks at the server's name too".to_owned(),
        ),
        Some(_) if !verifies => Err("ssl-ca is only asked with ssl-mode=VERIFY_IDENTITY".to_owned()),
        Some(file) if !file.is_file() => Err(format!("{}: there is no such file", file.display())),
        authorities => {
            let file = authorities.clone().map(Cow::Owned);
            Ok(SslOpts::default().with_root_cert_path(file).with_danger_accept_invalid_certs(!verifies))
        }
    }
}

/// The server's own words, where there are some.
pub(crate) fn shown(error: Error) -> String {
    match error {
        Error::MySqlError(error) => format!("{} ({})", error.message, error.code),
        Error::DriverError(DriverError::TlsNotSupported) => "server does not support TLS".to_owned(),
        other => other.to_string(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_cannot_be_had_is_refused() {
        for (options, part) in [
            ("ssl-mode=VERIFY_CA&ssl-ca=x", "VERIFY_CA cannot be had"),
            ("ssl-mode=REQUIRED&ssl-ca=x", "VERIFY_IDENTITY"),
            ("ssl-ca=x", "nothing would be verified"),
            ("ssl-mode=VERIFY_IDENTITY&ssl-ca=no/such/file", "no/such/file"),
            ("ssl-mode=on", "DISABLED, PREFERRED"),
            ("ssl-mode=REQUIRED&socket=x", "socket file"),
            ("danger_accept_invalid_certs=true", "with ssl-mode"),
        ] {
            let why =
                mysql_options(&format!("mysql://u@127.0.0.1:1/d?{options}")).expect_err("it is refused");
            assert!(why.contains(part), "{options}: {why}");
        }
    }
}
