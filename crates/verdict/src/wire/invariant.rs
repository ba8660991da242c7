//! What cells can be, to JSON and back. Numbers may have more than 64 bits, so they are texts.

use margay_sql::{Numbers, Possible, Value};
use serde_json::{Value as Json, json};

use super::sql::{json_sql, sql_json};
use crate::execution::InvariantCell;

/// A cell: `[table, key, column, values]`.
pub(super) fn cell_json(cell: &InvariantCell) -> Json {
    let key: Json = cell.key.iter().map(sql_json).collect();
    let values = match &cell.values {
        Possible::Any => Json::Null,
        Possible::Of(values) => json!({ "values": values.iter().map(sql_json).collect::<Vec<_>>() }),
        Possible::Numbers(numbers) => json!({
            "low": numbers.low.to_string(),
            "high": numbers.high.to_string(),
            "step": numbers.step.to_string(),
            "scale": numbers.scale,
            "null": numbers.null,
        }),
    };
    json!([cell.table, key, cell.column, values])
}

/// The cell that a JSON value stands for.
pub(super) fn json_cell(json: &Json) -> Result<InvariantCell, String> {
    let wrong = || format!("a cell of an invariant is [table, key, column, values], not {json}");
    let Some([table, key, column, values]) = json.as_array().map(Vec::as_slice) else { return Err(wrong()) };
    let (Some(table), Some(key), Some(column)) = (table.as_str(), key.as_array(), column.as_str()) else {
        return Err(wrong());
    };
    let key: Option<Vec<Value>> = key.iter().map(json_sql).collect();
    let (Some(key), Some(values)) = (key, json_possible(values)) else { return Err(wrong()) };
    Ok(InvariantCell { table: table.to_owned(), key, column: column.to_owned(), values })
}

fn json_possible(json: &Json) -> Option<Possible> {
    if json.is_null() {
        return Some(Possible::Any);
    }
    let fields = json.as_object()?;
    if let Some(values) = fields.get("values").filter(|_| fields.len() == 1) {
        return values.as_array()?.iter().map(json_sql).collect::<Option<_>>().map(Possible::Of);
    }
    let number = |name: &str| fields.get(name)?.as_str()?.parse::<i128>().ok();
    let numbers = Numbers {
        low: number("low")?,
        high: number("high")?,
        step: number("step").filter(|&step| step > 0)?,
        scale: fields.get("scale")?.as_u64().and_then(|scale| u32::try_from(scale).ok())?,
        null: fields.get("null")?.as_bool()?,
    };
    (fields.len() == 5 && numbers.low <= numbers.high).then_some(Possible::Numbers(numbers))
}
