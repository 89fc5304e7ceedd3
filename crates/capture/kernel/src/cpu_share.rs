//! [`CpuShare`]: a share of the processor time of a machine.

use std::fmt;
use std::str::FromStr;

/// Share of the time of all processors of a machine.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct CpuShare {
    millionths: u64,
}

/// Number of millionths in a per cent.
const MILLIONTHS_OF_PERCENT: u64 = 10_000;
/// Number of decimals of a per cent in millionths.
const DECIMALS: usize = 4;

impl CpuShare {
    /// All time of all processors.
    pub const ALL: CpuShare = CpuShare { millionths: 100 * MILLIONTHS_OF_PERCENT };

    /// Returns the share that a time has in the time of all processors.
    pub(crate) fn of(taken_ns: u64, available_ns: u64) -> CpuShare {
        let all = CpuShare::ALL.millionths;
        let millionths = u128::from(taken_ns) * u128::from(all) / u128::from(available_ns.max(1));
        CpuShare { millionths: u64::try_from(millionths).unwrap_or(u64::MAX) }
    }

    /// Returns the share with three significant digits.
    pub(crate) fn rounded(self) -> CpuShare {
        let digits = self.millionths.max(1).ilog10();
        let unit = 10u64.pow(digits.saturating_sub(2));
        let rounded = self.millionths.saturating_add(unit / 2) / unit * unit;
        CpuShare { millionths: rounded }
    }

    /// Returns the share in per cent.
    pub(crate) fn percent(self) -> f64 {
        self.millionths as f64 / MILLIONTHS_OF_PERCENT as f64
    }
}

impl fmt::Display for CpuShare {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let whole = self.millionths / MILLIONTHS_OF_PERCENT;
        let fraction = self.millionths % MILLIONTHS_OF_PERCENT;
        let fraction = format!(".{fraction:0DECIMALS$}");
        let fraction = fraction.trim_end_matches('0').trim_end_matches('.');
        write!(f, "{whole}{fraction} %")
    }
}

/// Reads a share such as `5%`, `0.01 %` or `5`: more than 0 and at most 100 per cent, with at most
/// four decimals.
impl FromStr for CpuShare {
    type Err = &'static str;

    fn from_str(text: &str) -> Result<CpuShare, &'static str> {
        const WRONG: &str = "not a share from 0.0001% to 100%, such as 5% or 0.5%";
        let number = text.strip_suffix('%').unwrap_or(text).trim();
        let (whole, fraction) = number.split_once('.').unwrap_or((number, "0"));
        let is_number = |digits: &str| digits.bytes().all(|byte| byte.is_ascii_digit());
        if !is_number(whole) || !is_number(fraction) || fraction.len() > DECIMALS {
            return Err(WRONG);
        }
        let whole: u64 = whole.parse().map_err(|_| WRONG)?;
        let fraction: u64 = format!("{fraction:0<DECIMALS$}").parse().map_err(|_| WRONG)?;
        let millionths = whole.saturating_mul(MILLIONTHS_OF_PERCENT).saturating_add(fraction);
        let share = CpuShare { millionths };
        if millionths == 0 || share > CpuShare::ALL { Err(WRONG) } else { Ok(share) }
    }
}

#[cfg(test)]
mod tests {
    use super::CpuShare;

    #[test]
    fn shares_are_read_and_written_as_per_cent() {
        let texts = [
            ("75%", "75 %"),
            ("5", "5 %"),
            ("0.01 %", "0.01 %"),
            ("12.5%", "12.5 %"),
            ("0.0001", "0.0001 %"),
            ("100%", "100 %"),
        ];
        for (text, shown) in texts {
            let share: CpuShare = text.parse().unwrap();
            assert_eq!(share.to_string(), shown);
            assert_eq!(shown.parse(), Ok(share));
        }
        for text in ["", "%", "0", "0.00001", "100.1%", "-1", "5%%", "1e1", ".", "x", "+5"] {
            assert!(text.parse::<CpuShare>().is_err(), "{text}");
        }
    }

    #[test]
    fn measured_shares_have_three_digits() {
        let shown = |taken, all| CpuShare::of(taken, all).rounded().to_string();
        assert_eq!(shown(461_234, 1_000_000), "46.1 %");
        assert_eq!(shown(12, 1_000_000), "0.0012 %");
        assert_eq!(shown(1_999, 1_000_000), "0.2 %");
        assert_eq!(shown(0, 0), "0 %");
        assert_eq!(shown(3, 2), "150 %");
        assert!(CpuShare::of(u64::MAX, 1) > CpuShare::ALL);
    }
}
