//! Limits that hold for many requests, and on every gateway of a store: requests, calls of tools, bytes of their
//! arguments, tokens and money, for keys and their groups, clients, tools and models.
//!
//! ```text
//! a call, a request        calls, requests    which limits apply, and how much it needs of each
//!        │
//!     Limiter              what runs here, shares that are leased, refusals of a moment ago
//!        │
//!     worker ── batch      one transaction for all that wait; each takes all its amounts or none
//!        │
//!      count               arithmetic on one row of the store: windows, what is left, settlements
//! ```
//!
//! | file | purpose |
//! |---|---|
//! | [`limit`] | limits as plain data: whose, of what, how much, in which window |
//! | `length` | lengths of windows as text |
//! | [`price`] | prices of models and tools |
//! | `set` | all limits, by the identifiers of callers; the requests and calls that each counts |
//! | `limiter` | the [`Limiter`]: takes and settles amounts |
//! | `calls`, `requests` | the controls of calls and of requests to models |
//! | `usage` | tokens: estimates, and the bounds of what a provider tells |
//! | `live` | state in memory: leases, refusals, what runs |
//! | `worker`, `batch` | the task that asks the store, and forgets what was removed; the work of one transaction |
//! | `count`, `window`, `calendar` | the count of one limit; its windows |
//! | `metrics` | refusals, and limits that are nearly used up |
//! | `refusal` | refusals, in the words of callers |
//! | `state` | states of limits for operators, resets, temporary raises |
//!
//! # What holds
//!
//! - **Exact.** What is taken is taken in one transaction for all limits of a request or call, with the
//!   locks of these limits, on all gateways of the store. Of a limit of 100 calls a minute, the 101st within
//!   any minute is refused, wherever it arrives. The clock is that of the database; see `count` for
//!   steps of it.
//! - **Never too much by a lease.** A gateway that serves 50 calls or more a second with a limit leases a
//!   share of it: at most what these calls take in a second, at most a sixteenth of what is left, for at
//!   most a second or a 64th of the window. The share is taken in the store before. So the limit is never
//!   exceeded; while shares are out, their unused parts are refused to others, at most a sixteenth of what
//!   was left for each gateway. A gateway that ends returns them; those of one that is killed count. With
//!   fewer than 128 calls left there is no share worth a lease, and the store counts each call.
//! - **Charged before, corrected after.** Tokens and money of a request are reserved before it. What
//!   remains of the reservation is returned after it; of a gateway that was killed, or of a request that was
//!   cut off, all stays charged. A request that sets the maximum of its output tokens is refused if that is not
//!   left. One that does not may exceed what is left by its own response, in which case it is the last.
//! - **Closed without the store.** A request or call with a limit that cannot be counted is not permitted;
//!   it waits some seconds at most.
//! - Requests and calls that run at the same time are counted on each gateway by itself.

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
