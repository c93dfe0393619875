//! Renders one tool's schemas as text. The text depends only on the tool, so it is rendered once.

use std::sync::Arc;

use serde_json::Value;

use super::{
    budget::{Batch, RenderBudget},
    classes::{Classes, MARK, Side},
    docs,
    names::ScriptFunction,
    signature,
    terms::SearchTerms,
    types::{TypeWriter, Types},
};
use airlock_core::tool::Tool;
use airlock_json::JsonText;

/// A tool's schemas as text, at most about 70 KiB. [`named`] completes the texts that name classes.
#[derive(Debug, Default, PartialEq)]
pub(super) struct Stub {
    /// Text between the parentheses of its `def`. Names classes.
    pub(super) parameters: String,
    /// Classes of its parameters, one per line.
    pub(super) classes: Vec<String>,
    /// Arguments of an example call.
    pub(super) arguments: String,
    /// Descriptions of its parameters, one per line.
    pub(super) parameter_lines: String,
    /// Its declared result. `None` if the tool declares no output schema.
    pub(super) returned: Option<RenderedResult>,
    /// Words by which it is found.
    pub(super) terms: SearchTerms,
}

/// The result of a tool as text.
#[derive(Debug, PartialEq)]
pub(super) struct RenderedResult {
    /// Its type. Names classes.
    pub(super) kind: String,
    /// Its classes, one per line.
    pub(super) classes: Vec<String>,
    /// Its type without the fields of objects.
    pub(super) outline: String,
    /// Descriptions of its fields, one per line.
    pub(super) field_lines: String,
}

/// The result of a tool as it was observed.
#[derive(Debug)]
pub(super) struct ObservedResult {
    /// The observed type.
    pub(super) returned: RenderedResult,
    /// Number of results at the time, as text: `1 result`, `10+ results`.
    pub(super) seen: String,
}

/// A stub with the result to show: the declared one, or else the observed one.
#[derive(Debug, Clone)]
pub(super) struct ShownTool {
    /// The stub.
    pub(super) stub: Arc<Stub>,
    /// The observed result; `None` if one is declared, or none was observed.
    pub(super) observed: Option<Arc<ObservedResult>>,
}

impl ShownTool {
    /// Returns the result, if it is declared or was observed.
    pub(super) fn returned(&self) -> Option<&RenderedResult> {
        let observed = self.observed.as_ref().map(|observed| &observed.returned);
        self.stub.returned.as_ref().or(observed)
    }

    /// Returns the type of the result.
    pub(super) fn returns(&self) -> &str {
        self.returned().map_or("Any", |returned| &returned.kind)
    }

    /// Returns the number of lines of its classes.
    pub(super) fn class_count(&self) -> usize {
        self.stub.classes.len() + self.returned().map_or(0, |returned| returned.classes.len())
    }

    /// Returns the lines of its classes in the file of `function`.
    pub(super) fn classes(&self, function: &ScriptFunction) -> impl Iterator<Item = String> {
        let returned = self.returned().into_iter().flat_map(|returned| &returned.classes);
        self.stub.classes.iter().chain(returned).map(|line| named(line, function))
    }
}

/// Completes the names of classes in a text with the identifier of the tool.
pub(super) fn named(text: &str, function: &ScriptFunction) -> String {
    text.replace(MARK, &format!("{}_", function.identifier))
}

impl RenderedResult {
    /// Renders the result that `schema` describes.
    pub(super) fn render(schema: &Value, budget: &RenderBudget) -> Self {
        let types = Types::new(schema, budget);
        let mut classes = Classes::new(Side::Result);
        let kind = TypeWriter::new(types, Some(&mut classes)).text(schema, "");
        Self {
            classes: classes.named_in(&kind),
            kind,
            outline: types.outline(schema),
            field_lines: docs::fields(types, schema, "field"),
        }
    }

    /// Returns the bytes that it takes.
    pub(super) fn bytes(&self) -> usize {
        let Self { kind, classes, outline, field_lines } = self;
        let texts = [kind, outline, field_lines].into_iter().chain(classes);
        texts.map(|text| text.len() + size_of::<String>()).sum()
    }
}

impl Stub {
    /// Renders the tools of one source in order. Their total cost is bounded; tools beyond the
    /// bound become [`Stub::left_out`]. Blocks for up to about 0.5 s, beside the parsing of the schemas.
    pub(super) fn render_all<'a>(tools: impl IntoIterator<Item = &'a Tool>) -> Vec<Self> {
        let mut batch = Batch::whole();
        let stubs = tools.into_iter().map(|tool| {
            let budget = batch.next();
            let stub = Self::render(tool, &budget);
            if batch.settle(&budget, stub.bytes()) { stub } else { Self::left_out(tool) }
        });
        stubs.collect()
    }

    /// Renders one tool within a budget.
    pub(super) fn render(tool: &Tool, budget: &RenderBudget) -> Self {
        let output = tool.output_schema.as_ref().map(JsonText::to_value).transpose();
        let (Ok(input), Ok(output)) = (tool.input_schema.to_value(), output) else {
            return Self::left_out(tool);
        };
        let types = Types::new(&input, budget);
        let fields = types.fields(&input);
        let mut classes = Classes::new(Side::Parameters);
        let mut writer = TypeWriter::new(types, Some(&mut classes));
        let parameters = signature::parameters(&mut writer, &input, fields.as_deref());
        Self {
            classes: classes.named_in(&parameters),
            parameters,
            arguments: signature::arguments(types, fields.as_deref()),
            parameter_lines: docs::fields(types, &input, "parameter"),
            returned: output.as_ref().map(|output| RenderedResult::render(output, budget)),
            terms: SearchTerms::from_tool(tool),
        }
    }

    /// Returns the stub of a tool whose schemas are not shown. The tool can still be called.
    pub(super) fn left_out(tool: &Tool) -> Self {
        Self {
            parameters: signature::UNKNOWN_PARAMETERS.to_owned(),
            arguments: signature::UNKNOWN_ARGUMENTS.to_owned(),
            parameter_lines: docs::LEFT_OUT.to_owned(),
            terms: SearchTerms::from_tool(tool),
            ..Self::default()
        }
    }

    fn bytes(&self) -> usize {
        let Self { parameters, classes, arguments, parameter_lines, returned, terms } = self;
        let texts = [parameters, arguments, parameter_lines].into_iter().chain(classes);
        let texts = texts.map(|text| text.len() + size_of::<String>()).sum::<usize>();
        let returned = returned.as_ref().map_or(0, RenderedResult::bytes);
        size_of::<Self>() + texts + returned + terms.bytes()
    }
}

#[cfg(test)]
mod tests;
