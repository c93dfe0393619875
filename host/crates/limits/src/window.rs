//! The parts of windows.
//!
//! A count keeps amounts by the time at which they were taken, in buckets. Of each bucket it is known
//! when its amount counts no more, so that every kind of window has the same arithmetic:
//!
//! | window | buckets |
//! |---|---|
//! | rolling; all but money | 64 in a window. An amount counts from when it was taken until a whole window has passed since the end of its bucket. |
//! | rolling; money | one, from the epoch of the count in steps of the window |
//! | calendar | one for each period |
//! | never | one |
//!
//! Of all but money, no more than the limit passes in any span of a rolling window's length, wherever the span
//! begins. Windows that follow one another would let twice as many pass around their boundary,
//! and so would GCRA with a burst of the whole limit: the burst, and what has been refilled meanwhile. The
//! price is that an amount counts for up to a 64th of the window longer than it has to. Budgets of money
//! are windows one after the other, because operators expect them to be whole again at one time.

use crate::{
    calendar,
    limit::{Limit, Measure, Period, Window},
};

/// Buckets in a sliding window.
const STEPS: i64 = 64;
/// Longest rolling window: 100 years.
const LONGEST_MS: i64 = 36_525 * 24 * 60 * 60 * 1_000;

/// Maximum number of periods that are counted one by one: a hundred years of days.
const MOST_PERIODS: u32 = 36_525;

/// The buckets of a limit. Times are in milliseconds since 1970.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Buckets {
    /// Many in a window, which begins anew at each moment.
    Sliding { length_ms: i64, step_ms: i64 },
    /// One in each window; the windows follow one another.
    Consecutive { length_ms: i64 },
    /// One in each period of the calendar.
    Calendar(Period),
    /// One for ever.
    Endless,
}

impl Buckets {
    pub(crate) fn new(limit: &Limit) -> Self {
        match limit.window {
            Window::Never => Self::Endless,
            Window::Calendar(period) => Self::Calendar(period),
            Window::Rolling(length) => {
                let length_ms = i64::try_from(length.as_millis()).unwrap_or(LONGEST_MS);
                let length_ms = length_ms.clamp(1, LONGEST_MS);
                if limit.measure == Measure::Cost {
                    Self::Consecutive { length_ms }
                } else {
                    Self::Sliding { length_ms, step_ms: (length_ms / STEPS).max(1) }
                }
            }
        }
    }

    /// Returns the begin of the bucket of a time.
    pub(crate) fn start_ms(self, epoch_ms: i64, at_ms: i64) -> i64 {
        match self {
            Self::Sliding { step_ms, .. } => at_ms.div_euclid(step_ms).saturating_mul(step_ms),
            Self::Consecutive { length_ms } => {
                let windows = at_ms.saturating_sub(epoch_ms).div_euclid(length_ms);
                epoch_ms.saturating_add(windows.saturating_mul(length_ms))
            }
            Self::Calendar(period) => calendar::start_ms(period, at_ms),
            Self::Endless => 0,
        }
    }

    /// Returns the time from which the amount of a bucket counts no more; `None` for never.
    pub(crate) fn end_ms(self, start_ms: i64) -> Option<i64> {
        match self {
            Self::Sliding { length_ms, step_ms } => {
                Some(start_ms.saturating_add(step_ms).saturating_add(length_ms))
            }
            Self::Consecutive { length_ms } => Some(start_ms.saturating_add(length_ms)),
            Self::Calendar(period) => Some(calendar::end_ms(period, start_ms)),
            Self::Endless => None,
        }
    }

    /// Returns the greatest length of a window; `None` for one without end.
    pub(crate) fn length_ms(self) -> Option<i64> {
        match self {
            Self::Sliding { length_ms, .. } | Self::Consecutive { length_ms } => Some(length_ms),
            Self::Calendar(period) => Some(calendar::longest_ms(period)),
            Self::Endless => None,
        }
    }

    /// Returns the begin of the window that has a time; `None` for one without end.
    pub(crate) fn window_start_ms(self, epoch_ms: i64, at_ms: i64) -> Option<i64> {
        match self {
            Self::Sliding { length_ms, .. } => Some(at_ms.saturating_sub(length_ms)),
            Self::Endless => None,
            Self::Consecutive { .. } | Self::Calendar(_) => Some(self.start_ms(epoch_ms, at_ms)),
        }
    }

    /// Returns the end of this number of windows, of which the first one has a time; `None` for one
    /// without end.
    pub(crate) fn end_of_windows_ms(self, epoch_ms: i64, at_ms: i64, windows: u32) -> Option<i64> {
        match self {
            Self::Sliding { length_ms, .. } => {
                Some(at_ms.saturating_add(length_ms.saturating_mul(windows.into())))
            }
            Self::Consecutive { length_ms } => {
                let start_ms = self.start_ms(epoch_ms, at_ms);
                Some(start_ms.saturating_add(length_ms.saturating_mul(windows.into())))
            }
            Self::Calendar(period) => {
                let mut end_ms = calendar::start_ms(period, at_ms);
                for _ in 0..windows.min(MOST_PERIODS) {
                    end_ms = calendar::end_ms(period, end_ms);
                }
                Some(end_ms)
            }
            Self::Endless => None,
        }
    }

    /// Returns the time for which a share may be counted elsewhere, and the begin of the bucket in which
    /// it is counted, so that it does not count for a shorter time than it has to.
    pub(crate) fn lease_ms(self, epoch_ms: i64, at_ms: i64, most_ms: i64) -> (i64, i64) {
        let start_ms = self.start_ms(epoch_ms, at_ms);
        match self {
            Self::Sliding { step_ms, .. } => {
                (most_ms.min(step_ms), start_ms.saturating_add(step_ms))
            }
            Self::Consecutive { .. } | Self::Calendar(_) | Self::Endless => {
                let end_ms = self.end_ms(start_ms).unwrap_or(i64::MAX);
                (most_ms.min(end_ms.saturating_sub(at_ms)), start_ms)
            }
        }
    }
}
