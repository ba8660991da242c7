//! SQL values in certificates: keys of rows.

use margay_sql::Value;
use serde_json::{Value as Json, json};

/// A SQL value as JSON: integers, texts, truth values and NULL as they are, all others as an object
/// that names the type.
pub(super) fn sql_json(value: &Value) -> Json {
    match value {
        Value::Null => Json::Null,
        Value::Bool(truth) => (*truth).into(),
        Value::Int(number) => (*number).into(),
        Value::Text(text) => text.to_string().into(),
        Value::Decimal(number) => json!({ "decimal": number.to_string() }),
        Value::Float(number) => json!({ "float": number.to_bits() }),
        Value::Bytes(bytes) => json!({ "bytes": bytes.to_vec() }),
        Value::Date(days) => json!({ "date": days }),
        Value::Timestamp(micros) => json!({ "timestamp": micros }),
    }
}

/// The SQL value that a JSON value stands for.
pub(super) fn json_sql(json: &Json) -> Option<Value> {
    match json {
        Json::Null => Some(Value::Null),
        Json::Bool(truth) => Some(Value::Bool(*truth)),
        Json::Number(number) => number.as_i64().map(Value::Int),
        Json::String(text) => Some(Value::text(text)),
        Json::Array(_) => None,
        Json::Object(fields) => {
            let mut fields = fields.iter();
            let (Some((name, value)), None) = (fields.next(), fields.next()) else { return None };
            match name.as_str() {
                "decimal" => value.as_str()?.parse().ok().map(Value::Decimal),
                "float" => value.as_u64().map(|bits| Value::Float(f64::from_bits(bits))),
                "bytes" => {
                    let byte = |byte: &Json| byte.as_u64().and_then(|byte| u8::try_from(byte).ok());
                    let bytes: Option<Vec<u8>> = value.as_array()?.iter().map(byte).collect();
                    Some(Value::Bytes(bytes?.into()))
                }
                "date" => value.as_i64().and_then(|days| i32::try_from(days).ok()).map(Value::Date),
                "timestamp" => value.as_i64().map(Value::Timestamp),
                _ => None,
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_written_reads_back() {
        let values = [
            Value::Null,
            Value::Bool(true),
            Value::Int(i64::MIN),
            Value::Decimal("12.50".parse().expect("a decimal")),
            Value::Float(0.1),
            Value::text("a'b"),
            Value::Bytes(vec![0, 255].into()),
            Value::Date(-1),
            Value::Timestamp(1),
        ];
        for value in values {
            assert_eq!(json_sql(&sql_json(&value)), Some(value));
        }
        assert_eq!(json_sql(&json!({ "date": 1, "float": 2 })), None);
        assert_eq!(json_sql(&json!(1.5)), None);
    }
}
