//! Totals of the calls of all guests since the start. Plain numbers: this crate does not know who shows them.

use std::sync::atomic::{AtomicU64, Ordering};

use airlock_core::{
    thread_number::thread_number,
    tool::{CallError, HostCode},
};

/// Number of codes of errors.
const CODES: usize = HostCode::ALL.len();
/// Upper bounds of the classes of memory, in MiB. One more class has no bound.
const BOUNDS_MIB: [u16; 11] = [1, 2, 4, 8, 16, 32, 64, 128, 256, 512, 1_024];

/// Parts of the totals. Threads on different cores rarely count in the same one.
const PARTS: usize = 8;

/// Totals of plugins and of scripts.
#[derive(Default)]
pub(crate) struct GuestTotals([TotalsPart; PARTS]);

/// The calls that some threads have counted. Two parts have no line of a cache in common.
#[derive(Default)]
#[repr(align(128))]
struct TotalsPart {
    plugins: CallTotals,
    scripts: CallTotals,
}

/// Totals of the guests of one kind.
struct CallTotals {
    ok: AtomicU64,
    failed: [AtomicU64; CODES],
    fuel: AtomicU64,
    memory_bytes: AtomicU64,
    memory: [AtomicU64; BOUNDS_MIB.len() + 1],
}

/// Usage of the guests of one kind since the start.
#[derive(Debug, Clone, PartialEq)]
pub struct GuestUsage {
    /// `plugin` or `script`.
    pub kind: &'static str,
    /// Numbers of calls by their outcome: `ok`, or the code of the error. Codes that did not occur are left out.
    pub outcomes: Vec<(&'static str, u64)>,
    /// Fuel that was burnt or charged.
    pub fuel: u64,
    /// Sum of the peaks of memory of all calls, in bytes.
    pub memory_bytes: u64,
    /// Numbers of calls by the peak of their memory: each with the upper bound of its class, in bytes. The last
    /// one has no bound, which is [`f64::INFINITY`].
    pub memory: Vec<(f64, u64)>,
}

impl GuestTotals {
    /// Counts a call that has ended, with the fuel and the memory that it took.
    pub(crate) fn add<T>(
        &self,
        is_script: bool,
        result: &Result<T, CallError>,
        fuel: u64,
        memory_bytes: u64,
    ) {
        let part = &self.0[thread_number() % PARTS];
        let totals = if is_script { &part.scripts } else { &part.plugins };
        let outcome = match result {
            Ok(_) => &totals.ok,
            Err(error) => &totals.failed[error.code() as usize],
        };
        outcome.fetch_add(1, Ordering::Relaxed);
        totals.fuel.fetch_add(fuel, Ordering::Relaxed);
        totals.memory_bytes.fetch_add(memory_bytes, Ordering::Relaxed);
        let class = BOUNDS_MIB.iter().position(|bound| memory_bytes <= u64::from(*bound) << 20);
        totals.memory[class.unwrap_or(BOUNDS_MIB.len())].fetch_add(1, Ordering::Relaxed);
    }

    /// Returns the usage of plugins and of scripts.
    pub(crate) fn usage(&self) -> [GuestUsage; 2] {
        let plugins = self.0.each_ref().map(|part| &part.plugins);
        let scripts = self.0.each_ref().map(|part| &part.scripts);
        [usage("plugin", plugins), usage("script", scripts)]
    }
}

/// Adds up the totals of all parts.
fn usage(kind: &'static str, parts: [&CallTotals; PARTS]) -> GuestUsage {
    let failed = HostCode::ALL.into_iter().enumerate();
    let failed = failed.map(|(at, code)| (code.as_str(), sum(parts.map(|part| &part.failed[at]))));
    let ok = sum(parts.map(|part| &part.ok));
    let bounds = BOUNDS_MIB.iter().map(|bound| f64::from(u32::from(*bound) << 20));
    let bounds = bounds.chain([f64::INFINITY]).enumerate();
    GuestUsage {
        kind,
        outcomes: std::iter::once(("ok", ok))
            .chain(failed.filter(|(_, calls)| *calls > 0))
            .collect(),
        fuel: sum(parts.map(|part| &part.fuel)),
        memory_bytes: sum(parts.map(|part| &part.memory_bytes)),
        memory: bounds
            .map(|(at, bound)| (bound, sum(parts.map(|part| &part.memory[at]))))
            .collect(),
    }
}

impl Default for CallTotals {
    fn default() -> Self {
        Self {
            ok: AtomicU64::new(0),
            failed: [const { AtomicU64::new(0) }; CODES],
            fuel: AtomicU64::new(0),
            memory_bytes: AtomicU64::new(0),
            memory: [const { AtomicU64::new(0) }; BOUNDS_MIB.len() + 1],
        }
    }
}

fn sum(parts: [&AtomicU64; PARTS]) -> u64 {
    parts.iter().fold(0, |sum, part| sum.wrapping_add(part.load(Ordering::Relaxed)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn codes_are_in_the_order_in_which_they_are_counted() {
        for (index, code) in HostCode::ALL.iter().enumerate() {
            assert_eq!(*code as usize, index, "{}", code.as_str());
        }
    }

    #[test]
    fn a_call_counts_once_by_its_kind_its_outcome_and_its_memory() {
        let totals = GuestTotals::default();
        totals.add(false, &Ok(()), 7, 1 << 20);
        totals.add(false, &Err::<(), _>(CallError::busy()), 3, (1 << 20) + 1);
        totals.add(true, &Ok(()), 0, 1 << 40);
        let [plugins, scripts] = totals.usage();
        assert_eq!((plugins.kind, plugins.fuel), ("plugin", 10));
        assert_eq!(plugins.outcomes, [("ok", 1), ("busy", 1)]);
        assert_eq!(plugins.memory[..2], [(1_048_576.0, 1), (2_097_152.0, 1)]);
        assert_eq!((scripts.kind, scripts.outcomes), ("script", vec![("ok", 1)]));
        assert_eq!(scripts.memory.last(), Some(&(f64::INFINITY, 1)));
    }

    #[test]
    fn the_calls_of_all_threads_are_counted_together() {
        let totals = GuestTotals::default();
        std::thread::scope(|scope| {
            for _ in 0..2 * PARTS {
                scope.spawn(|| totals.add(false, &Ok(()), 2, 0));
            }
        });
        let [plugins, _] = totals.usage();
        let calls = 2 * PARTS as u64;
        assert_eq!((plugins.outcomes, plugins.fuel), (vec![("ok", calls)], 2 * calls));
    }
}
