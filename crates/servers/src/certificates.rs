//! Certificates of our own, made with the program `openssl`.

use std::fs;
use std::path::PathBuf;
use std::process::{Command, Stdio};

use crate::folder_of;
use crate::home::private;

/// What `openssl` reads. The name that a certificate is for comes in the end.
const CONFIGURATION: &str = "[req]\ndistinguished_name = name\nprompt = no\n[name]\nCN = margay\n\
    [authority]\nbasicConstraints = critical, CA:TRUE\n[server]\nsubjectAltName = ";

/// An authority that nobody else believes. It goes with its handle.
#[derive(Debug)]
pub struct Authority {
    folder: PathBuf,
}

/// A server's certificate and its key, both as PEM.
#[derive(Clone, Debug)]
pub struct Certificate {
    /// The certificate.
    pub certificate: String,
    /// The key.
    pub key: String,
}

impl Authority {
    /// A new authority.
    ///
    /// # Errors
    /// When the program is not installed, or fails.
    pub fn new() -> Result<Self, String> {
        folder_of("openssl", "openssl", &[PathBuf::from("/usr/bin")], None)?;
        let authority = Self { folder: private("authority", None)? };
        authority.openssl("", "req -x509 -extensions authority -keyout authority.key -out authority.pem")?;
        Ok(authority)
    }

    /// Its own certificate, which clients believe if they are told to.
    #[must_use]
    pub fn file(&self) -> PathBuf {
        self.folder.join("authority.pem")
    }

    /// Certifies a server: `IP:127.0.0.1`, `DNS:localhost`.
    ///
    /// # Errors
    /// When the program fails.
    pub fn certify(&self, name: &str) -> Result<Certificate, String> {
        self.openssl(name, "req -new -keyout server.key -out server.csr")?;
        self.run("x509 -req -in server.csr -CA authority.pem -CAkey authority.key -CAcreateserial -extfile configuration -extensions server -days 2 -out server.pem")?;
        let read =
            |name| fs::read_to_string(self.folder.join(name)).map_err(|error| format!("{name}: {error}"));
        Ok(Certificate { certificate: read("server.pem")?, key: read("server.key")? })
    }

    /// Runs it with a new key.
    fn openssl(&self, name: &str, arguments: &str) -> Result<(), String> {
        let name = if name.is_empty() { "DNS:nobody" } else { name };
        fs::write(self.folder.join("configuration"), format!("{CONFIGURATION}{name}\n"))
            .map_err(|error| error.to_string())?;
        self.run(&format!(
            "{arguments} -config configuration -newkey ec -pkeyopt ec_paramgen_curve:prime256v1 -nodes -days 2"
        ))
    }

    fn run(&self, arguments: &str) -> Result<(), String> {
        let mut command = Command::new("openssl");
        command.args(arguments.split(' ')).current_dir(&self.folder).stdin(Stdio::null());
        let output = command.output().map_err(|error| error.to_string())?;
        if output.status.success() {
            Ok(())
        } else {
            Err(format!("openssl {arguments} failed: {}", String::from_utf8_lossy(&output.stderr)))
        }
    }
}

impl Drop for Authority {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.folder);
    }
}
