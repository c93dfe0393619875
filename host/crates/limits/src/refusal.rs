//! A limit that does not permit a request or call, in the words of callers.

use std::{fmt, time::Duration};

use airlock_core::{
    model_control::ControlRefusal,
    money::Money,
    tool::{CallError, ErrorKind, HostCode, ReachedLimit},
};

use crate::limit::{Limit, Measure, Owner, Period, Scope, Window};

/// The first limit, in the order of identifiers, that does not permit a request or call. `Display` names
/// the limit for the caller.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LimitRefusal {
    /// The limit.
    pub limit: Limit,
    /// The most in one window, with a temporary addition.
    pub most: u64,
    /// The amount that the request or call needs at least.
    pub needed: u64,
    /// The amount that is left; `None` if that was not read.
    pub left: Option<u64>,
    /// Time after which the amount is left if no other one is taken; `None` for never.
    pub retry_after: Option<Duration>,
}

impl fmt::Display for LimitRefusal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Limit { owner, scope, measure, window, .. } = &self.limit;
        // No time to wait and no other call helps one that is larger than the whole limit.
        let is_above_whole = *measure == Measure::ArgumentBytes && self.needed > self.most;
        if is_above_whole {
            write!(f, "the call has {}, more than ", MeasuredAmount(*measure, self.needed))?;
        }
        write!(f, "the limit of {}", MeasuredAmount(*measure, self.most))?;
        write!(f, "{}{} of {}", ScopeText(scope), WindowText(*window), OwnerText(owner))?;
        if is_above_whole {
            return f.write_str(" permits at all; send less in one call");
        }
        write!(f, " is reached{}{}", NeedText(self), WaitText(self.retry_after))
    }
}

impl std::error::Error for LimitRefusal {}

/// Reason that a request or call is not permitted.
#[derive(Debug, Clone)]
pub(crate) enum Denied {
    /// A limit is reached.
    Reached(Box<LimitRefusal>),
    /// The store does not tell. `Display` of the error is safe for callers.
    Unavailable(String),
    /// The model has no price, so that a limit of money cannot be kept.
    Unpriced { model: String, limit: Box<Limit> },
}

impl Denied {
    pub(crate) fn message(&self) -> String {
        match self {
            Self::Reached(refusal) => refusal.to_string(),
            Self::Unavailable(reason) => {
                format!("the limits of this caller cannot be checked: {reason}")
            }
            Self::Unpriced { model, limit } => format!(
                "model '{model}' has no price, which the limit of {}{} of {} needs; \
                 an operator can set one for the model, or for '*'",
                MeasuredAmount(limit.measure, limit.most),
                WindowText(limit.window),
                OwnerText(&limit.owner),
            ),
        }
    }

    fn code(&self) -> HostCode {
        match self {
            Self::Reached(refusal) if refusal.limit.measure == Measure::Cost => {
                HostCode::BudgetExceeded
            }
            Self::Reached(_) | Self::Unpriced { .. } => HostCode::LimitReached,
            Self::Unavailable(_) => HostCode::Unavailable,
        }
    }

    fn retry_after(&self) -> Option<Duration> {
        match self {
            Self::Reached(refusal) => refusal.retry_after,
            Self::Unavailable(_) => Some(Duration::from_secs(1)),
            Self::Unpriced { .. } => None,
        }
    }
}

impl From<Denied> for CallError {
    fn from(denied: Denied) -> Self {
        let retry_after = denied.retry_after();
        let kind = match &denied {
            Denied::Unavailable(_) => ErrorKind::Unavailable,
            _ if retry_after.is_some() => ErrorKind::RateLimited,
            _ => ErrorKind::LimitReached,
        };
        let mut error = Self::new(kind, denied.code(), denied.message());
        if let Denied::Reached(refusal) = &denied {
            error = error.with_limit(ReachedLimit::Amount(refusal.most));
        }
        match retry_after {
            Some(wait) => error.with_retry_after(wait),
            None => error,
        }
    }
}

impl From<Denied> for ControlRefusal {
    fn from(denied: Denied) -> Self {
        Self { code: denied.code(), message: denied.message(), retry_after: denied.retry_after() }
    }
}

struct MeasuredAmount(Measure, u64);

impl fmt::Display for MeasuredAmount {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self(measure, amount) = *self;
        match measure {
            Measure::Requests => write!(f, "{amount} requests"),
            Measure::ToolCalls => write!(f, "{amount} tool calls"),
            Measure::ArgumentBytes => write!(f, "{amount} bytes of arguments"),
            Measure::Tokens => write!(f, "{amount} tokens"),
            Measure::Cost => write!(f, "{}", Money::from_millionths(amount)),
            Measure::Concurrency => write!(f, "{amount} requests and calls at the same time"),
        }
    }
}

struct ScopeText<'l>(&'l Scope);

impl fmt::Display for ScopeText<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.0 {
            Scope::All => Ok(()),
            Scope::Model { provider: None, model } => write!(f, " for model '{model}'"),
            Scope::Model { provider: Some(provider), model } => {
                write!(f, " for model '{provider}/{model}'")
            }
            Scope::Client(client) => write!(f, " for client '{client}'"),
            Scope::Tool(tool) => write!(f, " for tool '{tool}'"),
        }
    }
}

struct WindowText(Window);

impl fmt::Display for WindowText {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.0 {
            Window::Rolling(length) => write!(f, " in {}", humantime::format_duration(length)),
            Window::Calendar(Period::Day) => f.write_str(" a day"),
            Window::Calendar(Period::Week) => f.write_str(" a week"),
            Window::Calendar(Period::Month) => f.write_str(" a month"),
            Window::Calendar(Period::Quarter(_)) => f.write_str(" a quarter"),
            Window::Calendar(Period::Year) => f.write_str(" a year"),
            Window::Never => Ok(()),
        }
    }
}

struct OwnerText<'l>(&'l Owner);

impl fmt::Display for OwnerText<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.0 {
            Owner::Everyone => f.write_str("all callers"),
            // By what the caller knows, which is not the identifier: its own key, and the groups of that.
            Owner::Key(_) => f.write_str("this key"),
            Owner::Team(_) => f.write_str("this team"),
            Owner::Customer(_) => f.write_str("this customer"),
        }
    }
}

/// Explains a refusal although something is left.
struct NeedText<'r>(&'r LimitRefusal);

impl fmt::Display for NeedText<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let LimitRefusal { limit, needed, left, .. } = self.0;
        let Some(left) = left.filter(|left| *left > 0) else { return Ok(()) };
        let measure = limit.measure;
        let needed = MeasuredAmount(measure, *needed);
        let left = MeasuredAmount(measure, left);
        if measure == Measure::ArgumentBytes {
            write!(f, ": the call has {needed}, and {left} are left")?;
        } else {
            write!(f, ": the request may need {needed}, and {left} are left")?;
        }
        if matches!(measure, Measure::Tokens | Measure::Cost) {
            f.write_str("; a lower maximum of output tokens needs less")?;
        }
        Ok(())
    }
}

struct WaitText(Option<Duration>);

impl fmt::Display for WaitText {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Some(wait) = self.0 else { return Ok(()) };
        let seconds = wait.as_millis().div_ceil(1_000).max(1);
        write!(f, "; try again in {seconds} s")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn refusal(measure: Measure, window: Window, scope: Scope) -> LimitRefusal {
        let owner = Owner::Key("k1".to_owned());
        let id = "l".to_owned();
        let limit = Limit { id, owner, owner_name: None, scope, measure, most: 100, window };
        LimitRefusal { limit, most: 120, needed: 1, left: Some(0), retry_after: None }
    }

    #[test]
    fn the_message_names_the_limit_its_owner_and_the_time_to_wait() {
        let window = Window::Rolling(Duration::from_mins(1));
        let tool = Scope::Tool("files-read".to_owned());
        let reached = LimitRefusal {
            retry_after: Some(Duration::from_millis(4_001)),
            ..refusal(Measure::ToolCalls, window, tool)
        };
        assert_eq!(
            reached.to_string(),
            "the limit of 120 tool calls for tool 'files-read' in 1m of this key is reached; try again in 5 s"
        );
        let error = CallError::from(Denied::Reached(Box::new(reached)));
        assert_eq!((error.code(), error.kind()), (HostCode::LimitReached, ErrorKind::RateLimited));
        assert_eq!(error.retry_after(), Some(Duration::from_millis(4_001)));
    }

    #[test]
    fn arguments_that_a_limit_never_permits_are_told_apart_from_those_that_have_to_wait() {
        let window = Window::Rolling(Duration::from_mins(1));
        let waiting = LimitRefusal {
            needed: 100,
            left: Some(20),
            retry_after: Some(Duration::from_secs(5)),
            ..refusal(Measure::ArgumentBytes, window, Scope::Client("mail".to_owned()))
        };
        assert_eq!(
            waiting.to_string(),
            "the limit of 120 bytes of arguments for client 'mail' in 1m of this key is reached: \
             the call has 100 bytes of arguments, and 20 bytes of arguments are left; try again in 5 s"
        );
        let whole = LimitRefusal { needed: 121, left: Some(120), retry_after: None, ..waiting };
        assert_eq!(
            whole.to_string(),
            "the call has 121 bytes of arguments, more than the limit of 120 bytes of arguments for client 'mail' \
             in 1m of this key permits at all; send less in one call"
        );
        let error = CallError::from(Denied::Reached(Box::new(whole)));
        assert_eq!((error.code(), error.kind()), (HostCode::LimitReached, ErrorKind::LimitReached));
        assert_eq!(error.retry_after(), None);
    }

    #[test]
    fn a_prepaid_limit_has_no_time_to_wait_and_a_request_that_needs_more_is_told_how_much() {
        let reached = LimitRefusal {
            needed: 2_500_000,
            left: Some(1),
            ..refusal(Measure::Cost, Window::Never, Scope::All)
        };
        assert_eq!(
            reached.to_string(),
            "the limit of $0.000120 of this key is reached: the request may need $2.500000, \
             and $0.000001 are left; a lower maximum of output tokens needs less"
        );
        let refusal = ControlRefusal::from(Denied::Reached(Box::new(reached)));
        assert_eq!((refusal.code, refusal.retry_after), (HostCode::BudgetExceeded, None));
    }
}
