//! Encryption of connections to servers: what an address asks for, and whom a client believes.
//!
//! # Invariants
//! - Who asks for encryption never gets a connection without: only `prefer` does, and only from a
//!   server that has none.
//! - Who asks for a certificate to be verified never gets one that was not. An authority that
//!   nobody would ask is refused.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use percent_encoding::percent_decode_str;
use rustls::client::WebPkiServerVerifier;
use rustls::client::danger::{HandshakeSignatureValid, ServerCertVerified, ServerCertVerifier};
use rustls::crypto::{CryptoProvider, ring};
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer, ServerName, UnixTime};
use rustls::{
    CertificateError, ClientConfig, DigitallySignedStruct, Error, RootCertStore, ServerConfig,
    SignatureScheme,
};

/// How a connection is secured.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub(crate) enum Security {
    /// Not at all.
    Disable,
    /// Encrypted, if the server has encryption.
    Prefer,
    /// Encrypted.
    Require,
    /// And the server's certificate is from an authority that we believe.
    VerifyCa,
    /// And is the certificate of the server's name.
    VerifyFull,
}

impl Security {
    const ALL: [Security; 5] =
        [Security::Disable, Security::Prefer, Security::Require, Security::VerifyCa, Security::VerifyFull];
}

/// How a kind of database calls all that in its addresses.
pub(crate) struct Words {
    /// The option that says how a connection is secured, and the one with the file of authorities.
    pub options: [&'static str; 2],
    /// The values of the first, in the order of [`Security::ALL`].
    pub values: [&'static str; 5],
}

/// What an address asks for.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) struct Wanted {
    pub security: Security,
    /// The file of the authorities that we believe; those that everybody believes, if none is said.
    pub authorities: Option<PathBuf>,
}

impl Wanted {
    /// Takes what an address says of encryption out of it. What it does not say the defaults say.
    pub fn take(url: &str, words: &Words, defaults: [Option<String>; 2]) -> Result<(Wanted, String), String> {
        let (rest, [security, authorities]) = take(url, words.options)?;
        let [default_security, default_authorities] = defaults;
        let (security, authorities) = (security.or(default_security), authorities.or(default_authorities));
        let [name, file] = words.options;
        let security = match security {
            None => Security::Prefer,
            Some(text) => {
                let at = words.values.iter().position(|value| value.eq_ignore_ascii_case(&text));
                let values = words.values.join(", ");
                at.map(|at| Security::ALL[at]).ok_or(format!("`{text}` is no {name}; there are {values}"))?
            }
        };
        if authorities.is_some() && matches!(security, Security::Disable | Security::Prefer) {
            return Err(format!("nothing would be verified with {file}; say {name}={} too", words.values[4]));
        }
        Ok((Wanted { security, authorities: authorities.map(PathBuf::from) }, rest))
    }
}

/// An address without the options of these names, and their values.
fn take<const N: usize>(url: &str, names: [&str; N]) -> Result<(String, [Option<String>; N]), String> {
    let mut values = [const { None }; N];
    let Some((address, options)) = url.split_once('?') else { return Ok((url.to_owned(), values)) };
    // Is that a password with a question mark, or an option with an at sign? Clients do not agree.
    if options.contains('@') && !address.contains('@') {
        return Err("a `?` in a password is written as %3F, and an `@` in an option as %40".to_owned());
    }
    let mut others = Vec::new();
    for option in options.split('&') {
        let (name, value) = option.split_once('=').unwrap_or((option, ""));
        match names.iter().position(|known| *known == name) {
            None => others.push(option),
            Some(at) => {
                let text = percent_decode_str(value).decode_utf8();
                values[at] = Some(text.map_err(|_| format!("{name} is no text"))?.into_owned());
            }
        }
    }
    let separator = if others.is_empty() { "" } else { "?" };
    Ok((format!("{address}{separator}{}", others.join("&")), values))
}

/// What does the arithmetic. It is chosen here, so that it does not depend on what else is in the
/// program.
pub(crate) fn provider() -> Arc<CryptoProvider> {
    // Somebody may have been faster, with the same.
    let _ = ring::default_provider().install_default();
    Arc::new(ring::default_provider())
}

/// How clients shake hands with a server.
pub(crate) fn handshake(wanted: &Wanted) -> Result<ClientConfig, String> {
    let (provider, shown) = (provider(), |error: Error| error.to_string());
    let builder = ClientConfig::builder_with_provider(Arc::clone(&provider));
    let builder = builder.with_safe_default_protocol_versions().map_err(shown)?.dangerous();
    let verifier = Arc::new(Believer::new(wanted, provider)?);
    Ok(builder.with_custom_certificate_verifier(verifier).with_no_client_auth())
}

/// The certificate that a relay shows to its clients.
#[derive(Clone, Debug)]
pub struct ShownCertificate {
    /// How clients are answered.
    pub config: Arc<ServerConfig>,
    /// The certificate itself, as it is sent.
    pub bytes: Vec<u8>,
}

impl ShownCertificate {
    /// Reads a certificate, with those between it and its authority, and its key, both as PEM.
    ///
    /// # Errors
    /// When they cannot be read, or do not fit.
    pub fn read(certificate: &Path, key: &Path, protocol: &[u8]) -> Result<Self, String> {
        let at = |file: &Path, error: String| format!("{}: {error}", file.display());
        let chain: Result<Vec<_>, _> = CertificateDer::pem_file_iter(certificate).and_then(Iterator::collect);
        let chain = chain.map_err(|error| at(certificate, error.to_string()))?;
        let first =
            chain.first().ok_or_else(|| at(certificate, "there is no certificate in it".to_owned()))?;
        let bytes = first.to_vec();
        let secret = PrivateKeyDer::from_pem_file(key).map_err(|error| at(key, error.to_string()))?;
        let builder = ServerConfig::builder_with_provider(provider());
        let builder = builder.with_safe_default_protocol_versions().map_err(|error| error.to_string())?;
        let config = builder.with_no_client_auth().with_single_cert(chain, secret);
        let mut config = config.map_err(|error| at(key, error.to_string()))?;
        config.alpn_protocols = vec![protocol.to_vec()];
        Ok(Self { config: Arc::new(config), bytes })
    }
}

/// Verifies as much of a certificate as was asked for.
#[derive(Debug)]
struct Believer {
    /// Nobody asked for a certificate to be verified if there is none.
    verifier: Option<Arc<WebPkiServerVerifier>>,
    names_count: bool,
    provider: Arc<CryptoProvider>,
}

impl Believer {
    fn new(wanted: &Wanted, provider: Arc<CryptoProvider>) -> Result<Self, String> {
        // As libpq does: who names an authority wants it to be asked.
        let verifies = wanted.security >= Security::VerifyCa || wanted.authorities.is_some();
        let verifier = || {
            let roots = Arc::new(roots(wanted.authorities.as_deref())?);
            let builder = WebPkiServerVerifier::builder_with_provider(roots, Arc::clone(&provider));
            builder.build().map_err(|error| error.to_string())
        };
        let verifier = verifies.then(verifier).transpose()?;
        Ok(Self { verifier, names_count: wanted.security == Security::VerifyFull, provider })
    }
}

/// Those whom we believe.
fn roots(file: Option<&Path>) -> Result<RootCertStore, String> {
    let Some(file) = file.filter(|file| *file != Path::new("system")) else {
        return Ok(RootCertStore { roots: webpki_roots::TLS_SERVER_ROOTS.to_vec() });
    };
    let at = |error: String| format!("{}: {error}", file.display());
    let mut roots = RootCertStore::empty();
    for certificate in CertificateDer::pem_file_iter(file).map_err(|error| at(error.to_string()))? {
        let certificate = certificate.map_err(|error| at(error.to_string()))?;
        roots.add(certificate).map_err(|error| at(error.to_string()))?;
    }
    if roots.is_empty() { Err(at("there is no certificate in it".to_owned())) } else { Ok(roots) }
}

impl ServerCertVerifier for Believer {
    fn verify_server_cert(
        &self,
        certificate: &CertificateDer<'_>,
        between: &[CertificateDer<'_>],
        name: &ServerName<'_>,
        ocsp: &[u8],
        now: UnixTime,
    ) -> Result<ServerCertVerified, Error> {
        let Some(verifier) = &self.verifier else { return Ok(ServerCertVerified::assertion()) };
        match verifier.verify_server_cert(certificate, between, name, ocsp, now) {
            // The name is the last thing that is looked at.
            Err(Error::InvalidCertificate(
                CertificateError::NotValidForName | CertificateError::NotValidForNameContext { .. },
            )) if !self.names_count => Ok(ServerCertVerified::assertion()),
            verified => verified,
        }
    }

    fn verify_tls12_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signature: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        match &self.verifier {
            Some(verifier) => verifier.verify_tls12_signature(message, certificate, signature),
            None => Ok(HandshakeSignatureValid::assertion()),
        }
    }

    fn verify_tls13_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signature: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        match &self.verifier {
            Some(verifier) => verifier.verify_tls13_signature(message, certificate, signature),
            None => Ok(HandshakeSignatureValid::assertion()),
        }
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        self.provider.signature_verification_algorithms.supported_schemes()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const WORDS: Words = Words {
        options: ["mode", "file"],
        values: ["disable", "prefer", "require", "verify-ca", "verify-full"],
    };

    #[test]
    fn options_are_taken_out_of_an_address() {
        let taken = |url: &str| Wanted::take(url, &WORDS, [None, None]).expect("an address");
        let (wanted, rest) = taken("pg://u@h/d");
        assert_eq!((wanted.security, rest.as_str()), (Security::Prefer, "pg://u@h/d"));
        let (wanted, rest) = taken("pg://u@h/d?a=1&mode=Verify-Full&file=a%20b.pem&c=2");
        assert_eq!((wanted.security, rest.as_str()), (Security::VerifyFull, "pg://u@h/d?a=1&c=2"));
        assert_eq!(wanted.authorities, Some(PathBuf::from("a b.pem")));
        let (wanted, rest) = taken("pg://h?mode=disable");
        assert_eq!((wanted.security, rest.as_str()), (Security::Disable, "pg://h"));
    }

    #[test]
    fn what_would_be_less_than_was_asked_for_is_refused() {
        for (url, part) in [
            ("pg://h?mode=allow", "`allow` is no mode; there are disable"),
            ("pg://u:pass?word@h/d?mode=require", "written as %3F"),
            ("pg://h/d?mode=require&name=a@b", "written as %3F"),
            ("pg://h?file=x", "say mode=verify-full too"),
            ("pg://h?mode=disable&file=x", "nothing would be verified"),
        ] {
            let why = Wanted::take(url, &WORDS, [None, None]).expect_err("it is refused");
            assert!(why.contains(part), "{url}: {why}");
        }
        for file in ["no/such/file", concat!(env!("CARGO_MANIFEST_DIR"), "/Cargo.toml")] {
            let (security, authorities) = (Security::Require, Some(PathBuf::from(file)));
            let why = handshake(&Wanted { security, authorities }).expect_err("no authority");
            assert!(why.contains(file), "{why}");
        }
    }
}
