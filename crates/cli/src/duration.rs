//! Durations as people type them.

use std::time::Duration;

const UNITS: [(&str, f64); 4] = [("ms", 0.001), ("s", 1.0), ("m", 60.0), ("h", 3600.0)];

/// A year. Clocks overflow when something much longer is added to them.
const LONGEST: Duration = Duration::from_secs(365 * 24 * 3600);

/// `500ms`, `10s`, `1.5m`, `2h`. A unit is needed: a bare number is as often meant in one unit as
/// in another.
pub fn parse(text: &str) -> Result<Duration, String> {
    let digits = text.trim_end_matches(|c: char| c.is_ascii_alphabetic());
    let unit = &text[digits.len()..];
    let Some((_, seconds)) = UNITS.into_iter().find(|&(name, _)| name == unit) else {
        return Err("expected a number with a unit: 500ms, 10s, 2m or 1h".to_owned());
    };
    let number: f64 = digits.parse().map_err(|_| format!("`{digits}` is not a number"))?;
    let time = Duration::try_from_secs_f64(number * seconds).ok().filter(|time| *time <= LONGEST);
    time.ok_or_else(|| format!("`{text}` is no possible time"))
}

/// A measured time, short: `12 µs`, `1.2 ms`, `3.4 s`.
pub fn show(time: Duration) -> String {
    match time.as_secs_f64() {
        s if s < 0.001 => format!("{:.0} µs", s * 1e6),
        s if s < 1.0 => format!("{:.1} ms", s * 1e3),
        s => format!("{s:.1} s"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn reads_what_people_type() {
        assert_eq!(parse("500ms"), Ok(Duration::from_millis(500)));
        assert_eq!(parse("10s"), Ok(Duration::from_secs(10)));
        assert_eq!(parse("1.5m"), Ok(Duration::from_secs(90)));
        assert_eq!(parse("2h"), Ok(Duration::from_secs(7200)));
    }

    #[test]
    fn refuses_the_rest() {
        for text in
            ["", "10", "s", "-1s", "1d", "10 s", "1e400s", "99999999999999h", "infs", "nans", "1s2", "µs"]
        {
            assert!(parse(text).is_err(), "{text}");
        }
    }

    #[test]
    fn shows_three_scales() {
        assert_eq!(show(Duration::from_micros(12)), "12 µs");
        assert_eq!(show(Duration::from_micros(1230)), "1.2 ms");
        assert_eq!(show(Duration::from_millis(3400)), "3.4 s");
    }
}
