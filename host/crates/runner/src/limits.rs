//! Bounds on one run.

use std::time::Duration;

use airlock_compile::MAX_MEMORY_BYTES;
use airlock_core::{door::Budget, limit::saturating_usize};
use airlock_sandbox::Limits;
use serde::{Deserialize, Serialize};

use crate::RunError;

/// Fuel for each nanosecond of CPU time. More than any script can burn in it, so that the CPU time ends a script and never its
/// fuel: an interpreter burns about nine units, and copying in memory one for each byte.
const FUEL_PER_NANOSECOND: u64 = 100;
/// Bytes that a guest may pass to the host beyond its result or its printed text, for what is around them.
const FRAME_BYTES: usize = 1 << 20;
/// Depth of calls: the script, and the functions that it calls.
const DEPTH: u32 = 2;

/// Default of [`RunLimits::nesting`].
const DEFAULT_NESTING: u32 = 8;

/// Bounds on one run. No field may be zero, or more than in [`RunLimits::MAX`].
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct RunLimits {
    /// Memory of the sandbox in bytes, with the interpreter of the language: at most 1 GiB, 64 MiB by default. Growth beyond
    /// it fails in the script, which usually ends it.
    pub memory_bytes: u64,
    /// CPU time: at most an hour, 5 s by default. Waiting for functions does not count.
    pub cpu: Duration,
    /// Wall-clock time, functions included: at most a day, 60 s by default. Loading the executor does not
    /// count. A run waits for a free instance for at most as long, which does not count either.
    pub deadline: Duration,
    /// Calls of functions, those that are refused included: at most 20,000, 1,000 by default.
    pub calls: u32,
    /// Calls that run at the same time, if the script makes several at once; others of them wait. At most 1,000, 8 by
    /// default.
    pub parallel_calls: u32,
    /// Printed text in bytes: at most 64 MiB, 1 MiB by default. Further text is left out, and a last line says so.
    pub output_bytes: usize,
    /// Value of the script in bytes of JSON: at most 64 MiB, 1 MiB by default. A larger one ends the run.
    pub result_bytes: usize,
    /// Scripts in each other, this one included: a function of the first runs the second, and so on. At most 16, 8 by default;
    /// 1 refuses a script that a function of another one runs. Each of them has an instance, and waits for the next.
    #[serde(default = "default_nesting")]
    pub nesting: u32,
}

fn default_nesting() -> u32 {
    DEFAULT_NESTING
}

impl RunLimits {
    /// The largest value of each field.
    pub const MAX: Self = Self {
        memory_bytes: MAX_MEMORY_BYTES as u64,
        cpu: Duration::from_hours(1),
        deadline: Duration::from_hours(24),
        calls: 20_000,
        parallel_calls: 1_000,
        output_bytes: 64 << 20,
        result_bytes: 64 << 20,
        nesting: 16,
    };

    /// Fails if a field is zero or too large.
    pub(crate) fn check(&self) -> Result<(), RunError> {
        let most = &Self::MAX;
        for (field, found, most) in
            [("cpu", self.cpu, most.cpu), ("deadline", self.deadline, most.deadline)]
        {
            if found.is_zero() || found > most {
                let found = format!("{found:?}");
                return Err(RunError::Limits { field, found, most: format!("{most:?}") });
            }
        }
        for (field, found, most) in [
            ("memory_bytes", self.memory_bytes, most.memory_bytes),
            ("calls", self.calls.into(), most.calls.into()),
            ("parallel_calls", self.parallel_calls.into(), most.parallel_calls.into()),
            ("output_bytes", self.output_bytes as u64, most.output_bytes as u64),
            ("result_bytes", self.result_bytes as u64, most.result_bytes as u64),
            ("nesting", self.nesting.into(), most.nesting.into()),
        ] {
            if found == 0 || found > most {
                let found = found.to_string();
                return Err(RunError::Limits { field, found, most: most.to_string() });
            }
        }
        Ok(())
    }

    /// Returns the limits of the guest that runs the script.
    pub(crate) fn of_guest(&self) -> Limits {
        let nanoseconds = u64::try_from(self.cpu.as_nanos()).unwrap_or(u64::MAX);
        let passed = self.result_bytes.max(self.output_bytes).saturating_add(FRAME_BYTES);
        Limits {
            fuel: nanoseconds.saturating_mul(FUEL_PER_NANOSECOND),
            cpu: self.cpu,
            deadline: self.deadline,
            memory_bytes: saturating_usize(self.memory_bytes),
            copied_bytes: Limits::SCRIPT.copied_bytes.max(passed),
            host_calls: Limits::SCRIPT.host_calls.saturating_add(self.calls),
            result_bytes: self.result_bytes,
            // Each line takes a byte of the printed text, which is bounded.
            log_lines: u32::MAX,
            log_line_bytes: self.output_bytes,
            ..Limits::SCRIPT
        }
    }

    /// Returns the budget of the script and of its calls.
    pub(crate) fn budget(&self) -> Budget {
        Budget {
            deadline: self.deadline,
            script: self.deadline,
            nested_calls: self.calls,
            depth: DEPTH,
            in_flight: self.parallel_calls as usize,
        }
    }
}

impl Default for RunLimits {
    fn default() -> Self {
        Self {
            memory_bytes: 64 << 20,
            cpu: Duration::from_secs(5),
            deadline: Duration::from_mins(1),
            calls: 1_000,
            parallel_calls: 8,
            output_bytes: 1 << 20,
            result_bytes: 1 << 20,
            nesting: DEFAULT_NESTING,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Returns the field that is refused.
    fn refused(limits: &RunLimits) -> Option<&'static str> {
        match limits.check() {
            Ok(()) => None,
            Err(RunError::Limits { field, .. }) => Some(field),
            Err(other) => panic!("{other}"),
        }
    }

    #[test]
    fn a_field_that_is_zero_or_too_large_is_named() {
        const ZERO: Duration = Duration::ZERO;
        const NANOSECOND: Duration = Duration::from_nanos(1);
        let most = RunLimits::MAX;
        assert_eq!(refused(&RunLimits::default()), None);
        assert_eq!(refused(&most), None, "the maximum itself");
        for (field, zero, beyond) in [
            (
                "memory_bytes",
                RunLimits { memory_bytes: 0, ..most },
                RunLimits { memory_bytes: most.memory_bytes + 1, ..most },
            ),
            (
                "cpu",
                RunLimits { cpu: ZERO, ..most },
                RunLimits { cpu: most.cpu + NANOSECOND, ..most },
            ),
            (
                "deadline",
                RunLimits { deadline: ZERO, ..most },
                RunLimits { deadline: most.deadline + NANOSECOND, ..most },
            ),
            ("calls", RunLimits { calls: 0, ..most }, RunLimits { calls: most.calls + 1, ..most }),
            (
                "parallel_calls",
                RunLimits { parallel_calls: 0, ..most },
                RunLimits { parallel_calls: most.parallel_calls + 1, ..most },
            ),
            (
                "output_bytes",
                RunLimits { output_bytes: 0, ..most },
                RunLimits { output_bytes: most.output_bytes + 1, ..most },
            ),
            (
                "result_bytes",
                RunLimits { result_bytes: 0, ..most },
                RunLimits { result_bytes: most.result_bytes + 1, ..most },
            ),
            (
                "nesting",
                RunLimits { nesting: 0, ..most },
                RunLimits { nesting: most.nesting + 1, ..most },
            ),
        ] {
            assert_eq!(refused(&zero), Some(field));
            assert_eq!(refused(&beyond), Some(field));
        }
    }

    #[test]
    fn the_fuel_of_the_longest_run_is_not_cut() {
        let fuel = RunLimits::MAX.of_guest().fuel;
        assert!(fuel < u64::MAX && fuel == 3_600 * 1_000_000_000 * FUEL_PER_NANOSECOND);
    }
}
