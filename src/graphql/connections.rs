//! Relay connections: what every list of GraphQL has in common.

use async_graphql::connection::{Connection, CursorType, Edge};
use async_graphql::{Enum, InputObject, MaybeUndefined, OutputType};

use crate::call::Call;
use crate::model::filter::{Order, Range};
use crate::model::input::Problems;
use crate::model::offer_terms::Nullable;
use crate::model::page::{DEFAULT_LIMIT, ListName, MAX_LIMIT, Page};
use crate::model::time::Timestamp;

/// How many children a parent shows unless told.
pub const NESTED: i32 = 10;

/// What a page multiplies the cost of its items by.
pub fn page_size(first: Option<i32>) -> usize {
    first.map_or(DEFAULT_LIMIT, |first| usize::try_from(first).unwrap_or(1).clamp(1, MAX_LIMIT))
}

/// The same within a parent.
pub fn nested_size(first: Option<i32>) -> usize {
    page_size(first.or(Some(NESTED)))
}

/// A page of records as a connection.
pub type Records<N> = Connection<Cursor, N>;

/// The place of an item. It is authenticated when somebody asks for it, which for most items nobody does.
pub struct Cursor {
    call: Call,
    list: (ListName, Order),
    position: String,
}

impl CursorType for Cursor {
    type Error = std::convert::Infallible;

    /// Never asked: arguments are read as texts and opened by the resolvers, which know whose they are.
    fn decode_cursor(_: &str) -> Result<Self, Self::Error> {
        unreachable!("cursors are opened by the resolvers")
    }

    fn encode_cursor(&self) -> String {
        let (list, order) = self.list;
        self.call.cursor_scope(list, order).encode(&self.position)
    }
}

/// A page as a connection. `continued` says that it began after a cursor.
pub fn connect<M, N: OutputType + From<M>>(
    call: &Call,
    list: (ListName, Order),
    continued: bool,
    page: Page<M>,
) -> Records<N> {
    let mut connection = Connection::new(continued, page.has_more);
    let edges = page.positions.into_iter().zip(page.items);
    let edge = |(position, item): (String, M)| Edge::new(Cursor { call: call.clone(), list, position }, item.into());
    connection.edges.extend(edges.map(edge));
    connection
}

/// A field of an update where null is a value.
pub fn nullable<T>(value: MaybeUndefined<T>) -> Nullable<T> {
    match value {
        MaybeUndefined::Undefined => None,
        MaybeUndefined::Null => Some(None),
        MaybeUndefined::Value(value) => Some(Some(value)),
    }
}

/// A field of an update where null is none; it is refused rather than ignored.
pub fn set<T>(value: MaybeUndefined<T>, problems: &mut Problems, field: &str) -> Option<T> {
    if value.is_null() {
        problems.malformed(field, "must not be null");
    }
    value.take()
}

/// From the first moment, up to but without the second.
#[derive(InputObject, Clone, Copy)]
pub struct DateRange {
    from: Option<Timestamp>,
    to: Option<Timestamp>,
}

impl DateRange {
    pub fn range(range: Option<Self>) -> Range {
        range.map_or(Range::default(), |range| Range { from: range.from, to: range.to })
    }
}

#[derive(Enum, Clone, Copy, PartialEq, Eq)]
pub enum OrderDirection {
    Asc,
    Desc,
}

/// An `orderBy` argument: by creation, or by what the resource has besides it.
macro_rules! order_by {
    ($order:ident, $field:ident, $(#[$doc:meta])* $own:ident) => {
        #[derive(async_graphql::Enum, Clone, Copy, PartialEq, Eq)]
        pub enum $field {
            CreatedAt,
            $(#[$doc])*
            $own,
        }

        /// The order of a list; newest first unless told.
        #[derive(async_graphql::InputObject, Clone, Copy)]
        pub struct $order {
            field: $field,
            direction: crate::graphql::connections::OrderDirection,
        }

        impl $order {
            fn order(order: Option<Self>) -> crate::model::filter::Order {
                use crate::graphql::connections::OrderDirection::{Asc, Desc};
                use crate::model::filter::Order;
                match order.map(|order| (order.field, order.direction)) {
                    None | Some(($field::CreatedAt, Desc)) => Order::Newest,
                    Some(($field::CreatedAt, Asc)) => Order::Oldest,
                    Some(($field::$own, Asc)) => Order::Ascending,
                    Some(($field::$own, Desc)) => Order::Descending,
                }
            }
        }
    };
}
pub(super) use order_by;

/// What a mutation answers: the record as it left it, or why it did not happen.
macro_rules! payload {
    ($payload:ident, $field:ident: $type:ident) => {
        /// The record as the mutation left it, or why it did not happen.
        #[derive(async_graphql::SimpleObject)]
        pub struct $payload {
            $field: Option<$type>,
            user_errors: Vec<crate::graphql::errors::UserError>,
        }

        impl $payload {
            fn of<M: Into<$type>>(result: crate::error::Result<M>) -> async_graphql::Result<Self> {
                let (record, user_errors) = crate::graphql::errors::settle(result)?;
                Ok(Self { $field: record.map(Into::into), user_errors })
            }
        }
    };
}
pub(super) use payload;
