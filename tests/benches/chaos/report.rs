//! The tables of the report, and what must hold.

use std::{collections::BTreeMap, time::Duration};

use airlock_tests::bench::report::{Cell, Report, Table};

use super::{
    callers::Fared,
    leaks::Leaked,
    watch::{Resources, Sample},
};

/// Processes that are named at most.
const MAX_NAMED: usize = 20;

/// Everything that was observed.
pub(crate) struct Observed {
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

impl Observed {
    /// Adds all tables, notes and checks.
    pub(crate) fn fill(&self, report: &mut Report) {
        let mut calls = Table::new(
            "calls of the good servers",
            &["calls", "failed", "success", "p50", "p99", "longest"],
        );
        add(&mut calls, "before", &self.before);
        add(&mut calls, "during", &self.during);
        report.table(calls);
        report.table(self.resources());
        let mut outcomes = Table::new("calls of the other servers", &["ended so"]);
        for (code, count) in &self.outcomes {
            outcomes.row(code, [Cell::Count(*count as u64)]);
        }
        report.table(outcomes);
        report.note(format!("the other servers were started {} times", self.lives));
        report.note(format!(
            "the gateway stopped in {:.1?}, with {} processes of servers before",
            self.stopped_in, self.alive
        ));
        self.check(report);
    }

    fn resources(&self) -> Table {
        let Resources { start, end, most } = self.resources;
        let mut table = Table::new("the gateway", &["start", "end", "most"]);
        let descriptors = [start, end, most].map(|sample| Cell::Count(sample.descriptors as u64));
        table.row("file descriptors", descriptors);
        let mib = |sample: Sample| Cell::Count(sample.resident_bytes >> 20);
        table.row("resident memory in MiB", [start, end, most].map(mib));
        table
    }

    fn check(&self, report: &mut Report) {
        for (phase, fared) in [("before", &self.before), ("during", &self.during)] {
            let what = format!("{phase}: good servers are called and no call of theirs fails");
            report.check(what, fared.failed == 0 && fared.calls() > 0);
        }
        report.check("the gateway stops in time and without an error", self.has_stopped);
        let leading = self.leaked.iter().filter(|leaked| leaked.leads).count();
        report.check(
            format!(
                "no process outlives the gateway ({} do, {leading} of them in a session of their own)",
                self.leaked.len()
            ),
            self.leaked.is_empty(),
        );
        for Leaked { id, command, .. } in self.leaked.iter().take(MAX_NAMED) {
            report.note(format!("leaked: {} {command}", id.as_raw_nonzero()));
        }
    }
}

fn add(table: &mut Table, phase: &str, fared: &Fared) {
    let counts = [fared.calls(), fared.failed].map(|count| Cell::Count(count as u64));
    let times = [50, 99, 100].map(|percent| Cell::Time(fared.latencies.micros(percent)));
    let cells = counts.into_iter().chain([Cell::Percent(success(fared))]).chain(times);
    let row = table.row(phase, cells);
    for failure in &fared.failures {
        row.remark(format!("FAILED: {failure}"));
    }
}

/// Returns the successful calls of all, in percent.
#[expect(clippy::cast_precision_loss, reason = "there are not that many calls")]
fn success(fared: &Fared) -> f64 {
    fared.latencies.count() as f64 * 100.0 / fared.calls().max(1) as f64
}
