use prometheus_client::{encoding::prometheus_text, registry::Registry};
use serde_json::json;

use super::*;
use airlock_core::tool::Content as Part;

fn tool(name: &'static str) -> Arc<Tool> {
    Arc::new(Tool::own(name, "", json!({"type": "object"})))
}

fn key(number: u8) -> Tenant {
    Tenant::of_key([number; 32], "key")
}

fn structured(value: Value) -> ToolOutput {
    ToolOutput { structured: Some(value), ..ToolOutput::default() }
}

/// Observes a result as often as `times`, and returns the text of its shape.
fn after(observations: &Observations, output: &ToolOutput, times: usize) -> String {
    let tool = tool("t");
    for _ in 0..times {
        observations.observe(&key(1), &tool, output);
        observations.read_waiting();
    }
    let Some(shown) = observations.shown(&key(1), &tool) else { return "nothing".into() };
    let ObservedResult { returned, seen } = &*shown;
    format!("{} {} in {seen}", returned.kind, returned.classes.join(" ")).replace('\0', "")
}

#[test]
fn a_result_is_shown_by_its_keys_and_types_alone() {
    for (output, expected) in [
        (
            structured(json!({"id": 7, "owner": "ann"})),
            "Result class Result(TypedDict): id: int; owner: str in 1 result",
        ),
        (
            ToolOutput::text("[{\"id\": 7}]"),
            "list[Result] class Result(TypedDict): id: int in 1 result",
        ),
        (ToolOutput::text("It is sunny."), "str  in 1 result"),
        (ToolOutput::text("{\"id\": "), "str  in 1 result"),
        (ToolOutput::text(""), "str  in 1 result"),
        (
            ToolOutput {
                content: vec![Part::text("[1,"), Part::text("2]")],
                ..ToolOutput::default()
            },
            "list[int]  in 1 result",
        ),
        (
            ToolOutput { structured: Some(json!(null)), ..ToolOutput::text("[1]") },
            "None  in 1 result",
        ),
    ] {
        assert_eq!(after(&Observations::new(), &output, 1), expected);
    }
}

#[test]
fn a_text_is_read_up_to_its_limit() {
    assert_eq!(after(&Observations::new(), &list(MAX_TEXT), 1), "list[Any]  in 1 result");
    assert_eq!(after(&Observations::new(), &list(MAX_TEXT + 1), 1), "nothing");
    let deep = ToolOutput::text("[".repeat(10_000));
    assert_eq!(after(&Observations::new(), &deep, 1), "str  in 1 result");
}

/// Returns the text of an empty list, with so many bytes.
fn list(bytes: usize) -> ToolOutput {
    ToolOutput::text(format!("[{}]", " ".repeat(bytes - 2)))
}

#[test]
fn the_text_changes_only_at_certain_numbers_of_results() {
    let observations = Observations::new();
    let id = structured(json!({"id": 7}));
    let more = structured(json!({"id": 7, "late": true}));
    assert_eq!(seen(&after(&observations, &id, 1)), "1 result");
    let between = after(&observations, &more, 1);
    assert!(!between.contains("late"), "{between}");
    let text = after(&observations, &id, 1);
    assert_eq!(
        text,
        "Result class Result(TypedDict): id: int; late: NotRequired[bool] in 3+ results"
    );
    assert_eq!(after(&observations, &id, 6), text);
    assert_eq!(seen(&after(&observations, &id, 1)), "10+ results");
    // From 32 on, one of 32 is read.
    assert_eq!(seen(&after(&observations, &id, 20)), "30+ results");
    assert_eq!(seen(&after(&observations, &id, 32 * 67)), "30+ results");
    assert_eq!(seen(&after(&observations, &id, 32 * 4)), "100+ results");
}

/// Returns the number of results that a text names.
fn seen(text: &str) -> String {
    text.rsplit_once(" in ").expect("a number").1.to_owned()
}

#[test]
fn a_result_that_stops_fitting_those_before_it_is_counted_for_its_tool() {
    let observations = Observations::new();
    let tools = [tool("t"), tool("other")];
    observe(&observations, &tools[0], json!({"id": 7}));
    observe(&observations, &tools[0], json!({"id": "seven"}));
    assert!(observations.misfits(&tools).is_empty(), "its type is not settled");
    for _ in 2..SETTLED {
        observe(&observations, &tools[0], json!({"id": 7, "late": true}));
    }
    observe(&observations, &tools[0], json!({"id": "x", "another": 1}));
    assert!(observations.misfits(&tools).is_empty(), "{:?}", observations.misfits(&tools));
    observe(&observations, &tools[0], json!({"items": []}));
    assert_eq!(observations.misfits(&tools), [("t".to_owned(), 1)]);
    observe(&observations, &tools[0], json!({"items": []}));
    assert_eq!(observations.misfits(&tools), [("t".to_owned(), 1)], "it is known now");
    observe(&observations, &tools[0], json!("text"));
    assert_eq!(observations.misfits(&tools), [("t".to_owned(), 2)]);
    observations.retain(&BTreeSet::new());
    assert!(observations.misfits(&tools).is_empty());
}

fn observe(observations: &Observations, tool: &Arc<Tool>, value: Value) {
    observations.observe(&key(1), tool, &structured(value));
    observations.read_waiting();
}

#[test]
fn a_shape_of_one_tenant_is_not_shown_to_another() {
    let observations = Observations::new();
    let tool = tool("t");
    observations.observe(&key(1), &tool, &structured(json!({"secret": 1})));
    observations.read_waiting();
    assert!(observations.shown(&key(1), &tool).is_some());
    assert!(observations.shown(&key(2), &tool).is_none());
    assert!(observations.shown(&Tenant::ANONYMOUS, &tool).is_none());
}

#[test]
fn a_tool_that_declares_its_result_has_no_observed_one() {
    let observations = Observations::new();
    let plain = tool("t");
    observations.observe(&key(1), &plain, &structured(json!(1)));
    observations.read_waiting();
    let mut declared = (*plain).clone();
    declared.output_schema = Some(json!({}).into());
    assert!(observations.shown(&key(1), &declared).is_none());
}

#[test]
fn samples_beyond_the_queue_are_dropped() {
    let observations = Observations::new();
    let tool = tool("t");
    for n in 0..=MAX_WAITING {
        let tenant = Tenant::of_key([u8::try_from(n).expect("few"); 32], "key");
        observations.observe(&tenant, &tool, &structured(json!(n)));
    }
    observations.read_waiting();
    assert_eq!(observations.tenants.lock().list.len(), MAX_WAITING);
}

/// Returns a value whose shape takes much memory.
fn large() -> ResultShape {
    let fields = (0..40).map(|n: u8| {
        (format!("{}x{}", char::from(b'a' + n % 26), n / 26), json!({"a": 1, "b": [n]}))
    });
    let mut fields: serde_json::Map<_, _> = fields.collect();
    // Not all alike.
    fields["ax0"] = json!(1);
    ResultShape::new(&Value::Object(fields))
}

#[test]
fn the_memory_of_one_tenant_and_of_all_is_bounded() {
    let names: Vec<_> =
        (0..200).map(|n| ToolName::own(Box::leak(format!("t{n}").into()))).collect();
    let mut tenants = Tenants::default();
    for name in &names {
        tenants.add(&key(1), name, large());
    }
    let one = &tenants.list[&key(1)];
    let largest = one.list.values().map(|entry| entry.bytes).max().expect("some");
    assert!((TENANT_BYTES..TENANT_BYTES + largest).contains(&one.bytes), "{}", one.bytes);
    assert!(!tenants.is_sampled(&key(1), &names[199]) && tenants.is_sampled(&key(1), &names[0]));
    for tenant in 2..40 {
        tenants.uses += 1;
        for name in &names {
            tenants.add(&key(tenant), name, large());
        }
    }
    assert!(tenants.bytes <= TOTAL_BYTES, "{}", tenants.bytes);
    assert_eq!(tenants.bytes, tenants.list.values().map(|tenant| tenant.bytes).sum::<usize>());
    assert!(!tenants.list.contains_key(&key(1)) && tenants.list.contains_key(&key(39)));
}

#[test]
fn tools_that_no_longer_exist_are_forgotten() {
    let observations = Observations::new();
    let kept = tool("kept");
    let gone = tool("gone");
    for tool in [&kept, &gone] {
        observations.observe(&key(1), tool, &structured(json!(1)));
    }
    observations.read_waiting();
    observations.retain(&BTreeSet::from([kept.full_name.clone()]));
    assert!(observations.shown(&key(1), &kept).is_some());
    assert!(observations.shown(&key(1), &gone).is_none());
    observations.retain(&BTreeSet::new());
    let tenants = observations.tenants.lock();
    assert_eq!((tenants.bytes, tenants.list.len()), (0, 0));
}

#[test]
fn tools_whose_names_differ_in_invisible_characters_alone_have_time_series_of_their_own() {
    let observations = Observations::new();
    for (name, original) in [("one", "read"), ("two", "read\u{200b}")] {
        let mut tool = (*tool(name)).clone();
        tool.original = original.to_owned();
        observations.report_misfit(&Arc::new(tool));
    }
    let mut registry = Registry::default();
    registry.register_collector(Box::new(observations));
    let mut text = String::new();
    prometheus_text::encode(&mut text, &registry).expect("text");
    for name in ["one", "two"] {
        let series = format!("{{client=\"\",tool=\"{name}\"}} 1");
        assert_eq!(text.matches(&series).count(), 1, "{text}");
    }
}
