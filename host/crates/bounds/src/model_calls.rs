//! Calls that a model asks for.

/// Member of a response in which the gateway describes the calls and its other work. It is removed from the
/// responses of providers.
pub const EXTENSION: &str = "airlock";

/// Maximum number of calls that are read from one response; a response with more ends the request.
/// Of the calls that are read, those beyond the setting `max_tool_calls_per_answer` are refused one by one,
/// each with a message to the model. The largest value of that setting.
pub const MAX_CALLS_READ: u32 = 1_024;
