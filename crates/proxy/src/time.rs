//! Dates and times in one form, whatever format or TimeZone they came in: ISO 8601 in UTC with
//! microseconds, the form that `margay_rows` compares.
//!
//! Days are counted as in H. Hinnant's `chrono`-compatible date algorithms: eras of 400 years that
//! begin in March.

const MICROS_PER_DAY: i64 = 86_400_000_000;
/// Days from 1970-01-01 to 2000-01-01, where PostgreSQL begins to count.
const EPOCH: i64 = 10_957;

/// A `date` of the binary format: days since 2000-01-01.
pub(crate) fn date(days: i32) -> Option<String> {
    let (year, month, day) = civil(i64::from(days) + EPOCH);
    (1..=9999).contains(&year).then(|| format!("{year:04}-{month:02}-{day:02}"))
}

/// A `timestamp` or `timestamptz` of the binary format: microseconds since 2000-01-01.
pub(crate) fn timestamp(micros: i64, zoned: bool) -> Option<String> {
    let micros = micros.checked_add(EPOCH * MICROS_PER_DAY)?;
    shown(micros, zoned)
}

/// A `date` of the text format in ISO style.
pub(crate) fn date_text(text: &str) -> Option<String> {
    let (year, month, day) = ymd(text)?;
    Some(format!("{year:04}-{month:02}-{day:02}"))
}

/// A timestamp of the text format in ISO style. With a zone it must name its offset; without one an
/// offset is ignored, as PostgreSQL does.
pub(crate) fn timestamp_text(text: &str, zoned: bool) -> Option<String> {
    let (day, rest) = text.split_at_checked(10)?;
    let (year, month, day) = ymd(day)?;
    let rest = rest.strip_prefix([' ', 'T'])?;
    let end = rest.find(['+', '-', 'Z']).unwrap_or(rest.len());
    let (clock, offset) = rest.split_at(end);
    let micros = days(year, month, day) * MICROS_PER_DAY + clock_micros(clock)?;
    let offset = match offset {
        "" if zoned => return None,
        _ if !zoned => 0,
        "Z" => 0,
        offset => offset_micros(offset)?,
    };
    shown(micros - offset, zoned)
}

fn shown(micros: i64, zoned: bool) -> Option<String> {
    let (year, month, day) = civil(micros.div_euclid(MICROS_PER_DAY));
    let clock = micros.rem_euclid(MICROS_PER_DAY);
    let (seconds, fraction) = (clock / 1_000_000, clock % 1_000_000);
    let (hour, minute, second) = (seconds / 3600, seconds / 60 % 60, seconds % 60);
    let zone = if zoned { "Z" } else { "" };
    let text = format!("{year:04}-{month:02}-{day:02}T{hour:02}:{minute:02}:{second:02}.{fraction:06}{zone}");
    (1..=9999).contains(&year).then_some(text)
}

fn number(text: &str) -> Option<i64> {
    let digits = !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit());
    digits.then(|| text.parse().ok()).flatten()
}

fn ymd(text: &str) -> Option<(i64, i64, i64)> {
    let mut parts = text.split('-');
    let [year, month, day] = [parts.next()?, parts.next()?, parts.next()?];
    let fits = year.len() == 4 && month.len() == 2 && day.len() == 2 && parts.next().is_none();
    let (year, month, day) = (number(year)?, number(month)?, number(day)?);
    let valid = fits && (1..=12).contains(&month) && civil(days(year, month, day)) == (year, month, day);
    valid.then_some((year, month, day))
}

/// `hh:mm`, `hh:mm:ss` or `hh:mm:ss.ffffff`.
fn clock_micros(text: &str) -> Option<i64> {
    let mut parts = text.trim_end().split(':');
    let (hour, minute) = (number(parts.next()?)?, number(parts.next()?)?);
    let (second, fraction) = parts
        .next()
        .unwrap_or("00")
        .split_once('.')
        .unwrap_or((text.trim_end().split(':').nth(2).unwrap_or("00"), "0"));
    let valid = hour < 24 && minute < 60 && fraction.len() <= 6 && parts.next().is_none();
    let micros = number(&format!("{fraction:0<6}"))?;
    let second = number(second).filter(|&second| second < 60)?;
    valid.then_some(((hour * 60 + minute) * 60 + second) * 1_000_000 + micros)
}

/// `+hh`, `+hh:mm`, `+hhmm` or `+hh:mm:ss`.
fn offset_micros(text: &str) -> Option<i64> {
    let (sign, rest) = text.split_at_checked(1)?;
    let digits: String = rest.chars().filter(|&c| c != ':').collect();
    let part = |at: usize| digits.get(at..at + 2).map_or(Some(0), number);
    let seconds = (part(0)? * 60 + part(2)?) * 60 + part(4)?;
    let valid = matches!(digits.len(), 2 | 4 | 6) && number(&digits).is_some();
    valid.then_some(if sign == "-" { -seconds } else { seconds } * 1_000_000)
}

/// Days since 1970-01-01.
fn days(year: i64, month: i64, day: i64) -> i64 {
    let year = if month <= 2 { year - 1 } else { year };
    let (era, of_era) = (year.div_euclid(400), year.rem_euclid(400));
    let of_year = (153 * ((month + 9) % 12) + 2) / 5 + day - 1;
    era * 146_097 + of_era * 365 + of_era / 4 - of_era / 100 + of_year - 719_468
}

/// Year, month and day.
fn civil(days: i64) -> (i64, i64, i64) {
    let days = days + 719_468;
    let (era, of_era) = (days.div_euclid(146_097), days.rem_euclid(146_097));
    let year = (of_era - of_era / 1460 + of_era / 36_524 - of_era / 146_096) / 365;
    let of_year = of_era - (365 * year + year / 4 - year / 100);
    let month = (5 * of_year + 2) / 153;
    let day = of_year - (153 * month + 2) / 5 + 1;
    let month = if month < 10 { month + 3 } else { month - 9 };
    (year + era * 400 + i64::from(month <= 2), month, day)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_moment_has_one_form() {
        let forms = [
            "2026-11-16 15:44:55.12+00",
            "2026-11-16T15:44:55.120000Z",
            "2026-11-16 21:14:55.12+05:30",
            "2026-11-16 10:44:55.12-0500",
        ];
        for text in forms {
            assert_eq!(timestamp_text(text, true).as_deref(), Some("2026-11-16T15:44:55.120000Z"), "{text}");
        }
        assert_eq!(timestamp_text("2026-11-16 15:44", false).as_deref(), Some("2026-11-16T15:44:00.000000"));
        assert_eq!(
            timestamp_text("2024-02-29 00:00:00+02", false).as_deref(),
            Some("2024-02-29T00:00:00.000000")
        );
        assert_eq!(timestamp(0, true).as_deref(), Some("2000-01-01T00:00:00.000000Z"));
        assert_eq!(timestamp(-1, false).as_deref(), Some("1999-12-31T23:59:59.999999"));
        assert_eq!((date(0).as_deref(), date(59).as_deref()), (Some("2000-01-01"), Some("2000-02-29")));
    }

    #[test]
    fn what_is_in_another_style_is_not_guessed() {
        for text in
            ["infinity", "11/16/2026 10:00:00+00", "2026-11-16 10:00:00", "2026-13-01 10:00+00", "now", ""]
        {
            assert_eq!(timestamp_text(text, true), None, "{text}");
        }
        assert_eq!(timestamp_text("2026-11-16 24:00:00+00", true), None);
        assert_eq!(date_text("2026-02-30"), None);
        assert_eq!((timestamp(i64::MAX, true), date(i32::MAX)), (None, None));
    }

    #[test]
    fn every_day_is_found_again() {
        for day in -800_000..800_000 {
            let (year, month, number) = civil(day);
            assert_eq!(days(year, month, number), day);
        }
    }
}
