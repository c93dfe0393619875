//! Limits as plain data.

use std::time::Duration;

/// A limit: at most so much of one measure in each window, for all requests in its scope together.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Limit {
    /// Identifies its count in the store, on every gateway and after a restart: of the owner, the
    /// measure and the length of the window. A change of [`Self::most`] keeps the count.
    pub id: String,
    /// Owner of the limit.
    pub owner: Owner,
    /// Name of the owner, for people; `None` for everyone.
    pub owner_name: Option<String>,
    /// The requests or calls that it counts.
    pub scope: Scope,
    /// The measure.
    pub measure: Measure,
    /// The most in one window. Money is in millionths of a US dollar.
    pub most: u64,
    /// The window.
    pub window: Window,
}

/// Owner of a limit. Identifiers are those of [`Membership`](airlock_core::door::Membership).
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub enum Owner {
    /// All callers together, those without a key included.
    Everyone,
    /// A virtual key.
    Key(String),
    /// The keys of a team.
    Team(String),
    /// The keys of a customer, and those of its teams.
    Customer(String),
}

/// The requests or calls that a limit counts.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub enum Scope {
    /// All requests to models and all calls of tools, as far as the measure applies to them.
    All,
    /// Requests to one model, of one provider or of any.
    Model {
        /// Name of the provider; `None` for any.
        provider: Option<String>,
        /// Name of the model without that of a provider; `*` for any.
        model: String,
    },
    /// Calls of the tools of one client.
    Client(String),
    /// Calls of one tool, by its full name.
    Tool(String),
}

/// Measure of a limit.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Measure {
    /// Requests to models.
    Requests,
    /// Calls of tools, those of scripts and plugins included. The tools of code mode do not count: the
    /// calls of their scripts do.
    ToolCalls,
    /// Bytes of the arguments of these calls, as JSON text, after guards have decided about them.
    ArgumentBytes,
    /// Tokens of requests and responses of models.
    Tokens,
    /// Money, in millionths of a US dollar.
    Cost,
    /// Requests and calls that run at the same time. Has the window [`Window::Never`].
    Concurrency,
}

impl Measure {
    /// Returns whether calls of tools alone use it.
    pub(crate) fn is_of_calls_alone(self) -> bool {
        matches!(self, Self::ToolCalls | Self::ArgumentBytes)
    }
}

/// Window of a limit.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Window {
    /// Every span of this length. Of money, windows of this length one after the other, from the first use or the
    /// last reset on.
    Rolling(Duration),
    /// Windows of the calendar, in UTC.
    Calendar(Period),
    /// One window without end: a prepaid amount.
    Never,
}

/// Period of the calendar.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Period {
    /// From midnight.
    Day,
    /// From Monday.
    Week,
    /// From the first of the month.
    Month,
    /// Three months; the first quarter of a year begins with this month, 1 to 12.
    Quarter(u8),
    /// From 1 January.
    Year,
}
