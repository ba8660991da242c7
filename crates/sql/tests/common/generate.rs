//! Random schemas, rows, predicates and statements, in the text of one dialect.

use margay_sql::Dialect;

use super::Rng;

/// The type of a generated column or expression.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    Int,
    Exact,
    Float,
    Text,
    Date,
}

/// A generated table.
#[derive(Clone, Debug)]
pub struct Table {
    pub name: String,
    pub columns: Vec<(String, Kind)>,
    pub key: usize,
    /// A nullable column with a UNIQUE constraint, if there is one.
    pub unique: Option<usize>,
}

/// The tables in scope of an expression, with their aliases.
pub type Scope<'a> = Vec<(String, &'a Table)>;

pub struct Generator {
    pub rng: Rng,
    pub dialect: Dialect,
    pub tables: Vec<Table>,
}

impl Generator {
    pub fn new(seed: u64, dialect: Dialect) -> Self {
        let mut generator = Generator { rng: Rng(seed), dialect, tables: Vec::new() };
        let count = 1 + generator.rng.below(3);
        for index in 0..count {
            let table = generator.table(index);
            generator.tables.push(table);
        }
        generator
    }

    fn kinds(&self) -> &'static [Kind] {
        match self.dialect {
            Dialect::Sqlite => &[Kind::Int, Kind::Int, Kind::Float, Kind::Text],
            _ => &[Kind::Int, Kind::Int, Kind::Exact, Kind::Float, Kind::Text, Kind::Date],
        }
    }

    fn table(&mut self, index: u64) -> Table {
        let key = 1 + self.rng.below(2) as usize;
        let mut columns: Vec<(String, Kind)> = (0..key).map(|i| (format!("k{i}"), Kind::Int)).collect();
        if self.rng.chance(20) {
            columns[key - 1].1 = Kind::Text;
        }
        for i in 0..1 + self.rng.below(4) {
            columns.push((format!("c{i}"), *self.rng.pick(self.kinds())));
        }
        let unique = if self.rng.chance(30) { Some(columns.len() - 1) } else { None };
        let unique = unique.filter(|&column| column >= key && columns[column].1 == Kind::Int);
        Table { name: format!("t{index}"), columns, key, unique }
    }

    fn type_name(&self, kind: Kind) -> &'static str {
        match (kind, self.dialect) {
            (Kind::Int, Dialect::Sqlite) => "INT",
            (Kind::Int, _) => "BIGINT",
            (Kind::Exact, _) => "DECIMAL(12,2)",
            (Kind::Float, Dialect::Sqlite) => "REAL",
            (Kind::Float, Dialect::MySql) => "DOUBLE",
            (Kind::Float, _) => "DOUBLE PRECISION",
            (Kind::Text, _) => "VARCHAR(40)",
            (Kind::Date, _) => "DATE",
        }
    }

    pub fn create(&mut self, table: &Table) -> String {
        let mut parts = Vec::new();
        for (index, (name, kind)) in table.columns.iter().enumerate() {
            let mut part = format!("{name} {}", self.type_name(*kind));
            if Some(index) == table.unique {
                part += " UNIQUE";
            }
            if index < table.key {
                part += " NOT NULL";
            } else if *kind == Kind::Int && self.rng.chance(15) {
                part += " DEFAULT 7";
            } else if *kind == Kind::Int && self.rng.chance(10) {
                part += &format!(" CHECK ({name} > -4)");
            }
            parts.push(part);
        }
        let key: Vec<&str> = table.columns[..table.key].iter().map(|(name, _)| name.as_str()).collect();
        format!("CREATE TABLE {} ({}, PRIMARY KEY ({}))", table.name, parts.join(", "), key.join(", "))
    }

    pub fn literal(&mut self, kind: Kind) -> String {
        match kind {
            Kind::Int => (self.rng.below(14) as i64 - 4).to_string(),
            Kind::Exact => format!("{}.{}", self.rng.below(9), self.rng.pick(&["5", "25", "00", "1"])),
            Kind::Float if self.dialect == Dialect::Sqlite => {
                format!("{}.{}", self.rng.below(9), self.rng.pick(&["5", "25", "0", "75"]))
            }
            Kind::Float if self.dialect == Dialect::Postgres => {
                format!(
                    "CAST({}.{} AS DOUBLE PRECISION)",
                    self.rng.below(9),
                    self.rng.pick(&["5", "25", "0", "75"])
                )
            }
            Kind::Float => format!("{}.{}e0", self.rng.below(9), self.rng.pick(&["5", "25", "0", "75"])),
            Kind::Text => {
                let text = *self
                    .rng
                    .pick(&["a", "ab", "B", "", "a b", "b%", "abc", "A_", "it''s", "zz", "10", "a "]);
                format!("'{text}'")
            }
            Kind::Date => format!("DATE '2024-0{}-1{}'", 1 + self.rng.below(9), self.rng.below(3)),
        }
    }

    /// NULL, with its type where the database wants to know it.
    fn null(&self, kind: Kind) -> String {
        match self.dialect {
            Dialect::Postgres => format!("CAST(NULL AS {})", self.type_name(kind)),
            _ => "NULL".into(),
        }
    }

    fn column(&mut self, kind: Kind, scope: &Scope) -> Option<String> {
        let mut all = Vec::new();
        for (alias, table) in scope {
            for (name, _) in table.columns.iter().filter(|(_, of)| *of == kind) {
                all.push(format!("{alias}.{name}"));
            }
        }
        if all.is_empty() { None } else { Some(self.rng.pick(&all).clone()) }
    }

    /// An expression of a kind.
    pub fn expr(&mut self, kind: Kind, depth: u32, scope: &Scope) -> String {
        if depth == 0 || self.rng.chance(35) {
            if self.rng.chance(75)
                && let Some(column) = self.column(kind, scope)
            {
                return column;
            }
            return if self.rng.chance(8) { self.null(kind) } else { self.literal(kind) };
        }
        match self.rng.below(4) {
            0 => {
                let (test, a, b) = (
                    self.condition(depth - 1, scope),
                    self.expr(kind, depth - 1, scope),
                    self.expr(kind, 0, scope),
                );
                format!("CASE WHEN {test} THEN {a} ELSE {b} END")
            }
            1 => {
                let (a, b) = (self.expr(kind, depth - 1, scope), self.expr(kind, 0, scope));
                format!("COALESCE({a}, {b})")
            }
            _ => self.operation(kind, depth, scope),
        }
    }

    fn operation(&mut self, kind: Kind, depth: u32, scope: &Scope) -> String {
        let a = self.expr(kind, depth - 1, scope);
        match kind {
            Kind::Int => {
                let b = self.expr(kind, depth - 1, scope);
                match self.rng.below(9) {
                    0 => format!("({a} + {b})"),
                    1 => format!("({a} - {b})"),
                    2 => format!("({a} * {b})"),
                    3 if self.dialect == Dialect::MySql => format!("({a} DIV {b})"),
                    3 => format!("({a} / {b})"),
                    4 => format!("({a} % {b})"),
                    5 => format!("ABS({a})"),
                    6 => format!("NULLIF({a}, {b})"),
                    7 => format!("LENGTH({})", self.expr(Kind::Text, depth - 1, scope)),
                    _ => format!("(-({a}))"),
                }
            }
            Kind::Exact | Kind::Float => {
                let other = if self.rng.chance(30) { Kind::Int } else { kind };
                let b = self.expr(other, depth - 1, scope);
                match self.rng.below(5) {
                    0 => format!("({a} + {b})"),
                    1 => format!("({a} - {b})"),
                    2 => format!("({a} * {b})"),
                    3 => format!("({a} / {b})"),
                    _ => format!("ABS({a})"),
                }
            }
            Kind::Text => {
                let b = self.expr(kind, 0, scope);
                match self.rng.below(5) {
                    0 if self.dialect == Dialect::MySql => format!("CONCAT({a}, {b})"),
                    0 => format!("({a} || {b})"),
                    1 => format!("UPPER({a})"),
                    2 => format!("LOWER({a})"),
                    3 => format!("SUBSTR({a}, {}, {})", 1 + self.rng.below(3), self.rng.below(3)),
                    _ => format!("TRIM({a})"),
                }
            }
            Kind::Date => a,
        }
    }

    /// A condition.
    pub fn condition(&mut self, depth: u32, scope: &Scope) -> String {
        if depth > 0 && self.rng.chance(50) {
            let (a, b) = (self.condition(depth - 1, scope), self.condition(depth - 1, scope));
            return match self.rng.below(3) {
                0 => format!("({a} AND {b})"),
                1 => format!("({a} OR {b})"),
                _ => format!("NOT ({a})"),
            };
        }
        let kind = *self.rng.pick(self.kinds());
        let depth = depth.min(2);
        let a = self.expr(kind, depth, scope);
        match self.rng.below(12) {
            0 => format!("{a} IS NULL"),
            1 => format!("{a} IS NOT NULL"),
            2 => {
                let list: Vec<String> =
                    (0..1 + self.rng.below(3)).map(|_| self.expr(kind, 0, scope)).collect();
                format!("{a} {}IN ({})", self.rng.pick(&["", "NOT "]), list.join(", "))
            }
            3 => {
                let (low, high) = (self.expr(kind, 0, scope), self.expr(kind, 0, scope));
                format!("{a} {}BETWEEN {low} AND {high}", self.rng.pick(&["", "NOT "]))
            }
            4 => {
                let pattern = *self.rng.pick(&["a%", "%b", "_", "%", "a_", "A%", "%''%"]);
                let text = self.expr(Kind::Text, depth.min(1), scope);
                format!("{text} {}LIKE '{pattern}'", self.rng.pick(&["", "NOT "]))
            }
            5 if depth > 0 => self.subquery_condition(kind, &a, scope),
            _ => {
                let other = match kind {
                    // MariaDB 10.11 joins an integer key to 1 where it is compared with 1.1.
                    Kind::Int if self.rng.chance(20) && self.dialect == Dialect::Postgres => Kind::Exact,
                    same => same,
                };
                let b = self.expr(other, depth.saturating_sub(1), scope);
                format!("{a} {} {b}", self.rng.pick(&["=", "<>", "<", "<=", ">", ">="]))
            }
        }
    }

    fn subquery_condition(&mut self, kind: Kind, a: &str, scope: &Scope) -> String {
        let tables = self.tables.clone();
        let table = self.rng.pick(&tables).clone();
        let inner: Scope = vec![("z".to_string(), &table)];
        let mut both = inner.clone();
        both.extend(scope.iter().cloned());
        let correlated = if self.rng.chance(60) { &both } else { &inner };
        let condition = self.condition(0, correlated);
        let value = self.expr(kind, 1, &inner);
        let negation = *self.rng.pick(&["", "NOT "]);
        match self.rng.below(3) {
            0 => format!("{negation}EXISTS (SELECT 1 FROM {} z WHERE {condition})", table.name),
            1 => format!("{a} {negation}IN (SELECT {value} FROM {} z WHERE {condition})", table.name),
            _ => format!("{a} = (SELECT MAX({value}) FROM {} z WHERE {condition})", table.name),
        }
    }
}
