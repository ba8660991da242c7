//! Starts a server, prints where clients connect, and ends it with its own standard input:
//! `serve KIND [FOLDER]`. So scripts/matrix starts each server once, and not once for each run.

use std::path::Path;

use margay_servers::Server;

fn main() -> Result<(), String> {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let folder = arguments.get(1).map(Path::new);
    let server = match arguments.first().map(String::as_str) {
        Some("postgres") => Server::postgres_in(folder),
        Some("mariadb") => Server::mariadb_in(folder),
        Some("mysql") => Server::mysql_in(folder),
        _ => Err("which one: postgres, mariadb or mysql?".to_owned()),
    }?;
    println!("{}", server.url());
    std::io::copy(&mut std::io::stdin(), &mut std::io::sink()).map_err(|error| error.to_string())?;
    Ok(())
}
