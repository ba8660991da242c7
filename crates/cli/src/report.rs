//! `margay report`, and the files that other commands write reports to.

use std::path::Path;

use margay_report::html::{self, Place};
use margay_report::limit::visible;
use margay_report::{Report, dot, junit, svg, text};
use serde_json::Value;

use crate::args::{Form, OutputArgs, ReportArgs};
use crate::failure::{Failure, Status};
use crate::files;
use crate::terminal::{self, Paint, width};

/// Shows a result that was kept.
pub fn run(args: ReportArgs) -> Result<Status, Failure> {
    let report = read(&args.result)?;
    let form = args.to.unwrap_or_else(|| by_name(&args.output));
    let paint =
        if files::is_stream(&args.output) { Paint::for_stdout().inner() } else { margay_report::Paint::OFF };
    let case = args.anomaly as usize - 1;
    let shown = match form {
        Form::Text => Some(text::closed(&text::text(&report, paint, width()), &report, paint)),
        Form::Html => Some(html::page(&report, Place::File)),
        Form::Junit => Some(junit::junit(&report)),
        Form::Dot => dot::dot(&report, case),
        Form::Svg => svg::svg(&report, case),
    };
    let shown = shown.ok_or_else(|| {
        Failure::new(format!("{}: anomaly {} has no cycle to draw", args.result.display(), args.anomaly))
    })?;
    files::write_text(&args.output, &shown)?;
    Ok(Status::Fine)
}

fn read(path: &Path) -> Result<Report, Failure> {
    let text = files::read_text(path)?;
    let failed = |error| Failure::new(format!("{}: no result of --json: {error}", path.display()));
    let mut value: Value = serde_json::from_str(&text).map_err(failed)?;
    make_visible(&mut value);
    serde_json::from_value(value).map_err(failed)
}

/// Whoever wrote the file, nothing in it may speak to a terminal. The parser limits how deep values
/// nest.
fn make_visible(value: &mut Value) {
    match value {
        Value::String(text) => *text = visible(text),
        Value::Array(items) => items.iter_mut().for_each(make_visible),
        Value::Object(fields) => {
            let all = std::mem::take(fields);
            for (name, mut field) in all {
                make_visible(&mut field);
                fields.insert(visible(&name), field);
            }
        }
        Value::Null | Value::Bool(_) | Value::Number(_) => {}
    }
}

fn by_name(path: &Path) -> Form {
    match path.extension().and_then(|extension| extension.to_str()) {
        Some("html" | "htm") => Form::Html,
        Some("xml") => Form::Junit,
        Some("dot" | "gv") => Form::Dot,
        Some("svg") => Form::Svg,
        _ => Form::Text,
    }
}

/// Writes a report in the forms that are wanted. A picture that cannot be drawn is a warning: the
/// verdict matters more.
pub fn write(wanted: &OutputArgs, report: &Report) -> Result<(), Failure> {
    if let Some(path) = &wanted.report {
        files::write_text(path, &html::page(report, Place::File))?;
    }
    if let Some(path) = &wanted.junit {
        files::write_text(path, &junit::junit(report))?;
    }
    for (path, drawn) in [(&wanted.dot, dot::dot(report, 0)), (&wanted.svg, svg::svg(report, 0))] {
        match (path, drawn) {
            (Some(path), Some(drawn)) => files::write_text(path, &drawn)?,
            (Some(path), None) => {
                terminal::warn(&format!("{}: not written, because there is no cycle", path.display()));
            }
            (None, _) => {}
        }
    }
    Ok(())
}

/// Whether something else than the account goes to standard output; an error if two things would.
pub fn one_stream<'a>(
    json: bool,
    wanted: &'a OutputArgs,
    others: impl IntoIterator<Item = Option<&'a Path>>,
) -> Result<bool, Failure> {
    let own = [&wanted.report, &wanted.junit, &wanted.dot, &wanted.svg].map(Option::as_deref);
    let streams = own.into_iter().chain(others).flatten().filter(|path| files::is_stream(path)).count();
    match streams + usize::from(json) {
        0 | 1 => Ok(streams > 0),
        _ => Err(Failure::new("only one of --json and the files named `-` can have standard output")),
    }
}
