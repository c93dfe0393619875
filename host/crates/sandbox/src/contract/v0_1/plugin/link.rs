//! Linking of the imports that only plugins have.

use std::time::Duration;

use airlock_egress as egress;
use airlock_store as store;
use wasmtime::component::{Linker, Resource, ResourceType};

use super::{
    bindings::airlock::host::{
        http::{
            Header, HttpError, HttpErrorKind, Redirects, Request as HttpRequest,
            Response as HttpResponse,
        },
        kv::{Entry, KeyPage, KvError as GuestKvError},
        secrets_reveal::SecretError as GuestSecretError,
    },
    convert,
};
use crate::{
    contract::v0_1::{
        bindings::{
            tools::{CallRequest, ToolPage, ToolSummary},
            types::{Content, ToolDescriptor, ToolError},
        },
        convert::error_for_guest,
        link::{GuestResult, answer_for_guest, link_log},
    },
    plugin::{
        imports::{
            config, context, http,
            kv::{self, KvFailure, OpenStore},
            secrets::{self, SecretError},
            tools,
        },
        side::{CallHandle, PluginSide},
    },
    run::state::{State, Store},
};

/// Links the imports of a plugin.
pub(crate) fn link(linker: &mut Linker<State<PluginSide>>) -> wasmtime::Result<()> {
    link_log(linker)?;
    link_tools(linker)?;
    link_context(linker)?;
    link_config(linker)?;
    link_secrets(linker)?;
    link_kv(linker)?;
    link_http(linker)
}

fn link_context(linker: &mut Linker<State<PluginSide>>) -> wasmtime::Result<()> {
    type Context = Resource<CallHandle>;
    let mut interface = linker.instance("airlock:host/context@0.1.0")?;
    interface.resource(
        "call-context",
        ResourceType::host::<CallHandle>(),
        |mut store, handle| {
            store.data_mut().running.table.delete(Context::new_own(handle))?;
            Ok(())
        },
    )?;
    interface.func_wrap(
        "[method]call-context.id",
        |mut store: Store<'_, PluginSide>, (_,): (Context,)| Ok((context::id(&mut store)?,)),
    )?;
    interface.func_wrap(
        "[method]call-context.remaining-ms",
        |mut store: Store<'_, PluginSide>, (_,): (Context,)| {
            Ok((Some(context::remaining_ms(&mut store)?),))
        },
    )?;
    interface.func_wrap(
        "[method]call-context.progress",
        |mut store: Store<'_, PluginSide>,
         (_, done, total, message): (Context, f64, Option<f64>, Option<String>)| {
            context::progress(&mut store, done, total, message)
        },
    )?;
    interface.func_wrap_async(
        "[method]call-context.emit",
        |mut store: Store<'_, PluginSide>, (_, part): (Context, Content)| {
            Box::new(async move {
                let bytes = convert::content_json_bytes(&part);
                context::emit(&mut store, bytes, move || Ok(convert::content_from_guest(part)?))
                    .await
            })
        },
    )
}

fn link_config(linker: &mut Linker<State<PluginSide>>) -> wasmtime::Result<()> {
    let mut config = linker.instance("airlock:host/config@0.1.0")?;
    config.func_wrap("get", |mut store: Store<'_, PluginSide>, (key,): (String,)| {
        Ok((config::get(&mut store, &key)?,))
    })?;
    config.func_wrap("get-all", |mut store: Store<'_, PluginSide>, (): ()| {
        Ok((config::get_all(&mut store)?,))
    })
}

fn link_secrets(linker: &mut Linker<State<PluginSide>>) -> wasmtime::Result<()> {
    let mut secrets = linker.instance("airlock:host/secrets@0.1.0")?;
    secrets.func_wrap("exists", |mut store: Store<'_, PluginSide>, (name,): (String,)| {
        Ok((secrets::exists(&mut store, &name)?,))
    })?;
    let mut reveal = linker.instance("airlock:host/secrets-reveal@0.1.0")?;
    reveal.func_wrap("reveal", |mut store: Store<'_, PluginSide>, (name,): (String,)| {
        let revealed = secrets::reveal(&mut store, &name)?;
        Ok((revealed.map_err(|error| match error {
            SecretError::NoSuchSecret => GuestSecretError::NoSuchSecret,
            SecretError::Denied => GuestSecretError::Denied,
        }),))
    })
}

fn link_kv(linker: &mut Linker<State<PluginSide>>) -> wasmtime::Result<()> {
    type Handle = Resource<OpenStore>;
    type Set = (Handle, String, Vec<u8>, Option<u64>, Option<u64>);
    type Keys = (Handle, String, Option<String>, u32);
    let mut kv = linker.instance("airlock:host/kv@0.1.0")?;
    kv.resource("store", ResourceType::host::<OpenStore>(), |mut store, handle| {
        kv::close(&mut store, Handle::new_own(handle))
    })?;
    kv.func_wrap("open", |mut store: Store<'_, PluginSide>, (name,): (String,)| {
        Ok((kv::open(&mut store, &name)?.map_err(|error| kv_error_for_guest(&error)),))
    })?;
    kv.func_wrap_async(
        "[method]store.get",
        |store: Store<'_, PluginSide>, (handle, key): (Handle, String)| {
            Box::new(async move {
                let found = kv::get(store, handle, key).await?;
                let found = found.map(|entry| entry.map(entry_for_guest));
                Ok((found.map_err(|error| kv_error_for_guest(&error)),))
            })
        },
    )?;
    kv.func_wrap_async(
        "[method]store.get-many",
        |store: Store<'_, PluginSide>, (handle, keys): (Handle, Vec<String>)| {
            Box::new(async move {
                let found = kv::get_many(store, handle, keys).await?;
                let found = found.map(|found| {
                    found.into_iter().map(|entry| entry.map(entry_for_guest)).collect::<Vec<_>>()
                });
                Ok((found.map_err(|error| kv_error_for_guest(&error)),))
            })
        },
    )?;
    kv.func_wrap_async(
        "[method]store.set",
        |store: Store<'_, PluginSide>, (handle, key, value, if_version, ttl_ms): Set| {
            Box::new(async move {
                let ttl = ttl_ms.map(Duration::from_millis);
                let set = kv::set(store, handle, key, value, if_version, ttl).await?;
                Ok((set.map_err(|error| kv_error_for_guest(&error)),))
            })
        },
    )?;
    kv.func_wrap_async(
        "[method]store.delete",
        |store: Store<'_, PluginSide>, (handle, key, if_version): (Handle, String, Option<u64>)| {
            Box::new(async move {
                let deleted = kv::delete(store, handle, key, if_version).await?;
                Ok((deleted.map_err(|error| kv_error_for_guest(&error)),))
            })
        },
    )?;
    kv.func_wrap_async(
        "[method]store.keys",
        |store: Store<'_, PluginSide>, (handle, prefix, cursor, limit): Keys| {
            Box::new(async move {
                let page = kv::keys(store, handle, prefix, cursor, limit).await?;
                let page = page.map(|page| KeyPage { keys: page.keys, next: page.next });
                Ok((page.map_err(|error| kv_error_for_guest(&error)),))
            })
        },
    )
}

fn entry_for_guest(entry: store::kv::Entry) -> Entry {
    Entry { value: entry.value, version: entry.version }
}

fn kv_error_for_guest(error: &KvFailure) -> GuestKvError {
    match error {
        KvFailure::NoSuchStore => GuestKvError::NoSuchStore,
        KvFailure::Denied => GuestKvError::Denied,
        KvFailure::Other(message) => GuestKvError::Other(message.clone()),
        KvFailure::Store(store::kv::KvError::QuotaExceeded) => GuestKvError::QuotaExceeded,
        // `quota-exceeded` tells a guest to delete other entries, which would not help here.
        KvFailure::Store(
            store::kv::KvError::TooLarge | store::kv::KvError::LargerThanQuota { .. },
        ) => GuestKvError::TooLarge,
        KvFailure::Store(store::kv::KvError::Conflict) => GuestKvError::Conflict,
        // The cause of a disk error is for the operator only.
        KvFailure::Store(error @ store::kv::KvError::Unavailable(_)) => {
            GuestKvError::Unavailable(error.to_string())
        }
    }
}

fn link_http(linker: &mut Linker<State<PluginSide>>) -> wasmtime::Result<()> {
    let mut http = linker.instance("airlock:host/http@0.1.0")?;
    http.func_wrap_async("send", |store: Store<'_, PluginSide>, (request,): (HttpRequest,)| {
        Box::new(async move {
            let sent = http::send(store, http_request_from_guest(request)).await?;
            Ok((sent.map(http_response_for_guest).map_err(|error| http_error_for_guest(&error)),))
        })
    })
}

fn http_request_from_guest(request: HttpRequest) -> egress::EgressRequest {
    egress::EgressRequest {
        method: request.method,
        url: request.url,
        headers: request.headers.into_iter().map(|header| (header.name, header.value)).collect(),
        body: request.body.map(Into::into),
        timeout: request.timeout_ms.map(Duration::from_millis),
        max_response_bytes: request.max_response_bytes,
        credentials: request.credentials,
        redirects: match request.redirects {
            Redirects::Follow => egress::Redirects::Follow,
            Redirects::Manual => egress::Redirects::Manual,
        },
    }
}

fn http_response_for_guest(response: egress::EgressResponse) -> HttpResponse {
    HttpResponse {
        status: response.status,
        headers: response.headers.into_iter().map(|(name, value)| Header { name, value }).collect(),
        body: response.body,
        final_url: response.final_url,
    }
}

fn http_error_for_guest(error: &egress::EgressError) -> HttpError {
    let egress::EgressError { kind, message, request_sent, .. } = error;
    HttpError { kind: (*kind).into(), message: message.to_string(), request_sent: *request_sent }
}

same_variants!(egress::EgressErrorKind => HttpErrorKind {
    Denied InvalidRequest Dns Connect Tls Timeout TooLarge TooManyRedirects Protocol Unavailable LimitReached Other
});

fn link_tools(linker: &mut Linker<State<PluginSide>>) -> wasmtime::Result<()> {
    let mut tools = linker.instance("airlock:host/tools@0.1.0")?;
    tools.func_wrap(
        "list",
        |mut store: Store<'_, PluginSide>, (cursor, limit): (Option<String>, u32)| {
            let page = tools::list(&mut store, cursor.as_deref(), limit)?;
            let page = page.map(|page| page_for_guest(&page));
            Ok((page.map_err(error_for_guest) as Result<ToolPage, ToolError>,))
        },
    )?;
    tools.func_wrap("describe", |mut store: Store<'_, PluginSide>, (name,): (String,)| {
        let found = tools::describe(&mut store, name)?;
        let found = found.map(|found| convert::descriptor_for_guest(found.name, &found.tool));
        Ok((found.map_err(error_for_guest) as Result<ToolDescriptor, ToolError>,))
    })?;
    tools.func_wrap_async("call", |store: Store<'_, PluginSide>, (request,): (CallRequest,)| {
        Box::new(async move {
            Ok((answer_for_guest(tools::call(store, request_from_guest(request)).await?),))
        })
    })?;
    tools.func_wrap_async(
        "call-batch",
        |store: Store<'_, PluginSide>, (requests,): (Vec<CallRequest>,)| {
            Box::new(async move {
                let requests = requests.into_iter().map(request_from_guest).collect();
                let answers = tools::call_batch(store, requests).await?;
                Ok((answers.into_iter().map(answer_for_guest).collect::<Vec<GuestResult>>(),))
            })
        },
    )
}

fn page_for_guest(page: &tools::ListedTools) -> ToolPage {
    let items = page.items.iter().map(|item| ToolSummary {
        name: item.name.clone(),
        title: item.tool.title.clone(),
        description: item.tool.description.clone(),
    });
    ToolPage { items: items.collect(), next: page.next.clone() }
}

fn request_from_guest(request: CallRequest) -> tools::ToolRequest {
    tools::ToolRequest {
        name: request.name,
        arguments: request.arguments,
        timeout: request.timeout_ms.map(Duration::from_millis),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_value_that_no_deletion_makes_room_for_is_too_large_and_not_beyond_the_quota() {
        let larger = store::kv::KvError::LargerThanQuota { bytes: 2, quota: 1 };
        assert!(matches!(for_guest(larger), GuestKvError::TooLarge));
        assert!(matches!(for_guest(store::kv::KvError::TooLarge), GuestKvError::TooLarge));
        assert!(matches!(
            for_guest(store::kv::KvError::QuotaExceeded),
            GuestKvError::QuotaExceeded
        ));
    }

    fn for_guest(error: store::kv::KvError) -> GuestKvError {
        kv_error_for_guest(&KvFailure::Store(error))
    }
}
