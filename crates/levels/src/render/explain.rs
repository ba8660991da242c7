//! `margay explain NAME`: whatever bears that name.

use super::text::{list, wrap};
use super::{WIDTH, ruled_out};
use crate::anomaly::{Cycle, Kind, Order, Rw};
use crate::profile::{self, Found, Profile, Statement};
use crate::{Anomaly, Level, Model, cite, names};

/// The explanation of a level, anomaly (mechanisms are among them), model or profile, or of several
/// that share the name; `None` where nothing bears it.
pub fn explain(name: &str) -> Option<String> {
    let level = name.parse::<Level>().ok();
    let model = name.parse::<Model>().ok().filter(|m| level.is_none() || m.level() != level);
    let parts = [
        level.map(explain_level),
        name.parse::<Anomaly>().ok().map(explain_anomaly),
        model.map(explain_model),
        name.parse::<Found>().ok().map(|p| explain_profile(p.0)),
        explain_dependency(name),
    ];
    let parts: Vec<String> = parts.into_iter().flatten().collect();
    (!parts.is_empty()).then(|| parts.join("\n"))
}

/// What an arrow of a cycle means.
fn explain_dependency(name: &str) -> Option<String> {
    let (title, text) = match name.to_lowercase().as_str() {
        "ww" => (
            "ww, overwritten",
            "An arrow T1 → T2 of kind ww says that T2 overwrote what T1 wrote: of one object, T2's version comes \
             after T1's. So T1 comes before T2. Also called a write dependency.",
        ),
        "wr" => (
            "wr, read",
            "An arrow T1 → T2 of kind wr says that T2 read what T1 wrote. So T1 comes before T2. Also called a read \
             dependency, or reads-from.",
        ),
        "rw" => (
            "rw, missed",
            "An arrow T1 → T2 of kind rw says that T1 read a version that T2 overwrote: T1 missed T2's write. So T1 \
             comes before T2, although T1 may have committed later. Over a search it says that T2 wrote a row that \
             T1's search should have found, had T2 come first. Also called an anti-dependency.",
        ),
        "session" => (
            "session, the order of one client",
            "An arrow T1 → T2 of kind session says that one client ran T1 and then T2.",
        ),
        "real-time" => (
            "real-time, the order of the clock",
            "An arrow T1 → T2 of kind real-time says that T1 had ended before T2 began.",
        ),
        _ => return None,
    };
    Some(Page::new(&format!("dependency {title}"), text).0)
}

/// Names near an unknown one, nearest first.
pub fn suggestions(name: &str) -> Vec<String> {
    let levels = Level::ALL.iter().flat_map(|l| std::iter::once(l.name()).chain(l.aliases().iter().copied()));
    let known =
        levels.chain(Anomaly::ALL.iter().map(|a| a.name())).chain(Model::ALL.iter().flat_map(|m| m.names()));
    let profiles: Vec<String> = profile::all().map(Profile::name).collect();
    names::nearest(name, known.chain(profiles.iter().map(String::as_str)))
}

fn explain_level(level: Level) -> String {
    let definition = level.definition();
    let mut page = Page::new(&format!("level {level}"), definition.text);
    page.field("Also called", &list(level.aliases()));
    page.field("Session order", yes(definition.session_order));
    page.field("Real time", yes(definition.real_time));
    page.field("Found as", definition.family.name());
    page.field("Implies", &list(&level.weaker()));
    page.field("Implied by", &list(&level.stronger()));
    page.field("Forbids", &list(&named(level.forbidden())));
    let added = level.directly_forbids().iter().map(|a| a.entry());
    if let Some((anomaly, example)) = added.filter_map(|e| Some((e.anomaly, e.example?))).next() {
        page.field("Not legal", &format!("{example}  ({anomaly})"));
    }
    let promised = profile::all().filter(|p| p.promises.contains(&level)).map(Profile::name);
    page.field("Promised by", &promised.collect::<Vec<_>>().join(", "));
    page.sources(definition.cites)
}

fn explain_anomaly(anomaly: Anomaly) -> String {
    let entry = anomaly.entry();
    let mut page = Page::new(&format!("anomaly {anomaly}"), &entry.definition);
    page.field("Kind", &kind_words(entry.kind));
    page.field("Ruled out", &ruled_out(anomaly));
    let forbidding: Vec<Level> = Level::ALL.into_iter().filter(|l| l.forbids(anomaly)).collect();
    page.field("Forbidden by", &list(&forbidding));
    let implied: Vec<String> = entry.implies.iter().map(|(a, source)| format!("{a} [{source}]")).collect();
    page.field("Implies", &implied.join(", "));
    page.field("Elle rules out", &list(&crate::model::boundary([anomaly]).not));
    let users = profile::all().filter(|p| p.uses(anomaly)).map(Profile::name);
    page.field("Used by", &users.collect::<Vec<_>>().join(", "));
    page.field("Example", entry.example.unwrap_or(""));
    page.sources(entry.cites)
}

fn explain_model(model: Model) -> String {
    let text = match model.level() {
        Some(level) => format!("A model of Elle's; the same as the level {level}."),
        None => {
            "A consistency model that Elle names. An anomaly can rule it out; no engine proves it.".to_owned()
        }
    };
    let text = format!("{} {text}", model.summary());
    let mut page = Page::new(&format!("model {model}"), &text);
    page.field("Names", &model.names().join(", "));
    page.field("Implies", &list(&model.all_implied()));
    page.field("Forbids", &list(&named(model.prohibited_anomalies())));
    page.sources(&["Elle"])
}

fn explain_profile(p: &Profile) -> String {
    let mut page = Page::new(&format!("profile {}", p.name()), p.note);
    page.field("Own name", p.own_name);
    page.field("Protocol", p.protocol);
    let [_, consistent_read, mutual_exclusion, first_updater, certifier, promises] = super::profile_cells(p);
    page.field("Consistent read", &consistent_read);
    page.field("Mutual exclusion", &mutual_exclusion);
    page.field("First updater wins", &first_updater);
    page.field("Certifier", &certifier);
    page.field("Promises", &promises);
    for deviation in p.deviations {
        let told = format!("{}: {} ({})", deviation.name, deviation.explanation, deviation.documented);
        page.field("Known deviation", &told);
    }
    for statement in Statement::ALL {
        let mode = p.mode(statement);
        let words = [mode.lock.name(), mode.read.name(), mode.predicate.name()];
        page.field(
            statement.name(),
            &words.into_iter().filter(|w| !w.is_empty()).collect::<Vec<_>>().join("; "),
        );
    }
    page.sources(p.cites)
}

/// Anomalies without the "cycle exists" ones, which are other words for the level itself.
fn named(anomalies: Vec<Anomaly>) -> Vec<Anomaly> {
    anomalies.into_iter().filter(|a| a.entry().kind != Kind::Search).collect()
}

fn yes(is: bool) -> &'static str {
    if is { "yes" } else { "no" }
}

fn kind_words(kind: Kind) -> String {
    match kind {
        Kind::Cycle(cycle) => cycle_words(cycle),
        Kind::Local => "seen without a cycle".to_owned(),
        Kind::Group => "a union, or a phenomenon that histories alone do not show".to_owned(),
        Kind::Search => "some cycle, where no smaller name fits".to_owned(),
        Kind::Mechanism => "a mechanism of a database did not do its work".to_owned(),
        Kind::Ambiguity => "no violation".to_owned(),
    }
}

fn cycle_words(cycle: Cycle) -> String {
    let edges = if cycle.wr { "ww, wr" } else { "ww" };
    let over = if cycle.predicate_rw { "objects or predicates" } else { "objects" };
    let rw = match cycle.rw {
        Rw::None => "no rw".to_owned(),
        Rw::One => format!("one rw, over {over}"),
        Rw::NonAdjacent => format!("two or more rw, none adjacent, over {over}"),
        Rw::Adjacent => format!("two or more rw, some adjacent, over {over}"),
    };
    let order = match cycle.order {
        Order::Dependencies => "",
        Order::Session => "; session order",
        Order::RealTime => "; real time",
    };
    format!("cycle of {edges}; {rw}{order}")
}

/// A page under construction: a title, a paragraph, fields.
struct Page(String);

/// Field names take this many columns.
const LABEL: usize = 22;

impl Page {
    fn new(title: &str, text: &str) -> Self {
        Self(format!("{title}\n\n{}\n", wrap(text, WIDTH, "  ")))
    }

    /// A field; one with nothing to say is left out.
    fn field(&mut self, label: &str, value: &str) {
        if value.is_empty() {
            return;
        }
        let wrapped = wrap(value, WIDTH, &" ".repeat(LABEL));
        self.0.push_str(&format!("  {label:<width$}{}", &wrapped[LABEL..], width = LABEL - 2));
    }

    fn sources(mut self, keys: &[&str]) -> String {
        self.0.push_str("\n  Sources\n");
        for reference in keys.iter().filter_map(|k| cite::find(k)) {
            self.0.push_str(&wrap(&format!("[{}] {}", reference.key, reference.text), WIDTH, "  "));
        }
        self.0
    }
}
