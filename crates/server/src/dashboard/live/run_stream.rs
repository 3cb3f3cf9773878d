//! Stream of one run: the turns that are added to its transcript, and its end.

use std::time::Duration;

use axum::body::Bytes;
use flow::{TicketId, Time};
use maud::{Markup, html};
use tokio::sync::mpsc::Sender;
use tokio::time::Instant;

use super::super::{PageContext, runs};
use super::{CHECK_INTERVAL, KEEP_ALIVE_AFTER, frame_at, may_continue, partial};
use app::operations::transcripts::{TranscriptTail, TranscriptUpdate};

/// Interval at which a growing transcript is read.
const TAIL_INTERVAL: Duration = Duration::from_millis(400);

/// Returns the address of the live stream of a run's transcript, from a position in its file after
/// a number of turns. It adds turns to the list `#turns`.
pub fn run_topic(ticket: &TicketId, run: &str, (offset, turns): (u64, usize)) -> String {
    let pairs = [
        ("topic", format!("run:{run}:{ticket}")),
        ("after", format!("{offset}.{turns}")),
    ];
    let query = serde_urlencoded::to_string(pairs).unwrap_or_default();
    format!("/pages/events?{query}")
}

/// Sends the turns that are added to a transcript.
pub(super) async fn follow_run(
    context: PageContext,
    mut tail: TranscriptTail,
    sender: Sender<Bytes>,
) {
    let mut last_sent = Instant::now();
    let mut last_check = Instant::now();
    loop {
        if last_check.elapsed() >= CHECK_INTERVAL {
            last_check = Instant::now();
            if !may_continue(&context).await {
                return;
            }
        }
        let Ok(update) = tail.read().await else {
            return;
        };
        let (offset, sent) = tail.position();
        let text = if update.has_ended {
            let end = html! {
                p #run-end.notice role="status" { "This run has ended. " a href="" { "Reload" } }
            };
            frame_at((offset, sent), &partial("run-end", &end).into_string())
        } else if update.lines.is_empty() {
            if last_sent.elapsed() < KEEP_ALIVE_AFTER {
                tokio::select! {
                    () = tokio::time::sleep(TAIL_INTERVAL) => continue,
                    () = sender.closed() => return,
                }
            }
            ": still here\n\n".to_owned()
        } else {
            frame_at(
                (offset, sent),
                &added_turns(&update, context.now()).into_string(),
            )
        };
        last_sent = Instant::now();
        let is_over = update.has_ended;
        if sender.send(Bytes::from(text)).await.is_err() {
            return;
        }
        if is_over {
            // A closed connection would be opened again, so it stays while the session does.
            while may_continue(&context).await {
                tokio::select! {
                    () = tokio::time::sleep(CHECK_INTERVAL) => {}
                    () = sender.closed() => return,
                }
            }
            return;
        }
        tokio::time::sleep(TAIL_INTERVAL).await;
    }
}

fn added_turns(update: &TranscriptUpdate, now: Time) -> Markup {
    let mut turns = update.lines.iter().enumerate();
    let replaced = turns.next().filter(|_| update.replaces_first);
    let added = update.lines.iter().enumerate();
    let added = added.skip(usize::from(update.replaces_first));
    html! {
        @if let Some((_, line)) = replaced {
            (partial(&format!("turn-{}", update.first), &runs::turn(update.first, line)))
        }
        hx-partial hx-target="#turns" hx-swap="beforeend" {
            @for (index, line) in added { (runs::turn(update.first + index, line)) }
        }
        (partial("last-output", &runs::last_output(now, now)))
    }
}
