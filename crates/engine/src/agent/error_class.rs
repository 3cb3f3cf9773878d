//! Classifies an agent's error: no quota, no login, or something else.
//!
//! It is only for errors that a CLI reports itself; an agent's prose is never searched.

use super::declared::ErrorTexts;
use super::quota::QuotaReset;
use super::{AgentEvent, registry};

/// General texts of errors that a person must resolve before the agent can work. Those of one CLI
/// are in its adapter.
const ACTION_REQUIRED: &[&str] = &[
    "not logged in",
    "please log in",
    "please sign in",
    "login required",
    "not authenticated",
    "not signed in",
    "authentication required",
    "authentication failed",
    "authentication_error",
    "authenticationerror",
    "invalid api key",
    "incorrect api key",
    "api key not found",
    "missing api key",
    "api key is missing",
    "401 unauthorized",
    "status 401",
    "oauth token has expired",
    "insufficient_quota",
    "check your plan and billing",
];

/// General texts of errors that go away by themselves later.
const OUT_OF_QUOTA: &[&str] = &[
    "usage limit",
    "limit reached",
    "quota",
    "rate limit",
    "rate_limit",
    "too many requests",
    "status 429",
];

/// Converts an error's text to an event.
pub(super) fn classify_error(message: &str) -> AgentEvent {
    let lower = message.to_lowercase();
    // Many CLIs pass on the error of a provider or of another CLI's library, so the texts of all of
    // them count for each.
    let says = |general: &[&str], own: fn(&ErrorTexts) -> &'static [&'static str]| {
        let of_clis = registry::ALL.iter().flat_map(|cli| own(&cli.errors));
        let mut texts = general.iter().chain(of_clis);
        texts.any(|text| lower.contains(text))
    };
    let message = message.trim().to_owned();
    if says(ACTION_REQUIRED, |texts| texts.log_in_first) {
        AgentEvent::ActionRequired { message }
    } else if says(OUT_OF_QUOTA, |texts| texts.out_of_quota) {
        AgentEvent::OutOfQuota {
            until: QuotaReset::find(&message),
        }
    } else {
        AgentEvent::Failed { message }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn errors_are_told_apart_by_what_helps_against_them() {
        let barred = [
            "Invalid API key · Please run /login",
            "unexpected status 401 Unauthorized",
        ];
        for text in barred {
            assert!(
                matches!(classify_error(text), AgentEvent::ActionRequired { .. }),
                "{text}"
            );
        }
        let quota = [
            "You've hit your usage limit.",
            "RESOURCE_EXHAUSTED",
            "429 Too Many Requests",
        ];
        for text in quota {
            assert!(
                matches!(classify_error(text), AgentEvent::OutOfQuota { .. }),
                "{text}"
            );
        }
        assert!(matches!(
            classify_error("stream disconnected"),
            AgentEvent::Failed { .. }
        ));
    }
}
