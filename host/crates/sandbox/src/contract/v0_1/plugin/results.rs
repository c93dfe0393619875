//! Reading of results and errors of plugins: within the memory of the tenant, and on a blocking thread if their
//! JSON is long.

use airlock_core::{
    threads,
    tool::{ToolError, ToolOutput},
};

use super::convert;
use crate::{contract::v0_1::bindings::types as wit, plugin::side::PluginSide, run::state::State};

/// Converts a result. Fails if it is malformed or larger than results may be.
pub(super) async fn read_output(
    state: &mut State<PluginSide>,
    output: wit::ToolOutput,
) -> wasmtime::Result<ToolOutput> {
    let bytes = convert::least_bytes(&output);
    // Checked before parsing: a parsed document takes many times the memory of its text.
    state.check_result_bytes(bytes)?;
    let tenant = state.call.tenant().clone();
    let counting = threads::read(&tenant, bytes, move || (convert::tree_bytes(&output), output));
    let (tree_bytes, output) = counting.await;
    state.hold_part(tree_bytes)?;
    Ok(threads::read(&tenant, bytes, move || convert::output_from_guest(output)).await?)
}

/// Converts an error that the tool returned.
pub(super) async fn read_error(
    state: &mut State<PluginSide>,
    error: wit::ToolError,
) -> wasmtime::Result<ToolError> {
    let limit = state.running.emit_bytes_left;
    let bytes = convert::error_bytes(&error);
    let tenant = state.call.tenant().clone();
    let scrubber = state.call.guest.rights.grants.scrubber.clone();
    let counting =
        threads::read(&tenant, bytes, move || (convert::error_tree_bytes(&error, limit), error));
    let (tree_bytes, error) = counting.await;
    state.hold_part(tree_bytes)?;
    let reading =
        threads::read(&tenant, bytes, move || convert::error_from_guest(error, &scrubber, limit));
    Ok(reading.await)
}

#[cfg(test)]
mod tests {
    use airlock_core::{
        tenant::Tenant,
        threads::INLINE_BYTES,
        tool::{Content, ErrorKind, HostCode},
    };
    use futures_util::FutureExt as _;

    use super::*;
    use crate::{
        Limits,
        contract::v0_1::convert::error_for_guest,
        plugin::imports::http::tests::{run, run_with},
    };

    #[tokio::test]
    async fn long_json_is_read_on_a_thread_and_short_json_is_not() {
        run(None, Limits::PLUGIN, async |_, store| {
            // Without a chain, the gateway itself calls.
            let held = threads::occupy(&Tenant::GATEWAY).await;
            let state = store.data_mut();
            assert!(read_output(state, output_of("[1]".to_owned())).now_or_never().is_some());
            assert!(read_error(state, error_with("[1]".to_owned())).now_or_never().is_some());
            assert!(read_output(state, output_of(long())).now_or_never().is_none());
            assert!(read_error(state, error_with(long())).now_or_never().is_none());
            drop(held);
            let output = read_output(state, output_of(long())).await?;
            assert_eq!(output.structured.map(|value| value.to_string()), Some(long()));
            assert_eq!(read_error(state, error_with(long())).await?.message, "m");
            Ok(())
        })
        .await
        .expect("it returns");
    }

    #[tokio::test]
    async fn json_of_an_error_is_parsed_only_if_there_is_memory_for_its_tree() {
        let json = format!("[{}0]", "[0],".repeat(1_000));
        for (memory_bytes, fits) in [(64 << 10, false), (1 << 20, true)] {
            let error = error_with(json.clone());
            let read = run_with(memory_bytes, None, Limits::PLUGIN, async |_, store| {
                read_error(store.data_mut(), error).await
            });
            match read.await {
                Ok(_) => assert!(fits),
                Err(error) => assert!(!fits && error.code() == HostCode::Busy, "{error}"),
            }
        }
    }

    fn long() -> String {
        format!("[{}0]", "0,".repeat(INLINE_BYTES / 2))
    }

    fn output_of(json: String) -> wit::ToolOutput {
        wit::ToolOutput {
            content: Vec::new(),
            structured_content: Some(json),
            meta: None,
            extra: None,
        }
    }

    fn error_with(json: String) -> wit::ToolError {
        let content = vec![Content::text("c")];
        let error = ToolError { content, ..ToolError::new(ErrorKind::Other, "m") };
        let mut error = error_for_guest(error.into());
        error.content[0].extra = Some(json);
        error
    }
}
