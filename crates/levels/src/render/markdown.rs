//! The generated parts of `docs/LEVELS.md`, and all of `docs/REFERENCES.md`.

use super::{LATTICE, SECTIONS, profile_cells, text};
use crate::cite::REFERENCES;
use crate::profile;
use crate::{Anomaly, Level, Model};

/// Replaces what stands between `<!-- NAME -->` and `<!-- end -->` in `document` by the section of
/// that name.
///
/// A marker of an unknown name is left as it is; so is a marker without an end.
pub fn fill(document: &str) -> String {
    let mut out = String::new();
    let mut rest = document;
    while let Some((before, name, after)) = next_marker(rest) {
        out.push_str(&format!("{before}<!-- {name} -->\n"));
        match section(name) {
            Some(text) => out.push_str(&format!("{text}<!-- end -->")),
            None => {
                out.push_str(&rest[before.len() + name.len() + "<!--  -->\n".len()..rest.len() - after.len()])
            }
        }
        rest = after;
    }
    out.push_str(rest);
    out
}

/// What stands before the next marker, its name, and what follows its end.
fn next_marker(text: &str) -> Option<(&str, &str, &str)> {
    let (before, inside) = text.split_once("<!-- ")?;
    let (name, inside) = inside.split_once(" -->\n")?;
    let (_, after) = inside.split_once("<!-- end -->")?;
    Some((before, name, after))
}

fn section(name: &str) -> Option<String> {
    match name {
        "lattice" => Some(format!("```text{LATTICE}```\n")),
        "levels" => Some(levels()),
        "definitions" => Some(Level::ALL.into_iter().map(definition).collect()),
        "anomalies" => Some(anomalies()),
        "examples" => Some(examples()),
        "models" => Some(models()),
        "profiles" => Some(profiles()),
        _ => None,
    }
}

fn row<const N: usize>(cells: [String; N]) -> String {
    format!("| {} |\n", cells.map(|c| c.replace('|', "\\|")).join(" | "))
}

fn head<const N: usize>(cells: [&str; N]) -> String {
    format!("{}|{}\n", row(cells.map(str::to_owned)), "---|".repeat(N))
}

fn code<T: ToString>(items: impl IntoIterator<Item = T>) -> String {
    let items: Vec<String> = items.into_iter().map(|i| format!("`{}`", i.to_string())).collect();
    if items.is_empty() { "–".to_owned() } else { items.join(", ") }
}

fn levels() -> String {
    let mut out =
        head(["level", "also called", "session order", "real time", "found as", "implies directly"]);
    let yes = |b: bool| if b { "yes" } else { "–" }.to_owned();
    for l in Level::ALL {
        let d = l.definition();
        let order = [yes(d.session_order), yes(d.real_time), d.family.name().to_owned()];
        let [session, real_time, family] = order;
        let (name, aliases) = (code([l]), l.aliases().join(", "));
        out.push_str(&row([name, aliases, session, real_time, family, code(l.directly_implies())]));
    }
    out
}

fn definition(level: Level) -> String {
    let d = level.definition();
    text::item(&format!("**`{level}`**: {} \\[{}\\]", d.text, d.cites.join(", ")))
}

fn anomalies() -> String {
    let mut out = String::new();
    for (title, wanted) in SECTIONS {
        out.push_str(&format!(
            "**{title}**\n\n{}",
            head(["anomaly", "weakest levels ruled out", "implies", "summary"])
        ));
        for &a in Anomaly::ALL.iter().filter(|a| wanted(a.entry().kind)) {
            let implied = code(a.directly_implies());
            out.push_str(&row([code([a]), code(a.weakest_forbidding()), implied, a.entry().summary.clone()]));
        }
        out.push('\n');
    }
    out
}

fn examples() -> String {
    let mut out = String::from("```text\n");
    for &a in Anomaly::ALL {
        if let Some(example) = a.entry().example {
            out.push_str(&format!("{:<28} {example}\n", a.name()));
        }
    }
    out + "```\n"
}

fn models() -> String {
    let mut out = head(["model", "other names", "our level", "implies directly", "forbids directly"]);
    for &m in Model::ALL {
        let others = m.names()[1..].join(", ");
        let level = code(m.level());
        let (implied, prohibited) = (code(m.directly_implies()), code(m.directly_prohibits()));
        out.push_str(&row([code([m]), others, level, implied, prohibited]));
    }
    out
}

fn profiles() -> String {
    let mut out =
        head(["profile", "consistent read", "mutual exclusion", "FUW", "certifier", "promises", "sources"]);
    for p in profile::all() {
        let [name, cr, me, fuw, sc, promises] = profile_cells(p);
        out.push_str(&row([name, cr, me, fuw, sc, promises, p.cites.join(", ")]));
    }
    out
}

/// All of `docs/REFERENCES.md`.
pub fn references() -> String {
    let mut out = String::from(
        "# References\n\nThe keys that code and documents cite. This page is generated from \
         `crates/levels/src/cite.rs`.\n\n",
    );
    for r in REFERENCES {
        out.push_str(&text::item(&format!("**{}**: {}", r.key, r.text)));
    }
    out
}
