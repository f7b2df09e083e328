//! Properties on random input: cursors, sliding windows, inverted keys, idempotent JSON.

use mercato::auth::limiter::{Key, Limiter};
use mercato::model::application::RateLimits;
use mercato::model::changes::Changes;
use mercato::model::filter::Order;
use mercato::model::id::{ApplicationId, CustomerId, OrganizationId, invert, revert};
use mercato::model::page::{CursorKey, CursorScope, ListName};
use mercato::model::time::Timestamp;
use proptest::prelude::*;
use ulid::Ulid;

const START: i64 = mercato::clock::MANUAL_START;

proptest! {
    #[test]
    fn inverted_keys_turn_the_order_round(a: u128, b: u128) {
        let (a, b) = (Ulid(a), Ulid(b));
        prop_assert_eq!(invert(a).cmp(&invert(b)), b.cmp(&a));
        prop_assert_eq!(revert(&invert(a)), Some(a));
        prop_assert_eq!(invert(a).len(), 26);
    }

    #[test]
    fn an_id_has_one_spelling(id: u128, text in "\\PC*") {
        let id = CustomerId(Ulid(id));
        prop_assert_eq!(CustomerId::parse(&id.to_string()), Some(id));
        prop_assert_eq!(CustomerId::parse(&id.to_string().to_lowercase()), None);
        if let Some(parsed) = CustomerId::parse(&text) {
            prop_assert_eq!(parsed.to_string(), text);
        }
    }

    #[test]
    fn a_cursor_opens_for_its_key_organization_and_list_only(
        key: [u8; 32], other_key: [u8; 32], organization: u128, other: u128, position in "[0-9a-zA-Z]{0,90}", garbage in "[A-Za-z0-9_-]{0,60}",
    ) {
        let (key, other_key) = (CursorKey(key), CursorKey(other_key));
        let scope = |key, organization, list| CursorScope { key, organization: OrganizationId(Ulid(organization)), list, order: Order::Newest };
        let own = scope(&key, organization, ListName::Customers);
        let cursor = own.encode(&position);
        prop_assert_eq!(CursorScope { order: Order::Oldest, ..scope(&key, organization, ListName::Customers) }.decode(&cursor), None);
        prop_assert_eq!(own.decode(&cursor), Some(position.clone()));
        prop_assert_eq!(scope(&key, organization, ListName::Applications).decode(&cursor), None);
        if other != organization {
            prop_assert_eq!(scope(&key, other, ListName::Customers).decode(&cursor), None);
        }
        if key.0 != other_key.0 {
            prop_assert_eq!(scope(&other_key, organization, ListName::Customers).decode(&cursor), None);
        }
        if garbage != cursor {
            prop_assert_eq!(own.decode(&garbage), None);
        }
    }

    /// Against counting by hand: in any span at most the limit, a refusal costs nothing, and who waits as told is let in.
    #[test]
    fn windows_admit_what_counting_by_hand_admits(
        steps in prop::collection::vec((0_i64..90_000, 1_u32..6), 1..120), hour in 5_u32..60, minute in 5_u32..20,
    ) {
        let limiter = Limiter::default();
        let key = Key::Application(ApplicationId(Ulid(1)));
        let limits = RateLimits { hour, minute };
        let mut now = START;
        let mut admitted: Vec<(i64, u32)> = Vec::new();
        for (pause, units) in steps {
            now += pause;
            let used = |span: i64| -> u32 {
                admitted.iter().filter(|(at, _)| *at > now - span).map(|(_, units)| units).sum()
            };
            let fits = used(3_600_000) + units <= hour && used(60_000) + units <= minute;
            match limiter.take(key, limits, units, Timestamp::from_millis(now)) {
                Ok(state) => {
                    prop_assert!(fits);
                    let left = (hour - used(3_600_000) - units, minute - used(60_000) - units);
                    admitted.push((now, units));
                    prop_assert_eq!(state.remaining, left.0.min(left.1));
                    prop_assert_eq!(state.limit, if left.1 < left.0 { minute } else { hour });
                }
                Err(error) => {
                    prop_assert!(!fits);
                    let wait = i64::try_from(error.retry_after().expect("a wait")).expect("a small wait");
                    prop_assert!(wait >= 1);
                    now += wait * 1000;
                    limiter.take(key, limits, units, Timestamp::from_millis(now)).expect("who waits is let in");
                    admitted.push((now, units));
                }
            }
        }
    }

    /// However high the limit and so however coarse the bookkeeping: never more than the limit.
    #[test]
    fn coarse_windows_never_admit_too_much(steps in prop::collection::vec((0_i64..3_000, 1_u32..4_000), 1..200)) {
        let limiter = Limiter::default();
        let limits = RateLimits { hour: 1_000_000_000, minute: 20_000 };
        let mut now = START;
        let mut admitted: Vec<(i64, u32)> = Vec::new();
        for (pause, units) in steps {
            now += pause;
            if limiter.take(Key::Application(ApplicationId(Ulid(1))), limits, units, Timestamp::from_millis(now)).is_ok() {
                admitted.push((now, units));
            }
            let used: u32 = admitted.iter().filter(|(at, _)| *at > now - 60_000).map(|(_, units)| units).sum();
            prop_assert!(used <= 20_000);
        }
    }

    #[test]
    fn changes_are_empty_exactly_when_nothing_changed(before in json(), after in json()) {
        prop_assert!(Changes::between(&before, &before).is_empty());
        prop_assert_eq!(Changes::between(&before, &after).is_empty(), same(&before, &after));
    }
}

/// Small JSON objects of few names, so that they meet.
fn json() -> impl Strategy<Value = serde_json::Value> {
    let leaf = prop_oneof![Just(serde_json::json!(1)), Just(serde_json::json!(null)), Just(serde_json::json!("x"))];
    let nested = leaf.prop_recursive(3, 12, 3, |inner| {
        prop::collection::btree_map("[ab]", inner, 0..3).prop_map(|fields| serde_json::json!(fields))
    });
    prop::collection::btree_map("[abc]", nested, 0..3).prop_map(|fields| serde_json::json!(fields))
}

/// Whether two values are equal where an absent field counts as null.
fn same(a: &serde_json::Value, b: &serde_json::Value) -> bool {
    let (serde_json::Value::Object(a), serde_json::Value::Object(b)) = (a, b) else { return a == b };
    let null = serde_json::Value::Null;
    a.keys().chain(b.keys()).all(|name| same(a.get(name).unwrap_or(&null), b.get(name).unwrap_or(&null)))
}
