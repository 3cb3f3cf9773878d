//! Classifies an agent's error: no quota, no login, or something else.
//!
//! It is only for errors that a CLI reports itself; an agent's prose is never searched.

use super::AgentEvent;
use super::quota::QuotaReset;

/// Texts of errors that a person must resolve before the agent can work.
const ACTION_REQUIRED: &[&str] = &[
    "not logged in",
    "please run /login",
    "please log in",
    "please sign in",
    "login required",
    "codex login",
    "not authenticated",
    "not signed in",
    "authentication required",
    "authentication failed",
    "authentication_error",
    "authenticationerror",
    "no authentication information",
    "please set an auth method",
    "no provider configured",
    "invalid api key",
    "incorrect api key",
    "invalid x-api-key",
    "api key not valid",
    "api key not found",
    "missing api key",
    "api key is missing",
    "api_key client option must be set",
    "401 unauthorized",
    "status 401",
    "oauth token has expired",
    "credit balance is too low",
    "insufficient_quota",
    "check your plan and billing",
];

/// Texts of errors that go away by themselves later.
const OUT_OF_QUOTA: &[&str] = &[
    "usage limit",
    "limit reached",
    "hit your limit",
    "hit your usage limit",
    "quota",
    "rate limit",
    "rate_limit",
    "ratelimit",
    "resource_exhausted",
    "too many requests",
    "status 429",
];

/// Converts an error's text to an event.
pub(super) fn classify_error(message: &str) -> AgentEvent {
    let lower = message.to_lowercase();
    let says = |words: &[&str]| words.iter().any(|word| lower.contains(word));
    let message = message.trim().to_owned();
    if says(ACTION_REQUIRED) {
        AgentEvent::ActionRequired { message }
    } else if says(OUT_OF_QUOTA) {
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
