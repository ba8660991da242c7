//! Dates and timestamps of the proleptic Gregorian calendar, without time zones.

const MICROS_PER_SECOND: i64 = 1_000_000;
const MICROS_PER_DAY: i64 = 86_400 * MICROS_PER_SECOND;

/// Days since 1970-01-01 of a civil date, if there is such a date in the years 1 to 9999.
pub(crate) fn days_of(year: i32, month: u32, day: u32) -> Option<i32> {
    if !(1..=9999).contains(&year) || !(1..=12).contains(&month) {
        return None;
    }
    if day == 0 || day > days_in_month(year, month) {
        return None;
    }
    // Count from March, so that the leap day is the last of its year.
    let shifted_year = if month <= 2 { year - 1 } else { year };
    let era = shifted_year.div_euclid(400);
    let year_of_era = shifted_year.rem_euclid(400);
    let month = i32::try_from((month + 9) % 12).ok()?;
    let day_of_year = (153 * month + 2) / 5 + i32::try_from(day).ok()? - 1;
    let day_of_era = year_of_era * 365 + year_of_era / 4 - year_of_era / 100 + day_of_year;
    Some(era * 146_097 + day_of_era - 719_468)
}

/// The civil date that is `days` after 1970-01-01.
pub(crate) fn civil_of(days: i32) -> (i32, u32, u32) {
    let shifted = i64::from(days) + 719_468;
    let era = shifted.div_euclid(146_097);
    let day_of_era = shifted.rem_euclid(146_097);
    let year_of_era = (day_of_era - day_of_era / 1460 + day_of_era / 36_524 - day_of_era / 146_096) / 365;
    let day_of_year = day_of_era - (365 * year_of_era + year_of_era / 4 - year_of_era / 100);
    let month = (5 * day_of_year + 2) / 153;
    let day = (day_of_year - (153 * month + 2) / 5 + 1) as u32;
    let month = if month < 10 { month + 3 } else { month - 9 } as u32;
    let year = (year_of_era + era * 400) as i32 + i32::from(month <= 2);
    (year, month, day)
}

/// The number of days of a month.
pub(crate) fn days_in_month(year: i32, month: u32) -> u32 {
    match month {
        2 if year % 4 == 0 && (year % 100 != 0 || year % 400 == 0) => 29,
        2 => 28,
        4 | 6 | 9 | 11 => 30,
        _ => 31,
    }
}

/// Reads `2024-02-29`.
pub(crate) fn parse_date(text: &str) -> Option<i32> {
    let mut parts = text.split('-');
    let year = digits(parts.next()?, 4)?;
    let month = digits(parts.next()?, 2)?;
    let day = digits(parts.next()?, 2)?;
    if parts.next().is_some() {
        return None;
    }
    days_of(i32::try_from(year).ok()?, month, day)
}

/// Reads `2024-02-29 12:00:00.5` (or with a `T`), or a date alone, as microseconds since 1970.
pub(crate) fn parse_timestamp(text: &str) -> Option<i64> {
    let (date, time) = match text.find([' ', 'T']) {
        Some(at) => (&text[..at], Some(&text[at + 1..])),
        None => (text, None),
    };
    let days = i64::from(parse_date(date)?);
    let micros = time.map_or(Some(0), parse_time)?;
    Some(days * MICROS_PER_DAY + micros)
}

fn parse_time(text: &str) -> Option<i64> {
    let (clock, fraction) = text.split_once('.').unwrap_or((text, ""));
    let mut parts = clock.split(':');
    let hour = digits(parts.next()?, 2)?;
    let minute = digits(parts.next()?, 2)?;
    let second = parts.next().map_or(Some(0), |part| digits(part, 2))?;
    if parts.next().is_some() || hour > 23 || minute > 59 || second > 59 || fraction.len() > 6 {
        return None;
    }
    let micros = if fraction.is_empty() { 0 } else { digits(&format!("{fraction:0<6}"), 6)? };
    let seconds = i64::from(hour) * 3600 + i64::from(minute) * 60 + i64::from(second);
    Some(seconds * MICROS_PER_SECOND + i64::from(micros))
}

fn digits(text: &str, width: usize) -> Option<u32> {
    (text.len() == width && text.bytes().all(|b| b.is_ascii_digit())).then(|| text.parse().ok())?
}

/// Writes a date.
pub(crate) fn show_date(days: i32) -> String {
    let (year, month, day) = civil_of(days);
    format!("{year:04}-{month:02}-{day:02}")
}

/// Writes a timestamp, with its fraction only if it has one.
pub(crate) fn show_timestamp(micros: i64) -> String {
    let days = date_of(micros);
    let rest = micros.rem_euclid(MICROS_PER_DAY);
    let (seconds, fraction) = (rest / MICROS_PER_SECOND, rest % MICROS_PER_SECOND);
    let clock = format!("{:02}:{:02}:{:02}", seconds / 3600, seconds / 60 % 60, seconds % 60);
    let date = show_date(days);
    if fraction == 0 {
        return format!("{date} {clock}");
    }
    let fraction = format!("{fraction:06}");
    format!("{date} {clock}.{}", fraction.trim_end_matches('0'))
}

/// The date of a timestamp.
pub(crate) fn date_of(micros: i64) -> i32 {
    micros.div_euclid(MICROS_PER_DAY) as i32
}

/// Midnight of a date.
pub(crate) fn midnight(days: i32) -> i64 {
    i64::from(days) * MICROS_PER_DAY
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_day_round_trips() {
        for days in (-719_162..2_932_896).step_by(37) {
            let (year, month, day) = civil_of(days);
            assert_eq!(days_of(year, month, day), Some(days));
        }
        assert_eq!(days_of(1970, 1, 1), Some(0));
        assert_eq!(days_of(2023, 2, 29), None);
    }

    #[test]
    fn text_round_trips() {
        for text in ["2024-02-29 12:34:56", "1969-12-31 23:59:59.25", "1999-01-01 00:00:00"] {
            assert_eq!(show_timestamp(parse_timestamp(text).unwrap()), text);
        }
        assert_eq!(parse_timestamp("2024-13-01"), None);
        assert_eq!(parse_date("2024-1-1"), None);
    }
}
