//! Tools as plain data: names, definitions, policies, results and errors.
//!
//! This module runs no calls and decides none: the [`door`](crate::door) decides.

mod base64;
mod content;
mod descriptor;
mod error;
mod name;
mod output;
mod policy;

pub use self::{
    base64::decode_base64,
    content::{Content, ContentBlock, Members, Resource, ResourceContents, ResourceLink},
    descriptor::{Annotations, BadTool, Tool, ToolDefinition},
    error::{CallError, Cause, ErrorKind, HOST_CODE, ToolError, own_code},
    name::{BadClientName, ClientName, INTERNAL_CLIENT, ToolName},
    output::{ToolOutput, content_size, result_extra},
    policy::{BadWhitelist, Policy, Whitelist},
};
