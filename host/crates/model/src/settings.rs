//! Settings of model providers.

use std::{
    collections::BTreeMap,
    path::{Path, PathBuf},
    time::Duration,
};

use airlock_core::secret::Secret;
use airlock_tls::{IdentitySource, KeySource};

/// Maximum number of providers that are asked after the first one has failed (`fallbacks`). A
/// caller may name them, and each attempt costs the operator a request.
pub const MAX_FALLBACKS: usize = 8;

/// One configured provider.
#[derive(Debug, Clone, PartialEq)]
pub struct Settings {
    /// Its name: the part before the `/` in `model`.
    pub name: String,
    /// Its kind.
    pub kind: Kind,
    /// Models of any providers, as `NAME/model`, that are asked in this order if this provider
    /// fails. A request with `fallbacks` of its own replaces them. At most [`MAX_FALLBACKS`].
    pub fallbacks: Vec<String>,
}

/// Kind of a provider.
#[derive(Debug, Clone, PartialEq)]
pub enum Kind {
    /// A service over HTTP.
    Service(Box<Service>),
    /// A file of turns, for demonstrations and tests.
    Scripted {
        /// The file.
        script: PathBuf,
    },
}

/// A service over HTTP.
#[derive(Debug, Clone, PartialEq)]
pub struct Service {
    /// API that it speaks.
    pub api: Api,
    /// Addresses of its operations, and the way in which requests sign in.
    pub hosting: Hosting,
    /// The host's own names of models, by the names that requests have; a name that is not in it is
    /// the host's own. Empty for [`Hosting::Vendor`].
    pub deployments: BTreeMap<String, String>,
    /// APIs of OpenAI that it has, if it speaks [`Api::OpenAi`].
    pub apis: Apis,
    /// URL up to and including the version: `https://api.openai.com/v1`. Of a cloud, its endpoint
    /// without a path of an API: `https://NAME.openai.azure.com`.
    pub base_url: String,
    /// Its keys. A request takes one that serves its model. Without any, requests are sent without
    /// a credential.
    pub keys: Vec<Key>,
    /// Headers that are added to every request.
    pub headers: BTreeMap<String, Secret>,
    /// Time limits.
    pub timeouts: Timeouts,
    /// Repetition of failed requests.
    pub retries: Retries,
    /// True if images in the results of tools are sent as content parts of the tool message; false
    /// to send a note in the place of each.
    pub images_in_tool_results: bool,
    /// URL of a proxy for all requests. `None` for no proxy; proxies that the environment names are
    /// not used.
    pub proxy: Option<Secret>,
    /// PEM file of certificates that are trusted in addition to the system's.
    pub ca: Option<PathBuf>,
    /// Certificate of the gateway for the service, if it asks for one. It is read when the provider is set up.
    pub identity: Option<IdentitySource>,
}

/// Host of a service, which decides how operations are addressed and how requests are signed in. The
/// body of a request and the response are those of the API.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub enum Hosting {
    /// The API's own vendor, or a compatible service.
    #[default]
    Vendor,
    /// Azure OpenAI, with the APIs of OpenAI. Needs the cargo feature `azure`.
    Azure {
        /// Version of the API that names deployments in its paths; `None` for the v1 API.
        api_version: Option<String>,
    },
    /// Amazon Bedrock, with Anthropic's Messages API. Needs the cargo feature `bedrock`.
    Bedrock {
        /// Region, as in `eu-central-1`.
        region: String,
    },
    /// Vertex AI, with Anthropic's Messages API or Gemini's. Needs the cargo feature `vertex`.
    Vertex {
        /// Project of Google Cloud. It has no characters with a meaning in a path.
        project: String,
        /// Location, as in `europe-west1`, `eu` or `global`, with letters, digits and `-`.
        location: String,
    },
}

/// API of a service.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Api {
    /// OpenAI's chat completions.
    OpenAi,
    /// Anthropic's Messages API.
    Anthropic,
    /// Gemini's `generateContent`.
    Gemini,
}

/// APIs of OpenAI that a service has. A request is sent in the API in which it came if the service
/// has that one, and is translated otherwise.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum Apis {
    /// Chat completions.
    #[default]
    Chat,
    /// The Responses API.
    Responses,
    /// Both.
    Both,
}

/// Key of a service.
#[derive(Debug, Clone, PartialEq)]
pub struct Key {
    /// Its name in logs.
    pub name: String,
    /// The credential; `None` for a service that needs none. For Vertex AI, an access token; for
    /// Bedrock, an API key.
    pub value: Option<Secret>,
    /// The credential of a cloud, in the place of `value`.
    pub cloud: Option<CloudCredential>,
    /// Models that it serves, by the service's own names; `None` for all.
    pub models: Option<Vec<String>>,
    /// Its share of the requests, relative to the other keys. A key of weight 0 is used only if the
    /// others have failed.
    pub weight: f64,
}

/// Credential of a cloud, from which that of each request is made.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum CloudCredential {
    /// Key of a service account of Google Cloud.
    ServiceAccount(ServiceAccountKey),
    /// Access key of AWS, with which requests are signed.
    AccessKey {
        /// Its identifier.
        access_key: Secret,
        /// Its secret.
        secret_key: Secret,
        /// Token of temporary credentials.
        session_token: Option<Secret>,
    },
}

/// Source of the key of a service account, in the JSON form that Google Cloud writes.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum ServiceAccountKey {
    /// Its text.
    Text(Secret),
    /// Its file.
    File(PathBuf),
}

impl Kind {
    /// Returns the files that are read when the provider is set up.
    pub(super) fn files(&self) -> Vec<&Path> {
        let service = match self {
            Self::Scripted { script } => return vec![script.as_path()],
            Self::Service(service) => service,
        };
        let identity = service.identity.as_ref();
        let certificate = identity.map(|identity| &identity.certificate);
        let private_key = identity.and_then(|identity| match &identity.key {
            KeySource::File(path) => Some(path),
            KeySource::Pem(_) => None,
        });
        let accounts = service.keys.iter().filter_map(|key| match &key.cloud {
            Some(CloudCredential::ServiceAccount(ServiceAccountKey::File(path))) => Some(path),
            _ => None,
        });
        let own = service.ca.iter().chain(certificate).chain(private_key);
        own.chain(accounts).map(PathBuf::as_path).collect()
    }
}

impl CloudCredential {
    /// Returns the parts that a service could send back.
    pub(super) fn sent(&self) -> impl Iterator<Item = &Secret> {
        let parts = match self {
            Self::ServiceAccount(_) => [None, None],
            Self::AccessKey { secret_key, session_token, .. } => {
                [Some(secret_key), session_token.as_ref()]
            }
        };
        parts.into_iter().flatten()
    }
}

/// Time limits of a service.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Timeouts {
    /// Time for the whole response, streamed or not.
    pub request: Duration,
    /// Time for the first chunk of a streamed response.
    pub first_byte: Duration,
    /// Time for the next bytes of a stream, comments included.
    pub idle: Duration,
    /// Time for a connection, TLS included.
    pub connect: Duration,
}

/// Repetition of requests that failed before any part of the response was received.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Retries {
    /// Maximum number of repetitions; 0 for none.
    pub max: u32,
    /// Backoff before the first repetition. It doubles with each one, and is shortened at random by
    /// up to half.
    pub initial: Duration,
    /// Longest backoff. A `Retry-After` of up to a minute may be longer.
    pub longest: Duration,
}

impl Hosting {
    /// Returns the endpoint of the host; `None` if it depends on the account.
    pub fn endpoint(&self) -> Option<String> {
        match self {
            Self::Vendor | Self::Azure { .. } => None,
            Self::Bedrock { region } => {
                Some(format!("https://bedrock-runtime.{region}.amazonaws.com"))
            }
            Self::Vertex { location, .. } => Some(match location.as_str() {
                "global" => "https://aiplatform.googleapis.com".to_owned(),
                "us" | "eu" => format!("https://aiplatform.{location}.rep.googleapis.com"),
                _ => format!("https://{location}-aiplatform.googleapis.com"),
            }),
        }
    }
}

impl Service {
    /// Creates the settings of a service without a key, with the defaults.
    pub fn new(api: Api, base_url: impl Into<String>) -> Self {
        Self {
            api,
            hosting: Hosting::default(),
            deployments: BTreeMap::new(),
            apis: Apis::default(),
            base_url: base_url.into(),
            keys: Vec::new(),
            headers: BTreeMap::new(),
            timeouts: Timeouts::default(),
            retries: Retries::default(),
            images_in_tool_results: api != Api::OpenAi,
            proxy: None,
            ca: None,
            identity: None,
        }
    }
}

impl Key {
    /// Creates a key that serves all models.
    pub fn new(name: impl Into<String>, value: Secret) -> Self {
        Self { name: name.into(), value: Some(value), cloud: None, models: None, weight: 1.0 }
    }
}

impl Default for Timeouts {
    /// Returns limits for reasoning models, which think for minutes before the first chunk.
    fn default() -> Self {
        Self {
            request: Duration::from_mins(10),
            first_byte: Duration::from_mins(10),
            idle: Duration::from_mins(3),
            connect: Duration::from_secs(10),
        }
    }
}

impl Default for Retries {
    fn default() -> Self {
        Self { max: 2, initial: Duration::from_millis(500), longest: Duration::from_secs(5) }
    }
}
