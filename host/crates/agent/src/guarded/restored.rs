//! Puts originals back in the places of placeholders. Reasoning keeps its placeholders: its signature is about its text.

use std::mem;

use super::{
    ModelReview,
    reply::visit_delta,
    texts::{REASONING, TextVisitor, visit_item},
};
use crate::Failure;
use airlock_conversation::{Delta, Item};
use airlock_core::{door::Placeholders, memory::Charge, threads};

impl ModelReview<'_> {
    /// Puts the originals back into a whole response: into a long one on a blocking thread. Returns whether it had a
    /// placeholder. Fails if there is no memory for the texts: a model may repeat a placeholder without end. The response
    /// is empty if the future is dropped.
    pub(super) async fn restore(
        &self,
        deltas: &mut Vec<Delta>,
        held: &Charge,
    ) -> Result<bool, Failure> {
        if self.exchange.placeholders.is_empty() {
            return Ok(false);
        }
        let tenant = &self.exchange.tenant;
        let bytes = deltas.iter().map(Delta::bytes).fold(0, usize::saturating_add);
        let placeholders = self.exchange.placeholders.clone();
        let taken = mem::take(deltas);
        let counting = threads::read(tenant, bytes, move || counted(taken, &placeholders));
        let (bytes, taken) = counting.await;
        *deltas = taken;
        if bytes == 0 {
            return Ok(false);
        }
        if !held.grow(bytes) {
            return Err(Failure::NoMemory);
        }
        let placeholders = self.exchange.placeholders.clone();
        let taken = mem::take(deltas);
        *deltas = threads::read(tenant, bytes, move || restored(taken, &placeholders)).await;
        Ok(true)
    }
}

/// Returns the bytes of the texts of a response that have placeholders, as they are with the originals, and the response.
fn counted(mut deltas: Vec<Delta>, placeholders: &Placeholders) -> (usize, Vec<Delta>) {
    let mut counter = RestoredBytes { placeholders, bytes: 0 };
    for delta in &mut deltas {
        visit_delta(delta, &mut counter);
    }
    (counter.bytes, deltas)
}

/// Returns a response with the originals.
fn restored(mut deltas: Vec<Delta>, placeholders: &Placeholders) -> Vec<Delta> {
    for delta in &mut deltas {
        visit_delta(delta, &mut Restorer(placeholders));
    }
    deltas
}

/// Puts the originals back into items.
pub(crate) fn restore_items(items: &mut [Item], placeholders: &Placeholders) {
    if !placeholders.is_empty() {
        for item in items {
            visit_item(item, &mut Restorer(placeholders));
        }
    }
}

/// Counts the bytes of the texts that have placeholders, as they are with the originals.
struct RestoredBytes<'p> {
    placeholders: &'p Placeholders,
    bytes: usize,
}

impl TextVisitor for RestoredBytes<'_> {
    fn visit(&mut self, role: &str, text: &mut String) {
        if role != REASONING {
            self.bytes = self.bytes.saturating_add(self.placeholders.restored_bytes(text));
        }
    }
}

/// Puts the originals back into texts.
struct Restorer<'p>(&'p Placeholders);

impl TextVisitor for Restorer<'_> {
    fn visit(&mut self, role: &str, text: &mut String) {
        if role != REASONING
            && let Some(restored) = self.0.restored(text)
        {
            *text = restored;
        }
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use futures_util::FutureExt as _;

    use super::*;
    use airlock_core::{
        door::{Membership, PlaceholderSpan, ReviewedExchange},
        memory::{Limited, MemoryBudget},
        tenant::Tenant,
        threads::INLINE_BYTES,
        tool::GuardHook,
    };

    /// Returns the review of a response to a request that hides an address.
    fn review() -> ModelReview<'static> {
        let placeholders = Arc::new(Placeholders::default());
        let address = "ann@a.example";
        let span = PlaceholderSpan { start: 0, end: address.len(), kind: "email".to_owned() };
        placeholders.replace(address, &[span]).expect("it can have a placeholder");
        let exchange = ReviewedExchange {
            hook: GuardHook::AfterModel,
            model: "demo/m".to_owned(),
            tenant: Tenant::ANONYMOUS,
            membership: Membership::default().into(),
            acts: Arc::default(),
            placeholders,
        };
        ModelReview { guards: None, exchange, fallbacks: Vec::new() }
    }

    fn text(text: &str) -> Delta {
        Delta::Text { choice: 0, text: text.to_owned() }
    }

    #[tokio::test]
    async fn the_originals_are_charged_before_they_are_put_back() {
        for (room, expected) in [(27, "ann@a.example ann@a.example"), (26, "[EMAIL_1] [EMAIL_1]")] {
            let held = MemoryBudget::new(Limited::new(room)).charge();
            let mut deltas = vec![text("[EMAIL_1] [EMAIL_1]"), text("[EMAIL_2]")];
            let restored = review().restore(&mut deltas, &held).await;
            assert_eq!(restored.is_ok(), room == 27);
            assert_eq!(deltas, [text(expected), text("[EMAIL_2]")]);
        }
    }

    #[tokio::test]
    async fn a_long_response_is_restored_on_a_blocking_thread() {
        let held = MemoryBudget::unlimited().charge();
        let mut review = review();
        review.exchange.tenant = Tenant::of_key([7; 32], "long");
        let occupied = threads::occupy(&review.exchange.tenant).await;
        let mut deltas = vec![text(&"[EMAIL_1] ".repeat(INLINE_BYTES / 10 + 1))];
        let mut restoring = Box::pin(review.restore(&mut deltas, &held));
        assert!(restoring.as_mut().now_or_never().is_none());
        drop(occupied);
        assert!(matches!(restoring.await, Ok(true)));
        assert_eq!(deltas, [text(&"ann@a.example ".repeat(INLINE_BYTES / 10 + 1))]);
    }

    #[tokio::test]
    async fn reasoning_keeps_its_placeholders() {
        let held = MemoryBudget::unlimited().charge();
        let reasoning = Delta::Reasoning { choice: 0, text: "[EMAIL_1]".to_owned() };
        let mut deltas = vec![reasoning.clone()];
        assert!(matches!(review().restore(&mut deltas, &held).await, Ok(false)));
        assert_eq!(deltas, [reasoning]);
    }
}
