//! One queue for each host and token, for the whole fleet: writes to a forge go out one at a time
//! and at the pace that its limits permit, whichever server sends them. The schedule is in the
//! store. It also counts the calls of a client, for the budget of the poller.

use std::sync::Arc;
use std::sync::atomic::{AtomicI64, AtomicU64, Ordering};
use std::time::Duration;

use async_trait::async_trait;
use engine::log::LogErr;
use flow::Time;
use forge::rate::{WriteSchedule, limit_status, limit_wait, server_seconds};
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
    /// Milliseconds by which the clock of the forge is ahead of ours.
    ahead_ms: AtomicI64,
}

impl CallMeter {
    pub fn calls(&self) -> u64 {
        self.calls.load(Ordering::Relaxed)
    }

    /// Returns the number of calls an hour that the forge permits, if it said so.
    pub fn limit(&self) -> Option<u64> {
        Some(self.limit.load(Ordering::Relaxed)).filter(|limit| *limit > 0)
    }

    /// Returns a time of the forge by our clock.
    pub fn by_our_clock(&self, time: Time) -> Time {
        Time(time.0.saturating_sub(self.ahead_ms.load(Ordering::Relaxed)))
    }

    fn record(&self, response: &WireResponse, now: Time) {
        if let Some(there) = server_seconds(|name| response.header(name)) {
            // It has no parts of a second, so it is ours as long as the seconds are the same.
            let ahead = there.saturating_sub(now.0.div_euclid(1000));
            self.ahead_ms
                .store(ahead.saturating_mul(1000), Ordering::Relaxed);
        }
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
            let wait = schedule.reserve(now, WAIT_MAX);
            if wait > WAIT_MAX {
                return Ok(wait);
            }
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

impl PacedTransport {
    /// Stops the writes of the whole fleet for the time that the forge asks for.
    async fn obey_limit(&self, url: &str, response: &WireResponse) -> Result<(), store::Error> {
        let now = (self.clock)().0;
        let text = String::from_utf8_lossy(&response.body);
        let header = |name: &str| response.header(name);
        let status = limit_status(url, response.status, &response.body);
        let Some(wait) = limit_wait(status, header, &text, now / 1000) else {
            return Ok(());
        };
        for _ in 0..TRIES {
            let state = self.store.forge_state(&self.name).await?;
            let mut schedule: WriteSchedule =
                serde_json::from_value(state.body.clone()).unwrap_or_default();
            schedule.pause(now, wait);
            let body = serde_json::to_value(&schedule)?;
            if self
                .store
                .put_forge_state(ForgeState { body, ..state })
                .await?
            {
                break;
            }
        }
        Ok(())
    }
}

/// Answers as the forge would, so that a caller plans the wait as for a limit of the forge itself.
fn limited(wait: Duration) -> WireResponse {
    let seconds = wait.as_secs().max(1).to_string();
    WireResponse {
        status: 429,
        headers: vec![("retry-after".to_owned(), seconds)],
        body: Vec::new(),
    }
}

#[async_trait]
impl ForgeTransport for PacedTransport {
    async fn exchange(&self, request: &WireRequest) -> Result<WireResponse, WireFailure> {
        if request.is_write {
            let wait = self.take_slot().await.map_err(|error| WireFailure {
                why: error.to_string(),
                unsent: true,
            })?;
            if wait > WAIT_MAX {
                return Ok(limited(wait));
            }
            tokio::time::sleep(wait).await;
        }
        let response = self.inner.exchange(request).await?;
        self.meter.record(&response, (self.clock)());
        let obeyed = self.obey_limit(&request.url, &response).await;
        obeyed.log_err("remember the limit of a forge");
        Ok(response)
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Mutex;
    use tokio::time::Instant;

    use super::*;

    /// Notes when each request arrives.
    #[derive(Debug, Default)]
    struct Noting(Mutex<Vec<Instant>>);

    #[async_trait]
    impl ForgeTransport for Noting {
        async fn exchange(&self, _: &WireRequest) -> Result<WireResponse, WireFailure> {
            self.0.lock().unwrap().push(Instant::now());
            let date = "Thu, 19 Nov 2026 22:54:15 GMT".to_owned();
            Ok(WireResponse {
                status: 200,
                headers: vec![("date".to_owned(), date)],
                body: Vec::new(),
            })
        }
    }

    fn request(is_write: bool) -> WireRequest {
        WireRequest {
            method: "POST",
            url: "https://forge.example/x".to_owned(),
            headers: Vec::new(),
            body: Vec::new(),
            is_write,
        }
    }

    #[tokio::test]
    async fn two_servers_with_one_token_write_in_turns() {
        let place = tempfile::tempdir().unwrap();
        let file = place.path().join("store.db");
        let forge = Arc::<Noting>::default();
        let mut servers = Vec::new();
        for _ in 0..2 {
            servers.push(PacedTransport {
                inner: Arc::clone(&forge) as _,
                store: store::open(file.to_str().unwrap()).await.unwrap(),
                clock: engine::clock::now,
                name: "writes/forge.example/hash".to_owned(),
                meter: Arc::default(),
            });
        }
        let write = request(true);
        let (one, other) = (&servers[0], &servers[1]);
        let writes = tokio::join!(
            one.exchange(&write),
            other.exchange(&write),
            one.exchange(&write),
            other.exchange(&write)
        );
        assert!(writes.0.is_ok() && writes.1.is_ok() && writes.2.is_ok() && writes.3.is_ok());
        let times = forge.0.lock().unwrap().clone();
        // A slot is by the clock in milliseconds, and a sleep ends a moment later.
        let is_apart = |pair: &[Instant]| pair[1] - pair[0] > Duration::from_millis(900);
        assert!(times.windows(2).all(is_apart), "{times:?}");
        // Questions wait for nobody.
        let began = Instant::now();
        other.exchange(&request(false)).await.unwrap();
        assert!(began.elapsed() < Duration::from_millis(900));
    }

    #[tokio::test]
    async fn a_time_of_the_forge_is_read_by_our_clock() {
        let meter = CallMeter::default();
        let answer = Noting::default().exchange(&request(false)).await.unwrap();
        // By our clock it is an hour earlier than by the forge's.
        let there = Time(1_795_128_855_000);
        let here = Time(there.0 - 3_600_000);
        meter.record(&answer, Time(here.0 + 400));
        assert_eq!(meter.by_our_clock(there), here);
        // The same second is the same time.
        meter.record(&answer, Time(there.0 + 700));
        assert_eq!(meter.by_our_clock(there), there);
    }
}
