//! Where the programs of one version of a server are: fetched by scripts/servers, or installed.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use crate::places;

/// Where scripts/servers puts what it fetches.
const FETCHED: &str = "target/servers";

/// The folder with the programs of a version of `postgres`, `mariadb` or `mysql`, such as `18` or
/// `10.11`.
///
/// # Errors
/// When it is not there, with the versions that are.
pub fn folder_of_version(server: &str, version: &str) -> Result<PathBuf, String> {
    let fetched = inside(Path::new(FETCHED)).into_iter().filter(|folder| is_of(server, folder));
    let debian = if server == "postgres" { inside(Path::new("/usr/lib/postgresql")) } else { Vec::new() };
    let roots = fetched.chain(debian).chain([PathBuf::from("/usr")]);
    choose(server, version, roots)
}

fn choose(server: &str, version: &str, roots: impl Iterator<Item = PathBuf>) -> Result<PathBuf, String> {
    let mut others = Vec::new();
    for root in roots {
        match version_in(&root, program(server)) {
            Some(found) if is_version(&found, version) => return Ok(root),
            Some(found) if !others.contains(&found) => others.push(found),
            _ => {}
        }
    }
    let there = if others.is_empty() { String::new() } else { format!(" (there are {})", others.join(", ")) };
    Err(format!(
        "no {server} {version} is there{there}; scripts/servers fetches some, --binaries names a folder"
    ))
}

fn program(server: &str) -> &'static str {
    match server {
        "postgres" => "postgres",
        "mariadb" => "mariadbd",
        _ => "mysqld",
    }
}

/// The folders in a folder, by name.
fn inside(folder: &Path) -> Vec<PathBuf> {
    let entries = fs::read_dir(folder).into_iter().flatten().flatten();
    let mut all: Vec<PathBuf> = entries.map(|entry| entry.path()).filter(|path| path.is_dir()).collect();
    all.sort_unstable();
    all
}

/// Whether a folder that was fetched has this server: it is called so, with or without a version.
fn is_of(server: &str, folder: &Path) -> bool {
    let name = folder.file_name().and_then(|name| name.to_str()).unwrap_or_default();
    name.strip_prefix(server).is_some_and(|rest| rest.is_empty() || rest.starts_with('-'))
}

/// What a program says of its version: the first word that begins with a digit.
fn version_in(root: &Path, program: &str) -> Option<String> {
    let program = places(root).map(|place| place.join(program)).find(|path| path.is_file())?;
    let said = Command::new(program).arg("--version").output().ok()?;
    let said = String::from_utf8_lossy(&said.stdout).into_owned();
    said.split_whitespace().find(|word| word.starts_with(|c: char| c.is_ascii_digit())).map(str::to_owned)
}

/// Whether `found` is the version that was asked for, or one of its releases.
fn is_version(found: &str, asked: &str) -> bool {
    found.strip_prefix(asked).is_some_and(|rest| !rest.starts_with(|c: char| c.is_ascii_digit()))
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::PermissionsExt;

    use super::*;

    #[test]
    fn releases_of_a_version() {
        assert!(is_version("18.6", "18") && is_version("18.6", "18.6") && is_version("19rc1", "19"));
        assert!(is_version("10.11.19-MariaDB", "10.11"));
        assert!(
            !is_version("10.11.19-MariaDB", "10.1") && !is_version("18.6", "8") && !is_version("9.7.4", "97")
        );
    }

    #[test]
    fn the_programs_say_their_version() {
        let folder = tempfile::tempdir().expect("a folder");
        let root = |name: &str, says: &str| {
            let bin = folder.path().join(name).join("bin");
            fs::create_dir_all(&bin).expect("a folder");
            let program = bin.join("postgres");
            fs::write(&program, format!("#!/bin/sh\necho 'postgres (PostgreSQL) {says} (Debian 12)'\n"))
                .expect("a program");
            fs::set_permissions(&program, fs::Permissions::from_mode(0o755)).expect("it may run");
            folder.path().join(name)
        };
        let (old, new) = (root("postgres-old", "17.11"), root("postgres", "18.6"));
        let roots = || inside(folder.path()).into_iter().filter(|folder| is_of("postgres", folder));
        assert_eq!(choose("postgres", "18", roots()), Ok(new));
        assert_eq!(choose("postgres", "17.11", roots()), Ok(old));
        let error = choose("postgres", "12", roots()).expect_err("it is not there");
        assert!(error.contains("18.6, 17.11"), "{error}");
        assert!(!is_of("postgres", Path::new("postgresql")) && !is_of("mysql", Path::new("mysqlx-9")));
    }
}
