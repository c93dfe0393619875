//! `json_query`. The language is jq as `jaq` implements it, without functions that reach outside: a
//! query has no clock, no environment and no output except its results.

use std::ops::RangeInclusive;

use airlock_guest::{Error, tool, within};
use jaq_core::compile::Undefined;
use jaq_core::load::{self, Arena, File, Loader, lex, parse};
use jaq_core::{Compiler, Ctx, Vars, data};
use jaq_json::Val;
use schemars::JsonSchema;
use serde::Serialize;
use serde_json::{Map, Number, Value};

/// Limits of `max_results`.
const RESULTS: RangeInclusive<usize> = 1..=1_000;

/// Longest query in bytes. The parser recurses, and a longer query could exhaust its stack.
const QUERY_BYTES_MAX: usize = 4 * 1024;

/// Largest depth of a result, the same as that of parsed JSON.
const DEPTH_MAX: usize = 127;

/// Functions of jq that are removed because they reach outside the document.
const OUTSIDE: [&str; 8] =
    ["debug", "debug_empty", "env", "halt", "halt_error", "now", "stderr", "stderr_empty"];

type Filter = jaq_core::compile::Filter<jaq_core::Native<data::JustLut<Val>>>;

/// Results of a query.
#[derive(Debug, PartialEq, Serialize, JsonSchema)]
pub struct Results {
    /// Results in the order in which the query returned them.
    pub results: Vec<Value>,
    /// Whether there are more results than were reported.
    pub truncated: bool,
}

fn default_max_results() -> usize {
    100
}

/// Runs a jq query over a JSON document: selects, filters, reshapes, sorts, groups and adds up.
///
/// A query gives any number of results:
/// - `.users[].name` gives each name
/// - `[.users[] | select(.age >= 18) | {name, city: .address.city}]` gives one list of objects
/// - `.orders | group_by(.customer) | map({customer: .[0].customer, total: map(.price) | add})`
///   adds up by customer
/// - `.users | length` counts
///
/// All of jq's language can be used, except what reaches outside the document: `env`, `now`,
/// `input`, `debug`, `halt` and modules.
#[tool(
    read_only,
    idempotent,
    destructive = false,
    open_world = false,
    title = "Query JSON with jq"
)]
pub fn json_query(
    /// The JSON document, as text.
    json: String,
    /// The jq query; `.` is the whole document.
    query: String,
    /// Report at most this many results.
    #[serde(default = "default_max_results")]
    #[schemars(range(min = 1, max = 1000))]
    max_results: usize,
) -> Result<Results, Error> {
    let max_results = within("max_results", max_results, &RESULTS)?;
    let filter = compile(&query)?;
    let document: Val = serde_json::from_str(&json).map_err(|error| {
        Error::invalid_input(format!("`json` is not JSON: {error}")).with_code("invalid_json")
    })?;
    run(&filter, document, max_results)
}

fn compile(query: &str) -> Result<Filter, Error> {
    if query.len() > QUERY_BYTES_MAX {
        return Err(bad_query(format!(
            "it is {} bytes long; {QUERY_BYTES_MAX} are the most",
            query.len()
        )));
    }
    let defs = jaq_core::defs().chain(jaq_std::defs()).chain(jaq_json::defs());
    let funs = jaq_core::funs().chain(jaq_std::funs()).chain(jaq_json::funs());
    let arena = Arena::default();
    let modules = Loader::new(defs.filter(|def| !OUTSIDE.contains(&def.name)))
        .load(&arena, File { code: query, path: () })
        .map_err(|errors| {
            bad_query(
                errors
                    .iter()
                    .map(|(_, error)| malformed(query, error))
                    .collect::<Vec<_>>()
                    .join("; "),
            )
        })?;
    Compiler::default()
        .with_funs(funs.filter(|fun| !OUTSIDE.contains(&fun.0)))
        .compile(modules)
        .map_err(|errors| {
            let unknown = errors
                .iter()
                .flat_map(|(_, errors)| errors)
                .map(|(name, kind)| undefined(name, kind));
            bad_query(unknown.collect::<Vec<_>>().join("; "))
        })
}

fn bad_query(reason: impl std::fmt::Display) -> Error {
    Error::invalid_input(format!("`query` cannot be used: {reason}")).with_code("invalid_query")
}

fn malformed(query: &str, error: &load::Error<&str>) -> String {
    let each: Vec<String> = match error {
        load::Error::Io(_) => vec!["modules cannot be imported here".to_owned()],
        load::Error::Lex(errors) => errors.iter().map(|error| unread(query, error)).collect(),
        load::Error::Parse(errors) => errors.iter().map(|error| misplaced(query, error)).collect(),
    };
    each.join("; ")
}

fn unread(query: &str, (expected, at): &lex::Error<&str>) -> String {
    match expected {
        lex::Expect::Delim(opened) => format!("`{opened}` is not closed"),
        lex::Expect::Token => format!("nothing can start {}", place(query, at)),
        other => format!("expected {} {}", other.as_str(), place(query, at)),
    }
}

fn misplaced(query: &str, (expected, at): &parse::Error<&str>) -> String {
    match expected {
        parse::Expect::Nothing => format!("it should have ended {}", place(query, at)),
        parse::Expect::Term => format!("an expression is missing {}", place(query, at)),
        other => format!("expected {} {}", other.as_str(), place(query, at)),
    }
}

/// Describes the position of a piece of the query. The parser returns slices of the query, so their
/// addresses are the positions.
fn place(query: &str, at: &str) -> String {
    let byte = (at.as_ptr() as usize).wrapping_sub(query.as_ptr() as usize);
    match query.get(..byte) {
        Some(before) if byte < query.len() => {
            let rest: String = query[byte..].chars().take(20).collect();
            format!("at character {} (`{rest}`)", before.chars().count() + 1)
        }
        _ => "at the end of the query".to_owned(),
    }
}

fn undefined(name: &str, kind: &Undefined) -> String {
    match kind {
        Undefined::Filter(_) if OUTSIDE.contains(&name) => {
            format!("`{name}` reaches outside the document and is left out")
        }
        Undefined::Filter(0) => {
            format!("there is no function `{name}`; a field is written `.{name}`")
        }
        Undefined::Filter(arity) => format!("there is no function `{name}` with {arity} arguments"),
        other => format!("there is no {} `{name}`", other.as_str()),
    }
}

fn run(filter: &Filter, document: Val, max_results: usize) -> Result<Results, Error> {
    let context = Ctx::<data::JustLut<Val>>::new(&filter.lut, Vars::new([]));
    let mut results = Vec::new();
    for result in filter.id.run((context, document)) {
        if results.len() == max_results {
            return Ok(Results { results, truncated: true });
        }
        let value = result.map_err(|exception| match exception.get_err() {
            Ok(error) => failed(results.len(), error),
            Err(_) => failed(results.len(), "it stopped itself"),
        })?;
        results.push(to_json(&value, DEPTH_MAX)?);
    }
    Ok(Results { results, truncated: false })
}

fn failed(results: usize, error: impl std::fmt::Display) -> Error {
    let after = match results {
        0 => String::new(),
        1 => " after one result".to_owned(),
        more => format!(" after {more} results"),
    };
    Error::invalid_input(format!("the query failed{after}: {error}")).with_code("query_failed")
}

/// Converts a value to JSON. A number that JSON cannot represent, such as infinity, becomes null,
/// as in jq; bytes that are not UTF-8 are replaced.
fn to_json(value: &Val, depth: usize) -> Result<Value, Error> {
    let Some(depth) = depth.checked_sub(1) else {
        return Err(Error::invalid_input("a result of the query is nested too deeply"));
    };
    Ok(match value {
        Val::Null => Value::Null,
        Val::Bool(value) => Value::Bool(*value),
        Val::Num(number) => number.to_string().parse::<Number>().map_or(Value::Null, Value::Number),
        Val::BStr(bytes) | Val::TStr(bytes) => {
            Value::String(String::from_utf8_lossy(bytes).into_owned())
        }
        Val::Arr(items) => {
            let items = items.iter().map(|item| to_json(item, depth));
            Value::Array(items.collect::<Result<_, _>>()?)
        }
        Val::Obj(fields) => {
            let fields =
                fields.iter().map(|(key, value)| Ok((key_text(key)?, to_json(value, depth)?)));
            Value::Object(fields.collect::<Result<Map<_, _>, Error>>()?)
        }
    })
}

fn key_text(key: &Val) -> Result<String, Error> {
    match key {
        Val::TStr(bytes) => Ok(String::from_utf8_lossy(bytes).into_owned()),
        other => Err(Error::invalid_input(format!("the key {other} of an object is not a string"))),
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    const PEOPLE: &str = r#"{"people":[{"name":"Ann","age":36},{"name":"Bo","age":7}]}"#;

    fn queried(json: &str, query: &str) -> Value {
        Value::Array(json_query(json.into(), query.into(), 100).unwrap().results)
    }

    fn refused(json: &str, query: &str) -> String {
        json_query(json.into(), query.into(), 100).unwrap_err().to_string()
    }

    #[test]
    fn a_query_selects_reshapes_and_sums() {
        assert_eq!(queried(PEOPLE, ".people[].name"), json!(["Ann", "Bo"]));
        assert_eq!(
            queried(PEOPLE, "[.people[] | select(.age >= 18) | {name}]"),
            json!([[{ "name": "Ann" }]])
        );
        assert_eq!(queried(PEOPLE, ".people | map(.age) | add"), json!([43]));
        assert_eq!(queried(PEOPLE, ".people | group_by(.age > 10) | map(length)"), json!([[1, 1]]));
    }

    #[test]
    fn every_query_of_the_description_runs() {
        let json = r#"{"users":[{"name":"Ann","age":36,"address":{"city":"Oslo"}}],
                       "orders":[{"customer":"a","price":1},{"customer":"a","price":2}]}"#;
        let description = <json_query as airlock_guest::Tool>::descriptor().description;
        let queries =
            description.lines().filter_map(|line| line.strip_prefix("- `")?.split('`').next());
        assert_eq!(queries.map(|query| queried(json, query)).collect::<Vec<_>>().len(), 4);
    }

    #[test]
    fn keys_keep_their_order_and_large_numbers_their_digits() {
        let results = json_query(r#"{"b":1,"a":9007199254740993}"#.into(), ".".into(), 1).unwrap();
        assert_eq!(results.results[0].to_string(), r#"{"b":1,"a":9007199254740993}"#);
    }

    #[test]
    fn values_that_json_cannot_represent_become_null_or_are_refused() {
        assert_eq!(queried("null", "[nan, infinite]"), json!([[null, null]]));
        insta::assert_snapshot!(refused("null", "{(0): 1}"), @"the key 0 of an object is not a string");
        insta::assert_snapshot!(refused("null", "reduce range(200) as $i (0; [.])"), @"a result of the query is nested too deeply");
    }

    #[test]
    fn the_limit_on_results_is_enforced_and_ends_an_endless_query() {
        assert!(!json_query("null".into(), "range(3)".into(), 3).unwrap().truncated);
        let cut = json_query("null".into(), "repeat(1)".into(), 3).unwrap();
        assert_eq!((cut.results.len(), cut.truncated), (3, true));
    }

    #[test]
    fn a_bad_query_is_refused_with_the_place() {
        insta::assert_snapshot!(refused("{}", ".a | ("), @"`query` cannot be used: `(` is not closed");
        insta::assert_snapshot!(refused("{}", ".a | | .b"), @"`query` cannot be used: an expression is missing at character 6 (`| .b`)");
        insta::assert_snapshot!(refused("{}", ".a }"), @"`query` cannot be used: nothing can start at character 4 (`}`)");
        insta::assert_snapshot!(refused("{}", ".a & .b"), @"`query` cannot be used: nothing can start at character 4 (`& .b`)");
        insta::assert_snapshot!(refused("{}", r#""é" | "open"#), @r#"`query` cannot be used: `"` is not closed"#);
        insta::assert_snapshot!(refused("{}", ""), @"`query` cannot be used: an expression is missing at the end of the query");
        insta::assert_snapshot!(refused("{}", &"(".repeat(5000)), @"`query` cannot be used: it is 5000 bytes long; 4096 are the most");
    }

    #[test]
    fn an_unknown_name_is_refused_with_a_suggestion() {
        insta::assert_snapshot!(refused("{}", "name"), @"`query` cannot be used: there is no function `name`; a field is written `.name`");
        insta::assert_snapshot!(refused("{}", "pick(1; 2)"), @"`query` cannot be used: there is no function `pick` with 2 arguments");
        insta::assert_snapshot!(refused("{}", "$x"), @"`query` cannot be used: there is no variable `$x`");
    }

    #[test]
    fn nothing_outside_the_document_can_be_reached() {
        for query in
            ["env", "$ENV", "now", "input", "halt", "debug", "stderr", r#"import "a" as a; 1"#]
        {
            assert!(json_query("{}".into(), query.into(), 1).is_err(), "{query}");
        }
        insta::assert_snapshot!(refused("{}", "now"), @"`query` cannot be used: `now` reaches outside the document and is left out");
    }

    #[test]
    fn a_failed_query_reports_the_error_and_the_number_of_results_before_it() {
        insta::assert_snapshot!(refused("[{\"a\":1}, 2]", ".[].a"), @r#"the query failed after one result: cannot index 2 with "a""#);
        insta::assert_snapshot!(refused("null", r#"error("no such thing")"#), @r#"the query failed: "no such thing""#);
    }

    #[test]
    fn text_that_is_not_json_is_refused() {
        insta::assert_snapshot!(refused("{'a': 1}", "."), @"`json` is not JSON: key must be a string at line 1 column 2");
    }
}
