//! Bounds of a schema, found when it is loaded: references are followed and applicators multiplied
//! until a limit is reached.

use super::{
    graph::{Edge, Graph},
    limits::{MAX_COPIES, MAX_EVALUATIONS, MAX_NESTING},
    problem::{Misplaced, Problem},
};

/// Expands every subschema, and notes its [`repeats`](super::graph::Node::repeats). Fails if the
/// subschemas of one value are too many or too deep inside each other, or if too much would be
/// compiled. Returns the number of subschemas that are compiled for `unevaluated` keywords.
pub(super) fn expand(graph: &mut Graph) -> Result<usize, Misplaced> {
    let numbers = 0..graph.nodes.len();
    let mut expansion = Expansion { graph, known: vec![None; numbers.len()] };
    let expanded = numbers.clone().map(|number| expansion.expand(number, 1));
    let expanded = expanded.collect::<Result<Vec<_>, _>>()?;
    for (node, expanded) in graph.nodes.iter_mut().zip(expanded) {
        node.repeats = expanded.repeats;
    }
    let mut compilation = Compilation { graph, left: MAX_COPIES, open: vec![false; numbers.len()] };
    for number in numbers.filter(|number| graph.nodes[*number].is_unevaluated) {
        let compiled = compilation.follow(number, true, 1);
        compiled.map_err(|problem| (graph.places[number].clone(), problem))?;
    }
    Ok(MAX_COPIES - compilation.left)
}

/// Expansion of the subschemas that meet one value. Each is expanded once.
struct Expansion<'g> {
    graph: &'g Graph,
    known: Vec<Option<Expanded>>,
}

/// A subschema with all subschemas that it applies to the same value.
#[derive(Clone, Copy)]
struct Expanded {
    /// Number of evaluations of the value.
    evaluations: u64,
    /// Number of subschemas inside each other.
    height: u64,
    repeats: u64,
}

impl Expansion<'_> {
    /// Expands a subschema at the depth `nesting`.
    fn expand(&mut self, number: usize, nesting: u64) -> Result<Expanded, Misplaced> {
        if let Some(known) = self.known[number] {
            return Ok(known);
        }
        let graph = self.graph;
        let node = &graph.nodes[number];
        // Ends the recursion where a reference leads back to a subschema that contains it.
        if nesting > MAX_NESTING {
            return Err(self.misplaced(number, Problem::TooNested));
        }
        let mut inner = 0_u64;
        let mut height = 1;
        for (edge, child) in &node.edges {
            if !matches!(edge, Edge::Same | Edge::Reference) {
                continue;
            }
            let child = self.expand(*child, nesting + 1)?;
            inner = inner.saturating_add(child.evaluations);
            height = height.max(child.height + 1);
        }
        // For an `unevaluated` keyword, the inner subschemas are evaluated again, and those inside
        // them once more for each level.
        let repeats = if node.is_unevaluated { 2 + height } else { 1 };
        let evaluations = inner.saturating_mul(repeats).saturating_add(1);
        if height > MAX_NESTING {
            return Err(self.misplaced(number, Problem::TooNested));
        }
        if evaluations > MAX_EVALUATIONS {
            return Err(self.misplaced(number, Problem::TooManyEvaluations));
        }
        let expanded = Expanded { evaluations, height, repeats };
        self.known[number] = Some(expanded);
        Ok(expanded)
    }

    fn misplaced(&self, number: usize, problem: Problem) -> Misplaced {
        (self.graph.places[number].clone(), problem)
    }
}

/// Compilation for `unevaluated` keywords. `jsonschema` compiles the target of a reference again
/// for each path on which such a keyword follows it.
struct Compilation<'g> {
    graph: &'g Graph,
    left: usize,
    /// True for the target of each reference that is being followed. Such a target is not compiled
    /// again inside itself.
    open: Vec<bool>,
}

impl Compilation<'_> {
    /// Counts the subschemas that are compiled for a subschema at the depth `nesting`. References
    /// are followed if `looks` is true: if an `unevaluated` keyword looks at the same value.
    fn follow(&mut self, number: usize, looks: bool, nesting: u64) -> Result<(), Problem> {
        let graph = self.graph;
        let node = &graph.nodes[number];
        self.left = self.left.checked_sub(1).ok_or(Problem::TooEntangled)?;
        if nesting > MAX_NESTING {
            return Err(Problem::TooEntangled);
        }
        let looks = looks || node.is_unevaluated;
        for (edge, child) in &node.edges {
            match edge {
                Edge::Same => self.follow(*child, looks, nesting + 1)?,
                Edge::Reference if looks => {
                    if !std::mem::replace(&mut self.open[*child], true) {
                        self.follow(*child, true, nesting + 1)?;
                        self.open[*child] = false;
                    }
                }
                // `jsonschema` compiles the target once for all other references.
                Edge::Reference => {}
                _ => self.follow(*child, false, nesting + 1)?,
            }
        }
        Ok(())
    }
}
