//! The token that processes on several machines share.

use std::path::Path;

use margay_remote::Token;

use crate::failure::Failure;
use crate::files;

/// Where the token is if no file has it.
const VARIABLE: &str = "MARGAY_CLUSTER_TOKEN";

/// The token of a file, or else of the environment.
pub fn read(file: Option<&Path>) -> Result<Token, Failure> {
    match (file, std::env::var(VARIABLE)) {
        (Some(path), _) => Token::new(&files::read_text(path)?)
            .map_err(|why| Failure::new(format!("{}: {why}", path.display()))),
        (None, Ok(text)) => Token::new(&text).map_err(|why| Failure::new(format!("{VARIABLE}: {why}"))),
        (None, Err(_)) => Err(Failure::new(format!(
            "hosts need a token that all of them share: --token-file FILE, or the variable {VARIABLE}"
        ))),
    }
}
