//! What an address leaves out: libpq's environment variables and password file, and the option file
//! of MySQL's clients.
//!
//! # Invariants
//! What an address says is never overruled.

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::time::Duration;

use postgres::Config;
use postgres::config::Host;

/// Where PostgreSQL's servers have their sockets: Debian's, and everybody else's.
const SOCKET_FOLDERS: [&str; 2] = ["/run/postgresql", "/tmp"];

/// The groups of an option file that are for every client.
const CLIENT_GROUPS: [&str; 3] = ["client", "client-server", "client-mariadb"];

/// The environment of a process, or what a test says it is.
pub(crate) struct Environment<'a> {
    pub variable: &'a dyn Fn(&str) -> Option<String>,
}

impl Environment<'static> {
    /// That of this process. A variable that is empty says nothing.
    pub fn own() -> Self {
        Self { variable: &|name| std::env::var(name).ok().filter(|value| !value.is_empty()) }
    }
}

impl Environment<'_> {
    pub fn get(&self, name: &str) -> Option<String> {
        (self.variable)(name)
    }

    fn home(&self, name: &str) -> Option<PathBuf> {
        self.get("HOME").map(|home| Path::new(&home).join(name))
    }
}

/// The parts of an address `scheme://user:password@host:port/database?options` that say where the
/// server is.
struct Place<'a> {
    before: &'a str,
    host: &'a str,
    after: &'a str,
}

impl<'a> Place<'a> {
    fn of(url: &'a str) -> Option<Self> {
        let authority = url.find("://")? + 3;
        let end = url[authority..].find(['/', '?']).map_or(url.len(), |at| authority + at);
        let host = url[authority..end].rfind('@').map_or(authority, |at| authority + at + 1);
        Some(Self { before: &url[..host], host: &url[host..end], after: &url[end..] })
    }

    fn has_port(&self) -> bool {
        self.host.rsplit(']').next().is_some_and(|rest| rest.contains(':'))
    }
}

/// An address of one server with a port, if it names a host without one.
fn with_port(url: &str, port: Option<String>) -> String {
    match (Place::of(url), port) {
        (Some(place), Some(port))
            if !place.host.is_empty() && !place.has_port() && !place.host.contains(',') =>
        {
            format!("{}{}:{port}{}", place.before, place.host, place.after)
        }
        _ => url.to_owned(),
    }
}

/// How connections are made to a PostgreSQL server, and what is wrong with the password file, if it
/// is not used for that.
pub(crate) fn postgres(url: &str, around: &Environment<'_>) -> Result<(Config, Option<String>), String> {
    let mut config: Config =
        with_port(url, around.get("PGPORT")).parse().map_err(crate::postgres_tls::shown)?;
    let port =
        around.get("PGPORT").map(|port| port.parse().map_err(|_| format!("PGPORT: `{port}` is no port")));
    if let Some(port) = port.transpose()?.filter(|_| config.get_ports().is_empty()) {
        config.port(port);
    }
    if config.get_hosts().is_empty() && config.get_hostaddrs().is_empty() {
        let host = around.get("PGHOST").unwrap_or_else(|| local_server(config.get_ports()));
        config.host(&host);
    }
    let fill = |said: bool, name: &str| around.get(name).filter(|_| !said);
    if let Some(user) = fill(config.get_user().is_some(), "PGUSER") {
        config.user(&user);
    }
    if let Some(database) = fill(config.get_dbname().is_some(), "PGDATABASE") {
        config.dbname(&database);
    }
    if let Some(options) = fill(config.get_options().is_some(), "PGOPTIONS") {
        config.options(&options);
    }
    if let Some(name) = fill(config.get_application_name().is_some(), "PGAPPNAME") {
        config.application_name(&name);
    }
    let timeout = fill(config.get_connect_timeout().is_some(), "PGCONNECT_TIMEOUT");
    if let Some(seconds) = timeout.and_then(|seconds| seconds.parse().ok()) {
        config.connect_timeout(Duration::from_secs(seconds));
    }
    if config.get_password().is_some() {
        return Ok((config, None));
    }
    if let Some(password) = around.get("PGPASSWORD") {
        config.password(password);
        return Ok((config, None));
    }
    let file = around.get("PGPASSFILE").map(PathBuf::from).or_else(|| around.home(".pgpass"));
    let note = file.and_then(|file| from_password_file(&mut config, &file, around));
    Ok((config, note))
}

/// The socket of a server on this machine, or else its name.
fn local_server(ports: &[u16]) -> String {
    let port = ports.first().copied().unwrap_or(5432);
    let has_socket = |folder: &&str| Path::new(folder).join(format!(".s.PGSQL.{port}")).exists();
    SOCKET_FOLDERS.into_iter().find(has_socket).unwrap_or("localhost").to_owned()
}

/// Takes the password from libpq's file; answers why not, if others may read it.
fn from_password_file(config: &mut Config, file: &Path, around: &Environment<'_>) -> Option<String> {
    let text = fs::read_to_string(file).ok()?;
    let mode = fs::metadata(file).ok()?.permissions().mode();
    if mode & 0o077 != 0 {
        return Some(format!("{} is ignored, because others may read it", file.display()));
    }
    let host = match config.get_hosts() {
        [Host::Tcp(host), ..] => host.clone(),
        // libpq's word for a socket of this machine.
        _ => "localhost".to_owned(),
    };
    let port = config.get_ports().first().copied().unwrap_or(5432).to_string();
    let user = config.get_user().map(str::to_owned).or_else(|| around.get("USER")).unwrap_or_default();
    let database = config.get_dbname().map_or(user.clone(), str::to_owned);
    if let Some(password) = password(&text, [&host, &port, &database, &user]) {
        config.password(password);
    }
    None
}

/// The password of the first line that fits: `host:port:database:user:password`, where `*` is
/// anything.
fn password(text: &str, wanted: [&str; 4]) -> Option<String> {
    let lines = text.lines().filter(|line| !line.starts_with('#'));
    lines.map(fields).find_map(|fields| match &fields[..] {
        [said @ .., password] if said.len() == 4 => {
            let fits = said.iter().zip(wanted).all(|(said, wanted)| said == "*" || said == wanted);
            fits.then(|| password.clone())
        }
        _ => None,
    })
}

/// The parts of a line between colons; a backslash takes the next character as it is.
fn fields(line: &str) -> Vec<String> {
    let mut fields = vec![String::new()];
    let mut characters = line.chars();
    while let Some(c) = characters.next() {
        match c {
            ':' if fields.len() < 5 => fields.push(String::new()),
            '\\' => fields.last_mut().expect("one at least").extend(characters.next()),
            _ => fields.last_mut().expect("one at least").push(c),
        }
    }
    fields
}

/// What MySQL's clients find beside an address.
#[derive(Clone, PartialEq, Eq, Default, Debug)]
pub(crate) struct MysqlDefaults {
    settings: Vec<(String, String)>,
}

impl MysqlDefaults {
    /// Those of the user's option file `~/.my.cnf`, over those of environment variables.
    pub fn new(around: &Environment<'_>) -> Self {
        let variables = [
            ("host", "MYSQL_HOST"),
            ("port", "MYSQL_TCP_PORT"),
            ("socket", "MYSQL_UNIX_PORT"),
            ("password", "MYSQL_PWD"),
        ];
        let variables =
            variables.into_iter().filter_map(|(key, name)| Some((key.to_owned(), around.get(name)?)));
        let file = around.home(".my.cnf").and_then(|file| fs::read_to_string(file).ok());
        let settings = variables.chain(options(&file.unwrap_or_default())).collect();
        Self { settings }
    }

    /// The last that was said counts.
    pub fn get(&self, key: &str) -> Option<&str> {
        self.settings.iter().rfind(|(said, _)| said == key).map(|(_, value)| value.as_str())
    }

    /// An address with a host and a port.
    pub fn complete(&self, url: &str) -> String {
        let Some(place) = Place::of(url) else { return url.to_owned() };
        let host = if place.host.is_empty() { self.get("host").unwrap_or("localhost") } else { place.host };
        let named = format!("{}{host}{}", place.before, place.after);
        with_port(&named, self.get("port").map(str::to_owned))
    }

    /// The socket file, if the address names no host and nobody else does.
    pub fn socket(&self, url: &str) -> Option<&str> {
        let unnamed = Place::of(url).is_some_and(|place| place.host.is_empty());
        self.get("socket").filter(|_| unnamed && self.get("host").is_none_or(|host| host == "localhost"))
    }
}

/// The settings for every client in an option file.
fn options(text: &str) -> Vec<(String, String)> {
    let (mut settings, mut counts) = (Vec::new(), false);
    for line in text.lines().map(str::trim) {
        if let Some(group) = line.strip_prefix('[').and_then(|rest| rest.strip_suffix(']')) {
            counts = CLIENT_GROUPS.contains(&group.trim());
        } else if let Some((key, value)) =
            line.split_once('=').filter(|_| counts && !line.starts_with(['#', ';']))
        {
            settings.push((key.trim().replace('_', "-"), unquoted(value.trim())));
        }
    }
    settings
}

fn unquoted(value: &str) -> String {
    let quoted = ['"', '\''].into_iter().find_map(|quote| value.strip_prefix(quote)?.strip_suffix(quote));
    // Outside of quotes a comment may follow.
    let plain = || value.split(" #").next().unwrap_or_default().trim_end();
    quoted.unwrap_or_else(plain).replace("\\\\", "\\")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn in_folder(name: &str, text: &str, mode: u32) -> (tempfile::TempDir, PathBuf) {
        let folder = tempfile::tempdir().expect("a folder");
        let file = folder.path().join(name);
        fs::write(&file, text).expect("written");
        fs::set_permissions(&file, fs::Permissions::from_mode(mode)).expect("its owner");
        (folder, file)
    }

    fn config(url: &str, variables: &[(&str, &str)]) -> (Config, Option<String>) {
        let variable = |name: &str| {
            variables.iter().find(|(said, _)| *said == name).map(|(_, value)| (*value).to_owned())
        };
        postgres(url, &Environment { variable: &variable }).expect("an address")
    }

    /// A regression: none of them was looked at.
    #[test]
    fn libpq_s_variables_fill_what_an_address_leaves_out() {
        let all =
            [("PGHOST", "h"), ("PGPORT", "7"), ("PGUSER", "u"), ("PGDATABASE", "d"), ("PGPASSWORD", "p")];
        let told = |url: &str| {
            let (config, note) = config(url, &all);
            assert_eq!(note, None);
            let host = match config.get_hosts() {
                [Host::Tcp(host)] => host.clone(),
                other => panic!("{other:?}"),
            };
            let password = String::from_utf8_lossy(config.get_password().expect("one")).into_owned();
            let part = |part: Option<&str>| part.unwrap_or_default().to_owned();
            (host, config.get_ports().to_vec(), part(config.get_user()), part(config.get_dbname()), password)
        };
        let own = |host: &str, port, user: &str, database: &str, password: &str| {
            (host.to_owned(), vec![port], user.to_owned(), database.to_owned(), password.to_owned())
        };
        assert_eq!(told("postgres://"), own("h", 7, "u", "d", "p"));
        assert_eq!(told("postgres://x"), own("x", 7, "u", "d", "p"));
        assert_eq!(told("postgres://a@x:9/b"), own("x", 9, "a", "b", "p"));
        assert_eq!(told("postgres://a:c@x:9/b"), own("x", 9, "a", "b", "c"));
        assert_eq!(told("postgres:///?host=y&port=8"), own("y", 8, "u", "d", "p"));
    }

    #[test]
    fn libpq_s_password_file() {
        let text = "# mine\nother:*:*:*:wrong\nh:7:d:u:a\\:b\\\\c:d\n*:*:*:u:general\n";
        let wanted = ["h", "7", "d", "u"];
        assert_eq!(password(text, wanted).as_deref(), Some("a:b\\c:d"));
        assert_eq!(password(text, ["h", "8", "d", "u"]).as_deref(), Some("general"));
        assert_eq!(password(text, ["h", "8", "d", "v"]), None);
        for (mode, kept) in [(0o600, Some(&b"general"[..])), (0o644, None)] {
            let (_folder, file) = in_folder("pass", text, mode);
            let file = file.to_str().expect("text");
            let (config, note) = config("postgres://u@x/d", &[("PGPASSFILE", file)]);
            assert_eq!(config.get_password(), kept);
            assert_eq!(note.is_some(), kept.is_none(), "{note:?}");
        }
    }

    #[test]
    fn mysql_s_option_file() {
        let text = "[mysqld]\nuser=server\n[client]\n# no\nuser = me\npassword=\"a # b\"\nport=7 # mine\n[client-server]\nhost=h\n";
        let (folder, _file) = in_folder(".my.cnf", text, 0o600);
        let home = folder.path().display().to_string();
        let variable = |name: &str| match name {
            "HOME" => Some(home.clone()),
            "MYSQL_HOST" => Some("from-variable".to_owned()),
            _ => None,
        };
        let defaults = MysqlDefaults::new(&Environment { variable: &variable });
        let keys = ["user", "password", "port", "host", "database"].map(|key| defaults.get(key));
        assert_eq!(keys, [Some("me"), Some("a # b"), Some("7"), Some("h"), None]);
        assert_eq!(defaults.complete("mysql://"), "mysql://h:7");
        assert_eq!(defaults.complete("mysql://a:b@/d?x=1"), "mysql://a:b@h:7/d?x=1");
        assert_eq!(defaults.complete("mysql://a@x:9/d"), "mysql://a@x:9/d");
        assert_eq!(MysqlDefaults::default().complete("mysql:///d"), "mysql://localhost/d");
    }
}
