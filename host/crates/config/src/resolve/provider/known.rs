//! Names of providers whose kind and URL are known. They are those of Bifrost.

use airlock_config_file::file::ProviderKind;
use airlock_model::Api;

/// A service that is known by the name of its provider.
pub(super) struct KnownService {
    name: &'static str,
    pub(super) api: Api,
    /// URL without the path of the API's version, as Bifrost's `network_config` has it.
    root: &'static str,
    /// Path of the API's version.
    version: &'static str,
}

const OPENAI: KnownService = openai("openai", "https://api.openai.com");
const ANTHROPIC: KnownService = KnownService {
    name: "anthropic",
    api: Api::Anthropic,
    root: "https://api.anthropic.com",
    version: "/v1",
};

const GEMINI: KnownService = KnownService {
    name: "gemini",
    api: Api::Gemini,
    // As in Bifrost, the root has the version.
    root: "https://generativelanguage.googleapis.com/v1beta",
    version: "",
};

/// The first entry with a name is the one that the name alone implies.
const KNOWN: [KnownService; 17] = [
    OPENAI,
    ANTHROPIC,
    openai("groq", "https://api.groq.com/openai"),
    openai("mistral", "https://api.mistral.ai"),
    openai("ollama", "http://localhost:11434"),
    openai("openrouter", "https://openrouter.ai/api"),
    // Gemini's API for OpenAI's clients lies below the version of its own.
    KnownService { version: "/openai", ..openai(GEMINI.name, GEMINI.root) },
    GEMINI,
    openai("deepseek", "https://api.deepseek.com"),
    openai("xai", "https://api.x.ai"),
    // Perplexity's API has no version.
    KnownService { version: "", ..openai("perplexity", "https://api.perplexity.ai") },
    openai("cerebras", "https://api.cerebras.ai"),
    openai("nebius", "https://api.tokenfactory.nebius.com"),
    openai("fireworks", "https://api.fireworks.ai/inference"),
    openai("parasail", "https://api.parasail.io"),
    openai("sgl", "http://localhost:30000"),
    openai("vllm", "http://localhost:8000"),
];

/// Names of clouds. Where one is addressed depends on the account.
const CLOUDS: [(&str, ProviderKind); 3] = [
    ("azure", ProviderKind::Azure),
    ("bedrock", ProviderKind::Bedrock),
    ("vertex", ProviderKind::Vertex),
];

/// Names of Bifrost's providers that have no API for which there is a kind.
const REFUSED: [(&str, &str); 3] = [
    (
        "bedrock_mantle",
        "its API is not built; use `bedrock`, or `kind` \"openai\" with its `base_url` and an API key of Bedrock",
    ),
    ("cohere", "Cohere's own API is not built; use `kind` \"openai\" with its compatibility API"),
    ("huggingface", "use `kind` \"openai\" with the `base_url` of its router"),
];

/// Service that a provider's name stands for.
pub(super) enum KnownName {
    /// A service that can be used.
    Service(&'static KnownService),
    /// A cloud.
    Cloud(ProviderKind),
    /// A service that cannot be used, with the reason.
    Refused(&'static str),
    /// None.
    Unknown,
}

/// Looks up a provider's name.
pub(super) fn find(name: &str) -> KnownName {
    if let Some(service) = KNOWN.iter().find(|service| service.name == name) {
        return KnownName::Service(service);
    }
    if let Some((_, kind)) = CLOUDS.iter().find(|(cloud, _)| *cloud == name) {
        return KnownName::Cloud(*kind);
    }
    match REFUSED.iter().find(|(refused, _)| *refused == name) {
        Some((_, reason)) => KnownName::Refused(reason),
        None => KnownName::Unknown,
    }
}

impl KnownName {
    /// Returns the URL of a known service with an API. Fails for all others: the requests and the key
    /// of a server of one's own must not be sent elsewhere because its URL is forgotten.
    pub(super) fn url(&self, api: Api) -> Result<String, &'static str> {
        match (self, self.with_api(api)) {
            (_, Some(known)) => Ok(format!("{}{}", known.root, known.version)),
            (Self::Service(_), None) => {
                Err("is required, because the service of this name has an API of another kind")
            }
            (_, None) => Err("is required, because no service of this name is known"),
        }
    }

    /// Returns the URL below a root that replaces the known one. A root that has the version
    /// already is the URL itself.
    pub(super) fn url_below(&self, root: &str, api: Api) -> String {
        let version = match (self.with_api(api), api) {
            (Some(known), _) => known.version,
            (None, Api::OpenAi) => OPENAI.version,
            (None, Api::Anthropic) => ANTHROPIC.version,
            (None, Api::Gemini) => GEMINI.version,
        };
        if root.ends_with(version) { root.to_owned() } else { format!("{root}{version}") }
    }

    /// Returns the known service of this name that has an API.
    fn with_api(&self, api: Api) -> Option<&'static KnownService> {
        let Self::Service(known) = self else { return None };
        KNOWN.iter().find(|service| service.name == known.name && service.api == api)
    }

    /// Returns whether this is OpenAI's own service.
    pub(super) fn is_openai(&self) -> bool {
        matches!(self, Self::Service(known) if known.name == OPENAI.name)
    }

    /// Returns whether the service usually runs on the own network and needs no key.
    pub(super) fn is_local(&self) -> bool {
        matches!(self, Self::Service(known) if known.root.starts_with("http://"))
    }
}

const fn openai(name: &'static str, root: &'static str) -> KnownService {
    KnownService { name, api: Api::OpenAi, root, version: "/v1" }
}
