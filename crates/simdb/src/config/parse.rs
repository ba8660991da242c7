//! Options from text. Fractions are read digit by digit: no float takes part.

use std::fmt;

use margay_levels::UnknownName;

use super::{EvidenceOptions, Kind, Mix, Ppm};
use crate::fault::Fault;

/// Why a configuration cannot be.
#[derive(Clone, PartialEq, Eq, Debug)]
#[non_exhaustive]
pub enum ConfigError {
    /// The option takes something else.
    Expected {
        /// The option.
        option: String,
        /// What was given.
        given: String,
        /// What it takes.
        expected: String,
    },
    /// There is nothing of this name.
    Unknown(UnknownName),
}

impl ConfigError {
    pub(super) fn new(option: &str, given: &str, expected: impl Into<String>) -> Self {
        Self::Expected { option: option.to_string(), given: given.to_string(), expected: expected.into() }
    }

    pub(super) fn unknown(option: &str) -> Self {
        Self::Unknown(UnknownName::among("option", option, super::OPTIONS.iter().map(|o| o.0)))
    }
}

impl From<UnknownName> for ConfigError {
    fn from(error: UnknownName) -> Self {
        Self::Unknown(error)
    }
}

impl fmt::Display for ConfigError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Expected { option, given, expected } => {
                write!(f, "--{option} takes {expected}, not {given:?}")
            }
            Self::Unknown(error) => error.fmt(f),
        }
    }
}

impl std::error::Error for ConfigError {}

pub(super) fn count(option: &str, text: &str, least: u64, most: u64) -> Result<u64, ConfigError> {
    let number = text.replace('_', "").parse().ok().filter(|n| (least..=most).contains(n));
    number.ok_or_else(|| ConfigError::new(option, text, format!("a number from {least} to {most}")))
}

/// `N` or `A-B`.
pub(super) fn span(option: &str, text: &str) -> Result<(u32, u32), ConfigError> {
    let (low, high) = text.split_once('-').unwrap_or((text, text));
    let (low, high) = (count(option, low, 0, 10_000)?, count(option, high, 0, 10_000)?);
    if low <= high {
        Ok((low as u32, high as u32))
    } else {
        Err(ConfigError::new(option, text, "a range whose ends are in order"))
    }
}

/// `0.25`, `1`, `25%`.
pub(super) fn ppm(option: &str, text: &str) -> Result<Ppm, ConfigError> {
    let error = || ConfigError::new(option, text, "a probability such as 0.25 or 25%");
    let (digits, scale) = match text.strip_suffix('%') {
        Some(digits) => (digits, 4),
        None => (text, 6),
    };
    let (whole, fraction) = digits.split_once('.').unwrap_or((digits, ""));
    let all_digits = |part: &str| part.bytes().all(|b| b.is_ascii_digit());
    if whole.len() + fraction.len() == 0
        || !all_digits(whole)
        || !all_digits(fraction)
        || fraction.len() > scale
    {
        return Err(error());
    }
    let number: u32 = format!("{whole}{fraction:0<scale$}").parse().map_err(|_| error())?;
    if number <= Ppm::ALWAYS.0 { Ok(Ppm(number)) } else { Err(error()) }
}

/// `10us`, `3ms`, `500ns`, `1s`.
pub(super) fn duration(option: &str, text: &str) -> Result<u64, ConfigError> {
    let error = || ConfigError::new(option, text, "a duration such as 100us");
    let units = [("ns", 1), ("us", 1_000), ("ms", 1_000_000), ("s", 1_000_000_000)];
    let (digits, unit) =
        units.iter().find_map(|&(name, unit)| Some((text.strip_suffix(name)?, unit))).ok_or_else(error)?;
    let number: u64 = digits.parse().map_err(|_| error())?;
    number.checked_mul(unit).filter(|&ns| ns <= 3_600_000_000_000).ok_or_else(error)
}

/// `name` or `name=probability`.
pub(super) fn fault(text: &str) -> Result<(Fault, Ppm), ConfigError> {
    match text.split_once('=') {
        Some((name, probability)) => Ok((name.parse()?, ppm("fault", probability)?)),
        None => Ok((text.parse()?, Ppm::percent(10))),
    }
}

/// The name of a mix, or `read=50,write=50`.
pub(super) fn weights(text: &str) -> Result<Mix, ConfigError> {
    if let Some(mix) = Mix::named(text) {
        return Ok(mix);
    }
    let mut mix = Mix { weights: [0; 12] };
    for part in text.split(',') {
        let (name, weight) = part.split_once('=').unwrap_or((part, "1"));
        let known = || Kind::ALL.iter().map(|k| k.1).chain(Mix::NAMED.iter().map(|m| m.0));
        let Some((kind, _)) = Kind::ALL.iter().find(|(_, n)| *n == name) else {
            return Err(UnknownName::among("mix", name, known()).into());
        };
        mix.weights[*kind as usize] = count("mix", weight, 0, 1_000_000)? as u32;
    }
    if mix.weights.iter().any(|&w| w > 0) {
        Ok(mix)
    } else {
        Err(ConfigError::new("mix", text, "at least one weight above 0"))
    }
}

/// `all`, `none`, or `version-order=50,commit`.
pub(super) fn percentages(text: &str) -> Result<EvidenceOptions, ConfigError> {
    match text {
        "all" => return Ok(EvidenceOptions::ALL),
        "none" => return Ok(EvidenceOptions::default()),
        _ => {}
    }
    let mut options = EvidenceOptions::default();
    for part in text.split(',') {
        let (name, percent) = part.split_once('=').unwrap_or((part, "100"));
        let percent = count("evidence", percent.trim_end_matches('%'), 0, 100)? as u8;
        match name {
            "version-order" => options.version_order = percent,
            "version-set" => options.version_set = percent,
            "snapshot" => options.snapshot = percent,
            "commit" => options.commit = percent,
            "serialization" => options.serialization = percent,
            _ => {
                let names = EvidenceOptions::default().parts().map(|p| p.0);
                return Err(UnknownName::among("evidence", name, names).into());
            }
        }
    }
    Ok(options)
}

impl fmt::Display for EvidenceOptions {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if *self == Self::default() {
            return f.write_str("none");
        }
        let given = self.parts().into_iter().filter(|p| p.1 > 0);
        let parts: Vec<_> = given.map(|(name, percent)| format!("{name}={percent}")).collect();
        f.write_str(&parts.join(","))
    }
}

#[cfg(test)]
mod tests {
    use super::super::SimConfig;
    use super::*;
    use crate::protocol::Protocol;

    #[test]
    fn probabilities() {
        let good = [
            ("0", 0),
            ("1", 1_000_000),
            ("0.25", 250_000),
            (".5", 500_000),
            ("25%", 250_000),
            ("0.5%", 5_000),
        ];
        for (text, number) in good {
            assert_eq!(ppm("p", text), Ok(Ppm(number)), "{text}");
        }
        for bad in ["", ".", "1.1", "-1", "0.0000001", "x", "101%", "1e-3"] {
            assert!(ppm("p", bad).is_err(), "{bad}");
        }
        assert_eq!([Ppm(250_000), Ppm(1_000_000), Ppm(5)].map(|p| p.to_string()), ["0.25", "1", "0.000005"]);
    }

    #[test]
    fn options_read_back() {
        let mut config = SimConfig::small(Protocol::Ssi, weights("read=1,scan=2").unwrap(), 77);
        config.evidence = EvidenceOptions { commit: 30, version_order: 100, ..Default::default() };
        config.skew = 1500;
        config.sql = true;
        config.set("latency", "7us").unwrap();
        config.set("distribution", "zipf").unwrap();
        config.set("fault", "phantom=0.125").unwrap();
        let mut again = SimConfig::default();
        for (name, value) in config.options() {
            again.set(name, &value).unwrap();
        }
        assert_eq!(again, config);
        assert!(
            config
                .command("OUT")
                .starts_with("margay simulate --protocol ssi --fault phantom=0.125 --clients 3")
        );
    }

    #[test]
    fn wrong_options_say_what_is_right() {
        let mut config = SimConfig::default();
        let errors = [
            config.set("protocol", "ss2p"),
            config.set("fault", "dirty-reed"),
            config.set("seeds", "1"),
            config.set("clients", "0"),
            config.set("mix", "red=1"),
        ];
        let texts: Vec<String> = errors.into_iter().map(|e| e.unwrap_err().to_string()).collect();
        assert!(
            texts[0].contains("ss2pl") && texts[1].contains("dirty-read") && texts[2].contains("seed"),
            "{texts:?}"
        );
        assert!(texts[3].contains("--clients takes") && texts[4].contains("read"), "{texts:?}");
    }
}
