//! Bounds on the resources of the servers, besides those of one connection in
//! the limits of `airlock-mcp-client`.

use std::time::Duration;

use airlock_core::tool::ANSWER_TIMEOUT;

// Questions of a server to a caller.

/// Maximum questions of a legacy server during one call, and maximum rounds of questions of a
/// modern one. A server that asks for ever would keep its caller for ever: the time for answers
/// does not count as time of the call.
pub(crate) const MAX_ROUNDS: u32 = 16;
/// Time for a caller to come back with answers, a little more than it has to answer. Until then, a
/// running call keeps its place. Coming back without answers does not extend it.
pub(crate) const QUESTION_TIMEOUT: Duration =
    ANSWER_TIMEOUT.saturating_add(Duration::from_secs(10));
/// Maximum requests of one server and one tenant that wait for answers: a quarter of the calls
/// that run by default, since each keeps its place at a legacy server. One more ends the oldest.
pub(crate) const MAX_TENANT_PARKED: usize = 8;

// Calls.

/// Weight that divides the places among tenants, see [`Shares`](airlock_core::tenant::Shares).
pub(crate) const PLACES_WEIGHT: usize = 3;
/// Maximum size of a result, in bytes. A larger one is refused: a model cannot read it, since 1 MiB
/// are some 250,000 tokens, and it is held several times on its way.
pub(crate) const MAX_RESULT_BYTES: usize = 1 << 20;
/// Length to which a tool's message about its failure is cut, in bytes. A model reads it, and a
/// stack trace fits.
pub(crate) const MAX_FAILURE_BYTES: usize = 16 << 10;
/// Maximum characters of a raw result that is used as a message, when a failed call has no text: some
/// 500 tokens. Its beginning tells a model what it is, and the result may have [`MAX_RESULT_BYTES`].
pub(crate) const MAX_RAW_CHARS: usize = 2_000;
/// Delay before the state of a task is asked for, if its server names none.
pub(crate) const TASK_POLL: Duration = Duration::from_secs(1);
/// Minimum and maximum delay before the state of a task is asked for, in milliseconds, whatever delay
/// its server names.
pub(crate) const TASK_POLL_MILLIS: std::ops::RangeInclusive<u64> = 50..=30_000;
/// Wait of a call for its server after which the gateway logs it.
pub(crate) const SLOW_GRANT: Duration = Duration::from_millis(100);
/// Minimum time between two such messages about one server.
pub(crate) const SLOW_GRANT_PAUSE: Duration = Duration::from_mins(1);

// Users.

/// Maximum connections of users at all servers. Each takes up to two sockets, and a process has a
/// thousand by default.
pub(crate) const MAX_USERS: usize = 256;
/// Maximum connections of users at one server: half of all, so that others have room. Those that calls use may also
/// be no more than the connections that no call uses at any server, so that servers whose calls hang leave some.
pub(crate) const MAX_SERVER_USERS: usize = 128;
/// Maximum connections of one user at one server, each with another exchanged token, or in use after it was removed:
/// callers' tokens are renewed, and many of one user take no room of others.
pub(crate) const MAX_TOKENS_OF_USER: usize = 4;
/// Time after its last call in which the connection of a user stays open. Opening one takes two or three
/// requests.
pub(crate) const USER_IDLE: Duration = Duration::from_mins(5);
/// Interval at which the login of a user is looked for who was asked to log in.
pub(crate) const LOGIN_POLL: Duration = Duration::from_millis(250);

// Lists of tools.

/// Delays before a list is read again that is suspiciously short. After the last one it counts.
pub(crate) const SUSPICION_DELAYS: [Duration; 2] =
    [Duration::from_secs(5), Duration::from_secs(30)];
/// Changes of a list after which further ones are delayed more and more.
pub(crate) const QUICK_LIST_CHANGES: u32 = 4;
/// Delay before a list is read again after a change, so that many changes cost one reading. While
/// the list keeps changing, the delay grows as it does between attempts to connect.
pub(crate) const LIST_CHANGE_DELAY: Duration = Duration::from_millis(200);

/// Minimum and maximum time after which a list is read again because its time to live has ended,
/// whatever the server announces: a shorter one would have the gateway read all the time, a longer one
/// is the same as none.
pub(crate) const LIST_TTL: std::ops::RangeInclusive<Duration> =
    Duration::from_mins(1)..=Duration::from_hours(24);

// Resources and prompts.

/// Maximum resources, and maximum prompts, of one server. A list of them is kept for each server,
/// and read anew at each change. Its bytes alone leave room for more than 100,000 of thirty bytes.
pub(crate) const MAX_OFFERS: usize = 1_000;
/// Maximum templates of resources of one server. Each is compared with the URI of each request
/// that names no listed resource.
pub(crate) const MAX_TEMPLATES: usize = 100;
/// Maximum length of a URI template, in bytes. It is kept and listed as long as the server is connected:
/// 100 KiB for [`MAX_TEMPLATES`] of them.
pub(crate) const MAX_TEMPLATE_BYTES: usize = 1 << 10;
/// Maximum expressions of a URI template. A comparison searches the URI for the text after each: a
/// request that names no listed resource makes 1,600 searches at most, which together read its URI once
/// for each template.
pub(crate) const MAX_EXPRESSIONS: usize = 16;
/// Maximum length of a URI or the name of a prompt, in bytes. It is repeated in each list,
/// request and subscription, and clients send URIs of at most 4 KiB.
pub(crate) const MAX_OFFER_KEY_BYTES: usize = 2 << 10;
/// Time for the lists of resources and prompts to be read before the server counts as connected.
/// Later ones are read in the background.
pub(crate) const OFFERS_PATIENCE: Duration = Duration::from_secs(5);
/// Maximum subscriptions to resources of one server, of all tenants: ten times [`MAX_TENANT_SUBSCRIPTIONS`].
/// The bytes alone leave room for 100,000 of twenty bytes, and a legacy server gets a request for
/// each after every new connection.
pub(crate) const MAX_SUBSCRIPTIONS: usize = 5_000;
/// Maximum bytes of the URIs of all subscriptions of one server, of all tenants, as JSON. One that a template permits
/// may have 4 KiB. Four copies of each are kept, so 8 MiB, and a modern server is sent all of them whenever one is
/// added or has ended. On average there are 400 bytes for each; a tenant gets at most half, 1 MiB, which is enough for
/// [`MAX_TENANT_SUBSCRIPTIONS`] of [`MAX_OFFER_KEY_BYTES`].
pub(crate) const MAX_SUBSCRIPTION_BYTES: usize = 2 << 20;
/// Maximum subscriptions to resources of one server, of one tenant: about eight sessions with 64
/// each.
pub(crate) const MAX_TENANT_SUBSCRIPTIONS: usize = 500;
/// Weight that divides the subscriptions and their bytes among tenants, see
/// [`Shares`](airlock_core::tenant::Shares): a tenant takes at most half of those that are free. They are kept for
/// hours, so many tenants have to find some.
pub(crate) const SUBSCRIPTIONS_WEIGHT: usize = 1;
/// Delay before changed subscriptions are sent to a modern server, so that many changes cost one
/// request: it names all resources.
pub(crate) const SUBSCRIPTION_PACE: Duration = Duration::from_millis(200);
/// Time for which the request before stays open beside a new one, so that the server reports every
/// change on one of them.
pub(crate) const SUBSCRIPTION_OVERLAP: Duration = Duration::from_secs(1);
/// Minimum time between two reports of changed resources to the subscribers of a server. It may report ten
/// thousand changes a second, each of which thousands of sessions may have subscribed to.
pub(crate) const UPDATE_PACE: Duration = Duration::from_millis(10);
/// Maximum number of requests that subscribe or unsubscribe at one legacy server at the same time. Each tenant has
/// one.
pub(crate) const SUBSCRIBING: usize = 8;
/// Time for a server to confirm a subscription. It is not waited for any longer.
pub(crate) const SUBSCRIBE_TIMEOUT: Duration = Duration::from_secs(10);

// Instances.

/// Minimum and maximum time in which other instances are preferred to one whose calls hang or fail. It
/// doubles with each such period until a call has got a response.
pub(crate) const INSTANCE_COOL_DOWN: std::ops::RangeInclusive<Duration> =
    Duration::from_secs(10)..=Duration::from_mins(1);
/// Time after which a call that its caller abandons counts as hanging. A caller that disconnects earlier
/// must not influence the calls of others. It is also the time within which a stopped instance has to start for a
/// call that another instance could take.
pub(crate) const CALL_PATIENCE: Duration = Duration::from_secs(5);

// Connections.

/// Time for a call that may be repeated to wait for another connection.
pub(crate) const RECONNECT_PATIENCE: Duration = Duration::from_secs(5);
/// Changes of the state of a server that are kept for operators.
pub(crate) const KEPT_TRANSITIONS: usize = 32;
/// Characters to which the reason for an earlier state is cut, and that of the last failure, as
/// the documentation of the admin API says: `history` has 32 of them for each server.
pub(crate) const MAX_KEPT_REASON_CHARS: usize = 512;
/// Maximum time for the calls of a process that was replaced, before it is stopped: longer than nearly all
/// calls, and questions to their callers, may take.
pub(crate) const RETIREMENT: Duration = Duration::from_mins(10);
/// Interval at which a server that is to be stopped is looked at, whether its calls have ended.
pub(crate) const DRAIN_CHECK: Duration = Duration::from_millis(20);
/// Time after which the same failure to connect is logged as a warning again.
pub(crate) const WARNING_INTERVAL: Duration = Duration::from_mins(10);
/// Delay before a subscription that ended is renewed.
pub(crate) const SUBSCRIPTION_RETRY: Duration = Duration::from_secs(5);
/// Minimum delay before a server that flooded the gateway is connected again.
pub(crate) const FLOOD_COOL_DOWN: Duration = Duration::from_secs(10);

// Threads.

/// Minimum and maximum threads for all servers together; between these bounds, one thread for each
/// CPU.
pub(crate) const THREADS: std::ops::RangeInclusive<usize> = 2..=8;
/// Time in which a dropped runtime must end its tasks, so that no child process outlives it.
pub(crate) const RUNTIME_SHUTDOWN: Duration = Duration::from_secs(1);
