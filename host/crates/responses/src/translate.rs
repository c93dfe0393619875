//! Translates between OpenAI's Responses API and the agent loop.
//!
//! A request goes to the loop as it came, with the stored items that it continues, and without the
//! members and items that are the gateway's own. The deltas and the events of the loop become a Response
//! object and its stream events. The translation does no I/O, makes no policy decisions and stores nothing.
//! *Client* is OpenAI's word for the caller.
//!
//! | module | purpose |
//! |---|---|
//! | [`request`] | a request, prepared for the loop |
//! | [`builtin`] | groups of functions, and built-in tools |
//! | [`echo`] | the members of a request that its Response repeats |
//! | [`output`] | the loop's events → stream events and the Response |
//! | [`reasoning`] | state of reasoning |
//! | [`failure`] | the error of a failed Response |
//!
//! A tool that the gateway ran is an `mcp_call` item, which holds call and result, and becomes both
//! again: in the next turn the model receives the same call and result. Consecutive calls are the
//! parallel calls of one turn, unless their identifiers are of two rounds of one Response.

mod builtin;
mod echo;
mod failure;
mod output;
mod reasoning;
mod request;

pub(super) use self::output::{GatewayCall, Writer};
pub use self::{
    builtin::{BuiltinTools, Groups, dropped_type},
    echo::Echo,
    request::{Prepared, prepare},
};

#[cfg(test)]
mod tests;
