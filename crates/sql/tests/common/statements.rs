//! Random statements over generated tables.

use margay_sql::Dialect;

use super::generate::{Generator, Kind, Scope, Table};

impl Generator {
    /// A statement, writes about as often as queries.
    pub fn statement(&mut self) -> String {
        let tables = self.tables.clone();
        let table = self.rng.pick(&tables).clone();
        match self.rng.below(10) {
            0..=2 => self.insert(&table),
            3 | 4 => self.update(&table),
            5 => self.delete(&table),
            6 => self.grouped(&table),
            7 => self.joined(&tables),
            _ => self.select(&table),
        }
    }

    fn row(&mut self, table: &Table, columns: &[usize]) -> String {
        let cells: Vec<String> = columns
            .iter()
            .map(|&column| {
                let kind = table.columns[column].1;
                if column >= table.key && self.rng.chance(15) { "NULL".into() } else { self.literal(kind) }
            })
            .collect();
        format!("({})", cells.join(", "))
    }

    pub fn insert(&mut self, table: &Table) -> String {
        let mut columns: Vec<usize> = (0..table.columns.len()).collect();
        if self.rng.chance(25) {
            columns.retain(|&column| column < table.key || self.rng.chance(60));
        }
        let names: Vec<&str> = columns.iter().map(|&column| table.columns[column].0.as_str()).collect();
        let head = format!("INSERT INTO {} ({})", table.name, names.join(", "));
        let source = if self.rng.chance(10) {
            self.insert_source(table, &columns)
        } else {
            let rows: Vec<String> = (0..1 + self.rng.below(3)).map(|_| self.row(table, &columns)).collect();
            format!("VALUES {}", rows.join(", "))
        };
        let tail = self.conflict(table);
        let returning = if self.dialect != Dialect::MySql { self.returning(table) } else { String::new() };
        format!("{head} {source}{tail}{returning}")
    }

    fn insert_source(&mut self, table: &Table, columns: &[usize]) -> String {
        let scope: Scope = vec![("s".into(), table)];
        let values: Vec<String> = columns
            .iter()
            .map(|&column| match table.columns[column] {
                (ref name, Kind::Int) if column == 0 => format!("s.{name} + 20"),
                (ref name, _) => format!("s.{name}"),
            })
            .collect();
        let condition = self.condition(1, &scope);
        // SQLite's grammar needs the WHERE to tell ON CONFLICT from a join's ON.
        format!("SELECT {} FROM {} s WHERE {condition}", values.join(", "), table.name)
    }

    fn conflict(&mut self, table: &Table) -> String {
        if self.rng.chance(60) {
            return String::new();
        }
        let key: Vec<&str> = table.columns[..table.key].iter().map(|(name, _)| name.as_str()).collect();
        let Some(column) = (table.key..table.columns.len()).find(|column| Some(*column) != table.unique)
        else {
            return String::new();
        };
        let (name, kind) = table.columns[column].clone();
        let owner = &table.name;
        if self.dialect == Dialect::MySql {
            let value = if kind == Kind::Int {
                format!("{name} + VALUES({name})")
            } else {
                format!("VALUES({name})")
            };
            return format!(" ON DUPLICATE KEY UPDATE {name} = {value}");
        }
        match self.rng.below(3) {
            0 => " ON CONFLICT DO NOTHING".into(),
            1 => format!(" ON CONFLICT ({}) DO NOTHING", key.join(", ")),
            _ => {
                let value = match kind {
                    Kind::Int => format!("{owner}.{name} + excluded.{name}"),
                    _ => format!("excluded.{name}"),
                };
                let condition = if self.rng.chance(40) {
                    format!(" WHERE {owner}.{name} IS NOT NULL")
                } else {
                    String::new()
                };
                format!(" ON CONFLICT ({}) DO UPDATE SET {name} = {value}{condition}", key.join(", "))
            }
        }
    }

    fn returning(&mut self, table: &Table) -> String {
        if self.rng.chance(70) {
            return String::new();
        }
        if self.rng.chance(50) {
            return " RETURNING *".into();
        }
        let scope: Scope = vec![(table.name.clone(), table)];
        format!(" RETURNING {}", self.expr(Kind::Int, 1, &scope))
    }

    fn update(&mut self, table: &Table) -> String {
        let scope: Scope = vec![(table.name.clone(), table)];
        let first = if self.rng.chance(10) { 0 } else { table.key };
        let mut sets = Vec::new();
        for column in first..table.columns.len() {
            if sets.is_empty() || self.rng.chance(25) {
                let (name, kind) = &table.columns[column];
                sets.push(format!("{name} = {}", self.expr(*kind, 2, &scope)));
            }
        }
        let condition = self.condition(2, &scope);
        let returning = if self.dialect != Dialect::MySql { self.returning(table) } else { String::new() };
        format!("UPDATE {} SET {} WHERE {condition}{returning}", table.name, sets.join(", "))
    }

    fn delete(&mut self, table: &Table) -> String {
        let scope: Scope = vec![(table.name.clone(), table)];
        let (a, b) = (self.condition(1, &scope), self.condition(1, &scope));
        let returning = if self.dialect != Dialect::MySql { self.returning(table) } else { String::new() };
        format!("DELETE FROM {} WHERE {a} AND {b}{returning}", table.name)
    }

    fn kind(&mut self) -> Kind {
        match self.dialect {
            Dialect::Sqlite => *self.rng.pick(&[Kind::Int, Kind::Float, Kind::Text]),
            _ => *self.rng.pick(&[Kind::Int, Kind::Exact, Kind::Float, Kind::Text, Kind::Date]),
        }
    }

    fn select(&mut self, table: &Table) -> String {
        let scope: Scope = vec![("x".into(), table)];
        let outputs: Vec<String> = (0..1 + self.rng.below(3))
            .map(|index| {
                let kind = self.kind();
                format!("{} AS o{index}", self.expr(kind, 2, &scope))
            })
            .collect();
        let distinct = if self.rng.chance(20) { "DISTINCT " } else { "" };
        let list = if self.rng.chance(20) { "*".to_string() } else { outputs.join(", ") };
        let condition = self.condition(3, &scope);
        let mut text = format!("SELECT {distinct}{list} FROM {} x WHERE {condition}", table.name);
        if self.rng.chance(40) {
            let order = if list == "*" || distinct.is_empty() && self.rng.chance(50) {
                let keys: Vec<String> =
                    table.columns[..table.key].iter().map(|(name, _)| format!("x.{name}")).collect();
                keys.join(", ")
            } else {
                "o0".into()
            };
            let descending = *self.rng.pick(&["", " DESC"]);
            text += &format!(" ORDER BY {order}{descending}");
            if self.rng.chance(50) {
                text += &format!(" LIMIT {}", self.rng.below(4));
                // MariaDB 10.11 loses count of an OFFSET behind DISTINCT where the outputs are
                // constant.
                let offset = distinct.is_empty() || self.dialect != Dialect::MySql;
                if offset && self.rng.chance(30) {
                    text += &format!(" OFFSET {}", self.rng.below(3));
                }
            }
        }
        text
    }

    fn grouped(&mut self, table: &Table) -> String {
        let scope: Scope = vec![("x".into(), table)];
        let kind = self.kind();
        let key = self.expr(kind, 1, &scope);
        let mut outputs = Vec::new();
        for _ in 0..1 + self.rng.below(3) {
            let kind = *self.rng.pick(&[Kind::Int, Kind::Int, Kind::Float]);
            let arg = self.expr(kind, 1, &scope);
            let distinct = if self.rng.chance(25) { "DISTINCT " } else { "" };
            outputs.push(match self.rng.below(6) {
                0 => "COUNT(*)".to_string(),
                1 => format!("COUNT({distinct}{arg})"),
                2 => format!("SUM({distinct}{arg})"),
                3 => format!("MIN({arg})"),
                4 => format!("MAX({arg})"),
                _ => format!("AVG({arg})"),
            });
        }
        let condition = self.condition(2, &scope);
        let from = format!("FROM {} x WHERE {condition}", table.name);
        if self.rng.chance(30) {
            return format!("SELECT {} {from}", outputs.join(", "));
        }
        let having = match self.rng.below(3) {
            0 => format!(" HAVING COUNT(*) > {}", self.rng.below(3)),
            _ => String::new(),
        };
        // A constant key would be taken for a position.
        let constant = !key.contains("x.");
        if constant {
            return format!("SELECT {} {from}", outputs.join(", "));
        }
        format!("SELECT {key}, {} {from} GROUP BY {key}{having}", outputs.join(", "))
    }

    fn joined(&mut self, tables: &[Table]) -> String {
        let (left, right) = (self.rng.pick(tables).clone(), self.rng.pick(tables).clone());
        let scope: Scope = vec![("x".into(), &left), ("y".into(), &right)];
        let kind = self.kind();
        let (a, b) = (self.expr(kind, 1, &scope), self.expr(Kind::Int, 1, &scope));
        let on = if self.rng.chance(60) && left.columns[0].1 == right.columns[0].1 {
            format!("x.{} = y.{}", left.columns[0].0, right.columns[0].0)
        } else {
            self.condition(1, &scope)
        };
        let condition = self.condition(2, &scope);
        let join = match self.rng.below(3) {
            0 => format!("{} x LEFT JOIN {} y ON {on} WHERE {condition}", left.name, right.name),
            1 => format!("{} x INNER JOIN {} y ON {on} WHERE {condition}", left.name, right.name),
            _ => format!("{} x, {} y WHERE {on} AND {condition}", left.name, right.name),
        };
        match self.rng.below(4) {
            0 => format!("SELECT COUNT(*), MAX({b}) FROM {join}"),
            1 => format!("SELECT d.v FROM (SELECT {b} AS v FROM {join}) d WHERE d.v IS NOT NULL"),
            _ => format!("SELECT {a}, {b} FROM {join}"),
        }
    }
}
