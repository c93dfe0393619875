//! The parts of requests and responses over HTTP that all APIs share.
//!
//! | module | purpose |
//! |---|---|
//! | [`alias`] | other paths of the same APIs |
//! | [`auth`] | the credentials in the headers of a request |
//! | [`body`] | bodies of requests: JSON, forms, components; bounded in bytes, time and memory |
//! | [`browser`] | cookies, pages and headers of browsers |
//! | [`events`] | streams of server-sent events |
//! | [`listing`] | pages of a list, by the query |
//! | [`memory`] | the memory that a request and its body take |
//! | [`respond`] | responses, and errors in the forms of OpenAI and Anthropic |
//! | [`work`] | work that would keep a worker of the runtime from other requests |
//!
//! This crate has no routes, and knows no operator.

pub mod alias;
pub mod auth;
pub mod body;
pub mod browser;
pub mod events;
pub mod listing;
pub mod memory;
pub mod respond;
pub mod work;
