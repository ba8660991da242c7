//! RUBiS: an auction site of users, items, purchases and comments, with the mix of Troubadour's
//! evaluation.

use margay_client::{Cell, ColumnType, Rng, Schema, TableDef};

use crate::draw::{Fresh, Keys, Options, stream};
use crate::program::{End, Procedure, Program, Script, Session, Stop, with_ints};

const USER: &str = "SELECT nickname, rating FROM margay_rubis_users WHERE id = $1";
const NEW_USER: &str = "INSERT INTO margay_rubis_users (id, nickname, rating) VALUES ($1, $2, 0)";
const RATE: &str = "UPDATE margay_rubis_users SET rating = $2 WHERE id = $1";
const ITEM: &str = "SELECT seller, quantity, category FROM margay_items WHERE id = $1";
const NEW_ITEM: &str = "INSERT INTO margay_items (id, seller, quantity, category) VALUES ($1, $2, $3, $4)";
const SET_QUANTITY: &str = "UPDATE margay_items SET quantity = $2 WHERE id = $1";
const BUY: &str = "INSERT INTO margay_buy_now (id, buyer, item, quantity) VALUES ($1, $2, $3, $4)";
const COMMENT: &str =
    "INSERT INTO margay_comments (id, author, recipient, item, rating) VALUES ($1, $2, $3, $4, $5)";
const BROWSE: &str = "SELECT id, seller, quantity, category FROM margay_items WHERE category = $1";

const USERS: u32 = 1000;
/// For each user there are so many items.
const ITEMS: u32 = 4;
/// A category has about so many items: what a browser sees at once.
const PAGE: u32 = 20;

const TABLES: [TableDef; 4] = [
    TableDef {
        name: "margay_rubis_users",
        key: 1,
        columns: &[("id", ColumnType::Int), ("nickname", ColumnType::Text(20)), ("rating", ColumnType::Int)],
        indexes: &[],
    },
    TableDef {
        name: "margay_items",
        key: 1,
        columns: &[
            ("id", ColumnType::Int),
            ("seller", ColumnType::Int),
            ("quantity", ColumnType::Int),
            ("category", ColumnType::Int),
        ],
        indexes: &["category"],
    },
    TableDef {
        name: "margay_buy_now",
        key: 1,
        columns: &[
            ("id", ColumnType::Int),
            ("buyer", ColumnType::Int),
            ("item", ColumnType::Int),
            ("quantity", ColumnType::Int),
        ],
        indexes: &[],
    },
    TableDef {
        name: "margay_comments",
        key: 1,
        columns: &[
            ("id", ColumnType::Int),
            ("author", ColumnType::Int),
            ("recipient", ColumnType::Int),
            ("item", ColumnType::Int),
            ("rating", ColumnType::Int),
        ],
        indexes: &[],
    },
];

/// The program.
#[derive(Clone, Debug)]
pub(crate) struct Rubis(pub Options);

impl Rubis {
    fn users(&self) -> Keys {
        self.0.keys(USERS)
    }

    fn categories(&self) -> i64 {
        i64::from((self.users().count() * ITEMS).div_ceil(PAGE))
    }
}

impl Program for Rubis {
    fn schema(&self) -> Schema {
        let (users, categories) = (i64::from(self.users().count()), self.categories());
        let user = |id: i64| (0, vec![Cell::Int(id), Cell::Text(format!("user{id}")), Cell::Int(0)]);
        let item = |id: i64| (1, [id, id % users, 10, id % categories].map(Cell::Int).to_vec());
        let rows = (0..users).map(user).chain((0..users * i64::from(ITEMS)).map(item));
        Schema { tables: TABLES.to_vec(), rows: rows.collect() }
    }

    fn client(&self, seed: u64, client: u32, clients: u32) -> Box<dyn Script> {
        Box::new(Visitor {
            users: self.users(),
            items: Keys::new(self.users().count() * ITEMS, self.0.own_distribution()),
            categories: self.categories(),
            rng: Rng::new(seed, stream(client)),
            fresh: Fresh::new(client, clients),
        })
    }
}

struct Visitor {
    users: Keys,
    items: Keys,
    categories: i64,
    rng: Rng,
    fresh: Fresh,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Visit {
    RegisterUser { id: i64 },
    RegisterItem { id: i64, seller: i64, category: i64 },
    StoreBuyNow { id: i64, buyer: i64, item: i64, quantity: i64 },
    StoreComment { id: i64, author: i64, recipient: i64, item: i64, rating: i64 },
    RandomBrowse { category: i64 },
}

/// What is registered gets numbers above those that are there.
const NEW: i64 = 1_000_000;

impl Script for Visitor {
    fn next(&mut self) -> Box<dyn Procedure> {
        let [user, other] = self.users.two(&mut self.rng);
        let item = i64::from(self.items.draw(&mut self.rng));
        let category = self.rng.below(self.categories as u64) as i64;
        let small = 1 + self.rng.below(3) as i64;
        let id = NEW + self.fresh.next();
        Box::new(match self.rng.below(100) {
            0..10 => Visit::RegisterUser { id },
            10..25 => Visit::RegisterItem { id, seller: user, category },
            25..40 => Visit::StoreBuyNow { id, buyer: user, item, quantity: small },
            40..60 => Visit::StoreComment { id, author: user, recipient: other, item, rating: small - 2 },
            _ => Visit::RandomBrowse { category },
        })
    }
}

impl Procedure for Visit {
    fn run(&self, session: &mut dyn Session) -> Result<End, Stop> {
        match *self {
            Visit::RegisterUser { id } => {
                with_ints(session, USER, &[id])?;
                session.sql(NEW_USER, &[Cell::Int(id), Cell::Text(format!("user{id}"))])?;
            }
            Visit::RegisterItem { id, seller, category } => {
                with_ints(session, USER, &[seller])?;
                with_ints(session, NEW_ITEM, &[id, seller, 10, category])?;
            }
            Visit::StoreBuyNow { id, buyer, item, quantity } => {
                let left = with_ints(session, ITEM, &[item])?.int(1).unwrap_or_default();
                if left < quantity {
                    return Ok(End::Rollback);
                }
                with_ints(session, SET_QUANTITY, &[item, left - quantity])?;
                with_ints(session, BUY, &[id, buyer, item, quantity])?;
            }
            Visit::StoreComment { id, author, recipient, item, rating } => {
                let old = with_ints(session, USER, &[recipient])?.int(1).unwrap_or_default();
                with_ints(session, COMMENT, &[id, author, recipient, item, rating])?;
                with_ints(session, RATE, &[recipient, old + rating])?;
            }
            Visit::RandomBrowse { category } => drop(with_ints(session, BROWSE, &[category])?),
        }
        Ok(End::Commit)
    }
}
