//! Loops: how often they turn depends on what is iterated over, on their conditions, and on what leaves them.

use ruff_python_ast::{Comprehension, Expr, Stmt, StmtFor, StmtWhile};
use ruff_text_size::{Ranged, TextSize};

use super::locals::Locals;
use super::state::FlowAnalysis;
use super::values::{FlowValue, OriginSet};

impl<'a> FlowAnalysis<'a, '_> {
    pub(super) fn for_loop(&mut self, repeated: &'a StmtFor) {
        let iterated = self.expression(&repeated.iter);
        let origins = self.origins(iterated);
        let before = self.depend_on(origins);
        self.enter_loop(repeated.start());
        self.consume(iterated);
        let element = self.part(iterated);
        // Nothing is assigned if there is no element; what was there before is at the head.
        self.assign_target(&repeated.target, element);
        self.body(&repeated.body);
        self.end_loop(repeated.start(), &repeated.orelse, before);
    }

    pub(super) fn while_loop(&mut self, repeated: &'a StmtWhile) {
        let before = self.frame.local;
        self.enter_loop(repeated.start());
        let test = self.expression(&repeated.test);
        let origins = self.origins(test);
        self.depend_on(origins);
        // Later turns depend on it, and with them the next test.
        self.jump(repeated.start(), origins);
        // A test that fails leaves the loop with what it has assigned.
        if let Some((_, left)) = self.frame.loops.last_mut() {
            left.join(&self.frame.locals);
        }
        self.body(&repeated.body);
        self.end_loop(repeated.start(), &repeated.orelse, before);
    }

    /// Begins a turn: any one of them.
    fn enter_loop(&mut self, key: TextSize) {
        let known = self.loops.entry(key).or_default();
        let jumps = known.jumps;
        self.has_grown |= known.head.join(&self.frame.locals);
        self.frame.locals.clone_from(&known.head);
        self.depend_on(jumps);
        self.frame.loops.push((key, Locals::default()));
        self.count(self.frame.locals.len());
    }

    /// Ends a turn, and the loop.
    fn end_loop(&mut self, key: TextSize, orelse: &'a [Stmt], before: OriginSet) {
        if let Some((_, left)) = self.frame.loops.pop() {
            self.meet(&left);
        }
        let known = self.loops.entry(key).or_default();
        self.has_grown |= known.head.join(&self.frame.locals);
        self.frame.locals.clone_from(&known.head);
        self.body(orelse);
        self.frame.local = before;
    }

    /// Takes note that the turns of a loop depend on something.
    pub(super) fn jump(&mut self, key: TextSize, origins: OriginSet) {
        self.has_grown |= self.loops.entry(key).or_default().jumps.grow(origins);
    }

    /// Leaves a turn.
    pub(super) fn leave_turn(&mut self) {
        let control = self.local_control();
        if !self.count(self.frame.locals.len()) {
            return;
        }
        let Some((key, left)) = self.frame.loops.last_mut() else { return };
        left.join(&self.frame.locals);
        let key = *key;
        self.jump(key, control);
    }

    /// Reads elements of a value. Of an iterator, others are read next.
    pub(super) fn consume(&mut self, value: FlowValue) {
        let iterators = self.heap.iterators_in(value);
        let control = self.control();
        self.heap.write(iterators, FlowValue::plain(control));
    }

    /// Computes the elements of a comprehension. Returns them, joined.
    pub(super) fn turns(
        &mut self,
        generators: &'a [Comprehension],
        scope: usize,
        element: impl FnOnce(&mut Self) -> FlowValue,
    ) -> FlowValue {
        let before = self.frame.local;
        let outer = self.frame.scope;
        self.frame.doubts += 1;
        for (at, generator) in generators.iter().enumerate() {
            if at == 1 {
                self.frame.scope = scope;
            }
            let iterated = self.expression(&generator.iter);
            self.frame.scope = scope;
            let origins = self.origins(iterated);
            self.depend_on(origins);
            self.consume(iterated);
            let part = self.part(iterated);
            self.assign_target(&generator.target, part);
            for condition in &generator.ifs {
                self.condition(condition);
            }
        }
        self.frame.scope = scope;
        let value = element(self).with_origins(self.local_control());
        self.frame.scope = outer;
        self.frame.doubts -= 1;
        self.frame.local = before;
        value
    }

    fn condition(&mut self, condition: &'a Expr) {
        let value = self.expression(condition);
        let origins = self.origins(value);
        self.depend_on(origins);
    }
}
