//! Limits that hold for many requests, and on every gateway of a store: requests, calls of tools, bytes of their
//! arguments, tokens and money, for keys and their groups, clients, tools and models.
//!
//! ```text
//! a call, a request        calls, requests    which limits apply, and how much it needs of each
//!        │
//!     Limiter              running requests, leased shares, recent refusals
//!        │
//!     worker ── batch      one transaction for all that wait; each reserves all its amounts or none
//!        │
//!      count               arithmetic on one row of the store: windows, remaining amounts, settlements
//! ```
//!
//! | file | purpose |
//! |---|---|
//! | [`limit`] | limits as plain data: whose, of what, how much, in which window |
//! | `length` | lengths of windows as text |
//! | [`price`] | prices of models and tools |
//! | `set` | all limits, by the identifiers of callers; the requests and calls that each counts |
//! | `limiter` | the [`Limiter`]: reserves and settles amounts |
//! | `calls`, `requests` | the controls of calls and of requests to models |
//! | `usage` | tokens: estimates, and bounds on the usage that a provider reports |
//! | `live` | state in memory: leases, refusals, running requests |
//! | `worker`, `batch` | the task that asks the store, and forgets what was removed; the work of one transaction |
//! | `count`, `window`, `calendar` | the count of one limit; its windows |
//! | `metrics` | refusals, and limits that are nearly used up |
//! | `refusal` | refusals, in the words of callers |
//! | `state` | states of limits for operators, resets, temporary raises |
//!
//! # Guarantees
//!
//! - **Exact.** All amounts of a request or call are reserved in one transaction, with the locks of its limits,
//!   on all gateways of the store. With a limit of 100 calls a minute, the 101st call within
//!   any minute is refused, on whichever gateway it arrives. The clock is that of the database; `count` describes
//!   how steps of the clock are handled.
//! - **Leases never exceed a limit.** A gateway that serves 50 calls or more a second with a limit leases a
//!   share of it: at most the amount that these calls need in a second, at most a sixteenth of the remaining amount, for
//!   at most a second or a 64th of the window. The store counts the share before the gateway uses it. While a share is
//!   leased, its unused part is not available to others: for each gateway, at most a sixteenth of the amount that
//!   remained. A gateway that stops returns its shares; those of a killed gateway count as used. If fewer than 128
//!   calls remain, nothing is leased, and the store counts each call.
//! - **Charged before, corrected after.** Tokens and money of a request are reserved before it. The unused part of the
//!   reservation is returned after it; if the gateway was killed or the request was cut off, the whole reservation
//!   stays charged. A request that sets a maximum of output tokens is refused if the limit does not have that many
//!   left. A request without a maximum may exceed the limit by its own response, and is then the last one.
//! - **Closed without the store.** A request or call whose limit cannot be counted is refused, after at most some
//!   seconds.
//! - Requests and calls that run at the same time are counted by each gateway for itself.

mod batch;
mod calendar;
mod calls;
mod count;
mod length;
pub mod limit;
mod limiter;
mod live;
mod metrics;
pub mod price;
mod refusal;
mod requests;
mod set;
mod state;
mod usage;
mod window;
mod worker;

pub use self::{
    length::{Alignment, BadLength},
    limiter::Limiter,
    refusal::LimitRefusal,
    set::LimitSet,
    state::{LimitChangeError, LimitRaise, LimitState},
    usage::{MAX_TOKENS, UNDECLARED_OUTPUT},
};

#[cfg(test)]
mod tests;
