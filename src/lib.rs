//! mercato: one platform for selling software through two cloud marketplaces.
//!
//! # Bird's eye
//!
//! One process serves REST (`/api/v1`, `/oauth`) and GraphQL (`/graphql`) over one layer of resolvers, which is the only
//! way to a SurrealDB database: embedded in the process, or a server that several processes share. Every change is one
//! transaction that also writes its event into a gap-free log per organization; webhooks and subscriptions read that log.
//! (There is one reader of it, [`store::log::Tail`]; a webhook is one that remembers its place in the database.)
//!
//! # Code map
//!
//! | room | what is in it |
//! |---|---|
//! | [`model`] | the vocabulary: ids, scopes, pages, events, one file per resource with its rules. No I/O, nothing async |
//! | [`error`], [`clock`] | what can go wrong; time and chance as arguments |
//! | [`store`] | the only place that speaks SurrealQL |
//! | [`call`] | who is calling; [`call::Call::grant`], the guard and the only door to the store |
//! | [`resolvers`] | what the service can do: one plain async function per operation |
//! | [`courier`] | one signed request to an address outside: which targets are allowed, what may happen |
//! | [`webhook`] | the life of an event after its commit: leases, lanes, the schedule |
//! | [`marketplace`] | the two marketplaces: clients of their protocols, the workers that use them, the simulator |
//! | [`auth`] | a header in, a caller out; the client-credentials grant; the rate limiter |
//! | [`http`] | what both facades share of HTTP, and the server itself |
//! | [`rest`], [`graphql`] | the facades: decode, one call, encode |
//! | [`app`], [`config`], [`cli`] | the composition root, its settings, the command line |
//!
//! # Invariants
//!
//! - A resolver reaches the store only through [`call::Call::grant`]; an operation without its guard does not compile.
//! - Every operation is a row of [`model::operation`]. Router, OpenAPI document and guard tests are made from it.
//! - Every write is one SurrealQL block: record, idempotency row, `sequence`, events. There is no second transaction.
//! - A plan names the last event that it has seen; its transaction fails, and is planned again, when another was told since.
//! - An entitlement moves only along the table of [`model::lifecycle`]; its history, the counts of contracts
//!   ([`model::tally`]) and what its customer counts of it change in the same block.
//! - Numbers of the domain are [`model::decimal::Decimal`]s. No float is computed with; none is rounded silently.
//! - An event's JSON is made once. Whoever delivers it sends those bytes.
//! - Results of deliveries are written in a transaction that holds only under the lease and the webhook's revision; what a
//!   process that dies has not written is done again, under the same `webhook-id`.
//! - The connector of webhooks is given addresses that were checked, and no others.
//! - A record's key begins with its organization, so another organization's record is as unknown as one that never was.
//! - What is remembered of reads is exact: every write of an organization passes [`store::Tenant::write`], which voids what
//!   was read before it. Rows that are changed elsewhere would be served stale; there is no elsewhere.
//! - No code asks the machine for the time or for chance but [`clock`].
//! - `tests/it/tidy.rs` checks who imports whom.
//!
//! # What happens when a customer is created over REST
//!
//! 1. [`http::server`] accepts the connection; [`http::trace`] gives the request its id.
//! 2. `rest::endpoint` asks [`auth::authenticate`] for the caller, takes one unit from the limiter, reads the body and the
//!    idempotency key.
//! 3. `rest::customers::create` decodes the body and calls [`resolvers::customers::create`].
//! 4. The resolver passes [`call::Call::grant`] and gets a [`store::Tenant`]; only now it raises what was wrong with the body.
//! 5. [`store::Tenant::write`] looks for the idempotency key, waits for the organization's lane, runs the plan, and
//!    commits one block: customer, sequence, event, key. On a conflict it plans again.
//! 6. The shim wraps the customer in `{code, data}`; `http::request::seal` adds the rate headers.
//!
//! # What happens when a page of customers is read over GraphQL
//!
//! 1. `graphql::transport` negotiates the form, reads the four parameters, bounds the document.
//! 2. `graphql::admission` counts aliases and charges the limiter by complexity, once the document is known to be valid.
//! 3. `Query.customers` calls [`resolvers::customers::list`]: guard, cursor check, one forward scan of a range or an index.
//! 4. Nested fields load through `graphql::loaders`: when the execution can go no further, one query for all parents.
//!
//! # What happens when a customer accepts an offer
//!
//! 1. The marketplace's side calls [`resolvers::offers::accept`] with a [`store::Tenant`]; it has no caller.
//! 2. The plan reads the offer, its customer and the organization's last event in one query, and for a replacement the
//!    contract under its agreement.
//! 3. `resolvers::entitlements` makes the contract's change: the record by [`model::lifecycle`], the history entry, the
//!    nodes of the counts, the customer's share in it.
//! 4. One block writes offer, entitlement, history, counts, customer, and the events `private_offer.accepted` and
//!    `entitlement.created` (or `.updated`), in this order.
//! 5. From then on [`resolvers::clockwork`] looks after it: one worker asks each second for what is due, by an index, and
//!    does it in the order in which it became due.
//!
//! # What happens to an event after its commit
//!
//! 1. [`store::Tenant::write`] hands it to the log of this process ([`store::log`]), which remembers the newest ones. Nothing
//!    depends on it: whoever reads the log also looks by itself.
//! 2. The organization's channel, if anybody follows it, has it at once; the channel's pump reads what other processes commit.
//! 3. Each subscription takes what its scopes and its filter admit from its own [`store::log::Tail`]; `graphql::rendering`
//!    executes a document once per event for all that sent the same one.
//! 4. [`webhook::dispatcher`] starts a lane for each webhook of the organization that is behind the log. The lane takes the
//!    lease, begins an attempt per event while there is room, and writes down many results at once.
//! 5. What failed stands in the `retry` table under the moment when it is due; the dispatcher looks for those.
//!
//! # What happens until a private offer is live, and usage is confirmed
//!
//! 1. The block that writes the offer or the report also writes a row of the outbox ([`store::outbox`]): it is due now.
//! 2. [`marketplace::clerk`] takes up what is due, the most urgent first. Taking up moves a row ahead, so that nobody else
//!    has it; a process that dies leaves it to the next look after that.
//! 3. `marketplace::publisher` compares the offer with what the marketplace holds, asks for one thing (publish, move the
//!    expiry, withdraw), and writes down in the row's note what it asked for. Later looks ask how far that is.
//! 4. `marketplace::reporter` sends the open rows of all reports of an account together; a row always has the quantity that
//!    was taken in, so sending it again bills nothing twice.
//! 5. What the marketplace says goes through [`resolvers::offers::publish`] and [`resolvers::metering::settle`], which emit
//!    the events.
//!
//! # What happens to a notification of a marketplace
//!
//! 1. An address that was refused too often is refused at once. [`marketplace::inbound`] asks the organization's adapter
//!    whether it is the marketplace: a secret, or a JWT by keys that are fetched once and remembered. Whoever it is not gets
//!    one answer for all, and an audit entry.
//! 2. The body is kept as it came, once for each of the marketplace's ids, and answered with 200. Nothing of it was done, but
//!    its contract stands in [`store::inbox`] now.
//! 3. [`marketplace::inbox`] is woken, and looks by itself. Whoever takes a contract's turn applies the first of its
//!    notifications that have no verdict; `held` is the lease.
//! 4. `cloud_b`'s is a reason to ask: the change is acknowledged, the subscription fetched. `cloud_a`'s is a picture: the
//!    agreement is what all pictures of it show.
//! 5. `marketplace::converge` finds or creates customer and entitlement, and takes steps of [`model::lifecycle`] until there
//!    is no difference left. So order and number of notifications do not matter.
//! 6. The verdict and its reason are written, and the turn is given back, in one transaction. After 90 days it is forgotten, unless
//!    `cloud_a`'s agreement lives: that is known by its pictures alone.
//!
//! # What happens to a notification that never comes
//!
//! 1. [`marketplace::reconciler`] compares each account every hour with what its marketplace has: contracts, changes that
//!    wait for an answer, accepted usage. What differs stands in a table, and nothing is done.
//! 2. Somebody orders one to be adopted ([`resolvers::marketplaces::adopt`]). The reconciler asks the marketplace again, and
//!    does what the notification would have done, by the same code; so it emits the same events.
//!
//! # What happens when a secret is regenerated
//!
//! 1. [`resolvers::applications::regenerate_secret`] passes [`call::Call::grant_itself`]: the application itself, or an
//!    administrator.
//! 2. One block stores the new hash, raises the application's `epoch`, writes the audit entry.
//! 3. A token row carries the epoch it was issued under, and every request reads both; so from that commit on every older
//!    token is void, in every process.

pub mod app;
pub mod auth;
pub mod call;
pub mod cli;
pub mod clock;
pub mod config;
pub mod courier;
pub mod error;
pub mod graphql;
pub mod http;
pub mod marketplace;
pub mod model;
pub mod resolvers;
pub mod rest;
pub mod store;
pub mod webhook;

/// The system's allocator took a sixth of a delivery's time (docs/benchmarks.md).
#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;
