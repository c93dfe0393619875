//! Patterns: their length, their size, and the work of compiling them.

use serde_json::{Map, Value, json};

use super::{
    super::{
        CompileWork, CompiledSchema, Problem,
        limits::{MAX_PATTERN_BYTES, MAX_PATTERNS},
    },
    compiled, fits, invalid, told, unbounded,
};
use crate::JsonText;

#[test]
fn patterns_that_are_not_linear_or_too_large_are_invalid() {
    assert!(fits(&json!({"pattern": "^(a+)+$"}), &json!("a".repeat(1_000))));
    for pattern in ["(?=a)", r"(a)\1", "(", "a{1000}{1000}", ".{5000}"] {
        assert_eq!(invalid(&json!({"pattern": pattern})), Problem::Pattern(pattern.into()));
        assert_eq!(
            invalid(&json!({"patternProperties": {pattern: {}}})),
            Problem::Pattern(pattern.into())
        );
    }
    compiled(&patterns(MAX_PATTERNS));
    assert_eq!(unbounded(&patterns(MAX_PATTERNS + 1)), Problem::TooManyPatterns);
    let costly = json!({"pattern": "[01]*1[01]{400}[a-y]"});
    assert!(fits(&costly, &json!(format!("1{}a", "0".repeat(400)))));
    assert!(told(&costly, &json!("01".repeat(50_000))).contains("too large"));
    let key = json!({"patternProperties": {"[01]*1[01]{400}[a-y]": true}});
    assert!(told(&key, &json!({"01".repeat(50_000): 1})).contains("too large"));
    assert!(fits(&json!({"pattern": "^[A-Za-z0-9+/]*={0,2}$"}), &json!("QUJD".repeat(25_000))));
}

fn patterns(count: usize) -> Value {
    let patterns: Map<String, Value> = (0..count).map(|n| (format!("^{n}x"), json!({}))).collect();
    json!({"patternProperties": patterns})
}

#[test]
fn a_pattern_is_parsed_only_within_its_length_and_work() {
    let longest = "a".repeat(MAX_PATTERN_BYTES);
    assert!(fits(&json!({"pattern": longest}), &json!(longest)));
    let found = longest.len() + 1;
    let longer = json!({"pattern": format!("{longest}b")});
    assert_eq!(unbounded(&longer), Problem::LongPattern { found });
    for part in [r"\s", r"(?i:[a-\u{10FFFF}])"] {
        let dense = part.repeat(MAX_PATTERN_BYTES / part.len());
        assert_eq!(unbounded(&json!({"pattern": dense})), Problem::TooMuchWork, "{part}");
    }
    compiled(&classes(8));
}

fn classes(count: usize) -> Value {
    let patterns = (0..count).map(|n| (format!("^{}{n}$", "[a-z][0-9]".repeat(90)), json!({})));
    json!({"patternProperties": patterns.collect::<Map<_, _>>()})
}

#[test]
fn the_schemas_of_one_source_share_the_work_of_the_compiler() {
    let mut work = CompileWork::of_documents(1);
    assert!(compile_within(&mut work, &costly_schema(0)).is_ok());
    let outcomes: Vec<_> =
        (1..40).map(|n| compile_within(&mut work, &costly_schema(n)).err()).collect();
    assert_eq!(outcomes[0], None);
    assert_eq!(outcomes.last(), Some(&Some(Problem::TooMuchWork)));
    let plain = JsonText::from(json!({"type": "object"}));
    assert_eq!(
        compile_within(&mut work, &plain).err(),
        Some(Problem::TooMuchWork),
        "nothing is left"
    );
    let mut work = CompileWork::of_documents(1);
    let refused = JsonText::from(json!({"pattern": format!("{}(", r"\s".repeat(80))}));
    for _ in 0..40 {
        assert!(compile_within(&mut work, &refused).is_err());
    }
    assert!(
        compile_within(&mut work, &costly_schema(0)).is_err(),
        "a schema that cannot be used costs the same"
    );
}

fn costly_schema(n: usize) -> JsonText {
    JsonText::from(json!({"pattern": format!("{}{n}", r"\s".repeat(80))}))
}

fn compile_within(work: &mut CompileWork, schema: &JsonText) -> Result<CompiledSchema, Problem> {
    CompiledSchema::compile_text_within("outputSchema", schema, work).map_err(|bad| bad.problem)
}
