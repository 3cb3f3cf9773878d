//! One queue for each host and token, for the whole fleet: writes to a forge go out one at a time
//! and at the pace that its limits permit, whichever server sends them. The schedule is in the
//! store. It also counts the calls of a client, for the budget of the poller.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use async_trait::async_trait;
use flow::Time;
use forge::rate::WriteSchedule;
use forge::{ForgeTransport, WireFailure, WireRequest, WireResponse};
use store::{ForgeState, Store};

/// Attempts to write the schedule against other servers.
const TRIES: usize = 20;
/// Longest wait for a slot. A caller that would wait longer tries later.
const WAIT_MAX: Duration = Duration::from_secs(120);

/// Counts the calls of a client, and keeps the hourly limit that the forge reports.
#[derive(Debug, Default)]
pub struct CallMeter {
    calls: AtomicU64,
    limit: AtomicU64,
}

impl CallMeter {
    pub fn calls(&self) -> u64 {
        self.calls.load(Ordering::Relaxed)
    }

    /// Returns the number of calls an hour that the forge permits, if it said so.
    pub fn limit(&self) -> Option<u64> {
        Some(self.limit.load(Ordering::Relaxed)).filter(|limit| *limit > 0)
    }

    fn record(&self, response: &WireResponse) {
        let header = response
            .header("x-ratelimit-limit")
            .or_else(|| response.header("ratelimit-limit"));
        if let Some(limit) = header.and_then(|text| text.trim().parse().ok()) {
            self.limit.store(limit, Ordering::Relaxed);
        }
        // An unchanged list does not count against the limit.
        if response.status != 304 {
            self.calls.fetch_add(1, Ordering::Relaxed);
        }
    }
}

/// A transport that waits for its turn before each write.
#[derive(Debug)]
pub struct PacedTransport {
    pub inner: Arc<dyn ForgeTransport>,
    pub store: Arc<dyn Store>,
    pub clock: fn() -> Time,
    /// Name of the schedule: the host, and a hash of the token.
    pub name: String,
    pub meter: Arc<CallMeter>,
}

impl PacedTransport {
    /// Takes the next slot of the schedule, and returns how long to wait for it.
    async fn take_slot(&self) -> Result<Duration, store::Error> {
        for _ in 0..TRIES {
            let state = self.store.forge_state(&self.name).await?;
            let now = (self.clock)().0;
            let mut schedule: WriteSchedule =
                serde_json::from_value(state.body.clone()).unwrap_or_default();
            let wait = schedule.wait(now);
            if wait > WAIT_MAX {
                return Ok(wait);
            }
            schedule.record(now + i64::try_from(wait.as_millis()).unwrap_or(0));
            let body = serde_json::to_value(&schedule)?;
            if self
                .store
                .put_forge_state(ForgeState { body, ..state })
                .await?
            {
                return Ok(wait);
            }
        }
        // Others write all the time: their pace is ours.
        Ok(Duration::from_secs(1))
    }
}

#[async_trait]
impl ForgeTransport for PacedTransport {
    async fn exchange(&self, request: &WireRequest) -> Result<WireResponse, WireFailure> {
        let is_question = request.method == "GET" || request.url.ends_with("/graphql");
        if !is_question {
            let unsent = |why: String| WireFailure { why, unsent: true };
            let slot = self.take_slot().await;
            let wait = slot.map_err(|error| unsent(error.to_string()))?;
            if wait > WAIT_MAX {
                let seconds = wait.as_secs();
                return Err(unsent(format!(
                    "the limit of writes is used up for {seconds} seconds"
                )));
            }
            tokio::time::sleep(wait).await;
        }
        let response = self.inner.exchange(request).await?;
        self.meter.record(&response);
        Ok(response)
    }
}
