//! Drivers that speak SQL.

use std::sync::Mutex;

use margay_client::sql::{Session, SqlStore, Upsert};
use margay_client::text::translate;
use margay_client::{Answer, Cell, Trouble};
use serde_json::{Map, Value as Json, json};

use super::hello::{Dialect, Parameters};
use super::{Driver, Hello, Process, Speaks};

/// The database of a driver.
#[derive(Debug)]
pub(super) struct Statements {
    pub driver: Driver,
    pub hello: Hello,
    /// The process that said hello. It stays, for some databases live in the first process that
    /// opens them.
    pub _first: Mutex<Process>,
}

impl Statements {
    fn dialect(&self) -> Dialect {
        match self.hello.speaks {
            Speaks::Sql(dialect) => dialect,
            Speaks::Keys { .. } => {
                Dialect { parameters: Parameters::Marks, upsert: Upsert::OnConflict, returning: false }
            }
        }
    }
}

impl SqlStore for Statements {
    type Session<'a> = Client<'a>;

    fn connect(&self, level: &str) -> Result<Client<'_>, String> {
        let (process, _) = self.driver.start()?;
        Ok(Client { of: self, process, level: level.to_owned(), dialect: self.dialect() })
    }

    fn identity(&self) -> (String, String) {
        (self.hello.name.clone(), self.hello.version.clone())
    }

    fn levels(&self) -> Vec<&'static str> {
        self.hello.levels.iter().map(|(name, _)| *name).collect()
    }

    fn upsert(&self) -> Upsert {
        self.dialect().upsert
    }
}

/// One client, in a process of its own.
#[derive(Debug)]
pub(super) struct Client<'a> {
    of: &'a Statements,
    process: Process,
    level: String,
    dialect: Dialect,
}

impl Client<'_> {
    fn ask(&mut self, request: &Json) -> Result<Map<String, Json>, Trouble> {
        self.process.ask(&self.of.driver, request)
    }
}

impl Session for Client<'_> {
    fn begin(&mut self) -> Result<(), Trouble> {
        self.ask(&json!({"op": "begin", "level": self.level, "reading": false})).map(drop)
    }

    fn sql(&mut self, text: &str, params: &[Cell]) -> Result<Answer, Trouble> {
        let request = request(text, params, self.dialect.parameters);
        let told = self.ask(&request)?;
        answer(&told).ok_or_else(|| {
            let told = Json::Object(told);
            let why = format!(
                "the driver answered {request} with {told}, where `rows` (lists of null, whole numbers and \
                 texts) or `count` is wanted"
            );
            Trouble::Failed(self.of.driver.break_with(why))
        })
    }

    fn commit(&mut self) -> Result<(), Trouble> {
        self.ask(&json!({"op": "commit"})).map(drop)
    }

    fn rollback(&mut self) -> Result<(), Trouble> {
        self.ask(&json!({"op": "rollback"})).map(drop)
    }

    fn has_returning(&self) -> bool {
        self.dialect.returning
    }

    fn writes_alike(&self) -> bool {
        self.dialect.upsert == Upsert::OnConflict
    }

    fn deletes_read(&self) -> bool {
        self.dialect.upsert == Upsert::OnConflict
    }
}

fn request(text: &str, params: &[Cell], style: Parameters) -> Json {
    let mark = match style {
        Parameters::Numbered => return json!({"op": "sql", "text": text, "params": cells(params)}),
        Parameters::Marks => "?",
        Parameters::Formats => "%s",
    };
    let text = if style == Parameters::Formats { text.replace('%', "%%") } else { text.to_owned() };
    let translated = translate(&text, |_| mark.to_owned());
    let params: Vec<Cell> = translated.params.iter().filter_map(|&at| params.get(at).cloned()).collect();
    json!({"op": "sql", "text": translated.text, "params": cells(&params)})
}

fn cells(cells: &[Cell]) -> Vec<Json> {
    let json = |cell: &Cell| match cell {
        Cell::Null => Json::Null,
        Cell::Int(int) => json!(int),
        Cell::Text(text) => json!(text),
    };
    cells.iter().map(json).collect()
}

fn answer(told: &Map<String, Json>) -> Option<Answer> {
    let Some(rows) = told.get("rows") else {
        // Many libraries say -1 of statements that count nothing.
        let count = told.get("count")?.as_i64()?.try_into().unwrap_or(0);
        return Some(Answer { count, ..Answer::default() });
    };
    let rows = rows.as_array()?.iter().map(Json::as_array).collect::<Option<Vec<_>>>()?;
    let columns = rows.first().map_or(1, |row| row.len());
    if columns == 0 || rows.iter().any(|row| row.len() != columns) {
        return None;
    }
    let cells = rows.into_iter().flatten().map(cell).collect::<Option<_>>()?;
    Some(Answer { columns, cells, count: 0 })
}

fn cell(json: &Json) -> Option<Cell> {
    match json {
        Json::Null => Some(Cell::Null),
        Json::Bool(is) => Some(Cell::Int(i64::from(*is))),
        Json::Number(number) => {
            Some(number.as_i64().map_or_else(|| Cell::Text(number.to_string()), Cell::Int))
        }
        Json::String(text) => Some(Cell::Text(text.clone())),
        Json::Array(_) | Json::Object(_) => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn parameters_stand_as_the_driver_wants_them() {
        let params = [Cell::Int(1), Cell::from("x")];
        let asked = |style| request("UPDATE t SET v = $2 WHERE k = $1 AND v LIKE 'a%'", &params, style);
        assert_eq!(asked(Parameters::Marks)["text"], "UPDATE t SET v = ? WHERE k = ? AND v LIKE 'a%'");
        assert_eq!(asked(Parameters::Marks)["params"], json!(["x", 1]));
        assert_eq!(asked(Parameters::Formats)["text"], "UPDATE t SET v = %s WHERE k = %s AND v LIKE 'a%%'");
        assert_eq!(asked(Parameters::Numbered)["params"], json!([1, "x"]));
    }

    #[test]
    fn an_answer_is_rows_or_a_count() {
        let read = |json: Json| json.as_object().and_then(answer);
        let rows = read(json!({"rows": [[1, null], ["a", 2.5]]})).expect("an answer");
        let cells = [Cell::Int(1), Cell::Null, Cell::from("a"), Cell::from("2.5")];
        assert_eq!((rows.columns, rows.cells.as_slice()), (2, cells.as_slice()));
        assert_eq!(read(json!({"count": 3})).map(|answer| answer.count), Some(3));
        for wrong in [json!({}), json!({"rows": [[1], []]}), json!({"rows": [[[1]]]}), json!({"count": "1"})]
        {
            assert_eq!(read(wrong.clone()), None, "{wrong}");
        }
    }
}
