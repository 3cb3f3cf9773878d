//! What an agent's error means: no quota, not allowed in, or something else.
//!
//! Only for what a CLI itself gives as an error; an agent's prose is never searched.

use super::AgentEvent;
use super::quota::QuotaReset;

/// A person has to do something before it works at all.
const BARRED: &[&str] = &[
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

/// It works again later, by itself.
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

/// An error's text as an event.
pub(super) fn of(message: &str) -> AgentEvent {
    let small = message.to_lowercase();
    let says = |words: &[&str]| words.iter().any(|word| small.contains(word));
    let message = message.trim().to_owned();
    if says(BARRED) {
        AgentEvent::Barred { message }
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
            assert!(matches!(of(text), AgentEvent::Barred { .. }), "{text}");
        }
        let quota = [
            "You've hit your usage limit.",
            "RESOURCE_EXHAUSTED",
            "429 Too Many Requests",
        ];
        for text in quota {
            assert!(matches!(of(text), AgentEvent::OutOfQuota { .. }), "{text}");
        }
        assert!(matches!(
            of("stream disconnected"),
            AgentEvent::Failed { .. }
        ));
    }
}
