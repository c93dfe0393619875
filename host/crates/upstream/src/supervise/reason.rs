//! Reasons for the operator.

use airlock_core::tool::ClientName;

/// Names the configuration in the command at the end of the reason that a login is needed. The error
/// itself does not: a caller whose call fails sees its text, and learns no path of the gateway.
pub(super) fn located(reason: &str, client: &ClientName, option: &str) -> String {
    let command = format!("`airlock upstream login {client}");
    match reason.rsplit_once(&command) {
        Some((before, after)) => format!("{before}{command}{option}{after}"),
        None => reason.to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_reason_names_the_configuration_in_its_last_command_alone() {
        let client = ClientName::parse("up").expect("a name");
        let reason = "refused (run `airlock upstream login up`); run `airlock upstream login up`";
        assert_eq!(
            located(reason, &client, " --config a.json"),
            "refused (run `airlock upstream login up`); run `airlock upstream login up --config a.json`"
        );
        assert_eq!(located("cut", &client, " --config a.json"), "cut");
    }
}
