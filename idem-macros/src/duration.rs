//! Durations as text: a number and a unit.
//!
//! Checked while the user's crate compiles, so that a wrong one never reaches a store.

use std::fmt;

/// The longest duration that may be written, 100 years in milliseconds.
///
/// No record is worth keeping for longer, and the clocks of all stores can still add it.
const MAX_MILLIS: u64 = 36_500 * 24 * 60 * 60 * 1000;

/// Each unit and its length in milliseconds.
const UNITS: [(&str, u64); 5] = [
    ("ms", 1),
    ("s", 1000),
    ("m", 60 * 1000),
    ("h", 60 * 60 * 1000),
    ("d", 24 * 60 * 60 * 1000),
];

/// Why a text is not a duration.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum InvalidDuration {
    Malformed,
    Zero,
    TooLong,
}

impl fmt::Display for InvalidDuration {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Malformed => "expected a number and a unit, such as `30s`, `15m`, `24h` or `7d`",
            Self::Zero => "it must be longer than zero",
            Self::TooLong => "it must not be longer than `36500d`",
        })
    }
}

/// Reads `30s`, `15m`, `24h` or `7d` as milliseconds.
pub(crate) fn parse(text: &str) -> Result<u64, InvalidDuration> {
    let digits = text.bytes().take_while(u8::is_ascii_digit).count();
    let (number, unit) = text.split_at(digits);
    let (_, millis) = UNITS
        .into_iter()
        .find(|(name, _)| *name == unit)
        .ok_or(InvalidDuration::Malformed)?;
    if number.is_empty() {
        return Err(InvalidDuration::Malformed);
    }
    // Only digits are left, so the one thing that can be wrong is their size.
    let number: u64 = number.parse().map_err(|_| InvalidDuration::TooLong)?;
    match number.checked_mul(millis) {
        Some(0) => Err(InvalidDuration::Zero),
        Some(total) if total <= MAX_MILLIS => Ok(total),
        _ => Err(InvalidDuration::TooLong),
    }
}

#[cfg(test)]
mod tests {
    use super::{InvalidDuration, parse};

    #[test]
    fn each_unit_is_read() {
        assert_eq!(parse("300ms"), Ok(300));
        assert_eq!(parse("30s"), Ok(30_000));
        assert_eq!(parse("15m"), Ok(900_000));
        assert_eq!(parse("24h"), Ok(86_400_000));
        assert_eq!(parse("7d"), Ok(604_800_000));
        assert_eq!(parse("007d"), parse("7d"));
    }

    #[test]
    fn anything_but_a_number_and_a_unit_is_malformed() {
        let texts = [
            "", "s", "24", "24x", "24H", "24 h", " 24h", "24h ", "1.5h", "-1h", "+1h", "1h30m",
            "1_000s", "1e3s", "10us", "２h", "1é",
        ];
        for text in texts {
            assert_eq!(parse(text), Err(InvalidDuration::Malformed), "{text:?}");
        }
    }

    #[test]
    fn zero_is_refused_in_every_unit() {
        for text in ["0ms", "0s", "0m", "0h", "0d", "000s"] {
            assert_eq!(parse(text), Err(InvalidDuration::Zero), "{text:?}");
        }
    }

    #[test]
    fn more_than_a_hundred_years_is_refused() {
        assert_eq!(parse("36500d"), Ok(3_153_600_000_000));
        let texts = [
            "36501d",
            "3153600000001ms",
            "18446744073709552s",
            "18446744073709551615ms",
            "18446744073709551616ms",
            "18446744073709551615d",
            "99999999999999999999999999999999999999d",
        ];
        for text in texts {
            assert_eq!(parse(text), Err(InvalidDuration::TooLong), "{text:?}");
        }
    }
}
