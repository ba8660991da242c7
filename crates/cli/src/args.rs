//! The command-line options and their help texts. What the commands do is in other modules.

pub mod named;

use std::net::SocketAddr;
use std::path::PathBuf;
use std::time::Duration;

use clap::{Args, Parser, Subcommand};
use margay::{Backend, Choice, Reading};
use margay_drivers::Target;
use margay_formats::Format;
use margay_workloads::Workload;

use self::named::{
    BACKEND, DISTRIBUTION, ENGINE, EXPLAINED, FORMAT, HARM, LEVEL, PROFILE, PROMISE, READING, STRATEGY,
    TargetParser, WORKLOAD, WRITTEN,
};
use crate::elle::ElleArgs;
use crate::level::Asked;
use crate::simulate::{self, Simulation};
use crate::verify::VerifyArgs;
use crate::{duration, limits, run, serve};

/// Decides whether a recorded database history is possible under a promised isolation level, and
/// proves its answer.
#[derive(Parser)]
#[command(name = "margay", version, disable_help_subcommand = true)]
#[command(after_help = EXIT_STATUS)]
pub struct CommandLine {
    #[command(subcommand)]
    pub command: Option<Command>,
}

pub const EXIT_STATUS: &str = "\
Exit status: 0 holds or clean, 1 violated, 2 bad usage or unreadable input, 3 unknown.
`holds` is proved; `clean` means that nothing was found, which is not a proof.
`-` is standard input or output.";

#[derive(Subcommand)]
pub enum Command {
    /// Drive a database, record what its clients see, and decide whether it keeps its promise
    Run(Box<RunArgs>),
    /// Relay the connections of an application to its database, record what it does, and decide
    Proxy(Box<ProxyArgs>),
    /// Verify what recorders on several machines stream (`margay run --verify-at`), while they run
    Verify(VerifyArgs),
    /// Decide whether a history is possible under an isolation level
    Check(Box<CheckArgs>),
    /// Re-check a certificate against its history, without any engine
    Audit(AuditArgs),
    /// Check histories the way elle-cli does: its options, its names, its output
    Elle(ElleArgs),
    /// Render a saved result as text, HTML, JUnit, or a picture of the cycle
    Report(ReportArgs),
    /// Rewrite a history in another format
    Convert(ConvertArgs),
    /// Generate a history with a simulated database
    Simulate(SimulateArgs),
    /// List the isolation levels, weakest first
    Levels,
    /// List the anomalies and the levels that forbid them
    Anomalies,
    /// List what databases promise at their own levels
    Profiles,
    /// Explain a level, an anomaly, a profile, or an arrow of a cycle (ww, wr, rw)
    Explain {
        /// Its name
        #[arg(value_parser = EXPLAINED, hide_possible_values = true)]
        name: String,
    },
    /// Print completions for a shell
    Completions {
        /// The shell
        shell: clap_complete::Shell,
    },
    /// Print the manual page, or write one for every command into a folder
    Man {
        /// The folder, such as share/man/man1 of the folder in which the program is installed
        folder: Option<PathBuf>,
    },
}

#[derive(Args)]
#[command(after_help = run::names())]
pub struct RunArgs {
    /// The database: `sqlite[:FILE][?begin=immediate|exclusive&cache=shared]`, `postgres://…` or
    /// `"host=… user=…"`, `mysql://…` for MariaDB and MySQL, `fjall`, `redb`, `surrealkv`,
    /// `slatedb`, `turso`, `rocksdb` or `duckdb[:PATH]` if Margay was built with them
    /// (docs/DRIVERS.md), `sim:PROTOCOL+FAULT…`, or `exec:COMMAND` for a driver of your own in any
    /// language (docs/EXEC.md); by default SQLite in a temporary folder
    #[arg(value_name = "TARGET", value_parser = TargetParser, hide_possible_values = true)]
    pub target: Option<Target>,
    /// Start a private server from the installed binaries, and remove it afterwards
    #[arg(long, value_name = "SERVER", conflicts_with = "target", value_parser = ["postgres", "mariadb", "mysql"])]
    pub start: Option<String>,
    /// Folder with the server's programs for --start, or a folder made by scripts/servers; by default
    /// the installed programs
    #[arg(long, value_name = "FOLDER", requires = "start")]
    pub binaries: Option<PathBuf>,
    /// Version of the server for --start, such as 18 or 10.11, of those that are installed or that
    /// scripts/servers has put into target/servers
    #[arg(long, value_name = "VERSION", requires = "start", conflicts_with = "binaries")]
    pub version: Option<String>,
    /// The workload that clients run
    #[arg(long, value_name = "WORKLOAD", default_value = "mixed", value_parser = WORKLOAD, hide_possible_values = true)]
    pub workload: Workload,
    /// Instead of a workload, replay the SQL statements of this recording in the order of their
    /// times. --reproduce writes such a recording, or you write your own (docs/FORMAT.md). With
    /// --reproduce, leave out the transactions that are not needed to violate the level
    #[arg(long, value_name = "FILE", conflicts_with_all = ["workload", "keys", "distribution", "clients", "transactions",
        "duration", "fault", "certificate_recovery", "serve"])]
    pub script: Option<PathBuf>,
    /// If the verdict is `violated`, write the statements of the transactions involved. If the name
    /// ends in .sql, they are for you to type on several connections; otherwise they are for --script
    #[arg(long, value_name = "FILE")]
    pub reproduce: Option<PathBuf>,
    /// Number of keys, instead of the workload's own
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(2..))]
    pub keys: Option<u32>,
    /// Distribution of keys, instead of the workload's own: uniform, zipf or hotspot
    #[arg(long, value_name = "DISTRIBUTION", value_parser = DISTRIBUTION, hide_possible_values = true)]
    pub distribution: Option<margay_workloads::Distribution>,
    /// Isolation level to run at, by the database's own name; by default its strongest. A
    /// comma-separated list mixes levels, transaction by transaction
    #[arg(long, value_name = "LEVEL", value_delimiter = ',')]
    pub level: Vec<String>,
    /// Level to verify; by default what the database promises at --level
    #[arg(long, value_name = "LEVEL", value_parser = LEVEL, hide_possible_values = true)]
    pub claim: Option<Asked>,
    /// What the database of an `exec:` driver promises, if the driver does not say
    #[arg(long, value_name = "LEVEL", value_parser = PROMISE, hide_possible_values = true)]
    pub promises: Option<margay_levels::Level>,
    /// Check that an `exec:` driver follows docs/EXEC.md, and run nothing else
    #[arg(long)]
    pub check_driver: bool,
    /// Engine to use; a comma-separated list runs several, one after the other
    #[arg(long, value_name = "ENGINE", default_value = "auto", value_parser = ENGINE, value_delimiter = ',')]
    pub engine: Vec<Choice>,
    /// How many clients run at the same time
    #[arg(long, value_name = "N", default_value = "6", value_parser = clap::value_parser!(u32).range(1..=512))]
    pub clients: u32,
    /// How many transactions the clients begin in all; by default 3000, or as many as fit into
    /// --duration
    #[arg(long, value_name = "N")]
    pub transactions: Option<u64>,
    /// Begin no transaction after this time: 500ms, 10s, 2m; by default 5s, or as long as
    /// --transactions take
    #[arg(long, value_name = "TIME", value_parser = duration::parse)]
    pub duration: Option<Duration>,
    /// The same seed gives clients the same plans
    #[arg(long, value_name = "SEED", default_value = "0")]
    pub seed: u64,
    /// How often a client retries a refused transaction; each attempt is a transaction of its own
    #[arg(long, value_name = "N", default_value = "3")]
    pub retries: u32,
    /// How long a client waits for the answer to a statement: 500ms, 2s. Then it closes the
    /// connection and opens a new one; a commit without an answer has an unknown outcome. For
    /// servers; by default clients wait as long as it takes
    #[arg(long, value_name = "TIME", value_parser = duration::parse)]
    pub statement_timeout: Option<Duration>,
    /// Pause clients while live verification lags by more than this: 100ms, 1s. By default they
    /// never wait, and the rest is verified after the run
    #[arg(long, value_name = "TIME", value_parser = duration::parse)]
    pub max_lag: Option<Duration>,
    /// Also use engine follow at a level without real time. Transactions that are at most this far
    /// apart may be reordered
    #[arg(long, value_name = "TIME", value_parser = duration::parse)]
    pub horizon: Option<Duration>,
    /// End the run when no client has had an answer for this long: 30s, 2m. By default 15s, and a minute with --fault
    #[arg(long, value_name = "TIME", value_parser = duration::parse)]
    pub give_up_after: Option<Duration>,
    /// Answer `unknown`, unless violated, if fewer transactions than this committed. By default at
    /// least one must commit, and the database must have answered clients during at least half of
    /// --duration, or for at least half of --transactions
    #[arg(long, value_name = "N")]
    pub require_transactions: Option<u64>,
    /// Also count documented deviations from the level (see `margay explain
    /// postgresql/repeatable-read`)
    #[arg(long)]
    pub strict: bool,
    /// Accept the findings that this TOML file lists ([[accept]] with anomaly, tables, reason,
    /// until). They are reported but do not count; a rule that matches nothing any more is an error
    #[arg(long, value_name = "FILE.toml")]
    pub accept: Option<PathBuf>,
    /// Disturb the server of --start repeatedly: kill, pause or disconnect; kill=5s sets the period
    #[arg(long, value_name = "FAULT", value_parser = HARM, hide_possible_values = true, requires = "start")]
    pub fault: Vec<margay_runner::Every>,
    /// Save the history while it is recorded, compressed if the name ends in .gz or .zst; or `-`.
    /// With the workloads hermitage and coo: a folder, with one file for each interleaving
    #[arg(long, value_name = "FILE")]
    pub record: Option<PathBuf>,
    /// Write the certificate that proves the verdict. With the workloads hermitage and coo: a
    /// folder
    #[arg(long, value_name = "FILE")]
    pub certificate: Option<PathBuf>,
    /// Recover the version order and snapshots from the database, so that certify and replay can
    /// prove more: PostgreSQL (needs wal_level = logical), MariaDB and MySQL (need log_bin and
    /// binlog_format = ROW), simulated databases, and CockroachDB and TiDB (written from their
    /// documentation, never run on a live server)
    #[arg(long)]
    pub certificate_recovery: bool,
    /// With --certificate-recovery on PostgreSQL, from REPEATABLE READ up: compare every N-th read
    /// with a shadow transaction on the same snapshot
    #[arg(long, value_name = "N", default_value = "0", requires = "certificate_recovery")]
    pub shadow_reads: u32,
    /// With --certificate-recovery on PostgreSQL: the output plugin that decodes its log. There are
    /// test_decoding; pgoutput, which every server has and which needs a role that owns the tables;
    /// and auto, the first of these that works
    #[arg(long, value_name = "NAME", default_value = "auto", requires = "certificate_recovery")]
    pub decoding_plugin: margay_recover::Plugin,
    #[command(flatten)]
    pub remote: run::remote::RemoteArgs,
    /// Write no report; by default it is margay-report.html, unless --report, --json or --quiet is
    /// given
    #[arg(long, conflicts_with = "report")]
    pub no_report: bool,
    /// Also show throughput, latency, memory and kinds of dependencies over time
    #[arg(long)]
    pub stats: bool,
    #[command(flatten)]
    pub common: CommonArgs,
    #[command(flatten)]
    pub output: OutputArgs,
    #[command(flatten)]
    pub serving: ServeArgs,
}

#[derive(Args)]
#[command(after_help = EXIT_STATUS)]
pub struct ProxyArgs {
    /// The database, `postgres://…` or `"host=… user=…"`, or `mysql://…` for MariaDB and MySQL. Margay
    /// uses its user for its own connections, which read the catalogs and the initial rows; the
    /// application logs in as before
    #[arg(value_name = "TARGET", value_parser = TargetParser, hide_possible_values = true)]
    pub target: Target,
    /// Where the application connects; by default 127.0.0.1:6432, or a free port if a COMMAND is
    /// given
    #[arg(long, value_name = "ADDR")]
    pub listen: Option<SocketAddr>,
    /// Allow --listen to name an address that other machines can reach. Connections are encrypted
    /// only with --tls-cert
    #[arg(long)]
    pub listen_anywhere: bool,
    /// A certificate (PEM) for clients that request encryption. For the connection to the server, add
    /// `?sslmode=require` to TARGET
    #[arg(long, value_name = "FILE", requires = "tls_key")]
    pub tls_cert: Option<PathBuf>,
    /// The certificate's key (PEM)
    #[arg(long, value_name = "FILE", requires = "tls_cert")]
    pub tls_key: Option<PathBuf>,
    /// Report every anomaly that this level forbids and that happened to the application. Without
    /// it, report where the database broke its promise at the level that transactions requested
    #[arg(long, value_name = "LEVEL", value_parser = LEVEL, hide_possible_values = true)]
    pub claim: Option<Asked>,
    /// The level of transactions that name none, instead of the server's default: read-committed,
    /// repeatable-read or serializable
    #[arg(long, value_name = "LEVEL", value_parser = own_level)]
    pub level: Option<margay_proxy::OwnLevel>,
    /// Which rows are read at the start: `full`, all rows of tables with up to 100,000, and larger
    /// tables as `lazy`; `lazy`, each row when a client first accesses it; `unknown`, none
    #[arg(long, value_name = "HOW", default_value = "full", value_parser = initial)]
    pub initial: margay_proxy::Initial,
    /// Assert that all writes to the database go through the proxy. Without this, Margay counts the
    /// server's sessions at the start and at the end, and answers `unknown` if there were others
    #[arg(long)]
    pub sole_writer: bool,
    /// Join the transactions of one request into one before verifying --claim. `comment:FIELD` names
    /// the field in the statements' comments that identifies the request, such as
    /// comment:traceparent or comment:request_id
    #[arg(long, value_name = "comment:FIELD", value_parser = unit_field, requires = "claim")]
    pub unit: Option<String>,
    /// What else to read from the server: `log`, the rows that were written, if it keeps a log for
    /// logical decoding; or `none`
    #[arg(long, value_name = "WHAT", default_value = "log", value_parser = ["log", "none"])]
    pub evidence: String,
    /// Record a keyed hash of every value instead of the value, and reads and writes of rows instead
    /// of statements. The key is random and is not kept. Margay then reads no log and does not verify
    /// while the application runs (docs/PROXY.md)
    #[arg(long)]
    pub hash_values: bool,
    /// Do not record this column, and record reads and writes of rows instead of statements; may be
    /// given several times
    #[arg(long, value_name = "TABLE.COLUMN")]
    pub redact: Vec<String>,
    /// Answer `unknown` if Margay fully understood a smaller percentage of the transactions
    #[arg(long, value_name = "PERCENT", default_value = "50", value_parser = percent)]
    pub require_coverage: f64,
    /// How long connections may stay open at the end before they are cut: 500ms, 5s
    #[arg(long, value_name = "TIME", value_parser = duration::parse)]
    pub drain: Option<Duration>,
    /// Save the history while it is recorded, compressed if the name ends in .gz or .zst; or `-`
    #[arg(long, value_name = "FILE")]
    pub record: Option<PathBuf>,
    /// Write the certificate that proves the verdict
    #[arg(long, value_name = "FILE")]
    pub certificate: Option<PathBuf>,
    /// Also count documented deviations from the level (see `margay explain
    /// postgresql/repeatable-read`)
    #[arg(long)]
    pub strict: bool,
    /// Accept the findings that this TOML file lists, as `margay run --accept` does
    #[arg(long, value_name = "FILE.toml")]
    pub accept: Option<PathBuf>,
    #[command(flatten)]
    pub common: CommonArgs,
    #[command(flatten)]
    pub output: OutputArgs,
    /// A command to run, with PGHOST, PGPORT, PGUSER, PGDATABASE and DATABASE_URL set. The proxy ends
    /// when the command ends
    #[arg(last = true, value_name = "COMMAND")]
    pub command: Vec<String>,
}

#[derive(Args)]
#[command(after_help = EXIT_STATUS)]
pub struct CheckArgs {
    /// The history: a file, a directory (for formats that use one), or `-`
    #[arg(value_name = "HISTORY")]
    pub history: PathBuf,
    /// The isolation level in question (see `margay levels`)
    #[arg(long, value_name = "LEVEL", value_parser = LEVEL, hide_possible_values = true)]
    pub level: Asked,
    /// Engine to use
    #[arg(long, value_name = "ENGINE", default_value = "auto", value_parser = ENGINE)]
    pub engine: Choice,
    /// The database whose mechanisms engine mirror verifies: a profile (see `margay profiles`) such
    /// as postgresql-15 or postgresql/repeatable-read, or a file NAME.toml; by default the one that
    /// the history names
    #[arg(long, value_name = "PROFILE", value_parser = PROFILE, hide_possible_values = true)]
    pub dbms: Option<String>,
    /// What read-committed lets a SQL statement see, for engine observe: `item`, each row as of
    /// some committed state, by its definition; or `statement`, one committed state, as databases
    /// implement it
    #[arg(long, value_name = "READING", default_value = "item", value_parser = READING)]
    pub reading: Reading,
    /// Backend of engine observe: `search`, its own search; `smt`, an SMT solver in a separate
    /// process (`z3` or `cvc5`, whichever is installed), which also handles initial values that no
    /// result shows
    #[arg(long, value_name = "BACKEND", value_parser = BACKEND)]
    pub backend: Option<Backend>,
    /// Switch off a search strategy of engine observe or solve, to measure its effect. A
    /// verdict can only change to `unknown`. May be repeated
    #[arg(long, value_name = "STRATEGY", value_parser = STRATEGY, hide_short_help = true)]
    pub switch_off: Vec<String>,
    /// Assume that transactions take effect in real-time order, even if the level does not promise
    /// it
    #[arg(long)]
    pub real_time: bool,
    /// Interpret strict-snapshot-isolation with instants: the snapshot is taken between BEGIN and the
    /// answer of the first statement, and the commit takes effect between its call and its answer
    #[arg(long)]
    pub instants: bool,
    /// With `--engine follow -`, at a level without real time: transactions that are at most this far
    /// apart may be reordered. If that does not explain what some transactions saw, the verdict is
    /// `unknown` and names them
    #[arg(long, value_name = "TIME", value_parser = duration::parse)]
    pub horizon: Option<Duration>,
    /// Write the certificate that proves the verdict
    #[arg(long, value_name = "FILE")]
    pub certificate: Option<PathBuf>,
    /// Do not audit the certificate; the output says so
    #[arg(long)]
    pub no_audit: bool,
    /// Audit the certificate; this is the default unless --no-audit is given
    #[arg(long, hide = true, conflicts_with = "no_audit")]
    pub audit: bool,
    /// Accept the findings that this TOML file lists ([[accept]] with anomaly, tables, reason,
    /// until). They are reported but do not count; a rule that matches nothing any more is an error
    #[arg(long, value_name = "FILE.toml")]
    pub accept: Option<PathBuf>,
    #[command(flatten)]
    pub input: InputArgs,
    #[cfg(feature = "cluster")]
    #[command(flatten)]
    pub cluster: crate::cluster::ClusterArgs,
    /// Also show throughput, latency, memory and kinds of dependencies over time
    #[arg(long)]
    pub stats: bool,
    #[command(flatten)]
    pub common: CommonArgs,
    #[command(flatten)]
    pub output: OutputArgs,
}

#[derive(Args)]
#[command(
    after_help = "Exit status: 0 accepted, 1 rejected, 2 bad usage or unreadable input, 3 out of time."
)]
pub struct AuditArgs {
    /// The history: a file, a directory (for formats that use one), or `-`
    #[arg(value_name = "HISTORY")]
    pub history: PathBuf,
    /// The certificate, as written by `margay check --certificate`, or `-`
    #[arg(value_name = "CERTIFICATE")]
    pub certificate: PathBuf,
    #[command(flatten)]
    pub input: InputArgs,
    #[command(flatten)]
    pub common: CommonArgs,
    #[command(flatten)]
    pub output: OutputArgs,
}

#[derive(Args)]
pub struct ReportArgs {
    /// What `margay check --json` or `margay run --json` printed, or `-`
    #[arg(value_name = "RESULT.json")]
    pub result: PathBuf,
    /// The form; by default the one that OUT's extension selects, otherwise text
    #[arg(long, value_name = "FORM", value_enum)]
    pub to: Option<Form>,
    /// Where to write it; by default `-`
    #[arg(long, short, value_name = "OUT", default_value = "-")]
    pub output: PathBuf,
    /// Which anomaly dot and svg draw, counted from 1
    #[arg(long, value_name = "N", default_value = "1", value_parser = clap::value_parser!(u32).range(1..))]
    pub anomaly: u32,
}

/// The forms of a report.
#[derive(Clone, Copy, PartialEq, Eq, Debug, clap::ValueEnum)]
pub enum Form {
    /// For a terminal
    Text,
    /// One file that needs no network
    Html,
    /// XML for CI servers
    Junit,
    /// The cycle, for Graphviz
    Dot,
    /// The cycle, as a picture
    Svg,
}

/// The other forms in which to write a result.
#[derive(Args, Default)]
pub struct OutputArgs {
    /// Write a report to read in a browser: one HTML file that needs no network
    #[arg(long, value_name = "FILE.html")]
    pub report: Option<PathBuf>,
    /// Write JUnit XML for a CI server
    #[arg(long, value_name = "FILE.xml")]
    pub junit: Option<PathBuf>,
    /// Write the cycle of the first anomaly for Graphviz
    #[arg(long, value_name = "FILE.dot")]
    pub dot: Option<PathBuf>,
    /// Write the cycle of the first anomaly as a picture
    #[arg(long, value_name = "FILE.svg")]
    pub svg: Option<PathBuf>,
}

/// The options of the page that shows a run.
#[derive(Args)]
pub struct ServeArgs {
    /// Show a page about the run while it runs: on a free port of this machine, or at ADDR (a port, or
    /// HOST:PORT)
    #[arg(long, value_name = "ADDR", num_args = 0..=1, require_equals = true, default_missing_value = "0", value_parser = serve::address)]
    pub serve: Option<SocketAddr>,
    /// The access token of the page; generated unless ADDR is local
    #[arg(long, value_name = "TOKEN", requires = "serve", value_parser = serve::token)]
    pub token: Option<String>,
    /// How long the page stays up after the run; by default until you press Ctrl-C, or not at all if
    /// there is no terminal
    #[arg(long, value_name = "TIME", requires = "serve", value_parser = duration::parse)]
    pub linger: Option<Duration>,
}

impl OutputArgs {
    /// Whether there is anything to write.
    pub fn is_wanted(&self) -> bool {
        [&self.report, &self.junit, &self.dot, &self.svg].into_iter().any(Option::is_some)
    }
}

#[derive(Args)]
#[command(
    after_help = "Exit status: 0 written, 2 bad usage, unreadable input, or content that the format cannot express.\n`-` is standard input or output."
)]
pub struct ConvertArgs {
    /// The history to read: a file, a directory (for formats that use one), or `-`
    #[arg(value_name = "IN")]
    pub input: PathBuf,
    /// Where to write it, compressed if the name ends in .gz or .zst; or `-`
    #[arg(value_name = "OUT")]
    pub output: PathBuf,
    #[command(flatten)]
    pub from: InputArgs,
    /// The format to write; by default the one that OUT's extension selects (.jsonl, .mgb, .edn, …);
    /// without an extension the native one
    #[arg(long, value_name = "FORMAT", value_parser = WRITTEN)]
    pub to: Option<Format>,
    /// Write SQL statements as row operations; an error if a statement does more
    #[arg(long)]
    pub rows: bool,
    /// Print nothing but errors
    #[arg(long, short)]
    pub quiet: bool,
}

#[derive(Args)]
#[command(after_help = simulate::names())]
pub struct SimulateArgs {
    #[command(flatten)]
    pub simulation: Simulation,
    /// Where to write the history, compressed if the name ends in .gz or .zst; or `-`
    #[arg(value_name = "OUT")]
    pub output: PathBuf,
    /// The format to write; by default the one that OUT's extension selects (.jsonl, .mgb, .edn, …);
    /// without an extension the native one
    #[arg(long, value_name = "FORMAT", value_parser = WRITTEN)]
    pub to: Option<Format>,
    /// Print nothing but errors
    #[arg(long, short)]
    pub quiet: bool,
}

#[derive(Args)]
pub struct InputArgs {
    /// The format of the history, instead of detecting it
    #[arg(long, value_name = "FORMAT", value_parser = FORMAT)]
    pub from: Option<Format>,
    /// Assume that the versions of each register follow session order
    #[arg(long)]
    pub sequential_keys: bool,
    /// Assume that the versions of each register follow real time
    #[arg(long)]
    pub linearizable_keys: bool,
}

#[derive(Args)]
pub struct CommonArgs {
    /// Print one JSON object
    #[arg(long)]
    pub json: bool,
    /// Give up after this time, reading included: 500ms, 10s, 2m, 1h. Without it `check` and
    /// `audit` have no limit; `run` gives each engine 60s after the clients finish
    #[arg(long, value_name = "TIME", value_parser = duration::parse)]
    pub timeout: Option<Duration>,
    /// Give up when the process holds more memory than this: 500M, 4G. By default half of the
    /// machine's memory
    #[arg(long, value_name = "SIZE", value_parser = limits::size)]
    pub memory: Option<u64>,
    /// Print nothing but errors (and the object of --json); the exit status is the verdict
    #[arg(long, short)]
    pub quiet: bool,
}

fn own_level(name: &str) -> Result<margay_proxy::OwnLevel, String> {
    let found = margay_proxy::OwnLevel::named_in_mysql(name);
    found.ok_or_else(|| "there are: read-committed, repeatable-read, serializable".to_owned())
}

fn percent(text: &str) -> Result<f64, String> {
    let number = text.trim_end_matches('%').parse::<f64>().ok();
    number.filter(|share| (0.0..=100.0).contains(share)).ok_or_else(|| "a number from 0 to 100".to_owned())
}

fn unit_field(text: &str) -> Result<String, String> {
    let field = text.strip_prefix("comment:").filter(|field| !field.is_empty());
    field.map(str::to_owned).ok_or_else(|| "it is comment:FIELD, such as comment:traceparent".to_owned())
}

fn initial(name: &str) -> Result<margay_proxy::Initial, String> {
    match name {
        "full" => Ok(margay_proxy::Initial::Full),
        "lazy" => Ok(margay_proxy::Initial::Lazy),
        "unknown" => Ok(margay_proxy::Initial::Unknown),
        _ => Err("there are: full, lazy, unknown".to_owned()),
    }
}

#[cfg(test)]
mod tests {
    use clap::CommandFactory;

    use super::*;

    #[test]
    fn the_definition_is_consistent() {
        CommandLine::command().debug_assert();
    }
}
