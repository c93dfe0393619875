//! Budgets and rate limits as they are written → limits.

use std::collections::BTreeSet;

use airlock_core::money::Money;
use airlock_limits::{
    Alignment,
    limit::{Limit, Measure, Owner, Period, Scope, Window},
};
use sha2::{Digest as _, Sha256};

use crate::resolve::resolved::Resolved;
use airlock_config_file::{
    file::{self, Dollars},
    key_path::KeyPath,
};

/// Bytes of a digest that identify a limit.
const ID_BYTES: usize = 16;

/// Limits of one owner as they are written.
pub(super) struct WrittenLimits<'f> {
    pub(super) budgets: &'f [file::Budget],
    /// The same with one entry.
    pub(super) budget: Option<&'f file::Budget>,
    pub(super) rate_limit: Option<&'f file::RateLimit>,
    pub(super) calendar_aligned: bool,
}

/// Owner of limits, and the calls or requests that they count.
pub(super) struct LimitedSubject {
    pub(super) owner: Owner,
    owner_name: Option<String>,
    pub(super) scope: Scope,
}

impl LimitedSubject {
    /// Returns all that an owner with this name does.
    pub(super) fn new(owner: Owner, name: &str) -> Self {
        Self { owner, owner_name: Some(name.to_owned()), scope: Scope::All }
    }

    /// Returns what all callers together do in a scope.
    pub(super) fn everyone(scope: Scope) -> Self {
        Self { owner: Owner::Everyone, owner_name: None, scope }
    }

    /// Returns what the same owner does in another scope.
    pub(super) fn within(&self, scope: Scope) -> Self {
        let owner = self.owner.clone();
        Self { owner, owner_name: self.owner_name.clone(), scope }
    }

    fn limit(&self, measure: Measure, most: u64, window: Window) -> Limit {
        let id = id(&self.owner, &self.scope, measure, window);
        let Self { owner, owner_name, scope } = self.within(self.scope.clone());
        Limit { id, owner, owner_name, scope, measure, most, window }
    }
}

/// Resolves the limits of an owner.
pub(super) fn of_owner(
    written: &WrittenLimits<'_>,
    subject: &LimitedSubject,
) -> Resolved<Vec<Limit>> {
    Resolved::new(|problems| {
        let mut limits = problems.merge(budgets(written, subject));
        if let Some(rates) = written.rate_limit {
            let rates = of_rates(rates, written.calendar_aligned, subject);
            limits.extend(problems.take("rate_limit", rates));
        }
        limits
    })
}

fn budgets(written: &WrittenLimits<'_>, subject: &LimitedSubject) -> Resolved<Vec<Limit>> {
    let calendar_aligned = written.calendar_aligned;
    let mut lengths = BTreeSet::new();
    Resolved::new(|problems| {
        let all = Resolved::elements(written.budgets, |problems, budget| {
            let limit = problems.merge(of_budget(budget, calendar_aligned, subject))?;
            if !lengths.insert(limit.window.seconds()) {
                let message = "another entry of `budgets` has this length; each has another one";
                problems.refuse("reset_duration", message);
            }
            Some(limit)
        });
        let mut limits = problems.take("budgets", all);
        if let Some(budget) = written.budget {
            if !written.budgets.is_empty() {
                problems.refuse(
                    "budget",
                    "is beside `budgets`, which it is the same as; write one of both",
                );
            }
            let budget = of_budget(budget, calendar_aligned, subject);
            limits.extend(problems.take("budget", budget));
        }
        limits
    })
}

fn of_budget(
    budget: &file::Budget,
    calendar_aligned: bool,
    subject: &LimitedSubject,
) -> Resolved<Option<Limit>> {
    Resolved::new(|problems| {
        let most = problems.accept("max_limit", money(budget.max_limit));
        let month = budget.reset_config.as_ref().and_then(|config| config.quarter_start_month);
        let quarter_start = month.and_then(|month| u8::try_from(month.count()).ok()).unwrap_or(1);
        let alignment = alignment(calendar_aligned, quarter_start);
        let window = Window::parse(&budget.reset_duration, alignment);
        let window = problems.accept("reset_duration", window)?;
        let is_quarter = matches!(window, Window::Calendar(Period::Quarter(_)));
        if quarter_start != 1 && !is_quarter {
            let key = KeyPath::default().member("reset_config").member("quarter_start_month");
            problems.refuse(key, "belongs to the `reset_duration` \"1Q\", with `calendar_aligned`");
        }
        Some(subject.limit(Measure::Cost, most?.millionths(), window))
    })
}

fn alignment(calendar_aligned: bool, quarter_start: u8) -> Alignment {
    if calendar_aligned { Alignment::Calendar { quarter_start } } else { Alignment::Rolling }
}

/// One number of a rate limit, as it is written.
struct WrittenRate<'f> {
    measure: Measure,
    /// Names of the two members.
    members: [&'static str; 2],
    most: Option<u64>,
    duration: Option<&'f str>,
}

fn of_rates(
    rates: &file::RateLimit,
    calendar_aligned: bool,
    subject: &LimitedSubject,
) -> Resolved<Vec<Limit>> {
    let written = [
        WrittenRate {
            measure: Measure::Tokens,
            members: ["token_max_limit", "token_reset_duration"],
            most: rates.token_max_limit.map(file::Ranged::get),
            duration: rates.token_reset_duration.as_deref(),
        },
        WrittenRate {
            measure: Measure::Requests,
            members: ["request_max_limit", "request_reset_duration"],
            most: rates.request_max_limit.map(file::Ranged::get),
            duration: rates.request_reset_duration.as_deref(),
        },
        tool_calls(
            rates.tool_call_max_limit.map(file::Ranged::get),
            rates.tool_call_reset_duration.as_deref(),
        ),
        argument_bytes(
            rates.argument_byte_max_limit.map(file::Ranged::get),
            rates.argument_byte_reset_duration.as_deref(),
        ),
    ];
    let concurrent = concurrency(rates.max_concurrent.map(file::Ranged::get), subject);
    of_written(&written, concurrent, calendar_aligned, subject)
}

/// Resolves limits on calls of tools alone.
pub(super) fn of_calls(
    rate: &file::CallRateLimit,
    calendar_aligned: bool,
    subject: &LimitedSubject,
) -> Resolved<Vec<Limit>> {
    let written = [
        tool_calls(
            rate.tool_call_max_limit.map(file::Ranged::get),
            rate.tool_call_reset_duration.as_deref(),
        ),
        argument_bytes(
            rate.argument_byte_max_limit.map(file::Ranged::get),
            rate.argument_byte_reset_duration.as_deref(),
        ),
    ];
    let concurrent = concurrency(rate.max_concurrent.map(file::Ranged::get), subject);
    of_written(&written, concurrent, calendar_aligned, subject)
}

fn of_written(
    written: &[WrittenRate<'_>],
    concurrent: Option<Limit>,
    calendar_aligned: bool,
    subject: &LimitedSubject,
) -> Resolved<Vec<Limit>> {
    Resolved::new(|problems| {
        let limits = written
            .iter()
            .filter_map(|rate| problems.merge(of_rate(rate, calendar_aligned, subject)));
        limits.chain(concurrent).collect()
    })
}

fn tool_calls(most: Option<u64>, duration: Option<&str>) -> WrittenRate<'_> {
    WrittenRate {
        measure: Measure::ToolCalls,
        members: ["tool_call_max_limit", "tool_call_reset_duration"],
        most,
        duration,
    }
}

fn argument_bytes(most: Option<u64>, duration: Option<&str>) -> WrittenRate<'_> {
    WrittenRate {
        measure: Measure::ArgumentBytes,
        members: ["argument_byte_max_limit", "argument_byte_reset_duration"],
        most,
        duration,
    }
}

fn of_rate(
    rate: &WrittenRate<'_>,
    calendar_aligned: bool,
    subject: &LimitedSubject,
) -> Resolved<Option<Limit>> {
    let [most, duration] = rate.members;
    Resolved::new(|problems| match (rate.most, rate.duration) {
        (None, None) => None,
        (Some(_), None) => {
            let message = format_args!("is required when {most} is set");
            problems.refuse(duration, message);
            None
        }
        (None, Some(_)) => {
            problems.refuse(most, format_args!("is required when {duration} is set"));
            None
        }
        (Some(number), Some(text)) => {
            let window = Window::parse(text, alignment(calendar_aligned, 1));
            let window = problems.accept(duration, window)?;
            Some(subject.limit(rate.measure, number, window))
        }
    })
}

fn concurrency(most: Option<u64>, subject: &LimitedSubject) -> Option<Limit> {
    Some(subject.limit(Measure::Concurrency, most?, Window::Never))
}

/// Returns an amount of money.
pub(super) fn money(Dollars(amount): Dollars) -> Result<Money, String> {
    Money::from_dollars(amount).ok_or_else(|| out_of_range(amount, Money::MOST_DOLLARS))
}

/// Returns the reason that an amount of US dollars is refused.
pub(super) fn out_of_range(amount: f64, most: f64) -> String {
    format!("must be from 0 to {most} US dollars, found {amount}")
}

/// Returns the identifier of a limit: a digest, so that it is short, and valid in a path whatever the names
/// are.
fn id(owner: &Owner, scope: &Scope, measure: Measure, window: Window) -> String {
    let owner = match owner {
        Owner::Everyone => ["everyone", ""],
        Owner::Key(id) => ["key", id],
        Owner::Team(id) => ["team", id],
        Owner::Customer(id) => ["customer", id],
    };
    let scope = match scope {
        Scope::All => ["all", "", ""],
        Scope::Model { provider, model } => {
            ["model", provider.as_deref().unwrap_or_default(), model]
        }
        Scope::Client(client) => ["client", client, ""],
        Scope::Tool(tool) => ["tool", tool, ""],
    };
    let measure = match measure {
        Measure::Requests => "requests",
        Measure::ToolCalls => "tool_calls",
        Measure::ArgumentBytes => "argument_bytes",
        Measure::Tokens => "tokens",
        Measure::Cost => "cost",
        Measure::Concurrency => "concurrency",
    };
    let text = serde_json::json!([owner, scope, measure, window.seconds()]).to_string();
    airlock_strings::hex(&Sha256::digest(text)[..ID_BYTES])
}
