//! Limits as programs write them: numbers with a unit in their name.

use std::{fmt::Display, time::Duration};

use airlock_runner::RunLimits;

use crate::BindingFailure;

/// Bytes of a megabyte of `memory_mb`.
const MEGABYTE: u64 = 1 << 20;

/// Spelling of names in a language.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum NameStyle {
    /// `memory_mb`, as in Python.
    Snake,
    /// `memoryMb`, as in JavaScript.
    Camel,
}

impl NameStyle {
    /// Spells a name, which is given as a field of [`LimitValues`].
    pub fn spell(self, name: &str) -> String {
        match self {
            Self::Snake => name.to_owned(),
            Self::Camel => {
                let mut words = name.split('_');
                let first = words.next().unwrap_or_default().to_owned();
                words.fold(first, |mut spelled, word| {
                    let mut letters = word.chars();
                    spelled.extend(letters.next().map(|letter| letter.to_ascii_uppercase()));
                    spelled.push_str(letters.as_str());
                    spelled
                })
            }
        }
    }
}

/// Limits of one run, as a program gives them; `None` is the default.
#[derive(Debug, Clone, Copy, Default)]
pub struct LimitValues {
    /// Memory of the script, in units of 2^20 bytes.
    pub memory_mb: Option<f64>,
    /// Time in which the script computes.
    pub cpu_seconds: Option<f64>,
    /// Time of the whole run.
    pub seconds: Option<f64>,
    /// Calls of tools, a whole number.
    pub calls: Option<f64>,
    /// Calls of tools at the same time, a whole number.
    pub parallel_calls: Option<f64>,
    /// Scripts in each other, a whole number.
    pub nesting: Option<f64>,
}

impl LimitValues {
    /// Returns the limits. Fails if a value is zero, negative, no number, or more than
    /// [`RunLimits::MAX`] has. The failure spells the name of the limit in this style.
    pub fn checked(self, style: NameStyle) -> Result<RunLimits, BindingFailure> {
        const MOST: RunLimits = RunLimits::MAX;
        let mut limits = RunLimits::default();
        if let Some(megabytes) = self.memory_mb {
            let name = style.spell("memory_mb");
            limits.memory_bytes = bytes(&name, megabytes, MOST.memory_bytes)?;
        }
        if let Some(seconds) = self.cpu_seconds {
            limits.cpu = duration(&style.spell("cpu_seconds"), seconds, MOST.cpu)?;
        }
        if let Some(seconds) = self.seconds {
            limits.deadline = duration("seconds", seconds, MOST.deadline)?;
        }
        if let Some(calls) = self.calls {
            limits.calls = count("calls", calls, MOST.calls)?;
        }
        if let Some(calls) = self.parallel_calls {
            let name = style.spell("parallel_calls");
            limits.parallel_calls = count(&name, calls, MOST.parallel_calls)?;
        }
        if let Some(levels) = self.nesting {
            limits.nesting = count("nesting", levels, MOST.nesting)?;
        }
        Ok(limits)
    }
}

fn bytes(name: &str, megabytes: f64, most: u64) -> Result<u64, BindingFailure> {
    #[allow(
        clippy::cast_possible_truncation,
        clippy::cast_precision_loss,
        clippy::cast_sign_loss,
        reason = "a conversion saturates, and what it returns is compared"
    )]
    let bytes = (megabytes * MEGABYTE as f64) as u64;
    if bytes == 0 || bytes > most {
        return Err(out_of_range(name, megabytes, most / MEGABYTE));
    }
    Ok(bytes)
}

fn duration(name: &str, seconds: f64, most: Duration) -> Result<Duration, BindingFailure> {
    match Duration::try_from_secs_f64(seconds) {
        Ok(duration) if !duration.is_zero() && duration <= most => Ok(duration),
        _ => Err(out_of_range(name, seconds, most.as_secs())),
    }
}

fn count(name: &str, number: f64, most: u32) -> Result<u32, BindingFailure> {
    if number.fract() != 0.0 {
        return Err(BindingFailure::Invalid(format!(
            "the limit {name} is {number}; it must be a whole number"
        )));
    }
    #[allow(
        clippy::cast_possible_truncation,
        clippy::cast_sign_loss,
        reason = "a conversion saturates, and what it returns is compared"
    )]
    let count = number as u32;
    if count == 0 || count > most {
        return Err(out_of_range(name, number, most));
    }
    Ok(count)
}

fn out_of_range(name: &str, found: impl Display, most: impl Display) -> BindingFailure {
    BindingFailure::Invalid(format!(
        "the limit {name} is {found}; it must be above 0 and at most {most}"
    ))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_with_units_become_limits() {
        let values = LimitValues {
            memory_mb: Some(1.5),
            cpu_seconds: Some(0.25),
            seconds: Some(2.0),
            calls: Some(7.0),
            parallel_calls: Some(3.0),
            nesting: Some(2.0),
        };
        let limits = values.checked(NameStyle::Snake).expect("they are in range");
        assert_eq!(limits.memory_bytes, 3 << 19);
        assert_eq!(limits.cpu, Duration::from_millis(250));
        assert_eq!(limits.deadline, Duration::from_secs(2));
        assert_eq!(limits.calls, 7);
        assert_eq!(limits.parallel_calls, 3);
        assert_eq!(limits.nesting, 2);
    }

    fn memory(megabytes: f64) -> LimitValues {
        LimitValues { memory_mb: Some(megabytes), ..LimitValues::default() }
    }

    fn cpu(seconds: f64) -> LimitValues {
        LimitValues { cpu_seconds: Some(seconds), ..LimitValues::default() }
    }

    fn seconds(seconds: f64) -> LimitValues {
        LimitValues { seconds: Some(seconds), ..LimitValues::default() }
    }

    fn calls(calls: f64) -> LimitValues {
        LimitValues { calls: Some(calls), ..LimitValues::default() }
    }

    fn parallel(calls: f64) -> LimitValues {
        LimitValues { parallel_calls: Some(calls), ..LimitValues::default() }
    }

    fn nesting(levels: f64) -> LimitValues {
        LimitValues { nesting: Some(levels), ..LimitValues::default() }
    }

    #[test]
    fn each_limit_is_accepted_at_its_edge_and_refused_beyond_it_by_its_name() {
        LimitValues::default().checked(NameStyle::Snake).expect("the defaults are in range");
        for edge in [
            memory(1024.0),
            cpu(3_600.0),
            seconds(86_400.0),
            calls(1.0),
            calls(20_000.0),
            parallel(1_000.0),
            nesting(16.0),
        ] {
            assert!(edge.checked(NameStyle::Snake).is_ok(), "{edge:?}");
        }
        for (beyond, name) in [
            (memory(1025.0), "memory_mb"),
            (memory(f64::NAN), "memory_mb"),
            (memory(f64::INFINITY), "memory_mb"),
            (memory(-1.0), "memory_mb"),
            (cpu(3_600.5), "cpu_seconds"),
            (cpu(-1.0), "cpu_seconds"),
            (seconds(0.0), "seconds"),
            (seconds(f64::INFINITY), "seconds"),
            (calls(0.0), "calls"),
            (calls(20_001.0), "calls"),
            (calls(-1.0), "calls"),
            (calls(1.5), "calls"),
            (calls(f64::NAN), "calls"),
            (parallel(1e12), "parallel_calls"),
            (nesting(0.0), "nesting"),
            (nesting(17.0), "nesting"),
        ] {
            match beyond.checked(NameStyle::Snake) {
                Err(BindingFailure::Invalid(message)) => {
                    assert!(message.contains(&format!("limit {name} ")), "{message}");
                }
                other => panic!("{beyond:?}: {other:?}"),
            }
        }
    }

    #[test]
    fn names_are_spelled_as_in_the_language_of_the_program() {
        assert_eq!(NameStyle::Snake.spell("parallel_calls"), "parallel_calls");
        assert_eq!(NameStyle::Camel.spell("parallel_calls"), "parallelCalls");
        assert_eq!(NameStyle::Camel.spell("calls"), "calls");
        match memory(0.0).checked(NameStyle::Camel) {
            Err(BindingFailure::Invalid(message)) => assert!(message.contains(" memoryMb ")),
            other => panic!("{other:?}"),
        }
    }
}
