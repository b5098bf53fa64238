//! Clients of buckets and web servers, one for each.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use object_store::aws::AmazonS3Builder;
use object_store::azure::MicrosoftAzureBuilder;
use object_store::gcp::GoogleCloudStorageBuilder;
use object_store::http::HttpBuilder;
use object_store::{ClientOptions, Error, ObjectStore, RetryConfig};

use crate::error::StorageError;
use crate::location::{Kind, Location};

/// The client of what holds a location, with credentials from the environment.
pub(crate) fn store(location: &Location) -> Result<Arc<dyn ObjectStore>, StorageError> {
    static STORES: Mutex<BTreeMap<String, Arc<dyn ObjectStore>>> = Mutex::new(BTreeMap::new());
    let mut stores = STORES.lock().unwrap_or_else(PoisonError::into_inner);
    if let Some(known) = stores.get(&location.root) {
        return Ok(known.clone());
    }
    let made = connect(location).map_err(|error| StorageError::of(&error, location.kind))?;
    stores.insert(location.root.clone(), made.clone());
    Ok(made)
}

fn connect(Location { kind, root, .. }: &Location) -> Result<Arc<dyn ObjectStore>, Error> {
    // The client of web requests has no cryptography of its own. Another one that is there already is as good.
    let _there = rustls::crypto::ring::default_provider().install_default();
    let retry = RetryConfig { retry_timeout: RETRY_TIMEOUT, ..RetryConfig::default() };
    Ok(match kind {
        Kind::S3 => Arc::new(AmazonS3Builder::from_env().with_url(root).with_retry(retry).build()?),
        Kind::GoogleCloud => {
            let builder = GoogleCloudStorageBuilder::from_env().with_url(root).with_retry(retry);
            Arc::new(builder.build()?)
        }
        Kind::Azure => {
            let builder = MicrosoftAzureBuilder::from_env().with_url(root).with_retry(retry);
            Arc::new(builder.build()?)
        }
        Kind::Web => {
            let options = ClientOptions::new().with_allow_http(true);
            let builder = HttpBuilder::new().with_url(root).with_retry(retry);
            Arc::new(builder.with_client_options(options).build()?)
        }
    })
}

/// How long a request that fails is repeated.
const RETRY_TIMEOUT: Duration = Duration::from_secs(120);
