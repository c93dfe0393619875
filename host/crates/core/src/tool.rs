//! Tools as plain data: their names, what their sources announce, who may call them, and how calls
//! end.
//!
//! This module runs nothing and decides nothing: the [`door`](crate::door) does.

mod descriptor;
mod error;
mod name;
mod output;
mod policy;

pub use self::{
    descriptor::{Annotations, BadTool, Tool, ToolDefinition},
    error::{CallError, Cause, ErrorKind, ToolError},
    name::{BadClientName, ClientName, INTERNAL_CLIENT, ToolName},
    output::{Content, Resource, ToolOutput},
    policy::{BadWhitelist, Policy, Whitelist},
};
