//! The world `tool-plugin` of this version, over the functions in `plugin::imports`.

mod bindings;
mod convert;
mod link;
mod results;

use airlock_core::tool::{ToolDefinition, ToolError};
use futures_util::future::BoxFuture;
use wasmtime::{
    Store,
    component::{ComponentExportIndex, InstancePre, Resource},
};

pub(crate) use self::link::link;
use self::{
    bindings::ToolPluginPre,
    results::{read_error, read_output},
};
use crate::{
    contract::v0_1::{bindings::types as wit, exported::exported_function},
    plugin::{
        descriptors,
        side::{CallHandle, PluginSide},
        tool_guest::{Returned, ToolGuest},
    },
    run::state::State,
};

/// Interface with the functions of a plugin.
const TOOLS: &str = "airlock:plugin/tools@0.1.0";

/// Parameters of the function `invoke`.
type InvokeParameters<'a> = (&'a str, &'a str, Resource<CallHandle>);
/// Results of the function `invoke`.
type InvokeResult = (Result<wit::ToolOutput, wit::ToolError>,);

/// A plugin of this version.
struct Guest {
    plugin: ToolPluginPre<State<PluginSide>>,
    invoke: ComponentExportIndex,
}

/// Checks the exports. The imports are linked already.
pub(crate) fn open(pre: InstancePre<State<PluginSide>>) -> wasmtime::Result<Box<dyn ToolGuest>> {
    let plugin = ToolPluginPre::new(pre)?;
    let invoke = exported_function(plugin.instance_pre().component(), TOOLS, "invoke")?;
    Ok(Box::new(Guest { plugin, invoke }))
}

impl ToolGuest for Guest {
    fn describe<'a>(
        &'a self,
        store: &'a mut Store<State<PluginSide>>,
    ) -> BoxFuture<'a, wasmtime::Result<Result<Vec<ToolDefinition>, String>>> {
        Box::pin(async move {
            let plugin = self.plugin.instantiate_async(&mut *store).await?;
            let described = plugin.airlock_plugin_tools().call_describe(store).await?;
            match described {
                Ok(tools) => {
                    // Checked before parsing, as with embedded descriptors.
                    let bytes = convert::schema_bytes(&tools);
                    if bytes > descriptors::MAX_BYTES {
                        return Ok(Err(format!(
                            "{bytes} bytes of schemas; the limit is {}",
                            descriptors::MAX_BYTES
                        )));
                    }
                    let tools: Result<Vec<_>, _> =
                        tools.into_iter().map(convert::definition_from_guest).collect();
                    Ok(Ok(tools?))
                }
                Err(refusal) => Ok(Err(refusal)),
            }
        })
    }

    fn invoke<'a>(
        &'a self,
        store: &'a mut Store<State<PluginSide>>,
        tool: &'a str,
        arguments: &'a str,
    ) -> BoxFuture<'a, wasmtime::Result<Result<Returned, ToolError>>> {
        Box::pin(async move {
            let plugin = self.plugin.instance_pre().instantiate_async(&mut *store).await?;
            let invoke = plugin
                .get_typed_func::<InvokeParameters<'_>, InvokeResult>(&mut *store, &self.invoke)?;
            let context = store.data_mut().running.table.push(CallHandle)?;
            let (answer,) = invoke.call_async(&mut *store, (tool, arguments, context)).await?;
            let state = store.data_mut();
            Ok(match answer {
                Ok(output) => {
                    let mut output = read_output(state, output).await?;
                    let emitted = std::mem::take(&mut state.running.emitted);
                    let count = emitted.len();
                    output.content.splice(..0, emitted);
                    Ok(Returned { output, emitted: count })
                }
                Err(error) => {
                    let mut error = read_error(state, error).await?;
                    error.content.splice(..0, std::mem::take(&mut state.running.emitted));
                    Err(error)
                }
            })
        })
    }
}
