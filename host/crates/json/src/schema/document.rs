//! A schema as a document: of limited size, of one draft, and without an identifier that references
//! could be resolved against.

use jsonschema::Draft;
use serde_json::{Map, Value};

use super::{
    limits::{MAX_DEPTH, MAX_SCHEMA_BYTES, MAX_SHOWN},
    price::extent,
    problem::{Misplaced, Problem},
};
use airlock_strings::cut;

/// Memory of a value in addition to its text: the value itself, and the same again for spare
/// capacity of its parent.
const VALUE_BYTES: usize = 2 * size_of::<Value>();

/// The document that is compiled.
pub(super) struct SchemaDocument {
    pub(super) draft: Draft,
    /// The schema without its own `$schema` and identifier.
    pub(super) schema: Value,
    /// Approximate memory of the schema, in bytes.
    pub(super) bytes: usize,
}

impl SchemaDocument {
    pub(super) fn read(schema: &Value) -> Result<Self, Misplaced> {
        // The depth is checked before the schema is rendered, because rendering recurses too.
        if is_deeper(schema, MAX_DEPTH) {
            return Err(everywhere(Problem::TooDeep));
        }
        let found = schema.to_string().len();
        if found > MAX_SCHEMA_BYTES {
            return Err(everywhere(Problem::TooLarge { found }));
        }
        let values = usize::try_from(extent(schema)).unwrap_or(usize::MAX);
        let bytes = found.saturating_add(values.saturating_mul(VALUE_BYTES));
        let Value::Object(keywords) = schema else {
            return match schema {
                Value::Bool(_) => {
                    Ok(Self { draft: Draft::default(), schema: schema.clone(), bytes })
                }
                _ => {
                    Err(everywhere(Problem::Invalid("a schema is an object, true or false".into())))
                }
            };
        };
        let draft = dialect(Draft::default(), keywords).map_err(everywhere)?;
        for value in keywords.values() {
            check_inner(value, draft).map_err(everywhere)?;
        }
        let mut keywords = keywords.clone();
        for keyword in ["$schema", "$vocabulary", draft.id_keyword()] {
            // Keeps the order of the other keywords, which is the order of errors.
            keywords.shift_remove(keyword);
        }
        Ok(Self { draft, schema: Value::Object(keywords), bytes })
    }
}

fn everywhere(problem: Problem) -> Misplaced {
    ("#".to_owned(), problem)
}

fn dialect(default: Draft, keywords: &Map<String, Value>) -> Result<Draft, Problem> {
    let Some(named) = keywords.get("$schema").filter(|named| !named.is_object()) else {
        return Ok(default);
    };
    match named.as_str().map(Draft::from_schema_uri) {
        None | Some(Draft::Unknown) => Err(Problem::Dialect(cut(shown(named), MAX_SHOWN))),
        Some(draft) => Ok(draft),
    }
}

/// Fails if a part of the document has an identifier or another draft, because references and
/// keywords would then have another meaning in that part. Checks data too, such as the values of an
/// `enum`, because a reference may point there.
fn check_inner(value: &Value, draft: Draft) -> Result<(), Problem> {
    match value {
        Value::Object(members) => {
            if let Some(Value::String(identifier)) = members.get(draft.id_keyword()) {
                return Err(Problem::InnerIdentifier(cut(identifier.clone(), MAX_SHOWN)));
            }
            if dialect(draft, members)? != draft {
                return Err(Problem::Dialect(cut(
                    members.get("$schema").map(shown).unwrap_or_default(),
                    MAX_SHOWN,
                )));
            }
            members.values().try_for_each(|member| check_inner(member, draft))
        }
        Value::Array(items) => items.iter().try_for_each(|item| check_inner(item, draft)),
        _ => Ok(()),
    }
}

fn shown(value: &Value) -> String {
    value.as_str().map_or_else(|| value.to_string(), str::to_owned)
}

/// Returns whether a value is nested deeper than `left` levels.
pub(super) fn is_deeper(value: &Value, left: usize) -> bool {
    match value {
        Value::Array(items) => items.iter().any(|item| left == 0 || is_deeper(item, left - 1)),
        Value::Object(members) => {
            members.values().any(|member| left == 0 || is_deeper(member, left - 1))
        }
        _ => false,
    }
}
