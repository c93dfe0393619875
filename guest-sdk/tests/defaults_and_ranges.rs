//! Defaults and ranges are in the schema and are enforced.

use airlock_guest::{
    Tool, data,
    serde_json::{Value, json},
    testing::Host,
    tool,
};

const MAX: i64 = 9;

/// A place on a map.
#[data]
#[derive(Debug)]
struct Place {
    /// Degrees to the north.
    #[data(range = -90.0..=90.0)]
    latitude: f64,
    #[data(default = "here")]
    name: String,
    #[data(default, range = ..=3)]
    tags: Option<u8>,
}

/// Takes arguments with options.
#[tool]
fn bounded(
    #[arg(default = 20, range = 1..=100)] limit: u32,
    #[arg(range = 0..)] r#from: i64,
    #[arg(range = ..=MAX)] to: Option<i64>,
    #[arg(default = "plain")] style: String,
    #[arg(default)] places: Vec<Place>,
) -> String {
    format!("{limit} {from} {to:?} {style} {places:?}")
}

fn property(name: &str) -> Value {
    let schema = bounded::descriptor().input_schema;
    schema.get("properties").expect("it has parameters")[name].clone()
}

fn refused(arguments: Value) -> String {
    let called = Host::new().call::<bounded>(arguments);
    called.expect_err("it is refused").message().to_owned()
}

#[test]
fn options_of_arguments_are_in_the_schema_and_are_enforced() {
    let schema = bounded::descriptor().input_schema;
    assert_eq!(schema.get("required").unwrap(), &json!(["from"]));
    assert_eq!(
        property("limit"),
        json!({ "type": "integer", "minimum": 1, "maximum": 100, "default": 20 })
    );
    assert_eq!(property("from"), json!({ "type": "integer", "minimum": 0 }));
    assert_eq!(property("to"), json!({ "type": ["integer", "null"], "maximum": 9 }));
    assert_eq!(property("style"), json!({ "type": "string", "default": "plain" }));
    let place = &property("places")["items"];
    assert_eq!(place["required"], json!(["latitude"]));
    assert_eq!(place["properties"]["latitude"]["maximum"], 90.0);

    let output = Host::new().call::<bounded>(json!({ "from": 0 })).unwrap();
    assert_eq!(output.first_text(), Some("20 0 None plain []"));
    let place = json!({ "from": 0, "to": null, "places": [{ "latitude": 1 }] });
    let output = Host::new().call::<bounded>(place).unwrap();
    assert!(output.first_text().unwrap().contains(r#"name: "here", tags: None"#));

    assert_eq!(
        refused(json!({ "from": 0, "limit": 101 })),
        "argument `limit` must be an integer from 1 to 100, not 101"
    );
    assert_eq!(
        refused(json!({ "from": -1 })),
        "argument `from` must be an integer of 0 or more, not -1"
    );
    assert_eq!(
        refused(json!({ "from": 0, "to": 10 })),
        "argument `to` must be an integer of 9 or less, not 10"
    );
    assert_eq!(
        refused(json!({ "from": 0, "places": [{ "latitude": 90.5 }] })),
        "argument `places[0].latitude` must be a number from -90.0 to 90.0, not 90.5"
    );
}
