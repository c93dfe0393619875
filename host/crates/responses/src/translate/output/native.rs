//! Items of a provider that has the Responses API.

use serde_json::Value;

use super::{ItemStatus, Reasoning, ResponseEvents, Writer};
use airlock_conversation::Object;

impl Writer {
    /// Ends the item that is open as its provider ended it, or adds one that has no deltas.
    pub(super) fn item(&mut self, item: &Object, out: &mut Vec<Object>) {
        match item.get("type").and_then(Value::as_str).unwrap_or_default() {
            "reasoning" => {
                let id = item.get("id").and_then(Value::as_str).unwrap_or_default();
                self.open_native(id, out);
                if let Some(reasoning) = self.reasoning.take() {
                    let mut events = ResponseEvents::new(out, &mut self.sequence);
                    reasoning.close_with(item, &mut self.items, &mut events);
                }
            }
            "message" => {
                let is_cut = item.get("status").is_some_and(|status| status == "incomplete");
                let status = if is_cut { ItemStatus::Incomplete } else { ItemStatus::Completed };
                self.open_message(out);
                if let Some(message) = self.message.take() {
                    let mut events = ResponseEvents::new(out, &mut self.sequence);
                    message.close_with(status, item, &mut self.items, &mut events);
                }
            }
            // They end with their round; the gateway's own calls are not among them.
            "function_call" | "custom_tool_call" => {
                self.calls.values_mut().for_each(|call| call.add_item(item));
            }
            _ => {
                self.close_text(ItemStatus::Completed, out);
                self.items.add(item, &mut ResponseEvents::new(out, &mut self.sequence));
            }
        }
    }

    /// Returns the reasoning item that its provider gave this identifier. Opens it, after other text
    /// is done, if it is not open.
    pub(super) fn open_native<'a>(
        &'a mut self,
        id: &str,
        out: &'a mut Vec<Object>,
    ) -> (&'a mut Reasoning, ResponseEvents<'a>) {
        self.close_message(ItemStatus::Completed, out);
        if self.reasoning.as_ref().is_some_and(|reasoning| !reasoning.is_native(id)) {
            self.close_reasoning(ItemStatus::Completed, out);
        }
        let mut events = ResponseEvents::new(out, &mut self.sequence);
        let reasoning = self
            .reasoning
            .get_or_insert_with(|| Reasoning::open_native(id, &mut self.items, &mut events));
        (reasoning, events)
    }
}
