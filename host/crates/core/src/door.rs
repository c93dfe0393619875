//! Who may call what. A tool runs only as an [`Admitted`] call, and only this module can make one.
//!
//! A [`View`] holds the tools that a request may see. A [`Caller`] is a view with the origin of a
//! request; [`Caller::admit`] decides its calls, and [`Chain::admit`] those that a running call
//! makes in turn, with what is left of the first one's budget. Decisions are made on real names and
//! arguments, where the call is made. A [`Provider`] runs what was admitted; this module defines
//! the trait and knows none of its implementers. No I/O happens here.

mod admitted;
mod arguments;
mod budget;
mod caller;
mod chain;
mod event;
mod filter;
mod key;
mod ledger;
mod meter;
mod origin;
mod report;
mod view;

pub use self::{
    admitted::{Admitted, CallId, Provider},
    arguments::{Arguments, MAX_ARGUMENT_BYTES},
    budget::Budget,
    caller::Caller,
    chain::Chain,
    event::{Event, Events, Progress},
    filter::{Filter, INCLUDE_CLIENTS, INCLUDE_TOOLS},
    key::{Keys, VirtualKey},
    ledger::{CallRecord, Ledger, Outcome},
    meter::Meter,
    origin::Origin,
    report::Reporter,
    view::{Entry, OwnTools, Placement, Source, View},
};

#[cfg(test)]
mod tests;
