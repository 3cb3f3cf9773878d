//! Settings: sessions and tokens. A new token's secret is shown once.

use flow::Role;
use maud::{Markup, html};

use super::layout::{PageFrame, form_token, icon};
use super::parts::{outcome, time};
use super::{PageContext, PageResult, Viewer, html as respond, shared};
use app::failure::Failure;
use app::operations::connection_status::{self, ConnectionStatus};
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
                    td.num { "opened " (time(session.created_at, context.now())) }
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
        (connections(context).await?)
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

/// Renders the connections to forges and trackers, with what arrived last and what failed.
async fn connections(context: &PageContext) -> Result<Markup, Failure> {
    let all = connection_status::list(&context.app, &context.links).await?;
    Ok(html! {
        section.panel {
            h2 { "Connections to forges" }
            @if all.is_empty() {
                p.quiet { "None. " code { "[[connection]]" } " in the configuration of the server connects a repository on GitHub, GitLab or Forgejo, or a project of Jira." }
            } @else {
                table.rows { tbody { @for one in &all { (connection_row(context, one)) } } }
            }
        }
    })
}

fn connection_row(context: &PageContext, one: &ConnectionStatus) -> Markup {
    let now = context.now();
    let poll_error = one.poller.as_ref().and_then(|poller| poller.error.as_ref());
    html! {
        tr {
            td { @if poll_error.is_some() || one.given_up > 0 { (outcome(false)) } @else { (outcome(true)) } }
            td.grow {
                strong { (one.name) } span.meta { (one.kind) " · " code { (one.repository) } }
                @if let Some(error) = poll_error { p.meta.bad { "Asking failed: " (error) } }
                @if let Some((at, why)) = &one.last_refusal { p.meta.bad { "Webhook refused " (time(*at, now)) ": " (why) } }
                @if one.given_up > 0 {
                    p.meta.bad { (one.given_up) " jobs were given up" @if let Some(error) = &one.last_error { ": " (error) } }
                }
            }
            td {
                @match &one.last_webhook {
                    Some((at, event)) => { span.meta { "webhook " (event) ", " (time(*at, now)) ", " (one.webhooks) " in all" } }
                    None if one.takes_webhooks => { span.meta { "no webhook yet" } }
                    None => { span.meta { "takes no webhooks" } }
                }
            }
            td.num {
                @if let Some(poller) = &one.poller {
                    @if let Some(at) = poller.last_at { "asked " (time(at, now)) ", " }
                    (poller.calls) " of " (poller.budget) " calls this hour"
                }
            }
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
