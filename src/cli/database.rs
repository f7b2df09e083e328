//! `migrate`, `backup`, `restore`, `doctor`.

use super::{open, sentence, target};
use crate::clock::Clock;
use crate::config::{DatabaseOptions, FileOptions};
use crate::store::Store;
use crate::store::migrate::Resume;

pub async fn migrate(options: &DatabaseOptions) -> Result<(), String> {
    let store = Store::connect(&target(options), Clock::system()).await.map_err(sentence)?;
    let applied = store.migrate(Resume::Finish).await.map_err(sentence)?;
    match applied {
        0 => println!("The database {} is up to date.", store.url()),
        _ => println!("Applied {applied} migration(s) to {}.", store.url()),
    }
    Ok(())
}

pub async fn backup(options: &FileOptions) -> Result<(), String> {
    let store = open(&options.database).await?;
    store.backup(&options.file).await.map_err(sentence)?;
    println!("Wrote {} to {}.", store.url(), options.file.display());
    Ok(())
}

pub async fn restore(options: &FileOptions) -> Result<(), String> {
    let store = Store::connect(&target(&options.database), Clock::system()).await.map_err(sentence)?;
    store.restore(&options.file).await.map_err(sentence)?;
    println!("Restored {} into {}.", options.file.display(), store.url());
    examine(&store).await
}

pub async fn doctor(options: &DatabaseOptions) -> Result<(), String> {
    let store = Store::connect(&target(options), Clock::system()).await.map_err(sentence)?;
    examine(&store).await
}

async fn examine(store: &Store) -> Result<(), String> {
    let findings = store.examine().await.map_err(sentence)?;
    for finding in &findings {
        let mark = if finding.healthy { "ok  " } else { "FAIL" };
        println!("{mark}  {:<16} {}", finding.check, finding.detail);
    }
    if findings.iter().all(|finding| finding.healthy) {
        Ok(())
    } else {
        Err(format!("The database {} is not healthy.", store.url()))
    }
}
