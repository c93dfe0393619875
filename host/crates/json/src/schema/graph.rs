//! Graph of the subschemas of a document, with the values that they meet. The bounds on a check are
//! computed from it.
//!
//! The graph rather has too many edges than too few: it has an edge for every keyword of any draft,
//! even if the document's draft does not have the keyword, and `additionalProperties` meets members
//! that have a subschema of their own. The meaning of keywords is not modelled.

use std::collections::HashMap;

use serde_json::{Map, Value};

use super::{
    limits::{MAX_EDGES, MAX_SHOWN, MAX_SUBSCHEMAS},
    pattern::PatternCosts,
    price::{EVALUATION, LOOKUP, MULTIPLE_OF, extent},
    problem::{Misplaced, Problem},
    work::DocumentWork,
};
use airlock_strings::{self as text, cut};

/// Frequent keywords that have no errors of their own.
const NEVER_FAIL: [&str; 9] = [
    "$defs",
    "$ref",
    "allOf",
    "default",
    "description",
    "examples",
    "items",
    "properties",
    "title",
];

/// Subschemas by number; the document itself is number 0.
pub(super) struct Graph {
    pub(super) nodes: Vec<Node>,
    /// Place of each subschema, as `#` and a JSON pointer, cut if it is long.
    pub(super) places: Vec<String>,
    /// Memory of the compiled patterns, in bytes.
    pub(super) pattern_bytes: usize,
    /// Number of edges of all nodes.
    pub(super) edges: usize,
}

/// One subschema.
#[derive(Default)]
pub(super) struct Node {
    /// Cost of the evaluation of one value, without other subschemas and patterns.
    pub(super) weight: u64,
    /// The most errors of one evaluation, without those of other subschemas: one for each keyword
    /// that can fail, and one for each name in a list of required members.
    pub(super) errors: u64,
    /// The most errors of one evaluation of an object, for each of its keys.
    pub(super) errors_per_key: u64,
    /// Cost of its `pattern` for each byte of a string.
    pub(super) pattern_cost: u64,
    /// Cost of its `patternProperties`, which every key is matched with, for each byte of a key.
    pub(super) key_pattern_cost: u64,
    /// True if it compares the items of an array with each other (`uniqueItems`).
    pub(super) is_unique: bool,
    /// True if it has an `unevaluated` keyword. For such a keyword, the subschemas of the same
    /// value are evaluated again.
    pub(super) is_unevaluated: bool,
    /// Number of evaluations of the subschemas that it applies to the same value, for each of its
    /// own. More than one for an `unevaluated` keyword.
    pub(super) repeats: u64,
    /// The subschemas that it applies.
    pub(super) edges: Vec<(Edge, usize)>,
}

/// The value that an applied subschema meets, relative to the value of the one that applies it.
pub(super) enum Edge {
    /// The same value.
    Same,
    /// The same value, by reference.
    Reference,
    /// Each key of an object.
    Key,
    /// One member of an object.
    Member(String),
    /// Any member of an object.
    AnyMember,
    /// One item of an array.
    Item(usize),
    /// Any item of an array.
    AnyItem,
}

/// Reads a document from its root, one subschema after the other.
struct GraphReader<'s, 'w> {
    graph: Graph,
    /// The subschema of each node, as JSON.
    schemas: Vec<&'s Value>,
    numbers: HashMap<*const Value, usize>,
    anchors: HashMap<&'s str, Vec<&'s Value>>,
    pattern_costs: PatternCosts<'s, 'w>,
}

impl Graph {
    /// Reads every subschema that the document's validator can reach. Fails if there are too many,
    /// if a reference or pattern cannot be used, or if too little work is left.
    pub(super) fn read(document: &Value, work: &mut DocumentWork) -> Result<Self, Misplaced> {
        let graph = Self { nodes: Vec::new(), places: Vec::new(), pattern_bytes: 0, edges: 0 };
        let mut reader = GraphReader {
            graph,
            schemas: Vec::new(),
            numbers: HashMap::new(),
            anchors: HashMap::new(),
            pattern_costs: PatternCosts::new(work),
        };
        collect_anchors(document, &mut reader.anchors);
        reader.number(document, || "#".into())?;
        let mut next = 0;
        while let Some(&schema) = reader.schemas.get(next) {
            if let Value::Object(keywords) = schema {
                reader.read_keywords(next, keywords)?;
            }
            next += 1;
        }
        Ok(Self { pattern_bytes: reader.pattern_costs.bytes(), ..reader.graph })
    }
}

impl<'s> GraphReader<'s, '_> {
    fn number(
        &mut self,
        schema: &'s Value,
        place: impl FnOnce() -> String,
    ) -> Result<usize, Misplaced> {
        let key = std::ptr::from_ref(schema);
        if let Some(&number) = self.numbers.get(&key) {
            return Ok(number);
        }
        let number = self.schemas.len();
        if number == MAX_SUBSCHEMAS {
            return Err(("#".into(), Problem::TooManySubschemas));
        }
        self.graph.nodes.push(Node {
            weight: EVALUATION,
            errors: u64::from(schema.is_boolean()),
            repeats: 1,
            ..Node::default()
        });
        self.graph.places.push(cut(place(), MAX_SHOWN));
        self.schemas.push(schema);
        self.numbers.insert(key, number);
        Ok(number)
    }

    fn read_keywords(
        &mut self,
        number: usize,
        keywords: &'s Map<String, Value>,
    ) -> Result<(), Misplaced> {
        let parent = self.graph.places[number].clone();
        for (keyword, value) in keywords {
            for (edge, step, schema) in subschemas(keyword, value) {
                let child = self.number(schema, || format!("{parent}/{keyword}{step}"))?;
                self.connect(number, edge, child)?;
            }
            self.read_assertion(number, keyword, value)?;
            if let ("$ref" | "$dynamicRef" | "$recursiveRef", Value::String(reference)) =
                (keyword.as_str(), value)
            {
                for target in self.resolve(number, reference)? {
                    let target = self.number(target, || reference.clone())?;
                    self.connect(number, Edge::Reference, target)?;
                }
            }
        }
        Ok(())
    }

    /// Adds an edge, and its cost: an evaluation looks at every edge of its subschema.
    fn connect(&mut self, number: usize, edge: Edge, child: usize) -> Result<(), Misplaced> {
        if self.graph.edges == MAX_EDGES {
            return Err((self.graph.places[number].clone(), Problem::TooEntangled));
        }
        self.graph.edges += 1;
        let node = &mut self.graph.nodes[number];
        node.errors_per_key += u64::from(matches!(edge, Edge::Key));
        node.weight += 1;
        node.edges.push((edge, child));
        Ok(())
    }

    /// Adds the cost of a keyword itself, without its subschemas.
    fn read_assertion(
        &mut self,
        number: usize,
        keyword: &str,
        value: &'s Value,
    ) -> Result<(), Misplaced> {
        let (weight, errors) = match (keyword, value) {
            ("enum" | "const", _) => (extent(value), 1),
            ("required" | "dependentRequired" | "dependencies", _) => {
                (extent(value).saturating_mul(LOOKUP), extent(value))
            }
            ("properties" | "dependentSchemas", Value::Object(named)) => {
                (named.len() as u64 * LOOKUP, 0)
            }
            ("multipleOf", _) => (MULTIPLE_OF, 1),
            _ => (1, u64::from(!NEVER_FAIL.contains(&keyword))),
        };
        let node = &mut self.graph.nodes[number];
        node.weight = node.weight.saturating_add(weight);
        node.errors = node.errors.saturating_add(errors);
        match (keyword, value) {
            ("pattern", Value::String(text)) => {
                self.graph.nodes[number].pattern_cost = self.pattern_cost(number, text)?;
            }
            ("patternProperties", Value::Object(named)) => {
                for text in named.keys() {
                    let cost = self.pattern_cost(number, text)?;
                    self.graph.nodes[number].key_pattern_cost += cost;
                }
            }
            ("uniqueItems", Value::Bool(true)) => node.is_unique = true,
            ("unevaluatedProperties" | "unevaluatedItems", _) => node.is_unevaluated = true,
            _ => {}
        }
        Ok(())
    }

    fn pattern_cost(&mut self, number: usize, text: &'s str) -> Result<u64, Misplaced> {
        self.pattern_costs
            .cost(text)
            .map_err(|problem| (self.graph.places[number].clone(), problem))
    }

    /// Finds the targets of a reference: one for a pointer, and all anchors with the name for an
    /// anchor. Fails if there is none, or if the reference leads out of the document.
    fn resolve(&self, number: usize, reference: &str) -> Result<Vec<&'s Value>, Misplaced> {
        let targets = match reference.strip_prefix('#') {
            None => Err(Problem::OutsideReference as fn(String) -> Problem),
            Some(fragment) => {
                self.targets(fragment).ok_or(Problem::DanglingReference as fn(String) -> Problem)
            }
        };
        targets.map_err(|problem| {
            (self.graph.places[number].clone(), problem(cut(reference.to_owned(), MAX_SHOWN)))
        })
    }

    fn targets(&self, fragment: &str) -> Option<Vec<&'s Value>> {
        if !fragment.is_empty() && !fragment.starts_with('/') {
            return self.anchors.get(fragment).cloned();
        }
        let pointer = String::from_utf8(text::percent_decoded(fragment)?).ok()?;
        self.schemas[0].pointer(&pointer).map(|target| vec![target])
    }
}

/// Returns the subschemas under one keyword, each with its path from there.
fn subschemas<'s>(keyword: &str, value: &'s Value) -> Vec<(Edge, String, &'s Value)> {
    match keyword {
        "allOf" | "anyOf" | "oneOf" => each(value, |_| Edge::Same),
        "not" | "if" | "then" | "else" => one(value, Edge::Same),
        "dependentSchemas" | "dependencies" => every(value, |_| Edge::Same),
        "propertyNames" => one(value, Edge::Key),
        "properties" => every(value, |name| Edge::Member(name.to_owned())),
        "patternProperties" => every(value, |_| Edge::AnyMember),
        "additionalProperties" | "unevaluatedProperties" => one(value, Edge::AnyMember),
        "prefixItems" => each(value, Edge::Item),
        "items" if value.is_array() => each(value, Edge::Item),
        "items" | "additionalItems" | "contains" | "unevaluatedItems" => one(value, Edge::AnyItem),
        _ => Vec::new(),
    }
}

fn one(value: &Value, edge: Edge) -> Vec<(Edge, String, &Value)> {
    vec![(edge, String::new(), value)]
}

fn each(value: &Value, edge: fn(usize) -> Edge) -> Vec<(Edge, String, &Value)> {
    let items = value.as_array().into_iter().flatten().enumerate();
    items.map(|(index, item)| (edge(index), format!("/{index}"), item)).collect()
}

fn every(value: &Value, edge: fn(&str) -> Edge) -> Vec<(Edge, String, &Value)> {
    // An array is not a subschema: `dependencies` may also list names of members.
    let members = value.as_object().into_iter().flatten().filter(|(_, member)| !member.is_array());
    members
        .map(|(name, member)| {
            let step = format!("/{}", name.replace('~', "~0").replace('/', "~1"));
            (edge(name), step, member)
        })
        .collect()
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
