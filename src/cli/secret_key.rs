//! Where the key comes from that webhook secrets are sealed with: a setting, a file, or, for a database that is only ours,
//! a file that we make beside it.

use std::io::{ErrorKind, Write};
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};

use base64::Engine;
use base64::prelude::BASE64_STANDARD;

use crate::clock::Clock;
use crate::config::DatabaseOptions;
use crate::store::vault::SecretKey;

/// The key of these settings. A server's database needs one to be given: all its processes must have the same.
pub fn read(options: &DatabaseOptions) -> Result<Option<SecretKey>, String> {
    if let Some(text) = &options.secret_key {
        return decode(text, "--secret-key").map(Some);
    }
    if let Some(file) = &options.secret_key_file {
        return from_file(file).map(Some);
    }
    match options.database.strip_prefix("surrealkv://") {
        // That no folder is named is for the database to say.
        Some("") => Ok(None),
        Some(folder) => from_file(&beside(folder)).map(Some),
        None if options.database == "mem://" => Ok(Some(SecretKey(Clock::system().random()))),
        None => Ok(None),
    }
}

/// `./data` has its key in `./data.key`: a copy of the folder alone gives no secret away.
pub fn beside(folder: &str) -> PathBuf {
    let folder = folder.split('?').next().unwrap_or_default();
    PathBuf::from(folder.trim_end_matches('/')).with_added_extension("key")
}

/// The key in a file; the first to come makes it.
pub fn from_file(file: &Path) -> Result<SecretKey, String> {
    let failed = |error: std::io::Error| format!("The secret key file {} cannot be used: {error}.", file.display());
    match std::fs::read_to_string(file) {
        Ok(text) => return decode(&text, &format!("the file {}", file.display())),
        Err(error) if error.kind() != ErrorKind::NotFound => return Err(failed(error)),
        Err(_) => {}
    }
    if let Some(folder) = file.parent() {
        std::fs::create_dir_all(folder).map_err(failed)?;
    }
    let key = SecretKey(Clock::system().random());
    let mut made = match std::fs::OpenOptions::new().write(true).create_new(true).mode(0o600).open(file) {
        Err(error) if error.kind() == ErrorKind::AlreadyExists => return from_file(file),
        made => made.map_err(failed)?,
    };
    writeln!(made, "{}", BASE64_STANDARD.encode(key.0)).and_then(|()| made.sync_all()).map_err(failed)?;
    Ok(key)
}

fn decode(text: &str, place: &str) -> Result<SecretKey, String> {
    let bytes = BASE64_STANDARD.decode(text.trim()).ok().and_then(|bytes| bytes.try_into().ok());
    bytes.map(SecretKey).ok_or_else(|| {
        format!("The secret key in {place} is not the base64 of 32 bytes; make one with `openssl rand -base64 32`.")
    })
}
