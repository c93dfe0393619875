//! Everything that a parameter may be.
#![forbid(unsafe_code)]

use airlock_guest::{
    Context, Tool, data, plugin,
    serde_json::{Value, json},
    testing::Host,
    tool,
};

/// How to shout.
#[data]
enum Volume {
    Low,
    High,
}

fn twice() -> u8 {
    2
}

/// Takes what can be taken.
#[tool]
fn everything(
    r#type: String,
    mut texts: Vec<String>,
    context: &Context<'_>,
    pair: (u8, f64),
    fixed: [bool; 2],
    volume: Option<Volume>,
    any: Option<Value>,
    /// How often.
    #[serde(default = "twice")]
    #[schemars(range(max = 5))]
    times: u8,
) -> String {
    texts.push(r#type);
    let loud = matches!(volume, Some(Volume::High));
    format!("{texts:?} {pair:?} {fixed:?} {loud} {any:?} {times} {}", context.id())
}

mod nested {
    use airlock_guest::{Error, tool};

    /// Takes nothing, gives nothing.
    #[tool(name = "nothing-at-all", title = "Nothing", read_only = true, destructive = false)]
    pub(crate) fn nothing() {}

    /// Fails as the system does.
    #[tool(open_world, idempotent = false)]
    pub(crate) fn fails() -> std::io::Result<String> {
        Err(std::io::ErrorKind::NotFound.into())
    }

    /// Gives a string or an error of its own.
    #[tool(destructive)]
    pub(crate) fn own_error(arguments: bool) -> Result<&'static str, OwnError> {
        if arguments { Ok("fine") } else { Err(OwnError) }
    }

    pub(crate) struct OwnError;

    impl From<OwnError> for Error {
        fn from(_: OwnError) -> Self {
            Error::internal("not fine")
        }
    }
}

plugin!(everything, nested::nothing, nested::fails, nested::own_error,);

#[test]
fn every_kind_of_parameter_result_and_modifier_is_accepted() {
    let arguments = json!({ "type": "a", "texts": ["b"], "pair": [1, 2.5], "fixed": [true, false], "volume": "high" });
    let output = Host::new().call::<everything>(arguments).unwrap();
    assert_eq!(output.first_text(), Some(r#"["b", "a"] (1, 2.5) [true, false] true None 2 test"#));
    let schema = everything::descriptor().input_schema;
    assert_eq!(schema.get("required").unwrap(), &json!(["type", "texts", "pair", "fixed"]));
    assert_eq!(schema.get("additionalProperties").unwrap(), &json!(false));
    assert_eq!(
        schema.get("properties").unwrap()["times"],
        json!({
            "description": "How often.", "type": "integer", "minimum": 0, "maximum": 5, "default": 2,
        })
    );

    let nothing = nested::nothing::descriptor();
    assert_eq!(
        (nothing.name.as_str(), nothing.title.as_deref()),
        ("nothing-at-all", Some("Nothing"))
    );
    assert_eq!(
        (nothing.annotations.read_only, nothing.annotations.destructive),
        (Some(true), Some(false))
    );
    assert_eq!(nothing.annotations.open_world, None);
    assert_eq!(
        nothing.input_schema.as_value(),
        &json!({
            "type": "object", "properties": {}, "additionalProperties": false,
        })
    );

    let error = Host::new().call::<nested::fails>(json!({})).unwrap_err();
    assert_eq!(error.kind(), airlock_guest::ErrorKind::NotFound);
    let error = Host::new().call::<nested::own_error>(json!({ "arguments": false })).unwrap_err();
    assert_eq!(error.message(), "not fine");
}
