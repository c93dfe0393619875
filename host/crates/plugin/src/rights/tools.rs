//! The other tools that a plugin may call: those that the operator bound to its slots, and those that
//! the operator granted by full name.

use std::collections::{BTreeMap, BTreeSet};

use super::Intersection;
use crate::Request;

impl Intersection<'_> {
    /// Returns the slots, each with the full name of the tool that is bound to it.
    pub(super) fn slots(&mut self) -> BTreeMap<String, Option<String>> {
        let grant = self.grant;
        let Some(requests) = self.requests else {
            let bound = grant.slots.iter();
            return bound.map(|(slot, tool)| (slot.clone(), Some(tool.clone()))).collect();
        };
        for slot in grant.slots.keys().filter(|slot| !requests.slot.contains_key(*slot)) {
            self.unrequested(&format!("grants.slot.{slot}"));
        }
        for (slot, request) in &requests.slot {
            if grant.slots.contains_key(slot) {
                continue;
            }
            let request = Request::Slot(slot, request);
            let remedy = format!("bind a tool to it with \"slot\": {{{slot:?}: \"CLIENT-TOOL\"}}");
            self.missing(&request, request, &remedy);
        }
        let slots = requests.slot.keys();
        slots.map(|slot| (slot.clone(), grant.slots.get(slot).cloned())).collect()
    }

    /// Returns the tools that are granted by full name.
    pub(super) fn tools(&mut self) -> BTreeSet<String> {
        let request = self.requests.map(|requests| requests.tools.as_ref());
        let mut tools = BTreeSet::new();
        for (index, tool) in self.grant.tools.iter().enumerate() {
            match request {
                Some(request) if !request.is_some_and(|request| request.call.contains(tool)) => {
                    self.unrequested(&format!("grants.tools[{index}]"));
                }
                _ => {
                    tools.insert(tool.clone());
                }
            }
        }
        if let Some(Some(request)) = request {
            for tool in request.call.iter().filter(|tool| !tools.contains(*tool)) {
                let right = format!("the tool {tool}");
                let remedy = format!("grant it with \"tools\": [{tool:?}]");
                self.missing(&right, Request::Tools(request), &remedy);
            }
        }
        tools
    }
}
