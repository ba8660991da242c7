//! Values of the command line that have names: parsed leniently, completed from the names that are
//! printed.

use std::ffi::OsStr;

use clap::builder::{PossibleValue, TypedValueParser};
use margay::{Backend, Choice, Reading};
use margay_drivers::{Harm, Target};
use margay_formats::Format;
use margay_levels::{Anomaly, Level, UnknownName, profile};
use margay_simdb::Protocol;
use margay_workloads::{Distribution, WORKLOADS, Workload};

use crate::level::Asked;
use crate::run;

/// A target may hold a password, which an error must not repeat.
#[derive(Clone)]
pub struct TargetParser;

impl TypedValueParser for TargetParser {
    type Value = Target;

    fn parse_ref(
        &self,
        command: &clap::Command,
        _: Option<&clap::Arg>,
        value: &OsStr,
    ) -> Result<Target, clap::Error> {
        let target = value.to_str().ok_or("a target is text".to_owned()).and_then(str::parse);
        target.map_err(|why: String| command.clone().error(clap::error::ErrorKind::ValueValidation, why))
    }

    /// For completion: the targets that are complete as they are.
    fn possible_values(&self) -> Option<Box<dyn Iterator<Item = PossibleValue> + '_>> {
        Some(Box::new(targets().into_iter().map(PossibleValue::new)))
    }
}

/// A value known by name: parsed leniently, completed from the names that are printed.
pub struct Named<T> {
    parse: fn(&str) -> Result<T, String>,
    names: fn() -> Vec<&'static str>,
}

pub const LEVEL: Named<Asked> = Named { parse: Asked::parse, names: Asked::names };
pub const WORKLOAD: Named<Workload> = Named {
    parse: |name| name.parse().map_err(|error: UnknownName| error.to_string()),
    names: || WORKLOADS.iter().map(|workload| workload.name).collect(),
};
pub const FORMAT: Named<Format> =
    Named { parse: str::parse, names: || Format::ALL.map(Format::name).to_vec() };
/// Any format is understood where one is written, so that the error can say that it is read only;
/// only those that can be are offered.
pub const WRITTEN: Named<Format> = Named { parse: str::parse, names: writable };
pub const ENGINE: Named<Choice> = Named {
    parse: |name| margay::by_name(name).map_err(|error| error.to_string()),
    names: || {
        let engines = margay::all().iter().map(|engine| engine.name());
        std::iter::once("auto").chain(engines).collect()
    },
};

/// What `margay explain` knows; other names are its error, with the nearest.
pub const EXPLAINED: Named<String> = Named { parse: |name| Ok(name.to_owned()), names: explained };
/// Profiles; the file of one is also understood.
pub const PROFILE: Named<String> = Named { parse: |name| Ok(name.to_owned()), names: profiles };
/// What a database promises is a level.
pub const PROMISE: Named<Level> =
    Named { parse: |name| name.parse().map_err(|error: UnknownName| error.to_string()), names: Asked::names };
/// `kill`, or `kill=5s`.
pub const HARM: Named<margay_runner::Every> =
    Named { parse: run::fault, names: || Harm::ALL.map(Harm::name).to_vec() };
pub const DISTRIBUTION: Named<Distribution> = Named {
    parse: |name| name.parse().map_err(|error: UnknownName| error.to_string()),
    names: || vec!["uniform", "zipf", "hotspot"],
};

/// A text that completion has names for.
pub fn offered(names: fn() -> Vec<&'static str>) -> impl TypedValueParser<Value = String> {
    Named { parse: |name| Ok(name.to_owned()), names }
}

fn targets() -> Vec<&'static str> {
    let simulated = Protocol::ALL.into_iter().map(|protocol| &*format!("sim:{}", protocol.name()).leak());
    std::iter::once("sqlite").chain(simulated).collect()
}

fn profiles() -> Vec<&'static str> {
    // The program offers names once and ends.
    profile::all().map(|profile| &*profile.name().leak()).collect()
}

fn explained() -> Vec<&'static str> {
    let levels = Level::ALL.map(Level::name);
    let anomalies = Anomaly::ALL.iter().map(|anomaly| anomaly.name());
    levels.into_iter().chain(anomalies).chain(["ww", "wr", "rw"]).chain(profiles()).collect()
}

pub const READING: Named<Reading> = Named {
    parse: |name| Reading::from_name(name).ok_or_else(|| "there are: item, statement".to_owned()),
    names: || Reading::ALL.iter().map(|(_, name)| *name).collect(),
};

pub const BACKEND: Named<Backend> = Named {
    parse: |name| Backend::from_name(name).ok_or_else(|| "there are: search, smt, z3, cvc5".to_owned()),
    names: || Backend::ALL.iter().map(|(_, name)| *name).collect(),
};

pub const STRATEGY: Named<String> = Named {
    parse: |name| {
        if margay::strategies().any(|known| known == name) {
            Ok(name.to_owned())
        } else {
            Err(format!("there are: {}", margay::strategies().collect::<Vec<_>>().join(", ")))
        }
    },
    names: || margay::strategies().collect(),
};

fn writable() -> Vec<&'static str> {
    Format::ALL.into_iter().filter(|format| format.can_write()).map(Format::name).collect()
}

impl<T> Clone for Named<T> {
    fn clone(&self) -> Self {
        Self { ..*self }
    }
}

impl<T: Clone + Send + Sync + 'static> TypedValueParser for Named<T> {
    type Value = T;

    fn parse_ref(
        &self,
        command: &clap::Command,
        argument: Option<&clap::Arg>,
        value: &OsStr,
    ) -> Result<T, clap::Error> {
        self.parse.parse_ref(command, argument, value)
    }

    fn possible_values(&self) -> Option<Box<dyn Iterator<Item = PossibleValue> + '_>> {
        Some(Box::new((self.names)().into_iter().map(PossibleValue::new)))
    }
}
