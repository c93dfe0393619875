//! Tools of a client beside functions: groups of functions, and OpenAI's built-in tools.
//!
//! The functions of a group (`namespace`) are read as functions, whose names begin with that of the
//! group. A call of one is shown to the client with both names.
//!
//! A built-in tool runs at the provider or in the client, where no decision of the gateway is made
//! about it, and chat completions do not have it. What happens to it is a setting: [`BuiltinTools`].

use std::{
    collections::{BTreeMap, BTreeSet},
    sync::Arc,
};

use serde_json::Value;

use airlock_conversation::{
    MAX_NAME_BYTES,
    read::{Members, Path, Untranslatable, excerpt},
};
use airlock_core::tool::MAX_WIRE_NAME;
use airlock_strings::{MAX_WORD_BYTES, cut, visible_line};

/// Types of tools that a client can define.
pub(super) const DEFINABLE: &[&str] = &["function", "custom"];
/// Type of a group of tools.
const GROUP: &str = "namespace";
/// Text between the name of a group and that of a function.
const SEPARATOR: &str = "__";
/// Type of a tool that loads those with `defer_loading` later.
const LOADER: &str = "tool_search";
/// Types of items about built-in tools, in OpenAI's schema.
const ITEMS: [&str; 18] = [
    "additional_tools",
    "apply_patch_call",
    "apply_patch_call_output",
    "code_interpreter_call",
    "computer_call",
    "computer_call_output",
    "file_search_call",
    "image_generation_call",
    "local_shell_call",
    "local_shell_call_output",
    "mcp_list_tools",
    "program",
    "program_output",
    "shell_call",
    "shell_call_output",
    "tool_search_call",
    "tool_search_output",
    "web_search_call",
];

/// Treatment of the built-in tools of OpenAI and Anthropic in a request.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub enum BuiltinTools {
    /// They are left out, and the response names their types.
    #[default]
    Drop,
    /// The request is refused.
    Refuse,
    /// Those of these types are sent to a provider that has the Responses API. All others are left
    /// out, as are those of Anthropic.
    Pass(BTreeSet<String>),
}

/// Names of the functions of groups, as the model sees them: group, and name in it.
#[derive(Debug, Clone, Default)]
pub struct Groups(BTreeMap<String, (Arc<str>, String)>);

/// Reads the tools of one request.
#[derive(Debug)]
pub(super) struct ClientTools<'p> {
    policy: &'p BuiltinTools,
    /// True if the provider has the Responses API.
    is_native: bool,
    pub(super) groups: Groups,
    /// Types of tools and items that are left out, each as [`dropped_type`] returns it.
    pub(super) dropped: BTreeSet<String>,
}

impl Groups {
    /// Returns the group of a function that the model called, and its name there; `None` if it is
    /// in no group.
    pub(super) fn find(&self, name: &str) -> Option<&(Arc<str>, String)> {
        self.0.get(name)
    }
}

impl<'p> ClientTools<'p> {
    pub(super) fn new(policy: &'p BuiltinTools, is_native: bool) -> Self {
        Self { policy, is_native, groups: Groups::default(), dropped: BTreeSet::new() }
    }

    /// Translates a list of tools, those of groups in the place of their group. `translate` gets the
    /// tools that a client defines.
    pub(super) fn read(
        &mut self,
        tools: Vec<Value>,
        path: &Path<'_>,
        translate: fn(Value, &Path<'_>) -> Result<Value, Untranslatable>,
    ) -> Result<Vec<Value>, Untranslatable> {
        let mut read = Vec::with_capacity(tools.len());
        for (index, tool) in tools.into_iter().enumerate() {
            let path = path.element(index);
            if kind(&tool) == Some(GROUP) {
                self.read_group(tool, &path, translate, &mut read)?;
            } else {
                read.extend(self.read_one(tool, &path, translate)?);
            }
        }
        Ok(read)
    }

    fn read_group(
        &mut self,
        group: Value,
        path: &Path<'_>,
        translate: fn(Value, &Path<'_>) -> Result<Value, Untranslatable>,
        read: &mut Vec<Value>,
    ) -> Result<(), Untranslatable> {
        let mut group = Members::read(path, group)?;
        let group_name: Arc<str> = group.required_text("name")?.into();
        // Each call of one of its functions has a copy.
        if group_name.len() > MAX_NAME_BYTES {
            let rule = format!("the name of a group must have at most {MAX_NAME_BYTES} bytes.");
            return Err(Untranslatable::invalid(&path.member("name"), &rule));
        }
        let path = path.member("tools");
        for (index, mut tool) in group.list("tools")?.unwrap_or_default().into_iter().enumerate() {
            let path = path.element(index);
            let name = tool.get("name").and_then(Value::as_str).map(str::to_owned);
            if let Some(name) = name
                && is_definable(&tool)
            {
                let flat = flat_name(&group_name, &name);
                tool["name"] = flat.as_str().into();
                if self.groups.0.insert(flat, (group_name.clone(), name)).is_some() {
                    let rule = "another function of a group has the same name.";
                    return Err(Untranslatable::invalid(&path.member("name"), rule));
                }
            }
            read.extend(self.read_one(tool, &path, translate)?);
        }
        Ok(())
    }

    /// Translates a tool; `None` if it is left out.
    fn read_one(
        &mut self,
        mut tool: Value,
        path: &Path<'_>,
        translate: fn(Value, &Path<'_>) -> Result<Value, Untranslatable>,
    ) -> Result<Option<Value>, Untranslatable> {
        if is_definable(&tool) {
            // Without the tool that loads it, it is offered at once.
            if !self.passes(LOADER)
                && let Some(members) = tool.as_object_mut()
            {
                members.shift_remove("defer_loading");
            }
            return translate(tool, path).map(Some);
        }
        let kind = match (kind(&tool), tool.get("name")) {
            (Some(kind), None) if kind != "mcp" => kind,
            // Not an object, or a misspelt type.
            _ => return translate(tool, path).map(Some),
        };
        if self.passes(kind) {
            return Ok(Some(tool));
        }
        if *self.policy == BuiltinTools::Refuse {
            return translate(tool, path).map(Some);
        }
        self.dropped.insert(dropped_type(kind));
        Ok(None)
    }

    /// Leaves out an item about a built-in tool. Fails if built-in tools are refused.
    pub(super) fn drop_item(&mut self, kind: &str, path: &Path<'_>) -> Result<(), Untranslatable> {
        if *self.policy == BuiltinTools::Refuse {
            let advice = "Built-in tools are refused by this gateway, and so are items about them.";
            return Err(Untranslatable::unsupported_value(
                &path.member("type"),
                &kind.into(),
                advice,
            ));
        }
        self.dropped.insert(dropped_type(kind));
        Ok(())
    }

    /// Returns whether the provider has the Responses API.
    pub(super) fn is_native(&self) -> bool {
        self.is_native
    }

    /// Returns whether the provider receives built-in tools of this type.
    fn passes(&self, kind: &str) -> bool {
        self.is_native && matches!(self.policy, BuiltinTools::Pass(kinds) if kinds.contains(kind))
    }
}

/// Returns whether items of this type are about built-in tools.
pub(super) fn is_item(kind: &str) -> bool {
    ITEMS.contains(&kind)
}

/// Returns the name by which the model calls a function of a group. It depends on nothing else, so
/// that a later request gives the call the same name.
pub(super) fn flat_name(group: &str, name: &str) -> String {
    let joined = format!("{}{SEPARATOR}{name}", group.trim_end_matches(SEPARATOR));
    if joined.len() <= MAX_WIRE_NAME { joined } else { name.to_owned() }
}

/// Returns the beginning of a type, with invisible characters made visible.
pub fn dropped_type(kind: &str) -> String {
    // Cut before too, because a character that is made visible takes several times its bytes.
    cut(visible_line(&excerpt(kind)), MAX_WORD_BYTES)
}

fn is_definable(tool: &Value) -> bool {
    kind(tool).is_some_and(|kind| DEFINABLE.contains(&kind))
}

fn kind(tool: &Value) -> Option<&str> {
    tool.get("type").and_then(Value::as_str)
}
