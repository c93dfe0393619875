//! Random types and values: a value sent to a guest comes back equal.

use airlock_json::schema::CompiledSchema;
use proptest::prelude::*;

use super::*;
use crate::plugin::plain::shape::{Field, Int, Shape};

/// Makes a name of words of letters and digits, as WIT requires. The first part depends on `at` and
/// keeps names distinct.
fn name(at: usize, rest: &str) -> String {
    let letter = char::from(b'a' + u8::try_from(at % 26).expect("a letter"));
    format!("{letter}{}{rest}", at / 26)
}

fn shapes() -> impl Strategy<Value = Shape> {
    let leaf = prop_oneof![
        Just(Shape::Bool),
        prop::sample::select(vec![
            Int::S8,
            Int::U8,
            Int::S16,
            Int::U16,
            Int::S32,
            Int::U32,
            Int::S64,
            Int::U64
        ])
        .prop_map(Shape::Int),
        Just(Shape::F32),
        Just(Shape::F64),
        Just(Shape::Char),
        Just(Shape::String),
        Just(Shape::Bytes),
        (1..6_usize)
            .prop_map(|count| Shape::Enum((0..count).map(|at| name(at, "-case")).collect())),
        (1..33_usize)
            .prop_map(|count| Shape::Flags((0..count).map(|at| name(at, "-flag")).collect())),
    ];
    leaf.prop_recursive(4, 24, 4, |inner| {
        let boxed = inner.clone().prop_map(Box::new);
        prop_oneof![
            inner
                .clone()
                .prop_filter("bytes have a shape of their own", |item| *item != Shape::Int(Int::U8))
                .prop_map(|item| { Shape::List(Box::new(item)) }),
            inner
                .clone()
                .prop_filter("no option of an option", |some| !matches!(some, Shape::Option(_)))
                .prop_map(|some| { Shape::Option(Box::new(some)) }),
            prop::collection::vec(inner.clone(), 1..4).prop_map(Shape::Tuple),
            prop::collection::vec((inner.clone(), any::<bool>()), 1..4).prop_map(record),
            prop::collection::vec(prop::option::of(inner), 1..4).prop_map(|cases| {
                Shape::Variant(
                    cases
                        .into_iter()
                        .enumerate()
                        .map(|(at, case)| (name(at, "-x"), case))
                        .collect(),
                )
            }),
            (prop::option::of(boxed.clone()), prop::option::of(boxed))
                .prop_map(|(ok, err)| Shape::Result { ok, err }),
        ]
    })
}

fn record(fields: Vec<(Shape, bool)>) -> Shape {
    Shape::Record(
        fields
            .into_iter()
            .enumerate()
            .map(|(at, (shape, is_optional))| {
                // An option with `is_optional` false would be read back as one with true.
                let (shape, is_optional) = match shape {
                    Shape::Option(some) if !is_optional => (*some, true),
                    shape => (shape, is_optional),
                };
                let name = name(at, "-field");
                Field { key: name.replace('-', "_"), name, shape, is_optional }
            })
            .collect(),
    )
}

/// Returns the type in the text format, and adds its named parts to `definitions`.
fn wit(shape: &Shape, definitions: &mut Vec<String>) -> String {
    match shape {
        Shape::Bool => "bool".into(),
        Shape::Int(int) => format!("{int:?}").to_lowercase(),
        Shape::F32 => "f32".into(),
        Shape::F64 => "f64".into(),
        Shape::Char => "char".into(),
        Shape::String => "string".into(),
        Shape::Bytes => "(list u8)".into(),
        Shape::List(item) => format!("(list {})", wit(item, definitions)),
        Shape::Option(some) => format!("(option {})", wit(some, definitions)),
        Shape::Tuple(shapes) => {
            format!(
                "(tuple {})",
                shapes.iter().map(|shape| wit(shape, definitions)).collect::<Vec<_>>().join(" ")
            )
        }
        Shape::Result { ok, err } => {
            let ok = ok.as_ref().map(|ok| wit(ok, definitions)).unwrap_or_default();
            let err = err
                .as_ref()
                .map(|err| format!("(error {})", wit(err, definitions)))
                .unwrap_or_default();
            format!("(result {ok} {err})")
        }
        Shape::Record(fields) => {
            let mut text = String::new();
            for field in fields {
                let ty = wit(&field.shape, definitions);
                let ty = if field.is_optional { format!("(option {ty})") } else { ty };
                text.extend([format!(r#"(field "{}" {ty})"#, field.name)]);
            }
            define(definitions, &format!("(record {text})"))
        }
        Shape::Variant(cases) => {
            let mut text = String::new();
            for (name, case) in cases {
                let ty = case.as_ref().map(|case| wit(case, definitions)).unwrap_or_default();
                text.extend([format!(r#"(case "{name}" {ty})"#)]);
            }
            define(definitions, &format!("(variant {text})"))
        }
        Shape::Enum(names) => {
            let names: Vec<_> = names.iter().map(|name| format!("\"{name}\"")).collect();
            define(definitions, &format!("(enum {})", names.join(" ")))
        }
        Shape::Flags(names) => {
            let names: Vec<_> = names.iter().map(|name| format!("\"{name}\"")).collect();
            define(definitions, &format!("(flags {})", names.join(" ")))
        }
    }
}

fn define(definitions: &mut Vec<String>, definition: &str) -> String {
    let name = format!("n{}", definitions.len());
    definitions.push(named(&name, definition));
    format!("${name}")
}

/// Generates values of a shape in the form in which they come back.
fn values(shape: &Shape) -> BoxedStrategy<Value> {
    match shape {
        Shape::Bool => any::<bool>().prop_map(Value::from).boxed(),
        Shape::Int(int) => {
            let (least, most) = int.range();
            let safe = (1_i128 << 53) - 1;
            prop_oneof![least..=most, Just(least), Just(most)]
                .prop_map(move |number| match i64::try_from(number) {
                    Ok(small) if number.abs() <= safe => Value::from(small),
                    _ => Value::from(number.to_string()),
                })
                .boxed()
        }
        Shape::F32 => any::<f32>()
            .prop_map(|number| Value::from(number.to_string().parse::<f64>().expect("a number")))
            .boxed(),
        Shape::F64 => any::<f64>().prop_map(Value::from).boxed(),
        Shape::Char => any::<char>().prop_map(|c| Value::from(c.to_string())).boxed(),
        Shape::String => ".{0,12}".prop_map(Value::from).boxed(),
        Shape::Bytes => prop::collection::vec(any::<u8>(), 0..12)
            .prop_map(|bytes| Value::from(base64(&bytes)))
            .boxed(),
        Shape::List(item) => {
            prop::collection::vec(values(item), 0..4).prop_map(Value::from).boxed()
        }
        Shape::Option(some) => prop_oneof![Just(Value::Null), values(some)].boxed(),
        Shape::Tuple(shapes) => {
            shapes.iter().map(values).collect::<Vec<_>>().prop_map(Value::from).boxed()
        }
        Shape::Record(fields) => {
            let members = fields
                .iter()
                .map(|field| {
                    let key = field.key.clone();
                    let value = values(&field.shape).prop_map(Some);
                    let value = if field.is_optional {
                        prop_oneof![Just(None), value].boxed()
                    } else {
                        value.boxed()
                    };
                    value.prop_map(move |value| value.map(|value| (key.clone(), value)))
                })
                .collect::<Vec<_>>();
            members
                .prop_map(|members| Value::Object(members.into_iter().flatten().collect()))
                .boxed()
        }
        Shape::Variant(cases) => prop::strategy::Union::new(
            cases.iter().map(|(name, case)| one_case(name, case.as_ref())),
        )
        .boxed(),
        Shape::Result { ok, err } => prop::strategy::Union::new([
            one_case("ok", ok.as_deref()),
            one_case("err", err.as_deref()),
        ])
        .boxed(),
        Shape::Enum(names) => prop::sample::select(names.iter().cloned().collect::<Vec<_>>())
            .prop_map(Value::from)
            .boxed(),
        Shape::Flags(names) => {
            prop::sample::subsequence(names.iter().cloned().collect::<Vec<_>>(), 0..=names.len())
                .prop_map(Value::from)
                .boxed()
        }
    }
}

fn one_case(name: &str, shape: Option<&Shape>) -> BoxedStrategy<Value> {
    let name = name.to_owned();
    match shape {
        None => Just(Value::from(name)).boxed(),
        Some(shape) => values(shape)
            .prop_map(move |value| Value::Object([(name.clone(), value)].into_iter().collect()))
            .boxed(),
    }
}

fn base64(bytes: &[u8]) -> String {
    use base64::Engine as _;
    base64::engine::general_purpose::STANDARD.encode(bytes)
}

proptest! {
    // Each case compiles a component.
    #![proptest_config(ProptestConfig { cases: 48, ..ProptestConfig::default() })]

    #[test]
    fn any_value_of_any_type_comes_back_from_a_guest(
        (shape, samples) in shapes().prop_flat_map(|shape| {
            // Wrapped in a tuple, because a parameter that is an option may be absent and is never
            // null.
            let shape = Shape::Tuple(vec![shape]);
            let samples = prop::collection::vec(values(&shape), 4);
            (Just(shape), samples)
        }),
    ) {
        let mut definitions = Vec::new();
        let ty = wit(&shape, &mut definitions);
        let plain = load(&echo(&definitions.concat(), &ty)).expect("a usable component");
        let definition = plain.definitions().remove(0);
        let input = CompiledSchema::compile_text("inputSchema", &definition.input_schema).expect("a usable schema");
        let output = CompiledSchema::compile_text("outputSchema", &definition.output_schema.expect("it returns something"));
        let output = output.expect("a usable schema");
        prop_assert_eq!(&plain.tools["echo"].function.parameters[0].shape, &shape);
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().expect("a runtime");
        for value in samples {
            let back = runtime.block_on(echoed(&plain, &value));
            prop_assert_eq!(back.as_ref(), Ok(&value));
            let padding = vec![0; 16];
            input.check(&json!({"value": value, "padding": padding})).expect("arguments fit their schema");
            output.check(&json!({"result": [value, padding]})).expect("results fit theirs");
        }
    }

    #[test]
    fn any_json_is_read_or_refused_with_its_path(shape in shapes(), other in shapes().prop_flat_map(|shape| values(&shape))) {
        let field = Field { name: "value".into(), key: "value".into(), shape, is_optional: false };
        let arguments = json!({"value": other}).to_string();
        if let Err(error) = crate::plugin::plain::arguments::read(&[field], &arguments) {
            prop_assert!(error.to_string().starts_with("value"), "{}", error);
        }
    }
}
