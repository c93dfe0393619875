//! Codes of the gateway's own errors.

airlock_strings::named_enum! {
    /// Short stable identifier of an error that the gateway made, for machines, without its prefix. `wit/README.md`
    /// explains each; the codes of tools and servers are text of their own.
    #[derive(Debug, Clone, Copy, PartialEq, Eq)]
    pub enum HostCode as as_str {
        /// A person has denied the call of a script.
        ApprovalDenied = "approval_denied",
        /// No person decided in time about the call of an MCP client. It can be repeated after the approval.
        ApprovalPending = "approval_pending",
        /// The arguments cannot be used, or do not fit the tool's input schema. One code for both, because
        /// in both cases the caller has to change the arguments.
        BadArguments = "bad_arguments",
        /// The result violates the contract.
        BadResult = "bad_result",
        /// The call would exceed a budget of its chain.
        Budget = "budget",
        /// The money that the operator has set for the key, one of its groups, or the model is spent.
        BudgetExceeded = "budget_exceeded",
        /// The pool is full, and so is its queue.
        Busy = "busy",
        /// The caller disconnected or cancelled the call.
        Cancelled = "cancelled",
        /// The plugin failed repeatedly. Its calls fail fast until the cool-down ends.
        CircuitOpen = "circuit_open",
        /// The guest used up its CPU time.
        CpuTime = "cpu_time",
        /// The call ran past its deadline. Waiting counts.
        Deadline = "deadline",
        /// The user of an MCP client, or the operator's settings, did not approve the call.
        Declined = "declined",
        /// A guard denies the call, or withholds its outcome.
        GuardDenied = "guard_denied",
        /// A guard has failed, so that the call is not made, or its outcome is withheld.
        GuardFailed = "guard_failed",
        /// The tool acts at its server with an account of the caller's own, and the caller is anonymous.
        IdentityRequired = "identity_required",
        /// A call of a script may have been made before the gateway ended.
        InDoubt = "in_doubt",
        /// The tool asks its caller.
        InputRequired = "input_required",
        /// The structured result does not fit the tool's own output schema.
        InvalidResult = "invalid_result",
        /// A limit of the operator for the key, one of its groups, or the tool is reached.
        LimitReached = "limit_reached",
        /// The caller's user has to log in at the server of the tool.
        LoginRequired = "login_required",
        /// The request bounds its calls in all rounds together, and so many were made.
        MaxToolCalls = "max_tool_calls",
        /// The guest needed more than its memory.
        Memory = "memory",
        /// The tool exists, but the call needs an approval.
        NeedsApproval = "needs_approval",
        /// The tool does not exist or is hidden from the caller. Both return the same error on purpose.
        NotFound = "not_found",
        /// No call waits for the answers.
        NotWaiting = "not_waiting",
        /// The guest used up its fuel.
        OutOfFuel = "out_of_fuel",
        /// The policy of the program that embeds the gateway refuses the call.
        PolicyRefused = "policy_refused",
        /// The record of the call cannot be written, and the operator wants no call without one.
        RecordsUnavailable = "records_unavailable",
        /// The requests in flight leave no memory for the result.
        RequestMemory = "request_memory",
        /// The result is larger than the limit.
        ResultTooLarge = "result_too_large",
        /// The results of one request are together larger than the limit.
        ResultsTooLarge = "results_too_large",
        /// The guest overflowed its stack.
        StackOverflow = "stack_overflow",
        /// The access token of the caller gives no access to the server of the tool.
        TokenRefused = "token_refused",
        /// One response of the model has more calls than the limit.
        TooManyCalls = "too_many_calls",
        /// The tool itself returned an error. Its own code is the tool's, if it has one.
        ToolError = "tool_error",
        /// The operator has switched all tools off.
        ToolsDisabled = "tools_disabled",
        /// The guest trapped.
        Trap = "trap",
        /// The tool's source does not respond, or is not connected.
        Unavailable = "unavailable",
        /// The operator has bound no tool to the slot.
        UnboundSlot = "unbound_slot",
        /// The tool does what its plugin's manifest does not declare.
        UndeclaredEffect = "undeclared_effect",
        /// A rule refuses the call, because its author has read results of sources that are not trusted.
        UntrustedContext = "untrusted_context",
    }
}

impl HostCode {
    /// Prefix of the codes of the gateway's own errors, where they stand among codes of tools.
    pub const PREFIX: &str = "airlock.";

    /// Returns the code with its prefix.
    pub fn prefixed(self) -> String {
        format!("{}{}", Self::PREFIX, self.as_str())
    }
}

/// Returns the code of a tool's own error, without the prefix of the gateway's; `None` if nothing is
/// left. A plugin that returns the error of a tool that it called has the prefix there.
pub fn own_code(code: String) -> Option<String> {
    let own = code.trim_start_matches(HostCode::PREFIX);
    let own = if own.len() == code.len() { code } else { own.to_owned() };
    (!own.is_empty()).then_some(own)
}
