//! Graph of the subschemas of a document, with the values that they meet. The cost of a check is
//! computed from it.
//!
//! The graph rather has too many edges than too few: it has an edge for every keyword of any draft,
//! even if the document's draft does not have the keyword. The meaning of keywords is not modelled.

use std::collections::HashMap;

use serde_json::{Map, Value};

use super::{MAX_DEPTH, MAX_SHOWN, MAX_SUBSCHEMAS, Problem, pattern::PatternCosts};
use crate::text::{self, cut};

/// Weight of a `multipleOf`. Large floats are divided as fractions, which takes up to 5 µs,
/// measured.
const MULTIPLE_OF_WEIGHT: u64 = 1_000;

/// A problem with its place in the schema.
pub(super) type Misplaced = (String, Problem);

/// Subschemas by number; the document itself is number 0.
pub(super) struct Graph<'s> {
    pub(super) nodes: Vec<Node<'s>>,
    /// The subschema of each node, as JSON.
    schemas: Vec<&'s Value>,
    numbers: HashMap<*const Value, usize>,
    anchors: HashMap<&'s str, Vec<&'s Value>>,
    pub(super) pattern_costs: PatternCosts<'s>,
}

/// One subschema.
#[derive(Default)]
pub(super) struct Node<'s> {
    /// The subschema that it was found in, and the step from there; `None` for the document.
    origin: Option<(usize, Step<'s>)>,
    /// Cost of the evaluation of one value, without other subschemas: about one unit for each
    /// keyword and each listed value.
    pub(super) weight: u64,
    /// Cost of its `pattern` for each byte of a string.
    pub(super) pattern_cost: u64,
    /// Cost of its `patternProperties`, which every key is matched with, for each byte of a key.
    pub(super) key_pattern_cost: u64,
    /// True if it compares the items of an array with each other (`uniqueItems`).
    pub(super) is_unique: bool,
    /// True if it has an `unevaluated` keyword. For such a keyword, the subschemas of the same
    /// value are evaluated again.
    pub(super) is_unevaluated: bool,
    /// Subschemas that meet the same value.
    pub(super) in_place: Vec<usize>,
    pub(super) members: Children<&'s str>,
    pub(super) items: Children<usize>,
}

/// Subschemas that meet the members of an object, or the items of an array.
#[derive(Default)]
pub(super) struct Children<K> {
    /// Subschemas for one name or position.
    pub(super) named: Vec<(K, usize)>,
    /// Subschemas for all names or positions that are not in `named`.
    pub(super) others: Vec<usize>,
    /// Subschemas that may meet any member or item.
    pub(super) any: Vec<usize>,
}

/// A step from a subschema to another.
#[derive(Clone, Copy)]
enum Step<'s> {
    Keyword(&'s str),
    Member(&'s str, &'s str),
    Item(&'s str, usize),
    Reference(&'s str),
}

/// The value that a subschema meets, relative to the value of the subschema that contains it.
#[derive(Clone, Copy)]
enum Meets<'s> {
    Same,
    Member(&'s str),
    OtherMembers,
    AnyMember,
    Item(usize),
    OtherItems,
    AnyItem,
}

impl<'s> Graph<'s> {
    /// Reads every subschema that the document's validator can reach. Fails if there are too many,
    /// or if a reference or pattern cannot be used.
    pub(super) fn read(document: &'s Value) -> Result<Self, Misplaced> {
        let mut graph = Self {
            nodes: Vec::new(),
            schemas: Vec::new(),
            numbers: HashMap::new(),
            anchors: HashMap::new(),
            pattern_costs: PatternCosts::default(),
        };
        collect_anchors(document, &mut graph.anchors);
        graph.number(document, None)?;
        let mut next = 0;
        while let Some(&schema) = graph.schemas.get(next) {
            if let Value::Object(keywords) = schema {
                graph.read_keywords(next, keywords)?;
            }
            next += 1;
        }
        Ok(graph)
    }

    /// Returns the place of a subschema, as `#` and a JSON pointer, cut if it is long.
    pub(super) fn place(&self, number: usize) -> String {
        let mut steps = Vec::new();
        let mut at = number;
        while let Some((parent, step)) = self.nodes[at].origin {
            steps.push(match step {
                Step::Keyword(keyword) => format!("/{keyword}"),
                Step::Member(keyword, name) => {
                    format!("/{keyword}/{}", name.replace('~', "~0").replace('/', "~1"))
                }
                Step::Item(keyword, index) => format!("/{keyword}/{index}"),
                Step::Reference(reference) => reference.to_owned(),
            });
            // A reference is a pointer from the root, so the path ends here.
            if matches!(step, Step::Reference(_)) || steps.len() > MAX_DEPTH {
                break;
            }
            at = parent;
        }
        let path: String = steps.into_iter().rev().collect();
        cut(if path.starts_with('#') { path } else { format!("#{path}") }, MAX_SHOWN)
    }

    fn number(
        &mut self,
        schema: &'s Value,
        origin: Option<(usize, Step<'s>)>,
    ) -> Result<usize, Misplaced> {
        let key = std::ptr::from_ref(schema);
        if let Some(&number) = self.numbers.get(&key) {
            return Ok(number);
        }
        let number = self.nodes.len();
        if number == MAX_SUBSCHEMAS {
            return Err(("#".into(), Problem::TooManySubschemas));
        }
        self.nodes.push(Node { origin, weight: 1, ..Node::default() });
        self.schemas.push(schema);
        self.numbers.insert(key, number);
        Ok(number)
    }

    fn read_keywords(
        &mut self,
        number: usize,
        keywords: &'s Map<String, Value>,
    ) -> Result<(), Misplaced> {
        for (keyword, value) in keywords {
            for (meets, step, schema) in subschemas(keyword, value) {
                let child = self.number(schema, Some((number, step)))?;
                self.nodes[number].connect(meets, child);
            }
            self.read_assertion(number, keyword, value)?;
            if let ("$ref" | "$dynamicRef" | "$recursiveRef", Value::String(reference)) =
                (keyword.as_str(), value)
            {
                for target in self.resolve(number, reference)? {
                    let child = self.number(target, Some((number, Step::Reference(reference))))?;
                    self.nodes[number].connect(Meets::Same, child);
                }
            }
        }
        Ok(())
    }

    /// Adds the cost of a keyword itself, without its subschemas.
    fn read_assertion(
        &mut self,
        number: usize,
        keyword: &str,
        value: &'s Value,
    ) -> Result<(), Misplaced> {
        let weight = match (keyword, value) {
            ("enum" | "const" | "required" | "dependentRequired" | "dependencies", _) => {
                count(value) as u64
            }
            ("properties" | "patternProperties", Value::Object(named)) => named.len() as u64,
            ("multipleOf", _) => MULTIPLE_OF_WEIGHT,
            _ => 1,
        };
        self.nodes[number].weight += weight;
        match (keyword, value) {
            ("pattern", Value::String(text)) => {
                self.nodes[number].pattern_cost = self.pattern_cost(number, text)?;
            }
            ("patternProperties", Value::Object(named)) => {
                for text in named.keys() {
                    self.nodes[number].key_pattern_cost += self.pattern_cost(number, text)?;
                }
            }
            ("uniqueItems", Value::Bool(true)) => self.nodes[number].is_unique = true,
            ("unevaluatedProperties" | "unevaluatedItems", _) => {
                self.nodes[number].is_unevaluated = true;
            }
            _ => {}
        }
        Ok(())
    }

    fn pattern_cost(&mut self, number: usize, text: &'s str) -> Result<u64, Misplaced> {
        self.pattern_costs.of(text).map_err(|problem| (self.place(number), problem))
    }

    /// Finds the targets of a reference: one for a pointer, and all anchors with the name for an
    /// anchor. Fails if there is none, or if the reference leads out of the document.
    fn resolve(&self, number: usize, reference: &str) -> Result<Vec<&'s Value>, Misplaced> {
        let refuse = |problem: fn(String) -> Problem| {
            (self.place(number), problem(cut(reference.to_owned(), MAX_SHOWN)))
        };
        let fragment =
            reference.strip_prefix('#').ok_or_else(|| refuse(Problem::OutsideReference))?;
        if fragment.is_empty() || fragment.starts_with('/') {
            let pointer = text::percent_decoded(fragment)
                .and_then(|pointer| String::from_utf8(pointer).ok())
                .ok_or_else(|| refuse(Problem::DanglingReference))?;
            let target = self.schemas[0].pointer(&pointer);
            target.map(|target| vec![target]).ok_or_else(|| refuse(Problem::DanglingReference))
        } else {
            self.anchors.get(fragment).cloned().ok_or_else(|| refuse(Problem::DanglingReference))
        }
    }
}

impl<'s> Node<'s> {
    fn connect(&mut self, meets: Meets<'s>, child: usize) {
        match meets {
            Meets::Same => self.in_place.push(child),
            Meets::Member(name) => self.members.named.push((name, child)),
            Meets::OtherMembers => self.members.others.push(child),
            Meets::AnyMember => self.members.any.push(child),
            Meets::Item(index) => self.items.named.push((index, child)),
            Meets::OtherItems => self.items.others.push(child),
            Meets::AnyItem => self.items.any.push(child),
        }
    }
}

/// Returns the subschemas under one keyword.
fn subschemas<'s>(keyword: &'s str, value: &'s Value) -> Vec<(Meets<'s>, Step<'s>, &'s Value)> {
    let one = |meets| vec![(meets, Step::Keyword(keyword), value)];
    let each = |meets: fn(usize) -> Meets<'s>| {
        let items = value.as_array().into_iter().flatten().enumerate();
        items.map(|(index, item)| (meets(index), Step::Item(keyword, index), item)).collect()
    };
    let every = |meets: fn(&'s str) -> Meets<'s>| {
        // An array is not a subschema: `dependencies` may also list names of members.
        let members =
            value.as_object().into_iter().flatten().filter(|(_, member)| !member.is_array());
        members.map(|(name, member)| (meets(name), Step::Member(keyword, name), member)).collect()
    };
    match keyword {
        "allOf" | "anyOf" | "oneOf" => each(|_| Meets::Same),
        "not" | "if" | "then" | "else" => one(Meets::Same),
        "dependentSchemas" | "dependencies" => every(|_| Meets::Same),
        "properties" => every(Meets::Member),
        "additionalProperties" => one(Meets::OtherMembers),
        "patternProperties" => every(|_| Meets::AnyMember),
        "propertyNames" | "unevaluatedProperties" => one(Meets::AnyMember),
        "prefixItems" => each(Meets::Item),
        "items" if value.is_array() => each(Meets::Item),
        "items" | "additionalItems" => one(Meets::OtherItems),
        "contains" | "unevaluatedItems" => one(Meets::AnyItem),
        _ => Vec::new(),
    }
}

/// Returns the number of values in a value, itself included.
pub(super) fn count(value: &Value) -> usize {
    match value {
        Value::Array(items) => 1 + items.iter().map(count).sum::<usize>(),
        Value::Object(members) => 1 + members.values().map(count).sum::<usize>(),
        _ => 1,
    }
}

fn collect_anchors<'s>(value: &'s Value, anchors: &mut HashMap<&'s str, Vec<&'s Value>>) {
    match value {
        Value::Object(members) => {
            for keyword in ["$anchor", "$dynamicAnchor"] {
                if let Some(Value::String(name)) = members.get(keyword) {
                    anchors.entry(name).or_default().push(value);
                }
            }
            members.values().for_each(|member| collect_anchors(member, anchors));
        }
        Value::Array(items) => items.iter().for_each(|item| collect_anchors(item, anchors)),
        _ => {}
    }
}
