//! Inspections of components: compiled with nothing granted, and asked for their tools.

use std::sync::Arc;

use http::StatusCode;

use super::{
    inspected::{Inspected, Purpose},
    unusable,
};
use crate::{
    gateway::{Apply, NotApplied},
    refusal::{Result, busy, conflict, invalid, refusal},
    service::Service,
};
use airlock_plugin::InspectError;
use airlock_store::components::ComponentDigest;
use airlock_strings::with_causes;

impl Service {
    /// Returns the running gateway. Fails for a command that has only the store.
    pub(super) fn running(&self) -> Result<&dyn Apply> {
        self.gateway.as_deref().ok_or_else(|| {
            let message =
                "components are compiled and inspected by a running gateway, and none runs";
            refusal(StatusCode::SERVICE_UNAVAILABLE, "gateway_required", message)
        })
    }

    /// Inspects a component that was uploaded. Fails if no gateway could load it.
    pub(super) async fn inspect_uploaded(&self, component: Arc<[u8]>) -> Result<Arc<Inspected>> {
        let _turn = self.inspections.turn(Purpose::Change).await?;
        self.inspect(component).await
    }

    /// Reads a component from the store, and inspects it unless that was done before. Fails if the store
    /// does not have it.
    pub(super) async fn inspect_stored(
        &self,
        digest: ComponentDigest,
        purpose: Purpose,
    ) -> Result<Arc<Inspected>> {
        if let Some(inspected) = self.inspections.find(digest) {
            return Ok(inspected);
        }
        let _turn = self.inspections.turn(purpose).await?;
        // Another request may have inspected it meanwhile.
        if let Some(inspected) = self.inspections.find(digest) {
            return Ok(inspected);
        }
        let component = self.database().await?.component(digest).await?;
        let component = component.ok_or_else(|| {
            conflict(format!("the store does not have the component {digest}: upload it again"))
        })?;
        self.inspect(component.into()).await
    }

    /// Inspects the accepted component of a plugin. `None` if there is none, and if it cannot be read or
    /// used any more, so that another one can be accepted in its place, with the operator's consent.
    pub(super) async fn inspect_accepted(
        &self,
        accepted: Option<ComponentDigest>,
    ) -> Result<Option<Arc<Inspected>>> {
        let Some(digest) = accepted else { return Ok(None) };
        match self.inspect_stored(digest, Purpose::Change).await {
            Ok(inspected) => Ok(Some(inspected)),
            Err(refused) if refused.status.is_server_error() => Err(refused),
            Err(_) => Ok(None),
        }
    }

    /// Inspects a component. The caller has the turn.
    async fn inspect(&self, component: Arc<[u8]>) -> Result<Arc<Inspected>> {
        let bytes = component.len();
        let inspected = self.running()?.inspect(component).await;
        let metadata = inspected.map_err(|error| match error {
            InspectError::Busy => busy("compiler_busy", error.to_string()),
            InspectError::Slow | InspectError::Plugin(_) => {
                let reason = NotApplied(with_causes(&error));
                unusable("component_unusable", "the component cannot be used", &reason)
            }
        })?;
        let digest = metadata.digest.parse();
        let digest = digest.map_err(|_| invalid("the component has no digest of this store"))?;
        let inspected = Arc::new(Inspected { digest, bytes, metadata });
        self.inspections.keep(&inspected);
        Ok(inspected)
    }
}
