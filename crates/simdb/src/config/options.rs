//! The options of a simulation by name, so that a command line need not know them.

use super::parse::{ConfigError, count, duration, fault, percentages, ppm, span, weights};
use super::{Distribution, SimConfig};

/// Every option: its name on the command line, what it takes, and what it means.
pub const OPTIONS: [(&str, &str, &str); 17] = [
    ("protocol", "P", "the protocol of the database"),
    ("fault", "F[=P]", "a fault and its probability (by default 0.1); may be repeated"),
    ("clients", "N", "number of clients"),
    ("transactions", "N", "number of transactions in all"),
    ("ops", "N|A-B", "operations per transaction"),
    ("keys", "N", "number of registers, of lists and of rows"),
    ("mix", "NAME|K=W,…", "what clients do: registers, lists, rows, mixed, or weights"),
    ("distribution", "D", "which keys clients prefer: uniform or zipf"),
    ("seed", "N", "seed of all random choices"),
    ("aborts", "P", "how often a client rolls back"),
    ("unknown", "P", "how often a client never learns how its commit ended"),
    ("skew", "D", "largest difference between clients' clocks, such as 10us"),
    ("domain", "N", "column v takes values below this"),
    ("list-length", "N", "the largest length of a list"),
    ("sql", "BOOL", "whether aggregates are recorded as SQL"),
    (
        "evidence",
        "E[=PERCENT],…",
        "all, none, or some of version-order, version-set, snapshot, commit, serialization",
    ),
    ("latency", "D", "longest latency between client and database, such as 100us; think times are as long"),
];

impl SimConfig {
    /// Sets the option `name`, one of [`OPTIONS`], from text.
    ///
    /// # Errors
    /// When there is no such option, or the text is not what it takes.
    pub fn set(&mut self, name: &str, value: &str) -> Result<(), ConfigError> {
        match name {
            "protocol" => self.protocol = value.parse().map_err(ConfigError::from)?,
            "fault" => self.faults.push(fault(value)?),
            "clients" => self.clients = count(name, value, 1, 100_000)? as u32,
            "transactions" => self.transactions = count(name, value, 0, 1 << 40)?,
            "ops" => self.ops = span(name, value)?,
            "keys" => self.keys = count(name, value, 1, 1 << 24)? as u32,
            "mix" => self.mix = weights(value)?,
            "distribution" => {
                self.distribution = match value {
                    "uniform" => Distribution::Uniform,
                    "zipf" => Distribution::Zipf,
                    _ => return Err(ConfigError::new(name, value, "uniform or zipf")),
                }
            }
            "seed" => self.seed = count(name, value, 0, u64::MAX)?,
            "aborts" => self.aborts = ppm(name, value)?,
            "unknown" => self.unknown = ppm(name, value)?,
            "skew" => self.skew = duration(name, value)?,
            "domain" => self.domain = count(name, value, 1, 1 << 40)? as i64,
            "list-length" => self.list_length = count(name, value, 1, 1 << 20)? as u32,
            "sql" => {
                self.sql = value.parse().map_err(|_| ConfigError::new(name, value, "true or false"))?;
            }
            "evidence" => self.evidence = percentages(value)?,
            "latency" => {
                self.timing.latency = duration(name, value)?.max(1);
                self.timing.think = self.timing.latency;
                self.timing.stall = self.timing.latency.saturating_mul(30);
            }
            _ => return Err(ConfigError::unknown(name)),
        }
        Ok(())
    }

    /// The options in which this configuration differs from the default, as text that
    /// [`SimConfig::set`] takes. The protocol and the seed are always there.
    #[must_use]
    pub fn options(&self) -> Vec<(&'static str, String)> {
        let default = SimConfig::default();
        let mut all = vec![("protocol", self.protocol.to_string())];
        all.extend(self.faults.iter().map(|(fault, p)| ("fault", format!("{fault}={p}"))));
        let mut add = |name, differs: bool, value: String| differs.then(|| all.push((name, value)));
        add("clients", self.clients != default.clients, self.clients.to_string());
        add("transactions", self.transactions != default.transactions, self.transactions.to_string());
        add("ops", self.ops != default.ops, format!("{}-{}", self.ops.0, self.ops.1));
        add("keys", self.keys != default.keys, self.keys.to_string());
        add("mix", self.mix != default.mix, self.mix.to_string());
        add("distribution", self.distribution != default.distribution, "zipf".to_string());
        add("aborts", self.aborts != default.aborts, self.aborts.to_string());
        add("unknown", self.unknown != default.unknown, self.unknown.to_string());
        add("skew", self.skew != default.skew, format!("{}ns", self.skew));
        add("domain", self.domain != default.domain, self.domain.to_string());
        add("list-length", self.list_length != default.list_length, self.list_length.to_string());
        add("sql", self.sql != default.sql, self.sql.to_string());
        add("evidence", self.evidence != default.evidence, self.evidence.to_string());
        add("latency", self.timing != default.timing, format!("{}ns", self.timing.latency));
        all.push(("seed", self.seed.to_string()));
        all
    }

    /// The command that repeats this simulation and writes it to `out`.
    #[must_use]
    pub fn command(&self, out: &str) -> String {
        let options: Vec<_> =
            self.options().iter().map(|(name, value)| format!("--{name} {value}")).collect();
        format!("margay simulate {} {out}", options.join(" "))
    }
}
