//! `providers`, as written.

use std::{collections::BTreeMap, path::PathBuf};

use schemars::JsonSchema;
use serde::Deserialize;

use super::{
    private_key::PrivateKey,
    ranged::{Count, DAY, Flag, MILLISECOND, MINUTE, SECOND, Time},
};
use crate::env_text::EnvText;

/// One model provider.
#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Provider {
    /// Kind of provider. Default: the kind that a known name implies, such as `openai`, `anthropic`
    /// or `groq`. The name `gemini` implies `openai`: Gemini's endpoint for OpenAI's clients.
    pub kind: Option<ProviderKind>,
    /// For services: URL of the API, up to and including the version, as in `/v1`; may be
    /// `env.NAME`. For `azure`, the endpoint of the resource, as in
    /// `https://NAME.openai.azure.com`. Default: the URL that a known name implies, or the endpoint of
    /// the `region` or `location`; required for other names.
    pub base_url: Option<EnvText>,
    /// For clouds (`azure`, `bedrock`, `vertex`): the cloud's own name of each model, such as that of a
    /// deployment, by the names that requests have. A model that is not listed has the cloud's own name.
    /// `GET /v1/models` lists these names.
    pub deployments: Option<BTreeMap<String, String>>,
    /// For kind `azure`: dated version of the API, as in `2024-10-21`. Default: the v1 API, which has
    /// no dates.
    pub api_version: Option<String>,
    /// For kind `bedrock`: region, as in `eu-central-1`; may be `env.NAME`.
    pub region: Option<EnvText>,
    /// For kind `vertex`: project of Google Cloud; may be `env.NAME`.
    pub project: Option<EnvText>,
    /// For kind `vertex`: location, as in `europe-west1`, `eu` or `global`; may be `env.NAME`.
    pub location: Option<EnvText>,
    /// For kind `vertex`: publisher of the models, whose API the provider has. Default: `google`.
    pub publisher: Option<ProviderPublisher>,
    /// For kinds `openai` and `azure`: the APIs of OpenAI that the service has. A request is sent in
    /// the API in which it came if the service has that one, and is translated otherwise. Default:
    /// `["chat"]`; for the name `openai` without a URL of its own, both.
    pub apis: Option<Vec<ProviderApi>>,
    /// For services: the only key, for all models; may be `env.NAME`. Short for `keys` with one
    /// element.
    pub api_key: Option<EnvText>,
    /// For services: the keys. A request takes one that serves its model, at random by weight.
    pub keys: Option<Vec<ProviderKey>>,
    /// For services: headers that are added to every request; values may be `env.NAME`.
    pub headers: Option<BTreeMap<String, EnvText>>,
    /// For services: time limits.
    pub timeouts: Option<ProviderTimeouts>,
    /// For services: repetition of requests that failed before the response began.
    pub retries: Option<ProviderRetries>,
    /// For services: true to send images in the results of tools as content parts of the tool
    /// message; false for a note in the place of each. Default: false for `openai`, because
    /// OpenAI's chat completions refuse images there; true for the other kinds.
    pub images_in_tool_results: Option<bool>,
    /// For services: URL of a proxy for all requests, as in `http://proxy.example:3128`; schemes
    /// `http`, `https`, `socks5` and `socks5h`; may be `env.NAME`. Proxies that the environment
    /// names are not used.
    pub proxy: Option<EnvText>,
    /// For services: PEM file of certificates that are trusted in addition to the system's.
    pub ca: Option<PathBuf>,
    /// For services that ask their clients for a certificate: PEM file of the gateway's certificate, and
    /// after it of those that connect it to its authority. Needs `client_key` beside it. Read at the start.
    pub client_certificate: Option<PathBuf>,
    /// Private key of `client_certificate`: a PEM file, or `env.NAME` for a variable that has the key in PEM
    /// format.
    pub client_key: Option<PrivateKey>,
    /// Models that are asked in this order if this provider fails before its response has begun,
    /// each as `NAME/model` with the name of a provider. At most 8.
    #[serde(default)]
    pub fallbacks: Vec<String>,
    /// For services: Bifrost's form of `base_url`, `headers`, `timeouts` and `retries`.
    pub network_config: Option<NetworkConfig>,
    /// For services: Bifrost's form of `proxy`.
    pub proxy_config: Option<ProxyConfig>,
    /// Sizes of Bifrost's pools of workers. The gateway has no such pools and ignores them.
    #[serde(rename = "concurrency_and_buffer_size")]
    _concurrency_and_buffer_size: Option<PoolSizes>,
    /// For `scripted`: the file of turns.
    pub script: Option<PathBuf>,
}

/// Kind of a model provider.
#[derive(Clone, Copy, PartialEq, Eq, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum ProviderKind {
    /// A service with OpenAI's chat completions.
    #[serde(rename = "openai")]
    OpenAi,
    /// A service with Anthropic's Messages API.
    Anthropic,
    /// A service with Gemini's own API.
    Gemini,
    /// Azure OpenAI, with OpenAI's APIs.
    Azure,
    /// Amazon Bedrock, with Anthropic's Messages API.
    Bedrock,
    /// Vertex AI, with the API of a publisher of models.
    Vertex,
    /// A file of turns, for demonstrations and tests.
    Scripted,
}

/// Publisher of the models of a provider of kind `vertex`.
#[derive(Clone, Copy, PartialEq, Eq, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum ProviderPublisher {
    /// Claude, with Anthropic's Messages API.
    Anthropic,
    /// Gemini, with its own API.
    Google,
}

/// API of OpenAI.
#[derive(Clone, Copy, PartialEq, Eq, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum ProviderApi {
    /// Chat completions: `POST /v1/chat/completions`.
    Chat,
    /// The Responses API: `POST /v1/responses`.
    Responses,
}

/// A key of a model provider.
#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct ProviderKey {
    /// Identifier for other programs. The gateway uses the name.
    #[serde(rename = "id")]
    _id: Option<String>,
    /// Name in logs. Default: `key N` with its position.
    pub name: Option<String>,
    /// The credential; may be `env.NAME`. May be empty for a service on the own network. For
    /// `vertex`, an access token that does not change; for `bedrock`, an API key of Bedrock.
    pub value: Option<EnvText>,
    /// For kind `vertex`, in the place of `value`: the key of a service account, as the path of its
    /// JSON file or as the JSON text itself; may be `env.NAME`.
    pub service_account: Option<EnvText>,
    /// For kind `bedrock`, in the place of `value`: identifier of an access key of AWS; may be
    /// `env.NAME`. Requests are signed with the key.
    pub access_key: Option<EnvText>,
    /// For kind `bedrock`: secret of the access key; may be `env.NAME`.
    pub secret_key: Option<EnvText>,
    /// For kind `bedrock`: session token of a temporary access key; may be `env.NAME`.
    pub session_token: Option<EnvText>,
    /// Models that it serves, by the provider's own names; `["*"]`, an empty list or none for all.
    #[serde(default)]
    pub models: Vec<String>,
    /// Its share of the requests, relative to the other keys of the model. A key of weight 0 is
    /// used only if the others have failed. Default: 1.
    pub weight: Option<f64>,
    /// False to ignore the key. Its environment variable need not exist.
    #[serde(default)]
    pub enabled: Flag<true>,
    /// Ignored: the gateway has no batch API.
    #[serde(rename = "use_for_batch_api")]
    _use_for_batch_api: Option<bool>,
}

/// Time limits of a model provider.
#[derive(Default, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct ProviderTimeouts {
    /// Time for a whole response, streamed or not.
    pub request: Option<Time<MILLISECOND, DAY, { 10 * MINUTE }>>,
    /// Time for the first chunk of a streamed response.
    pub first_byte: Option<Time<MILLISECOND, DAY, { 10 * MINUTE }>>,
    /// Time for the next bytes of a streamed response, comments included.
    pub idle: Option<Time<MILLISECOND, DAY, { 3 * MINUTE }>>,
    /// Time for a connection, TLS included.
    pub connect: Option<Time<MILLISECOND, DAY, { 10 * SECOND }>>,
}

/// Repetition of failed requests to a model provider.
#[derive(Default, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct ProviderRetries {
    /// Maximum number of repetitions; 0 for none.
    pub max: Option<Count<0, 10, 2>>,
    /// Backoff before the first repetition. It doubles with each one, and is shortened at random by
    /// up to half.
    pub backoff_initial: Option<Time<MILLISECOND, { 5 * MINUTE }, { 500 * MILLISECOND }>>,
    /// Longest backoff. If `Retry-After` of the provider is longer, it is waited for, up to 1m.
    pub backoff_max: Option<Time<MILLISECOND, { 5 * MINUTE }, { 5 * SECOND }>>,
}

/// Bifrost's settings of connections to a model provider.
#[derive(Default, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct NetworkConfig {
    /// URL without the version: the gateway adds `/v1`, or what the provider has in its place. May
    /// be `env.NAME`.
    pub base_url: Option<EnvText>,
    /// The same as `headers`.
    pub extra_headers: Option<BTreeMap<String, EnvText>>,
    /// The same as `timeouts.request`, in seconds.
    pub default_request_timeout_in_seconds: Option<Count<1, { DAY / SECOND }>>,
    /// The same as `timeouts.idle`, in seconds.
    pub stream_idle_timeout_in_seconds: Option<Count<1, { DAY / SECOND }>>,
    /// The same as `retries.max`.
    pub max_retries: Option<Count<0, 10>>,
    /// The same as `retries.backoff_initial`, in milliseconds.
    pub retry_backoff_initial: Option<Count<1, { 5 * MINUTE }>>,
    /// The same as `retries.backoff_max`, in milliseconds.
    pub retry_backoff_max: Option<Count<1, { 5 * MINUTE }>>,
}

/// Bifrost's settings of a proxy.
#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct ProxyConfig {
    /// Kind of proxy.
    #[serde(rename = "type")]
    pub kind: ProxyKind,
    /// URL of the proxy; may be `env.NAME`.
    pub url: Option<EnvText>,
    /// User name at the proxy; may be `env.NAME`.
    pub username: Option<EnvText>,
    /// Password at the proxy; may be `env.NAME`.
    pub password: Option<EnvText>,
}

/// Kind of a proxy.
#[derive(Clone, Copy, PartialEq, Eq, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum ProxyKind {
    /// No proxy.
    None,
    /// An HTTP proxy.
    Http,
    /// A SOCKS proxy.
    Socks5,
}

/// Sizes of Bifrost's pools of workers.
#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(super) struct PoolSizes {
    /// Workers.
    #[serde(rename = "concurrency")]
    _concurrency: Option<u64>,
    /// Length of the queue.
    #[serde(rename = "buffer_size")]
    _buffer_size: Option<u64>,
}
