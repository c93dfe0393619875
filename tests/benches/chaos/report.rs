//! The run as tables, or as one JSON document.

use std::{collections::BTreeMap, fs, thread::available_parallelism, time::Duration};

use serde_json::{Value, json};

use crate::{Effort, GOOD, callers::Fared, leaks::Leaked, watch::Resources};

/// Processes that are named at most.
const MAX_NAMED: usize = 20;

/// Everything that was observed.
pub(crate) struct Report {
    pub(crate) effort: Effort,
    /// The good servers in a gateway of their own.
    pub(crate) before: Fared,
    /// The good servers beside the others.
    pub(crate) during: Fared,
    pub(crate) resources: Resources,
    /// Number of each outcome of a call of a server that misbehaves.
    pub(crate) outcomes: BTreeMap<String, usize>,
    /// Times that the servers that misbehave were started.
    pub(crate) lives: u64,
    /// Processes of all servers just before the end.
    pub(crate) alive: usize,
    pub(crate) has_stopped: bool,
    pub(crate) stopped_in: Duration,
    pub(crate) leaked: Vec<Leaked>,
}

impl Report {
    /// Returns whether all that must hold does.
    pub(crate) fn is_good(&self) -> bool {
        self.has_stopped
            && self.leaked.is_empty()
            && [&self.before, &self.during].iter().all(|it| it.failed == 0 && it.calls() > 0)
    }

    pub(crate) fn print(&self) {
        let Effort { wild, seed, before, during } = self.effort;
        let cores = available_parallelism().map_or(0, usize::from);
        println!(
            "{GOOD} good servers for {before:.0?} alone and for {during:.0?} beside {wild} others, seeds {seed} to {}; {cores} cores, load {}\n",
            seed + wild - 1,
            load()
        );
        println!(
            "{:28} {:>8} {:>8} {:>9} {:>9} {:>9} {:>9}",
            "calls of the good servers", "calls", "failed", "success", "p50", "p99", "longest"
        );
        line("before", &self.before);
        line("during", &self.during);
        let Resources { start, end, most } = self.resources;
        println!("\n{:28} {:>8} {:>8} {:>8}", "the gateway", "start", "end", "most");
        println!(
            "{:28} {:>8} {:>8} {:>8}",
            "file descriptors", start.descriptors, end.descriptors, most.descriptors
        );
        let mib = |bytes: u64| format!("{} MiB", bytes >> 20);
        println!(
            "{:28} {:>8} {:>8} {:>8}",
            "resident memory",
            mib(start.resident_bytes),
            mib(end.resident_bytes),
            mib(most.resident_bytes)
        );
        let outcomes: Vec<_> =
            self.outcomes.iter().map(|(code, count)| format!("{code} {count}")).collect();
        println!(
            "\nthe other servers were started {} times; their calls ended with: {}",
            self.lives,
            outcomes.join(", ")
        );
        let stopped = if self.has_stopped { "stopped" } else { "DID NOT STOP AS IT MUST" };
        println!(
            "the gateway {stopped} in {:.1?}, with {} processes of servers before",
            self.stopped_in, self.alive
        );
        self.print_leaks();
        let verdict = if self.is_good() { "all that must hold does" } else { "NOT AS IT MUST BE" };
        println!("{verdict}");
    }

    fn print_leaks(&self) {
        let leading = self.leaked.iter().filter(|it| it.leads).count();
        println!(
            "leaked processes: {}, {leading} of them in a session of their own",
            self.leaked.len()
        );
        for Leaked { id, command, .. } in self.leaked.iter().take(MAX_NAMED) {
            println!("  {} {command}", id.as_raw_nonzero());
        }
    }

    pub(crate) fn to_json(&self) -> Value {
        let Effort { wild, seed, before, during } = self.effort;
        let leaked = self
            .leaked
            .iter()
            .map(|it| json!({"pid": it.id.as_raw_nonzero().get(), "command": it.command, "leads_a_session": it.leads}));
        let Resources { start, end, most } = self.resources;
        let sample = |it: crate::watch::Sample| json!({"descriptors": it.descriptors, "resident_bytes": it.resident_bytes});
        json!({
            "load": load(), "cores": available_parallelism().map_or(0, usize::from),
            "servers": wild, "seeds": [seed, seed + wild - 1], "good_servers": GOOD,
            "before_s": before.as_secs_f64(), "during_s": during.as_secs_f64(),
            "before": fared(&self.before), "during": fared(&self.during),
            "gateway": {"start": sample(start), "end": sample(end), "most": sample(most), "stopped": self.has_stopped, "stopped_in_ms": millis(self.stopped_in)},
            "lives": self.lives, "outcomes": self.outcomes, "processes_before_the_end": self.alive,
            "leaked": leaked.collect::<Vec<_>>(), "good": self.is_good(),
        })
    }
}

fn line(phase: &str, it: &Fared) {
    let at = |percent| format!("{:.1?}", it.latencies.percentile(percent));
    let (p50, p99, longest) = (at(50), at(99), at(100));
    println!(
        "{phase:28} {:>8} {:>8} {:>7.2} % {p50:>9} {p99:>9} {longest:>9}",
        it.calls(),
        it.failed,
        success(it)
    );
    for failure in &it.failures {
        println!("    FAILED: {failure}");
    }
}

fn fared(it: &Fared) -> Value {
    let at = |percent| millis(it.latencies.percentile(percent));
    json!({
        "calls": it.calls(), "failed": it.failed, "success_percent": success(it), "first_failures": it.failures,
        "p50_ms": at(50), "p99_ms": at(99), "longest_ms": at(100),
    })
}

/// Returns the successful calls of all, in percent.
#[expect(clippy::cast_precision_loss, reason = "there are not that many calls")]
fn success(it: &Fared) -> f64 {
    it.latencies.count() as f64 * 100.0 / it.calls().max(1) as f64
}

fn millis(duration: Duration) -> f64 {
    duration.as_secs_f64() * 1e3
}

fn load() -> String {
    let load = fs::read_to_string("/proc/loadavg").unwrap_or_default();
    load.split(' ').take(3).collect::<Vec<_>>().join(" ")
}
