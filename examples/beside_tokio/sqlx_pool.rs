//! A database by sqlx, with its feature `runtime-tokio`: tasks of quadrille that share a pool.
//!
//! Watch: `compat` of the crate `async-compat` is around all that touches the pool, and around its end: the timers of
//! the pool are tokio's, and a connection that is given back is so by a task of tokio's. The queries are polled on
//! quadrille's workers; SQLite itself has a thread for each connection, which sqlx starts.
#![expect(clippy::print_stdout, reason = "a program prints")]

use async_compat::CompatExt as _;
use quadrille::JoinSet;
use sqlx::SqlitePool;
use sqlx::sqlite::SqlitePoolOptions;

type Failure = Box<dyn std::error::Error + Send + Sync>;

const CLERKS: i64 = 20;
const TRANSFERS: i64 = 10;

/// One transaction: reads what is there, and moves 1 of it.
async fn transfer(pool: &SqlitePool) -> sqlx::Result<()> {
    let mut transaction = pool.begin().await?;
    let there: i64 = sqlx::query_scalar("SELECT amount FROM account WHERE name = 'from'")
        .fetch_one(&mut *transaction)
        .await?;
    for (amount, name) in [(there - 1, "from"), (CLERKS * TRANSFERS - there + 1, "to")] {
        let update = sqlx::query("UPDATE account SET amount = ? WHERE name = ?");
        update.bind(amount).bind(name).execute(&mut *transaction).await?;
    }
    transaction.commit().await
}

/// Transfers until all is moved; what the accounts have then.
async fn work() -> Result<Vec<(String, i64)>, Failure> {
    // One connection, because each has a memory of its own. The tasks wait for it by turns.
    let options = SqlitePoolOptions::new().max_connections(1);
    let pool = options.connect("sqlite::memory:").await?;
    let create = "CREATE TABLE account (name TEXT PRIMARY KEY, amount INTEGER NOT NULL)";
    sqlx::query(create).execute(&pool).await?;
    let fill = sqlx::query("INSERT INTO account VALUES ('from', ?), ('to', 0)");
    fill.bind(CLERKS * TRANSFERS).execute(&pool).await?;

    let mut clerks = JoinSet::new();
    for _ in 0..CLERKS {
        let pool = pool.clone();
        let clerk = async move {
            for _ in 0..TRANSFERS {
                transfer(&pool).await?;
            }
            Ok::<_, sqlx::Error>(())
        };
        clerks.spawn(clerk.compat());
    }
    for outcome in clerks.join_all().await {
        outcome?;
    }
    let accounts = sqlx::query_as("SELECT name, amount FROM account ORDER BY name");
    let accounts = accounts.fetch_all(&pool).await?;
    pool.close().await;
    Ok(accounts)
}

#[quadrille::main]
async fn main() -> Result<(), Failure> {
    let accounts = work().compat().await?;
    assert_eq!(
        accounts,
        [("from".to_owned(), 0), ("to".to_owned(), CLERKS * TRANSFERS)]
    );
    println!("{accounts:?}");
    Ok(())
}
