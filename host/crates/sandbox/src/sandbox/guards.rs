//! The guards of a sandbox.

use std::sync::Arc;

use super::Sandbox;
use crate::{Guard, Limits, LoadError};

impl Sandbox {
    /// Compiles and links a guard with these settings, the JSON text of an object, which
    /// [`Guard::check_settings`] checks. Fails if the component is none, or imports anything. The sandbox has the
    /// instances for guards that [`Settings::guard_instances`](crate::Settings::guard_instances) says.
    pub async fn guard(
        &self,
        wasm: Arc<[u8]>,
        limits: Limits,
        settings: Arc<str>,
    ) -> Result<Guard, LoadError> {
        let component = self.0.compiler.component(wasm).await?;
        let engine = self.0.engine.clone();
        let memory = self.0.memory.clone();
        // Blocking: it walks the component.
        tokio::task::spawn_blocking(move || {
            Guard::new(engine, memory, &component, limits, settings)
        })
        .await
        .unwrap_or_else(|panic| Err(LoadError::Compile(panic.into())))
    }
}
