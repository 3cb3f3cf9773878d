//! Settings: sessions and tokens. A new token's secret is shown once.

use flow::Role;
use maud::{Markup, html};

use super::layout::{PageFrame, form_token, icon};
use super::parts::time;
use super::{PageContext, PageResult, Viewer, html as respond, shared};
use app::failure::Failure;
use app::operations::identity::NewToken;
use app::operations::{browser_sessions, identity};

pub async fn show(context: Viewer) -> PageResult {
    Ok(respond(page(&context, None).await?))
}

/// Renders the settings, with the secret of a token that was just created.
pub async fn page(context: &PageContext, created: Option<&NewToken>) -> Result<Markup, Failure> {
    let mut sessions = browser_sessions::list(&context.app).await?;
    let own = &context.identity.actor.agent;
    sessions.retain(|session| context.is_admin() || session.agent == *own);
    let body = html! {
        h1 { "Settings" }
        @if let Some(made) = created {
            div.notice.good role="status" {
                p { (icon("passed")) "Token of " (made.token.agent) ". This is the only time that its secret is shown:" }
                pre { (made.secret) }
            }
        }
        section.panel {
            h2 { "You" }
            p { strong { (own) } ", role " (context.identity.actor.role.as_str()) }
        }
        section.panel {
            h2 { "Sessions" }
            table.rows { tbody { @for session in &sessions {
                tr {
                    td.grow {
                        strong { (session.agent) } span.meta { " " (session.role) @if session.id == context.identity.token { " · this one" } }
                    }
                    td.num { "since " (time(session.created_at, context.now())) }
                    td.num { @if let Some(end) = session.expires_at { "ends " (time(end, context.now())) } }
                    td.num {
                        form.inline method="post" action=(format!("/settings/sessions/{}/revoke", session.id)) {
                            (form_token(context)) button type="submit" { "End" }
                        }
                    }
                }
            } } }
        }
        (notifications())
        (shared::links_panel(context).await?)
        @if context.is_admin() { (tokens(context).await?) }
    };
    let frame = PageFrame {
        title: "Settings",
        section: "/settings",
        topic: None,
    };
    super::layout::page(context, frame, &body).await
}

/// Renders the switch of notifications. It is a setting of this browser, so the script shows it.
fn notifications() -> Markup {
    html! {
        section #notify.panel hidden {
            h2 { "Notifications" }
            p { "This browser can tell you when something needs a decision of yours, once, also while the tab is hidden." }
            p #notify-state.quiet role="status" {}
            button #notify-switch type="button" aria-pressed="false" { "Turn on" }
        }
    }
}

async fn tokens(context: &PageContext) -> Result<Markup, Failure> {
    let mut tokens = identity::list(&context.app).await?;
    // Run tokens come and go with each run; they are no matter of a person.
    tokens.retain(|token| token.lease.is_none());
    Ok(html! {
        section.panel {
            h2 { "Tokens" }
            table.rows { tbody { @for token in &tokens {
                tr {
                    td.grow { strong { (token.agent) } span.meta { " " (token.role) " · " code { (token.id) } } }
                    td.num { (time(token.created_at, context.now())) }
                    td.num {
                        @if token.revoked_at.is_some() { "revoked" } @else {
                            form.inline method="post" action=(format!("/settings/tokens/{}/revoke", token.id)) {
                                (form_token(context)) button type="submit" { "Revoke" }
                            }
                        }
                    }
                }
            } } }
            details {
                summary { "Create a token" }
                form method="post" action="/settings/tokens" {
                    (form_token(context))
                    div.row {
                        label { "Agent or person " input name="agent" required; }
                        label { "Role " select name="role" { @for role in Role::ALL { option { (role.as_str()) } } } }
                        label { "Only ticket " input name="ticket"; }
                        label { "Seconds " input name="ttl_secs" inputmode="numeric" pattern="[0-9]*" placeholder="empty: no end"; }
                        button type="submit" { "Create" }
                    }
                }
            }
        }
    })
}
