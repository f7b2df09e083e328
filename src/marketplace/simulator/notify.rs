//! Notifications: one queue, and the task that sends them. What goes to one address goes one at a time and in order; one
//! that waits for its time or for another attempt lets the others pass.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use chrono::TimeDelta;
use http::{HeaderName, HeaderValue, header};
use serde::Serialize;
use serde_json::Value;
use tokio::sync::{Notify, watch};
use tokio::task::JoinSet;
use tokio::time::Instant;

use super::Sim;
use super::answer::Wrong;
use super::faults::Mishap;
use super::world::{Side, World};
use crate::http::server::stopped;
use crate::model::time::Timestamp;

/// How often the task looks by itself for what became due.
const TICK: Duration = Duration::from_millis(200);
/// For one attempt.
const TIMEOUT: Duration = Duration::from_secs(10);
/// When a receiver is given up.
const ATTEMPTS: u32 = 500;
const PATIENCE: Duration = Duration::from_hours(8);
const LONGEST_PAUSE: u64 = 60;
/// Settled notifications that are remembered, of all together; beyond that the oldest are forgotten.
const REMEMBERED: usize = 10_000;
/// How many more there may be before it is looked again which those are.
const SLACK: usize = 500;

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
enum State {
    Waiting,
    /// Until others have come, to be sent after them.
    Held,
    Dropped,
    Delivered,
    GivenUp,
}

#[derive(Clone, Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Notification {
    id: u64,
    side: Side,
    publisher: String,
    kind: String,
    state: State,
    fault: Option<Mishap>,
    created: Timestamp,
    /// Of its clock.
    not_before: Timestamp,
    attempts: u32,
    delivered: u32,
    last_status: Option<u16>,
    last_error: Option<String>,
    body: Value,
    /// How often it is still to be delivered.
    #[serde(skip)]
    copies: u32,
    /// In a row, since it was queued.
    #[serde(skip)]
    failures: u32,
    #[serde(skip)]
    queued: Instant,
    #[serde(skip)]
    next_attempt: Option<Instant>,
}

pub struct Queue {
    wake: Arc<Notify>,
    all: BTreeMap<u64, Notification>,
    /// What is to be sent, in this order.
    order: Vec<u64>,
    held: Vec<u64>,
    /// Addresses with an attempt under way.
    busy: BTreeSet<String>,
    last: u64,
    /// That wait or are held; beyond that the oldest are given up.
    most: usize,
}

/// What there is to do.
#[derive(Debug, Serialize)]
pub struct Backlog {
    /// Now, or at this moment under way.
    pub waiting: usize,
    /// Failed, and to be tried again.
    pub retrying: usize,
    /// When its clock comes to it, or others have come.
    pub scheduled: usize,
}

struct Parcel {
    id: u64,
    url: String,
    body: Bytes,
    authority: (HeaderName, String),
}

impl Queue {
    pub fn new(wake: Arc<Notify>, most: usize) -> Self {
        Self { wake, all: BTreeMap::new(), order: Vec::new(), held: Vec::new(), busy: BTreeSet::new(), last: 0, most }
    }

    pub fn list(&self) -> Vec<&Notification> {
        self.all.values().collect()
    }

    fn enqueue(&mut self, id: u64) {
        self.order.push(id);
        self.wake.notify_one();
    }

    /// Lets go of what was held, the last first.
    pub fn release(&mut self) {
        while let Some(id) = self.held.pop() {
            if let Some(notification) = self.all.get_mut(&id) {
                notification.state = State::Waiting;
            }
            self.enqueue(id);
        }
    }

    pub fn resend(&mut self, id: u64, now: Timestamp) -> Result<&Notification, Wrong> {
        let notification =
            self.all.get_mut(&id).ok_or_else(|| Wrong::unknown(format!("there is no notification {id}")))?;
        // What waits is sent once more than it would be; what does not, once.
        notification.copies = if notification.state == State::Waiting { notification.copies + 1 } else { 1 };
        (notification.state, notification.not_before) = (State::Waiting, now);
        (notification.failures, notification.queued, notification.next_attempt) = (0, Instant::now(), None);
        self.held.retain(|held| *held != id);
        self.order.retain(|queued| *queued != id);
        self.order.push(id);
        self.wake.notify_one();
        Ok(notification)
    }

    pub fn backlog(&self, now: Timestamp) -> Backlog {
        let mut backlog = Backlog { waiting: 0, retrying: 0, scheduled: self.held.len() };
        let instant = Instant::now();
        for notification in self.order.iter().filter_map(|id| self.all.get(id)) {
            match (notification.not_before > now, notification.next_attempt) {
                (true, _) => backlog.scheduled += 1,
                (false, Some(next)) if next > instant => backlog.retrying += 1,
                (false, _) => backlog.waiting += 1,
            }
        }
        backlog.waiting = backlog.waiting.max(self.busy.len());
        backlog
    }

    fn forget_oldest(&mut self) {
        self.give_up_oldest();
        if self.all.len() <= REMEMBERED + SLACK {
            return;
        }
        let settled = |n: &&Notification| !matches!(n.state, State::Waiting | State::Held);
        let more = self.all.len() - REMEMBERED;
        let oldest: Vec<u64> = self.all.values().filter(settled).take(more).map(|it| it.id).collect();
        for id in oldest {
            self.all.remove(&id);
        }
    }

    /// Nobody takes them in: they would be kept for ever.
    fn give_up_oldest(&mut self) {
        let more = (self.order.len() + self.held.len()).saturating_sub(self.most);
        if more == 0 {
            return;
        }
        let waiting: BTreeSet<u64> = self.order.iter().chain(&self.held).copied().collect();
        for id in waiting.into_iter().take(more) {
            if let Some(notification) = self.all.get_mut(&id) {
                notification.state = State::GivenUp;
            }
            self.order.retain(|queued| *queued != id);
            self.held.retain(|held| *held != id);
        }
    }

    fn note(&mut self, id: u64, url: &str, result: Result<u16, String>) {
        self.busy.remove(url);
        let Some(notification) = self.all.get_mut(&id) else { return };
        notification.attempts += 1;
        notification.last_status = result.as_ref().ok().copied();
        notification.last_error = result.as_ref().err().cloned();
        if result.is_ok_and(|status| (200..300).contains(&status)) {
            notification.delivered += 1;
            notification.failures = 0;
            notification.copies = notification.copies.saturating_sub(1);
            if notification.copies == 0 {
                notification.state = State::Delivered;
            }
        } else {
            notification.fail();
        }
        if notification.state != State::Waiting {
            self.order.retain(|queued| *queued != id);
        }
    }
}

impl Notification {
    fn fail(&mut self) {
        self.failures += 1;
        let pause = 2_u64.saturating_pow(self.failures - 1).min(LONGEST_PAUSE);
        self.next_attempt = Some(Instant::now() + Duration::from_secs(pause));
        if self.failures >= ATTEMPTS || self.queued.elapsed() >= PATIENCE {
            self.state = State::GivenUp;
        }
    }

    fn is_due(&self, now: Timestamp, instant: Instant) -> bool {
        self.not_before <= now && self.next_attempt.is_none_or(|next| next <= instant)
    }
}

impl World {
    /// Queues a notification, or does what a fault makes of it.
    pub fn notify(&mut self, publisher: &str, side: Side, kind: &str, body: Value) {
        let fault = self.faults.next_mishap();
        let (mut state, mut copies, mut not_before) = (State::Waiting, 1, self.now);
        match fault {
            Some(Mishap::Dropped) => state = State::Dropped,
            Some(Mishap::Delayed { seconds }) => not_before = self.now.plus(TimeDelta::seconds(seconds.into())),
            Some(Mishap::Held { .. }) => state = State::Held,
            Some(Mishap::Duplicated) => copies = 2,
            None => {}
        }
        let queue = &mut self.queue;
        queue.last += 1;
        let id = queue.last;
        let notification = Notification {
            id,
            side,
            publisher: publisher.to_owned(),
            kind: kind.to_owned(),
            state,
            fault,
            created: self.now,
            not_before,
            attempts: 0,
            delivered: 0,
            last_status: None,
            last_error: None,
            body,
            copies,
            failures: 0,
            queued: Instant::now(),
            next_attempt: None,
        };
        queue.all.insert(id, notification);
        match state {
            State::Waiting => queue.enqueue(id),
            State::Held => queue.held.push(id),
            _ => {}
        }
        if fault == Some(Mishap::Held { last: true }) {
            queue.release();
        }
        queue.forget_oldest();
    }

    /// What can be sent now: the first for each address that has nothing under way.
    fn take_due(&mut self) -> Vec<Parcel> {
        let (instant, now) = (Instant::now(), self.now);
        let mut parcels = Vec::new();
        for id in self.queue.order.clone() {
            let Some(notification) = self.queue.all.get(&id) else { continue };
            if !notification.is_due(now, instant) {
                continue;
            }
            // A publisher that was changed may have no account there any more; nothing is sent until it has again.
            let Some((url, authority)) = self.recipient(&notification.publisher, notification.side) else { continue };
            let body = Bytes::from(notification.body.to_string());
            if self.queue.busy.insert(url.clone()) {
                parcels.push(Parcel { id, url, body, authority });
            }
        }
        parcels
    }

    /// Where notifications of a publisher go, and what shows that they are ours.
    fn recipient(&self, publisher: &str, side: Side) -> Option<(String, (HeaderName, String))> {
        let publisher = self.publishers.get(publisher)?;
        match side {
            Side::CloudA => {
                let account = publisher.cloud_a.as_ref()?;
                let header = (HeaderName::from_static("x-mercato-secret"), account.secret.clone());
                Some((account.notification_url.clone(), header))
            }
            Side::CloudB => {
                let account = publisher.cloud_b.as_ref()?;
                let token = self.key.token(account, self.machine_now());
                Some((account.notification_url.clone(), (header::AUTHORIZATION, format!("Bearer {token}"))))
            }
        }
    }
}

/// What notifications are sent with.
pub fn client() -> reqwest::Result<reqwest::Client> {
    reqwest::Client::builder().no_proxy().redirect(reqwest::redirect::Policy::none()).timeout(TIMEOUT).build()
}

/// Sends what is due until it is told to stop. It also makes the world catch up when nobody asks it anything.
pub async fn send_all(sim: Sim, client: reqwest::Client, mut stop: watch::Receiver<bool>) {
    let mut sending = JoinSet::new();
    loop {
        for parcel in sim.world().take_due() {
            sending.spawn(send(client.clone(), parcel));
        }
        tokio::select! {
            () = stopped(&mut stop) => return,
            Some(Ok((id, url, result))) = sending.join_next() => {
                sim.world().queue.note(id, &url, result);
                sim.attempted.notify_waiters();
            }
            () = sim.wake.notified() => {}
            () = tokio::time::sleep(TICK) => {}
        }
    }
}

async fn send(client: reqwest::Client, parcel: Parcel) -> (u64, String, Result<u16, String>) {
    let Parcel { id, url, body, authority: (name, value) } = parcel;
    let Ok(value) = HeaderValue::from_str(&value) else {
        return (id, url, Err("the secret is no header".to_owned()));
    };
    let request = client.post(&url).header(name, value).header(header::CONTENT_TYPE, "application/json").body(body);
    let result = request.send().await.map(|response| response.status().as_u16()).map_err(|error| error.to_string());
    (id, url, result)
}
