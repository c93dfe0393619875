//! Observations of a run: the table of its counts, and the invariants.

use std::{
    collections::{BTreeMap, BTreeSet},
    fmt::Display,
};

use airlock_tests::{
    bench::report::{Cell, Report, Table},
    commitment,
};

use super::{
    KillEffort,
    callers::CallFate,
    effects::arguments,
    logs::{AdmittedRow, AuditedCalls, LoggedRows},
};

/// Most calls or logs that are named for which something does not hold.
const MAX_NAMED: usize = 10;

/// Everything that was observed.
pub(super) struct KilledRun {
    pub(super) effort: KillEffort,
    /// By the numbers of the calls.
    pub(super) fates: BTreeMap<u64, CallFate>,
    /// Numbers of the calls whose effects have happened, in their order.
    pub(super) happened: Vec<u64>,
    pub(super) rows: LoggedRows,
    pub(super) audited: AuditedCalls,
    /// Number of audit logs, and of copies of them after kills.
    pub(super) logs: usize,
    /// Those that are not accepted.
    pub(super) invalid: Vec<String>,
}

/// Rows and effects that belong together.
struct MatchedRows<'r> {
    /// By the numbers of the calls that had an effect.
    of_effects: BTreeMap<u64, &'r AdmittedRow>,
    /// Those of calls without an effect.
    others: Vec<&'r AdmittedRow>,
}

impl KilledRun {
    pub(super) fn report(&self) -> Report {
        let KillEffort { seed, calls, limit, gateway_kills, store_kills, .. } = self.effort;
        let mut report = Report::new(format!(
            "{calls} calls with a limit of {limit}, {gateway_kills} kills of gateways and {store_kills} of their store, seed {seed}"
        ));
        report.table(self.counts());
        self.check_effects(&mut report);
        self.check_records(&mut report);
        report.note(self.summary());
        report
    }

    fn summary(&self) -> String {
        format!(
            "{} effects of a limit of {}, {} rows in the call log, {} lines in the audit logs, {} of {} logs and copies accepted",
            self.happened.len(),
            self.effort.limit,
            self.rows.count,
            self.audited.lines,
            self.logs.saturating_sub(self.invalid.len()),
            self.logs,
        )
    }

    fn counts(&self) -> Table {
        let mut table = Table::new("gateways that are killed", &["count"]);
        for (name, count) in [
            ("calls", self.fates.len() as u64),
            ("answered", self.count(CallFate::Answered)),
            ("refused by the limit", self.count(CallFate::LimitReached)),
            ("refused without the store or a log", self.count(CallFate::Unavailable)),
            ("without a response", self.count(CallFate::NoResponse)),
            ("effects", self.happened.len() as u64),
            ("lines of audit logs", self.audited.lines),
            ("admissions in audit logs", self.audited.count),
            ("rows of the call log", self.rows.count),
            ("events lost", self.audited.lost),
            ("kills of gateways", self.effort.gateway_kills),
            ("kills of the store", self.effort.store_kills),
        ] {
            table.row(name, [Cell::Count(count)]);
        }
        self.add_failures(&mut table);
        table
    }

    /// Adds the calls that failed otherwise, by their codes.
    fn add_failures(&self, table: &mut Table) {
        let mut failures = BTreeMap::<_, u64>::new();
        for fate in self.fates.values() {
            if let CallFate::Failed(code) = fate {
                *failures.entry(code).or_default() += 1;
            }
        }
        let row = table.row("failed otherwise", [Cell::Count(failures.values().sum())]);
        for (code, count) in failures {
            row.remark(format!("{code}: {count}"));
        }
    }

    fn check_effects(&self, report: &mut Report) {
        let happened: BTreeSet<_> = self.happened.iter().copied().collect();
        let mut seen = BTreeSet::new();
        let repeated = self.happened.iter().filter(|number| !seen.insert(**number));
        check(report, "no call has its effect twice", repeated);
        let permitted = usize::try_from(self.effort.limit).unwrap_or(usize::MAX);
        let beyond = self.happened.iter().skip(permitted);
        check(report, "there are no more effects than the limit permits", beyond);
        report.check("the limit is reached", self.count(CallFate::LimitReached) > 0);
        let answered = self.with_fate(CallFate::Answered);
        let without = answered.filter(|number| !happened.contains(*number));
        check(report, "each call that was answered has its effect", without);
        let by_limit = self.with_fate(CallFate::LimitReached);
        let refused = by_limit.chain(self.with_fate(CallFate::Unavailable));
        let with = refused.filter(|number| happened.contains(*number));
        check(report, "no call that was refused has its effect", with);
    }

    fn check_records(&self, report: &mut Report) {
        let MatchedRows { of_effects, others } = self.matched_rows();
        let without = self.happened.iter().filter(|number| !of_effects.contains_key(*number));
        check(report, "each effect has its row in the call log", without);
        let without = self.happened.iter().filter(|number| {
            of_effects.get(*number).is_none_or(|row| self.audited.admissions(row) != 1)
        });
        check(report, "each effect has exactly one admission in the audit logs", without);
        let without = others.iter().filter(|row| row.has_succeeded).map(|row| &row.id);
        check(report, "each row of a call that succeeded belongs to an effect", without);
        let logs = "`airlock audit verify` accepts each audit log, also as a kill has left it";
        check(report, logs, self.invalid.iter());
    }

    /// Finds the row of each effect.
    fn matched_rows(&self) -> MatchedRows<'_> {
        let mut left: BTreeSet<_> = self.happened.iter().copied().collect();
        let mut matched = MatchedRows { of_effects: BTreeMap::new(), others: Vec::new() };
        for row in &self.rows.admitted {
            // Calls and rows have nearly the same order, so that the first ones are the likely ones.
            let number = left
                .iter()
                .copied()
                .find(|number| commitment(&row.salt, &arguments(*number)) == row.commitment);
            match number {
                Some(number) => {
                    left.remove(&number);
                    matched.of_effects.insert(number, row);
                }
                None => matched.others.push(row),
            }
        }
        matched
    }

    /// Returns the numbers of the calls that ended so.
    fn with_fate(&self, wanted: CallFate) -> impl Iterator<Item = &u64> {
        self.fates.iter().filter(move |(_, fate)| **fate == wanted).map(|(number, _)| number)
    }

    fn count(&self, wanted: CallFate) -> u64 {
        self.with_fate(wanted).count() as u64
    }
}

/// Adds something that holds if there are no `offenders`. The first of them are named.
fn check(report: &mut Report, what: &str, offenders: impl Iterator<Item: Display>) {
    let offenders: Vec<_> = offenders.map(|offender| offender.to_string()).collect();
    let named = offenders[..offenders.len().min(MAX_NAMED)].join(", ");
    match offenders.len() {
        0 => report.check(what, true),
        count => report.check(format!("{what}; not for {count}: {named}"), false),
    }
}
