//! Tools as plain data: names, definitions, policies, results and errors.
//!
//! This module runs no calls and decides none: the [`door`](crate::door) decides.

mod content;
mod descriptor;
mod error;
mod name;
mod output;
mod policy;

pub use self::{
    content::{Content, ContentBlock, Members, Resource, ResourceContents, ResourceLink},
    descriptor::{Annotations, BadTool, Tool, ToolDefinition},
    error::{CallError, Cause, ErrorKind, ToolError},
    name::{BadClientName, ClientName, INTERNAL_CLIENT, ToolName},
    output::{ToolOutput, content_size},
    policy::{BadWhitelist, Policy, Whitelist},
};
