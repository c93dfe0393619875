//! OpenAI's Responses API without its routes.
//!
//! The events of the agent loop become one *Response*, the object of the API, and its stream events. The whole and
//! the streamed form come from the same events.
//!
//! A Response is stored when it is complete, unless its request has `store: false`. It is not
//! stored if it failed or if the caller disconnected before its end. A complete one that cannot be
//! stored is sent nevertheless, because its tools were run: with `store: false`, and the reason in
//! `airlock.not_stored`.
//!
//! | file | purpose |
//! |---|---|
//! | `translate` | between the Responses API and the loop |
//! | `composer` | one Response from the events of the loop |
//! | `stream` | its stream events, as server-sent events |
//! | `archive` | the store of Responses |
//! | [`stored`] | stored Responses of a caller |
//! | [`items`] | the input items of a stored Response, in pages |
//! | [`references`] | items of stored Responses that a request refers to |

mod archive;
mod composer;
pub mod items;
pub mod references;
pub mod stored;
mod stream;
mod translate;

pub use self::{
    archive::{Archive, ResponseToStore},
    composer::Composer,
    stored::StoredResponses,
    stream::ResponseStream,
    translate::{BuiltinTools, Echo, Groups, Prepared, dropped_type, prepare},
};
