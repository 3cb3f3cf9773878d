//! Frame of every page: head, navigation, the live connection, and the error page.

use maud::{DOCTYPE, Markup, html};

use super::parts::{sentence, titled};
use super::{PageContext, PageError, forms};
use app::failure::Failure;
use app::operations::overview::{self, TicketGroup};
use app::operations::questions::format_cursor;
use flow::Time;

/// Sections of the navigation: path, name, icon, and the key after `g`.
pub const SECTIONS: [(&str, &str, &str, &str); 9] = [
    ("/", "Inbox", "inbox", "i"),
    ("/board", "Board", "board", "b"),
    ("/tickets", "Tickets", "list", "t"),
    ("/epics", "Epics", "epic", "e"),
    ("/agents", "Agents", "agent", "a"),
    ("/queues", "Queues", "queue", "q"),
    ("/costs", "Costs", "cost", "c"),
    ("/log", "Log", "log", "l"),
    ("/settings", "Settings", "settings", "s"),
];

/// Settings of htmx. An update leaves alone what a person has opened or closed (`open`), and a form
/// in which somebody writes, also if the form is no longer offered (`data-keep`). A lost connection is tried again at least every two seconds.
const HTMX_CONFIG: &str = r#"{"includeIndicatorCSS":false,"morphIgnore":["data-htmx-powered","data-current","data-dirty","data-moved","data-used","open"],"morphSkip":"[hx-morph-skip], form[data-dirty], details:has(form[data-dirty]), form:focus-within, [data-keep]:has(form[data-dirty]), [data-keep]:focus-within","sse":{"reconnectMaxDelay":2000}}"#;

/// Characters of an error; it may repeat what was sent.
const ERROR_CHARS_MAX: usize = 1_000;

/// A page to render: its title, its section and its live topic.
#[derive(Debug)]
pub struct PageFrame<'a> {
    pub title: &'a str,
    /// Path of the section that the navigation marks.
    pub section: &'a str,
    /// Topic of the event stream; `None` for a page that does not change by itself.
    pub topic: Option<String>,
}

/// Renders a page. The log position is read before the page's own data by the callers' order of
/// calls, so an event in between is sent again and not lost.
pub async fn page(
    context: &PageContext,
    frame: PageFrame<'_>,
    body: &Markup,
) -> Result<Markup, Failure> {
    let waiting = waiting_count(context).await?;
    let title = match waiting {
        0 => format!("{} · Countersign", frame.title),
        count => format!("({count}) {} · Countersign", frame.title),
    };
    let name = &context.identity.actor.agent;
    Ok(document(
        &title,
        Some(context.now()),
        &html! {
            a.skip href="#main" { "Skip to the content" }
            header.side {
                a.brand href="/" { (logo()) span { "Countersign" } }
                nav aria-label="Sections" {
                    @for (path, label, mark, key) in SECTIONS {
                        a href=(path) data-key=(key)
                            aria-current=[(path == frame.section).then_some("page")] {
                            (icon(mark)) span.label { (label) }
                            @if path == "/" { (waiting_badge(waiting)) }
                        }
                    }
                }
                form.search action="/jump" method="get" role="search" {
                    label.hidden for="jump" { "Search tickets" }
                    input #jump type="search" name="q" placeholder="Search or jump  /"
                        autocomplete="off" spellcheck="false";
                }
                form.person method="post" action="/logout" {
                    (form_token(context))
                    span.name title=(context.identity.actor.role.as_str()) {
                        (icon("person")) span { (name) }
                    }
                    @if !context.may_change() { span.tag { "read-only" } }
                    button.plain type="submit" { "Log out" }
                }
            }
            main #main tabindex="-1" { (body) }
            @if let Some(topic) = &frame.topic {
                div #live hidden hx-sse:connect=(topic) hx-swap="none" {}
            }
            div.toasts {
                (stale_notice(false))
                div #offline.toast role="status" hidden { "Connection lost. Reconnecting…" }
            }
            dialog #keys { (keys()) }
            (jump_dialog())
        },
    ))
}

/// Returns the address of the live stream of a topic, from the newest event on.
pub async fn topic(context: &PageContext, name: &str) -> Result<Option<String>, Failure> {
    let cursor = format_cursor(overview::latest_cursor(&context.app).await?);
    let pairs = [("topic", name), ("after", cursor.as_str())];
    let query = serde_urlencoded::to_string(pairs).unwrap_or_default();
    Ok(Some(format!("/pages/events?{query}")))
}

/// Counts the tickets that wait for a person.
pub async fn waiting_count(context: &PageContext) -> Result<u64, Failure> {
    let tally = app::operations::tickets::tally(&context.app).await?;
    let counted = overview::Overview {
        tally,
        ..overview::Overview::default()
    };
    Ok(counted.count(TicketGroup::ForYou))
}

/// Renders the number of waiting tickets in the navigation.
pub fn waiting_badge(count: u64) -> Markup {
    html! {
        span #waiting.count hidden[count == 0] aria-label=(format!("{count} waiting")) { (count) }
    }
}

/// Renders the notice that the page is older than what it shows. It floats, so that nothing moves
/// under the pointer.
pub fn stale_notice(is_old: bool) -> Markup {
    html! {
        p #stale.toast role="status" hidden[!is_old] { "Something has changed. " a href="" { "Reload" } }
    }
}

/// Renders the dialog that `Ctrl-K` opens.
fn jump_dialog() -> Markup {
    html! {
        dialog #jump-to aria-label="Jump to" {
            form action="/jump" method="get" {
                label.hidden for="jump-text" { "Jump to a ticket, an epic or a page" }
                input #jump-text type="search" name="q" autocomplete="off" spellcheck="false"
                    placeholder="Jump to a ticket, an epic or a page"
                    hx-get="/jump/list" hx-trigger="input changed delay:120ms, focus once" hx-target="#jump-list" hx-swap="innerHTML";
            }
            ul #jump-list {}
        }
    }
}

fn keys() -> Markup {
    let lines = [
        ("?", "this list"),
        ("/", "filter or search"),
        ("Ctrl-K", "jump to anything"),
        ("g then i b t e a q c l s", "go to a section"),
        ("j k", "next, previous row"),
        ("Enter o", "open the row"),
        ("x", "choose the row"),
        ("n p", "next, previous finding"),
        ("] [", "next, previous file"),
        ("v", "mark the file as viewed"),
        ("u s", "unified, split"),
        ("c", "comment"),
        ("e", "to the decision"),
        ("f", "follow the end of a run"),
        ("Esc", "close, leave a field"),
    ];
    html! {
        h2 { "Keyboard" }
        dl { @for (key, meaning) in lines { dt { kbd { (key) } } dd { (meaning) } } }
        label { input #keys-off type="checkbox"; " Switch single keys off" }
        form method="dialog" { button type="submit" { "Close" } }
    }
}

/// Renders the hidden field that proves that a form was made for this session.
pub fn form_token(context: &PageContext) -> Markup {
    html! {
        input type="hidden" name=(forms::TOKEN_FIELD) value=(context.identity.form_token());
    }
}

/// Renders a page without navigation.
pub fn bare(title: &str, body: &Markup) -> Markup {
    document(&format!("{title} · Countersign"), None, body)
}

pub fn error_page(error: &PageError) -> Markup {
    let body = html! { main.login { (error_text(error)) } };
    bare(error_title(error), &body)
}

/// Renders an error with the navigation, for a person who is logged in.
pub async fn framed_error_page(
    context: &PageContext,
    error: &PageError,
) -> Result<Markup, Failure> {
    let frame = PageFrame {
        title: error_title(error),
        section: "",
        topic: None,
    };
    let body = html! { div.error { (error_text(error)) } };
    page(context, frame, &body).await
}

fn error_title(error: &PageError) -> &'static str {
    match error.status.as_u16() {
        409 => "Not possible any more",
        403 => "Not permitted",
        404 => "Not found",
        401 => "Not logged in",
        410 => "This link has ended",
        413 => "Too large",
        429 => "Too many requests",
        400..=499 => "Not accepted",
        _ => "Something went wrong",
    }
}

fn error_text(error: &PageError) -> Markup {
    let back = match (error.status.as_u16(), error.back.as_str()) {
        (_, "/login") => "Log in",
        (409, _) => "Open it again, as it is now",
        (_, "/") => "To the inbox",
        _ => "Back",
    };
    let message = findings::shorten(&error.message, ERROR_CHARS_MAX);
    html! {
        h1 { (icon("alert")) (error_title(error)) }
        p { (titled(&sentence(&message))) }
        @for hint in &error.hints { p.quiet { (titled(&sentence(hint))) } }
        p { a.button href=(error.back) { (back) } }
    }
}

/// Renders the document. The time of the server goes along, because the clock of a browser may
/// differ: the ages on an open page are counted from it.
fn document(title: &str, now: Option<Time>, body: &Markup) -> Markup {
    html! {
        (DOCTYPE)
        html lang="en" {
            head {
                meta charset="utf-8";
                meta name="viewport" content="width=device-width, initial-scale=1";
                meta name="color-scheme" content="light dark";
                meta name="robots" content="noindex";
                // No `hx-on` and no script in text: this turns evaluation off.
                meta name="htmx-config" content=(HTMX_CONFIG);
                title { (title) }
                link rel="icon" href="/assets/icon.svg" type="image/svg+xml";
                link rel="stylesheet" href="/assets/dashboard.css";
                script src="/assets/htmx.min.js" defer {}
                script src="/assets/hx-sse.min.js" defer {}
                script src="/assets/dashboard.js" defer {}
                script src="/assets/live.js" defer {}
            }
            body data-now=[now.map(|now| now.0)] { (body) }
        }
    }
}

pub fn logo() -> Markup {
    icon("logo")
}

/// Renders an icon. The names and paths are constants of this file, so nothing has to be escaped.
pub fn icon(name: &str) -> Markup {
    let path = match name {
        "logo" => "M3 8.5 6.5 12 13 4.5M3 13.5h10",
        "inbox" => "M2 9h3.5l1 2h3l1-2H14M2 9l2-6h8l2 6v4H2z",
        "board" => "M2.5 3h3v10h-3zM6.5 3h3v7h-3zM10.5 3h3v5h-3z",
        "list" => "M5.5 4H14M5.5 8H14M5.5 12H14M2 4h.5M2 8h.5M2 12h.5",
        "epic" => "M3 3h4v4H3zM9 9h4v4H9zM5 7v4h4",
        "agent" => "M4 6h8v6H4zM8 6V3M6.2 8.7h.1M9.7 8.7h.1M2 8v2M14 8v2",
        "queue" => "M3 3h10v2.6H3zM3 6.8h10v2.6H3zM3 10.6h10v2.6H3z",
        "cost" => "M2.5 13h11M4.5 13V9M8 13V4M11.5 13V7",
        "log" => "M4 2.5h8v11H4zM6 5.5h4M6 8h4M6 10.5h2.5",
        "settings" => "M2 5h7M12 5h2M2 11h2M7 11h7M9 3.4h3v3.2H9zM4 9.4h3v3.2H4z",
        "person" => "M8 8a2.6 2.6 0 1 0 0-5.2A2.6 2.6 0 0 0 8 8zM3 13.5c.6-3 2.6-4 5-4s4.4 1 5 4",
        "critical" => {
            "M5.4 1.800h5.200l3.6 3.600v5.200l-3.6 3.600H5.400L1.8 10.600V5.400zM8 4.800v4M8 11.200v.1"
        }
        "high" | "alert" => "M8 2.2 14.5 13.500h-13zM8 6.500v3.500M8 11.800v.1",
        "medium" => "M8 2 14 8 8 14 2 8zM8 5.500v3M8 10.300v.1",
        "low" => "M8 14A6 6 0 1 0 8 2a6 6 0 0 0 0 12zM5.5 8h5",
        "passed" => "M8 14A6 6 0 1 0 8 2a6 6 0 0 0 0 12zM5.2 8.200l2 2 3.6-4.2",
        "failed" => "M8 14A6 6 0 1 0 8 2a6 6 0 0 0 0 12zM5.8 5.800l4.4 4.400M10.2 5.800l-4.4 4.4",
        "wait" => "M8 14A6 6 0 1 0 8 2a6 6 0 0 0 0 12zM8 4.800V8l2.2 1.6",
        "diff" => "M3 4.500h5M5.500 2v5M3 11.500h5M10.500 3v10",
        "new" => "M8 3v10M3 8h10",
        "search" => "M7 11.500a4.500 4.500 0 1 0 0-9 4.500 4.500 0 0 0 0 9zM10.300 10.300 14 14",
        "pause" => "M5.500 3.500v9M10.500 3.500v9",
        "run" => "M5 3.200v9.600L12.5 8z",
        _ => "M8 14A6 6 0 1 0 8 2a6 6 0 0 0 0 12z",
    };
    html! {
        svg.icon viewBox="0 0 16 16" width="16" height="16" aria-hidden="true" focusable="false" {
            path d=(path) {}
        }
    }
}
