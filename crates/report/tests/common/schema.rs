//! As much of JSON Schema as `docs/REPORT.schema.json` uses, so that documents can be held against
//! it without a library.

use serde_json::Value;

/// Every way in which `value` is not what `schema` says, with its place.
pub fn errors(root: &Value, schema: &Value, value: &Value, place: &str) -> Vec<String> {
    if let Some(name) = schema["$ref"].as_str() {
        let target =
            root.pointer(name.trim_start_matches('#')).unwrap_or_else(|| panic!("{name} leads nowhere"));
        return errors(root, target, value, place);
    }
    let mut found = Vec::new();
    if !has_type(schema, value) {
        found.push(format!("{place}: {} expected, found {value}", schema["type"]));
    }
    if let Some(allowed) = schema["enum"].as_array()
        && !allowed.contains(value)
    {
        found.push(format!("{place}: {value} is none of {}", schema["enum"]));
    }
    if let Some(least) = schema["minimum"].as_f64()
        && value.as_f64().is_some_and(|number| number < least)
    {
        found.push(format!("{place}: {value} is less than {least}"));
    }
    found.extend(in_object(root, schema, value, place));
    if let (Some(items), true) = (value.as_array(), schema["items"].is_object()) {
        let each = items.iter().enumerate();
        found
            .extend(each.flat_map(|(i, item)| errors(root, &schema["items"], item, &format!("{place}/{i}"))));
    }
    found
}

fn has_type(schema: &Value, value: &Value) -> bool {
    let is = |name: &str| match name {
        "null" => value.is_null(),
        "boolean" => value.is_boolean(),
        "string" => value.is_string(),
        "integer" => value.is_i64() || value.is_u64(),
        "number" => value.is_number(),
        "array" => value.is_array(),
        "object" => value.is_object(),
        other => panic!("no type {other}"),
    };
    match &schema["type"] {
        Value::String(name) => is(name),
        Value::Array(names) => names.iter().filter_map(Value::as_str).any(is),
        _ => true,
    }
}

fn in_object(root: &Value, schema: &Value, value: &Value, place: &str) -> Vec<String> {
    let Some(fields) = value.as_object() else { return Vec::new() };
    let required = schema["required"].as_array().into_iter().flatten().filter_map(Value::as_str);
    let missing = required.filter(|name| !fields.contains_key(*name));
    let mut found: Vec<String> = missing.map(|name| format!("{place}: no {name}")).collect();
    for (name, field) in fields {
        match schema["properties"].get(name) {
            Some(inner) => found.extend(errors(root, inner, field, &format!("{place}/{name}"))),
            None if schema["additionalProperties"] == false => {
                found.push(format!("{place}: {name} is unknown"))
            }
            None => {}
        }
    }
    found
}
