//! The state of an analysis: what only grows from one pass over the script to the next, and the body that is looked at.

use std::collections::{BTreeMap, BTreeSet};

use airlock_executor::{Bindings, ToolFlow};
use ruff_python_ast::Stmt;
use ruff_text_size::TextSize;

use super::functions::FlowFunction;
use super::heap::FlowHeap;
use super::locals::Locals;
use super::scopes::{FlowScopes, Place};
use super::tools::CalledTools;
use super::values::{FlowValue, OriginSet};

/// Passes over a script, at most. Values take a pass for each loop and each function on their way back. A script that takes
/// more is not analysed: each of its arguments may then come from every result.
const MAX_PASSES: usize = 40;
/// Nodes and objects that are looked at, at most: twenty times as many as a script of 64 KiB has nodes. It
/// takes less than 0.1 G fuel.
const MAX_STEPS: usize = 400_000;
/// Depth of statements and expressions, at most. The analysis is recursive, and the sandbox provides 512 KiB of stack.
const MAX_DEPTH: usize = 80;

/// The analysis of one script.
pub(super) struct FlowAnalysis<'a, 'b> {
    pub(super) bindings: &'b Bindings,
    pub(super) is_input: &'b dyn Fn(&str) -> bool,
    pub(super) scopes: FlowScopes<'a>,
    pub(super) heap: FlowHeap<'a>,
    pub(super) tools: CalledTools,
    pub(super) functions: Vec<FlowFunction<'a>>,
    pub(super) function_ids: BTreeMap<Place, usize>,
    /// Values of variables that several bodies use.
    pub(super) cells: Vec<FlowValue>,
    pub(super) loops: BTreeMap<TextSize, FlowLoop>,
    /// The values that the bodies of statements compute which catch failures.
    pub(super) tries: BTreeMap<TextSize, OriginSet>,
    /// The values that decide whether any part of the script runs.
    pub(super) any_control: OriginSet,
    /// The values that decide whether a function ends the script.
    pub(super) exits: OriginSet,
    pub(super) has_grown: bool,
    pub(super) steps: usize,
    pub(super) depth: usize,
    pub(super) has_failed: bool,
    /// The calls that are awaited where they are made.
    pub(super) awaited: BTreeSet<Place>,
    pub(super) frame: FlowFrame,
}

/// A loop, as far as it is known.
#[derive(Default)]
pub(super) struct FlowLoop {
    /// Values where a turn begins.
    pub(super) head: Locals,
    /// What decides how far it comes.
    pub(super) jumps: OriginSet,
}

/// The body that is looked at: of the module or of a function.
#[derive(Default)]
pub(super) struct FlowFrame {
    pub(super) scope: usize,
    pub(super) is_function: bool,
    pub(super) locals: Locals,
    /// The values that decide whether the function is called.
    pub(super) entry: OriginSet,
    /// The values that decide whether this place of the body is reached.
    pub(super) local: OriginSet,
    /// What has decided so far that the body has not ended.
    pub(super) rest: OriginSet,
    /// The loops around the place, and the values where they are left.
    pub(super) loops: Vec<(TextSize, Locals)>,
    /// Reasons for which an assignment may not take place, or may be taken back: a variable keeps what it had.
    pub(super) doubts: usize,
    /// What the body has computed.
    pub(super) seen: OriginSet,
    pub(super) returned: FlowValue,
}

impl<'a, 'b> FlowAnalysis<'a, 'b> {
    pub(super) fn new(
        scopes: FlowScopes<'a>,
        bindings: &'b Bindings,
        is_input: &'b dyn Fn(&str) -> bool,
    ) -> Self {
        let cells = vec![FlowValue::default(); scopes.count()];
        Self {
            bindings,
            is_input,
            scopes,
            heap: FlowHeap::default(),
            tools: CalledTools::default(),
            functions: Vec::new(),
            function_ids: BTreeMap::new(),
            cells,
            loops: BTreeMap::new(),
            tries: BTreeMap::new(),
            any_control: OriginSet::default(),
            exits: OriginSet::default(),
            has_grown: false,
            steps: 0,
            depth: 0,
            has_failed: false,
            awaited: BTreeSet::new(),
            frame: FlowFrame::default(),
        }
    }

    /// Looks at the script until nothing is found any more; `None` if that is too much.
    pub(super) fn run(&mut self, body: &'a [Stmt]) -> Option<()> {
        for _ in 0..MAX_PASSES {
            self.has_grown = false;
            self.heap.has_grown = false;
            self.tools.has_grown = false;
            self.frame = FlowFrame::default();
            self.body(body);
            let mut next = 0;
            // A function may define others.
            while next < self.functions.len() {
                self.follow(next);
                next += 1;
            }
            if self.has_failed || self.heap.is_full || self.tools.is_full {
                return None;
            }
            if !self.has_grown && !self.heap.has_grown && !self.tools.has_grown {
                return Some(());
            }
        }
        None
    }

    pub(super) fn into_flows(self) -> Vec<ToolFlow> {
        self.tools.into_flows()
    }

    /// Counts work. Returns whether there may be more.
    pub(super) fn count(&mut self, steps: usize) -> bool {
        self.steps += steps;
        let is_done = self.steps + self.heap.steps > MAX_STEPS || self.depth > MAX_DEPTH;
        self.has_failed |= is_done;
        !self.has_failed
    }

    /// Returns what decides whether this place of the body is reached, once the body runs.
    pub(super) fn local_control(&self) -> OriginSet {
        self.frame.local.with(self.frame.rest)
    }

    /// Returns what decides whether this place is reached.
    pub(super) fn control(&self) -> OriginSet {
        self.local_control().with(self.frame.entry).with(self.exits)
    }

    /// Adds what decides whether something is reached from now on. Returns what did before.
    pub(super) fn depend_on(&mut self, origins: OriginSet) -> OriginSet {
        let before = self.frame.local;
        self.frame.local = before.with(origins);
        before
    }

    pub(super) fn origins(&mut self, value: FlowValue) -> OriginSet {
        self.heap.origins(value)
    }

    /// Returns a value in an object, or the object itself.
    pub(super) fn part(&mut self, value: FlowValue) -> FlowValue {
        FlowValue { sites: self.heap.reachable(value.sites), ..value }
    }

    /// Returns the value of a variable.
    pub(super) fn variable_value(&self, variable: usize) -> FlowValue {
        if self.scopes.variable(variable).is_cell {
            return self.cells[variable];
        }
        self.frame.locals.get(variable).unwrap_or_default()
    }

    /// Adds a value to those that a variable may have.
    pub(super) fn add_to_variable(&mut self, variable: usize, value: FlowValue) {
        self.frame.doubts += 1;
        self.assign_variable(variable, value);
        self.frame.doubts -= 1;
    }

    /// Assigns a value to a variable.
    pub(super) fn assign_variable(&mut self, variable: usize, value: FlowValue) {
        if self.scopes.variable(variable).is_cell {
            let value = value.with_origins(self.control());
            self.has_grown |= self.cells[variable].grow(&value);
            return;
        }
        let value = value.with_origins(self.local_control());
        let local = self.frame.locals.entry(variable);
        if self.frame.doubts > 0 {
            local.grow(&value);
        } else {
            *local = value;
        }
    }

    /// Assigns a value to a name.
    pub(super) fn assign_name(&mut self, name: &str, value: FlowValue) {
        if let Some(variable) = self.scopes.resolve(self.frame.scope, name) {
            self.assign_variable(variable, value);
        }
    }

    /// Joins values with those of another way to the same place.
    pub(super) fn meet(&mut self, others: &Locals) {
        self.count(others.len());
        self.frame.locals.join(others);
    }
}
