//! Statements that catch failures: how far their bodies come depends on everything that is computed there.

use ruff_python_ast::{ExceptHandler, StmtTry, StmtWith};
use ruff_text_size::{Ranged, TextSize};

use super::heap::SiteKey;
use super::scopes::place;
use super::state::FlowAnalysis;
use super::values::{FlowValue, OriginSet};

impl<'a> FlowAnalysis<'a, '_> {
    pub(super) fn try_statement(&mut self, caught: &'a StmtTry) {
        let before = self.frame.local;
        let computed = self.guard(caught.start(), |analysis| analysis.body(&caught.body));
        // In doubt, variables keep what they had, so these are the values at every place of the body.
        let start = self.frame.locals.clone();
        let is_followed = usize::from(!caught.finalbody.is_empty());
        self.frame.doubts += is_followed;
        self.body(&caught.orelse);
        let mut ends = vec![std::mem::replace(&mut self.frame.locals, start.clone())];
        for handler in &caught.handlers {
            let ExceptHandler::ExceptHandler(handler) = handler;
            self.frame.locals.clone_from(&start);
            if let Some(kind) = &handler.type_ {
                self.expression(kind);
            }
            if let Some(name) = &handler.name {
                let sites = self.heap.site(SiteKey::Exceptions);
                let failure = self.part(FlowValue { origins: computed, sites });
                self.assign_name(name.as_str(), failure);
            }
            self.body(&handler.body);
            self.count(start.len());
            ends.push(std::mem::take(&mut self.frame.locals));
        }
        self.frame.doubts -= is_followed;
        self.frame.locals = start;
        for end in &ends {
            self.meet(end);
        }
        self.frame.local = before;
        self.body(&caught.finalbody);
    }

    pub(super) fn with_statement(&mut self, entered: &'a StmtWith) {
        let before = self.frame.local;
        self.guard(entered.start(), |analysis| {
            for item in &entered.items {
                let value = analysis.expression(&item.context_expr);
                if let Some(target) = &item.optional_vars {
                    let made = analysis.heap.site(SiteKey::At(place(&item.context_expr)));
                    analysis.heap.write(made, value);
                    let value = analysis.part(value.with_sites(made));
                    analysis.assign_target(target, value);
                }
            }
            analysis.body(&entered.body);
        });
        self.frame.local = before;
    }

    /// Looks at a body whose failures are caught. Returns what it computes, on which everything depends now.
    pub(super) fn guard(&mut self, key: TextSize, body: impl FnOnce(&mut Self)) -> OriginSet {
        let known = self.tries.get(&key).copied().unwrap_or_default();
        self.depend_on(known);
        let seen = std::mem::take(&mut self.frame.seen);
        self.frame.doubts += 1;
        body(self);
        self.frame.doubts -= 1;
        let computed = self.frame.seen;
        self.frame.seen = seen.with(computed);
        self.has_grown |= self.tries.entry(key).or_default().grow(computed);
        self.depend_on(computed);
        computed
    }
}
