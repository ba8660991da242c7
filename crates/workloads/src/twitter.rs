//! C-Twitter: a social network of users, tweets and followers, with the mix of Troubadour's
//! evaluation (after Cobra's benchmark).

use margay_client::{Cell, ColumnType, Rng, Schema, TableDef};

use crate::draw::{Fresh, Keys, Options, stream};
use crate::program::{End, Procedure, Program, Script, Session, Stop, with_ints};

const USER: &str = "SELECT followers, tweets FROM margay_users WHERE id = $1";
const SET_TWEETS: &str = "UPDATE margay_users SET tweets = $2 WHERE id = $1";
const SET_FOLLOWERS: &str = "UPDATE margay_users SET followers = $2 WHERE id = $1";
const NEW_TWEET: &str = "INSERT INTO margay_tweets (id, author, body) VALUES ($1, $2, $3)";
const FOLLOWS: &str = "SELECT since FROM margay_follows WHERE follower = $1 AND followee = $2";
const FOLLOW: &str = "INSERT INTO margay_follows (follower, followee, since) VALUES ($1, $2, $3)";
const UNFOLLOW: &str = "DELETE FROM margay_follows WHERE follower = $1 AND followee = $2";
const FOLLOWED: &str = "SELECT follower, followee, since FROM margay_follows WHERE follower = $1";
const TWEETS: &str = "SELECT id, author, body FROM margay_tweets WHERE author = $1";

const USERS: u32 = 1000;
/// A timeline shows the tweets of so many.
const TIMELINE: usize = 5;

const TABLES: [TableDef; 3] = [
    TableDef {
        name: "margay_users",
        key: 1,
        columns: &[("id", ColumnType::Int), ("followers", ColumnType::Int), ("tweets", ColumnType::Int)],
        indexes: &[],
    },
    TableDef {
        name: "margay_tweets",
        key: 1,
        columns: &[("id", ColumnType::Int), ("author", ColumnType::Int), ("body", ColumnType::Text(140))],
        indexes: &["author"],
    },
    TableDef {
        name: "margay_follows",
        key: 2,
        columns: &[("follower", ColumnType::Int), ("followee", ColumnType::Int), ("since", ColumnType::Int)],
        indexes: &[],
    },
];

/// The program.
#[derive(Clone, Debug)]
pub(crate) struct Twitter(pub Options);

impl Program for Twitter {
    fn schema(&self) -> Schema {
        let user = |id: u32| (0, vec![Cell::Int(i64::from(id)), Cell::Int(0), Cell::Int(0)]);
        Schema { tables: TABLES.to_vec(), rows: (0..self.0.zipf(USERS).count()).map(user).collect() }
    }

    fn client(&self, seed: u64, client: u32, clients: u32) -> Box<dyn Script> {
        let rng = Rng::new(seed, stream(client));
        Box::new(Reader { keys: self.0.zipf(USERS), rng, fresh: Fresh::new(client, clients) })
    }
}

struct Reader {
    keys: Keys,
    rng: Rng,
    fresh: Fresh,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Visit {
    NewTweet { author: i64, id: i64 },
    Follow { follower: i64, followee: i64, now: i64 },
    Timeline { user: i64 },
    ShowFollow { user: i64 },
    ShowTweets { user: i64 },
}

impl Script for Reader {
    fn next(&mut self) -> Box<dyn Procedure> {
        let [user, other] = self.keys.two(&mut self.rng);
        Box::new(match self.rng.below(100) {
            0..20 => Visit::NewTweet { author: user, id: self.fresh.next() },
            20..60 => Visit::Follow { follower: user, followee: other, now: self.fresh.next() },
            60..70 => Visit::Timeline { user },
            70..80 => Visit::ShowFollow { user },
            _ => Visit::ShowTweets { user },
        })
    }
}

impl Procedure for Visit {
    fn run(&self, session: &mut dyn Session) -> Result<End, Stop> {
        match *self {
            Visit::NewTweet { author, id } => {
                let tweets = with_ints(session, USER, &[author])?.int(1).unwrap_or_default();
                let body = Cell::Text(format!("tweet {id}"));
                session.sql(NEW_TWEET, &[Cell::Int(id), Cell::Int(author), body])?;
                with_ints(session, SET_TWEETS, &[author, tweets + 1])?;
            }
            Visit::Follow { follower, followee, now } => follow(session, follower, followee, now)?,
            Visit::Timeline { user } => {
                let followed = with_ints(session, FOLLOWED, &[user])?;
                for row in followed.rows().take(TIMELINE) {
                    session.sql(TWEETS, &row[1..2])?;
                }
            }
            Visit::ShowFollow { user } => drop(with_ints(session, FOLLOWED, &[user])?),
            Visit::ShowTweets { user } => {
                with_ints(session, USER, &[user])?;
                with_ints(session, TWEETS, &[user])?;
            }
        }
        Ok(End::Commit)
    }
}

/// Follows whom one does not follow, and the other way round.
fn follow(session: &mut dyn Session, follower: i64, followee: i64, now: i64) -> Result<(), Stop> {
    let followers = with_ints(session, USER, &[followee])?.int(0).unwrap_or_default();
    let change = if with_ints(session, FOLLOWS, &[follower, followee])?.is_empty() {
        with_ints(session, FOLLOW, &[follower, followee, now])?;
        1
    } else {
        with_ints(session, UNFOLLOW, &[follower, followee])?;
        -1
    };
    with_ints(session, SET_FOLLOWERS, &[followee, followers + change]).map(drop)
}
