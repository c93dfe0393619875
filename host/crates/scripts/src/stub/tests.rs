use std::fmt::Write as _;

use serde_json::{Value, json};

use super::*;
use crate::budget::BATCH_BYTES;
use airlock_core::tool::{ClientName, ToolDefinition};

fn tool(input: &Value, output: Option<&Value>) -> Tool {
    let mut definition = json!({"name": "t", "inputSchema": input});
    definition
        .as_object_mut()
        .expect("an object")
        .extend(output.map(|schema| ("outputSchema".to_owned(), schema.clone())));
    let definition: ToolDefinition = serde_json::from_value(definition).expect("a definition");
    Tool::adopt(&ClientName::parse("x").expect("a good name"), definition).expect("a usable tool")
}

/// Returns a schema that once took hours to render: each of 100 properties refers to an object
/// of 15,500 properties and 40,000 required names.
fn vast() -> Value {
    let properties: Value =
        (0..15_500).map(|n| (format!("{n:x}"), json!(0))).collect::<serde_json::Map<_, _>>().into();
    let references = (0..100).map(|n| (format!("p{n}"), json!({"$ref": "#/d"})));
    json!({
        "properties": references.collect::<serde_json::Map<_, _>>(),
        "d": {"type": "object", "properties": properties, "required": vec![""; 40_000]},
    })
}

#[test]
fn a_reference_to_a_vast_object_is_not_read_once_for_each_property() {
    let budget = RenderBudget::whole();
    let stub = Stub::render(&tool(&vast(), None), &budget);
    assert!(budget.spent() < 1_000, "{} units", budget.spent());
    assert!(
        stub.parameters.starts_with("p0: dict = None, p1: dict = None, "),
        "{}",
        stub.parameters
    );
    assert!(
        stub.parameter_lines.starts_with("    p0 (dict): p0 parameter (optional)\n    p1 (dict)"),
        "{}",
        stub.parameter_lines
    );
}

#[test]
fn parameters_beyond_the_budget_are_shown_as_one_dict() {
    let edge = RenderBudget::whole();
    assert!(Stub::render(&wide(5_000), &edge).parameters.starts_with("p0: Any = None"));
    let beyond = Stub::render(&wide(20_000), &RenderBudget::whole());
    assert_eq!(
        (beyond.parameters.as_str(), beyond.arguments.as_str()),
        ("arguments: dict", "{...}")
    );
    assert_eq!(beyond.parameter_lines, docs::LEFT_OUT);
}

/// Returns a tool with so many parameters.
fn wide(parameters: usize) -> Tool {
    let properties = (0..parameters).map(|n| (format!("p{n}"), json!({})));
    let properties: serde_json::Map<_, _> = properties.collect();
    tool(&json!({"properties": properties}), None)
}

#[test]
fn an_example_has_a_bounded_number_of_arguments_of_a_bounded_length() {
    let names: Vec<_> = ('a'..='m').map(String::from).collect();
    let shown: Vec<_> = ('a'..='l').map(|name| format!("{name}=True")).collect();
    assert_eq!(example(&names), shown.join(", "), "the thirteenth is left out");
    assert_eq!(example(&["a".repeat(1_495)]).len(), 1_500);
    assert_eq!(example(&["a".repeat(1_496)]), "{...}");
}

/// Returns the arguments in the example of a tool with these parameters.
fn example(names: &[String]) -> String {
    let properties = names.iter().map(|name| (name.clone(), json!({"type": "boolean"})));
    let properties: serde_json::Map<_, _> = properties.collect();
    let schema = json!({"required": names, "properties": properties});
    Stub::render(&tool(&schema, None), &RenderBudget::whole()).arguments
}

#[test]
fn every_text_that_a_schema_repeats_is_cut_before_it_is_rendered() {
    let long = "x".repeat(30_000);
    let repeated = json!({
        "properties": (0..500).map(|n| (format!("p{n}"), json!({"$ref": "#/d"}))).collect::<serde_json::Map<_, _>>(),
        "d": {"type": "object", "description": long, "default": long, "properties": {
            &long: {"enum": vec![&long; 2]}, "const": {"const": long}, "far": {"$ref": format!("#/d/{long}")},
        }},
    });
    let budget = RenderBudget::whole();
    let stub = Stub::render(&tool(&json!({"type": "object"}), Some(&repeated)), &budget);
    assert!(stub.bytes() < 70 << 10, "{}", stub.bytes());
}

#[test]
fn the_tools_of_one_source_are_rendered_within_one_budget() {
    let mut properties = String::new();
    for n in 0..14_000 {
        let _ = write!(properties, "{}\"p{n}\":1", if n == 0 { "" } else { "," });
    }
    let wide: Value =
        serde_json::from_str(&format!("{{\"properties\":{{{properties}}}}}")).expect("it is JSON");
    let wide = tool(&wide, None);
    let stubs = Stub::render_all(std::iter::repeat_n(&wide, 300));
    let shown = stubs.iter().filter(|stub| stub.parameters.starts_with("p0: Any")).count();
    assert!((100..200).contains(&shown), "{shown} of 300 are shown");
    assert!(stubs[299].parameters.starts_with("arguments: dict"));
}

#[test]
fn the_stubs_of_one_source_take_no_more_bytes_than_a_batch_has() {
    let property = json!({"type": "string", "description": "x".repeat(1_000)});
    let properties = (0..20).map(|n| (format!("p{n}"), property.clone()));
    let schema =
        json!({"type": "object", "properties": properties.collect::<serde_json::Map<_, _>>()});
    let verbose = tool(&schema, Some(&schema));
    let one = Stub::render(&verbose, &RenderBudget::whole()).bytes();
    let fit = BATCH_BYTES / one;
    let stubs = Stub::render_all(std::iter::repeat_n(&verbose, fit + 2));
    let shown: Vec<_> = stubs.iter().map(|stub| stub.parameters.starts_with("p0: str")).collect();
    assert_eq!(shown, [vec![true; fit], vec![false; 2]].concat());
    assert!(stubs[fit] == Stub::left_out(&verbose));
}
