//! Definitions of tools, and the choice among them.

use serde_json::Value;

use super::{NativeItem, Object};

/// A tool that the caller offers.
#[derive(Debug, Clone, PartialEq)]
pub enum ToolDefinition {
    /// A function.
    Function(FunctionTool),
    /// A tool that only one API has, as it came: OpenAI's custom tools, and tools that run at the
    /// provider.
    Native(NativeItem),
}

/// A function that a model can call.
#[derive(Debug, Clone, PartialEq)]
pub struct FunctionTool {
    /// Its name.
    pub name: String,
    /// Description of its effect and of when to call it.
    pub description: Option<String>,
    /// JSON Schema of its arguments; `None` if it takes none.
    pub parameters: Option<Value>,
    /// True if the arguments must match the schema exactly.
    pub strict: Option<bool>,
    /// Anthropic's mark of the end of a prefix to cache.
    pub cache_control: Option<Value>,
    /// Members that the reader does not know.
    pub extra: Object,
}

/// Choice among the tools.
#[derive(Debug, Clone, PartialEq)]
pub enum ToolChoice {
    /// The model chooses.
    Auto,
    /// No tool is called.
    None,
    /// At least one tool is called.
    Required,
    /// This function is called.
    Function(String),
    /// Only these functions may be called.
    Allowed {
        /// True if at least one of them is called.
        is_required: bool,
        /// Their names.
        names: Vec<String>,
    },
    /// A choice that only one API has, as it came.
    Native(NativeItem),
}
