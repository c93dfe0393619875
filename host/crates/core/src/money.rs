//! Amounts of money.

use std::fmt;

/// Millionths of a US dollar.
const MICRO: f64 = 1_000_000.0;

/// An amount of money, in whole millionths of a US dollar. `Display` has all of them.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, PartialOrd, Ord)]
pub struct Money(u64);

impl Money {
    /// Largest amount that is written in US dollars.
    pub const MOST_DOLLARS: f64 = 1_000_000_000.0;

    /// Creates an amount from millionths of a US dollar.
    pub const fn from_millionths(millionths: u64) -> Self {
        Self(millionths)
    }

    /// Rounds an amount in US dollars to millionths. `None` unless it is from 0 to [`Self::MOST_DOLLARS`].
    pub fn from_dollars(dollars: f64) -> Option<Self> {
        if !(0.0..=Self::MOST_DOLLARS).contains(&dollars) {
            return None;
        }
        #[expect(
            clippy::cast_possible_truncation,
            clippy::cast_sign_loss,
            reason = "it is in the range, and a fraction of a millionth does not count"
        )]
        let millionths = (dollars * MICRO).round() as u64;
        Some(Self(millionths))
    }

    /// Returns the amount in millionths of a US dollar.
    pub const fn millionths(self) -> u64 {
        self.0
    }

    /// Returns the amount in US dollars.
    #[expect(clippy::cast_precision_loss, reason = "it is exact below nine billion dollars")]
    pub fn dollars(self) -> f64 {
        self.0 as f64 / MICRO
    }
}

impl fmt::Display for Money {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "${}.{:06}", self.0 / 1_000_000, self.0 % 1_000_000)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn dollars_are_rounded_to_millionths_and_back() {
        for (dollars, millionths) in [
            (0.0, 0),
            (0.000_000_4, 0),
            (0.000_000_5, 1),
            (2.5, 2_500_000),
            (Money::MOST_DOLLARS, 1_000_000_000_000_000),
        ] {
            assert_eq!(Money::from_dollars(dollars).map(Money::millionths), Some(millionths));
        }
        for dollars in [-0.01, f64::NAN, f64::INFINITY, Money::MOST_DOLLARS * 2.0] {
            assert_eq!(Money::from_dollars(dollars), None);
        }
        let amount = Money::from_millionths(2_500_001);
        assert_eq!(amount.to_string(), "$2.500001");
        assert_eq!(Money::from_dollars(amount.dollars()), Some(amount));
    }
}
